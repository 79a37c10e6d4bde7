"""Design tokens as Qt colours, fonts, sizes, palette and style sheet. Follows the system's theme unless one was chosen."""

import json
import re
from functools import cache
from pathlib import Path
from typing import Any, Final, Literal

from PySide6.QtCore import QObject, Qt, Signal
from PySide6.QtGui import QColor, QFont, QFontDatabase, QGuiApplication, QPalette
from PySide6.QtWidgets import QApplication

from halftone.settings.glance import ThemeChoice
from halftone.settings.places import resources

ThemeName = Literal["dark", "light"]

_TOKEN = re.compile(r"@([a-z][a-z0-9.-]*[a-z0-9])")
_GROWS: Final = re.compile(r"((?:min-height|max-height|font-size): )((?:[89]|[1-9][0-9])(?=px))px")
"""Heights and sizes of the style sheet that hold text; thinner ones are lines."""
_CONTROL: Final = 28
_HOLD_TEXT: Final = (
    "layout.topbar",
    "layout.statusbar",
    "layout.toolbar",
    "layout.panel-left.min",
    "layout.panel-left.max",
    "layout.panel-right.min",
    "layout.inspector.min",
    "layout.inspector.max",
    "layout.breakpoints.narrow",
    "layout.breakpoints.compact-height",
)
_COMPONENT_ALIASES: Final = {
    "text_encoder": "text-encoder-1",
    "text_encoder_2": "text-encoder-2",
    "text_encoder_3": "other",
    "unet": "denoiser",
    "transformer": "denoiser",
    "vae": "vae",
    "vae_decoder": "vae",
    "vae_encoder": "vae",
}


@cache
def _tokens() -> dict[str, Any]:
    return json.loads((resources() / "theme" / "tokens.json").read_bytes())


@cache
def _style_template() -> str:
    return (resources() / "theme" / "halftone.qss").read_text("utf-8")


def _colour(text: str) -> QColor:
    """#RRGGBB or #RRGGBBAA (Qt itself reads eight digits as AARRGGBB)."""
    if len(text) == 9:
        return QColor(int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16), int(text[7:9], 16))
    return QColor(text)


class Theme:
    """The tokens of one of the two themes."""

    def __init__(self, name: ThemeName) -> None:
        self.name: ThemeName = name
        plain: dict[str, str] = _tokens()["color"][name]
        chart: dict[str, str] = _tokens()["chart"][name]
        self._colors = {key: _colour(value) for key, value in plain.items()}
        self._colors |= {f"chart.{key}": _colour(value) for key, value in chart.items()}
        dark = name == "dark"
        self._colors["slider-thumb"] = self._colors["text" if dark else "surface-raised"]
        self._colors["slider-ring"] = self._colors["surface" if dark else "accent"]

    def color(self, token: str, alpha: float = 1.0) -> QColor:
        """The colour of a token ("text", "surface-raised", "chart.limit"), optionally with an opacity from 0 to 1."""
        colour = QColor(self._colors[token])
        if alpha < 1.0:
            colour.setAlphaF(colour.alphaF() * alpha)
        return colour

    def series(self, component: str) -> QColor:
        """The colour in which a model component is drawn everywhere."""
        mapping: dict[str, str] = _tokens()["chart"]["component-series"]
        kind = _COMPONENT_ALIASES.get(component, component)
        return self.color("chart." + mapping.get(kind, mapping["other"]))

    def font(self, role: str, *, numbers: bool = False) -> QFont:
        """The font of a role ("body", "caption-strong", "metric", "mono"). numbers: figures of equal width."""
        return QFont(_font(role, numbers))

    def line(self, role: str) -> int:
        """Line height of a role in pixels."""
        return grown(_tokens()["type"][role]["line"])

    def px(self, token: str) -> int:
        """A size in logical pixels: "space.4", "control.height", "radius.card", "layout.topbar", "layout.panel-left.min"."""
        value: Any = _tokens()
        for part in token.split("."):
            value = value[part]
        return grown(value) if token in _HOLD_TEXT or token.startswith("control.height") else int(value)

    def qss(self) -> str:
        """The style sheet with every @token filled in."""
        return _sheet(self.name)

    def palette(self) -> QPalette:
        """Return a palette with which dialogs, placeholders and disabled text match the style sheet."""
        palette = QPalette()
        role = QPalette.ColorRole
        for target, token in (
            (role.Window, "surface"),
            (role.WindowText, "text"),
            (role.Base, "field"),
            (role.AlternateBase, "surface-raised"),
            (role.Text, "text"),
            (role.PlaceholderText, "text-muted"),
            (role.Button, "surface-raised"),
            (role.ButtonText, "text"),
            (role.BrightText, "danger"),
            (role.ToolTipBase, "surface-overlay"),
            (role.ToolTipText, "text"),
            (role.Highlight, "accent"),
            (role.HighlightedText, "on-accent"),
            (role.Link, "text-link"),
            (role.LinkVisited, "text-link"),
            (role.Light, "surface-overlay"),
            (role.Midlight, "border"),
            (role.Mid, "border-strong"),
            (role.Dark, "border-control"),
            (role.Shadow, "canvas"),
        ):
            palette.setColor(target, self.color(token))
        for target in (role.WindowText, role.Text, role.ButtonText):
            palette.setColor(QPalette.ColorGroup.Disabled, target, self.color("text-disabled"))
        return palette


@cache
def _font(role: str, numbers: bool) -> QFont:
    """Kept: lists ask for their fonts with every item that they paint."""
    spec: dict[str, Any] = _tokens()["type"][role]
    font = QFont(_tokens()["font"]["family-mono" if role == "mono" else "family-ui"])
    font.setPixelSize(grown(spec["size"]))
    font.setWeight(QFont.Weight(int(spec["weight"])))
    font.setHintingPreference(QFont.HintingPreference.PreferNoHinting)
    if numbers or "tnum" in spec.get("features", ()):
        font.setFeature(QFont.Tag("tnum"), 1)  # figures of equal width
    return font


@cache
def _sheet(name: ThemeName) -> str:
    theme = Theme(name)
    arrows = (resources() / "theme" / "arrows" / name).as_posix()

    def fill(match: re.Match[str]) -> str:
        return arrows if match[1] == "arrows" else theme.color(match[1]).name()

    filled = _TOKEN.sub(fill, _style_template())
    return _GROWS.sub(_grown_rule, filled)


def _grown_rule(found: re.Match[str]) -> str:
    """Grow a size of type with the text, and a height by as much as a control, so that thicker borders stay within it."""
    size = int(found[2])
    return f"{found[1]}{grown(size) if found[1].startswith('font') else size + grown(_CONTROL) - _CONTROL}px"


def grown(pixels: float) -> int:
    """A height or width that holds text, in the text size in force."""
    return round(pixels * _scale)


def has_large_text() -> bool:
    """Whether words are so wide that what stands beside them goes below."""
    return _scale >= _LARGE


_LARGE: Final = 1.4
_scale = 1.0


def set_text_size(percent: int) -> None:
    """From now on; a window that stands must be built anew."""
    global _scale
    if _scale == percent / 100:
        return
    _scale = percent / 100
    _font.cache_clear()
    _sheet.cache_clear()


class ThemeWatcher(QObject):
    """Signals that the theme changed. A widget that paints itself need not listen: Qt repaints it with the new style sheet."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.choice: ThemeChoice = "system"
        self.theme = Theme("dark")
        hints = QGuiApplication.styleHints()
        hints.colorSchemeChanged.connect(self._system_changed)

    def _system_changed(self) -> None:
        if self.choice == "system":
            self.set(self.choice)

    def choose(self, choice: ThemeChoice) -> None:
        """Colours only: enough for what is painted before any widget is there."""
        self.choice = choice
        self.theme = Theme(_system_theme() if choice == "system" else choice)

    def set(self, choice: ThemeChoice) -> None:
        begin(choice)
        dress()
        self.changed.emit()


_watcher: ThemeWatcher | None = None


def watcher() -> ThemeWatcher:
    """The one watcher of this application."""
    global _watcher
    if _watcher is None:
        _watcher = ThemeWatcher()
    return _watcher


def current() -> Theme:
    return watcher().theme


def set_theme(choice: ThemeChoice) -> None:
    """Dress the application in a theme; "system" follows the desktop, also when that changes later."""
    watcher().set(choice)


def begin(choice: ThemeChoice) -> None:
    """Take a theme for a window that is not built yet; `dress` puts the style sheet on when the widgets stand."""
    watcher().choose(choice)
    load_fonts()
    app = QApplication.instance()
    if isinstance(app, QApplication):
        app.setPalette(current().palette())
        app.setFont(current().font("body"))


def dress() -> None:
    """Put the style sheet on every window; dialogs and menus inherit it from their parents.

    A sheet of the application would be applied to each widget once for every widget above it, five times as slow.
    """
    sheet = current().qss()
    for window in QApplication.topLevelWidgets():
        if window.parentWidget() is None and window.styleSheet() != sheet:
            window.setStyleSheet(sheet)


def _system_theme() -> ThemeName:
    scheme = QGuiApplication.styleHints().colorScheme()
    return "light" if scheme == Qt.ColorScheme.Light else "dark"


@cache
def load_fonts() -> tuple[Path, ...]:
    """Register the bundled fonts once per process; returns the files."""
    files = tuple(sorted(p for p in (resources() / "fonts").iterdir() if p.suffix in (".otf", ".ttf")))
    for file in files:
        QFontDatabase.addApplicationFont(str(file))
    return files
