"""Tokens, style sheet, fonts and icons."""

import re
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QRectF, QSize
from PySide6.QtGui import QColor, QFontDatabase, QFontInfo, QImage, QPainter, QRawFont
from pytestqt.qtbot import QtBot
from tests.helpers.wording import chinese

from halftone.gui import icons, theme
from halftone.gui.theme import Theme
from halftone.settings.guide import chapters
from halftone.settings.places import resources

GUI = Path(__file__).resolve().parents[3] / "app" / "halftone" / "gui"
LUCIDE = resources() / "icons" / "lucide"


@pytest.mark.parametrize("name", ["dark", "light"])
def test_the_style_sheet_is_filled_completely(name: theme.ThemeName) -> None:
    sheet = Theme(name).qss()
    assert "@" not in re.sub(r"/\*.*?\*/", "", sheet, flags=re.DOTALL)
    pictures = re.findall(r'url\("([^"]+)"\)', sheet)
    assert pictures
    assert all(Path(file).is_file() for file in pictures)


@pytest.mark.parametrize(
    ("token", "size"), [("space.4", 8), ("control.height", 28), ("layout.panel-left.min", 280), ("motion.fast", 90)]
)
def test_sizes_are_read_by_path(token: str, size: int) -> None:
    assert Theme("dark").px(token) == size


def test_eight_digits_end_in_the_opacity() -> None:
    assert Theme("dark").color("scrim") == QColor(0, 0, 0, 0xA6)
    assert round(Theme("dark").color("text", 0.5).alphaF(), 2) == 0.5


def test_the_canvas_is_a_neutral_grey() -> None:
    for name in ("dark", "light"):
        colour = Theme(name).color("canvas")
        assert colour.red() == colour.green() == colour.blue()


@pytest.mark.parametrize(
    ("component", "series"), [("unet", "series-1"), ("transformer", "series-1"), ("vae", "series-2"), ("odd", "series-6")]
)
def test_components_have_their_colours(component: str, series: str) -> None:
    assert Theme("light").series(component) == Theme("light").color(f"chart.{series}")


def test_the_bundled_fonts_are_used(qtbot: QtBot) -> None:
    theme.load_fonts()
    assert {"Inter", "JetBrains Mono", "Halftone Sans SC"} <= set(QFontDatabase.families())
    for role, family in (("body", "Inter"), ("heading-m", "Inter"), ("mono", "JetBrains Mono")):
        assert QFontInfo(Theme("dark").font(role)).family() == family
    assert QFontInfo(Theme("dark").font("body-strong")).weight() == 600


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="Windows and macOS have Chinese fonts of their own")
def test_chinese_text_is_as_thick_on_dark_as_on_light(qtbot: QtBot) -> None:
    """Outlines that Qt thickens would be bold on a dark background."""
    theme.load_fonts()

    def ink(name: theme.ThemeName) -> float:
        look, image = Theme(name), QImage(200, 30, QImage.Format.Format_RGB32)
        image.fill(look.color("surface"))
        painter = QPainter(image)
        painter.setFont(look.font("body"))
        painter.setPen(look.color("text"))
        painter.drawText(image.rect(), 0, "检查点文本编码器嵌入放大模型")
        painter.end()
        behind = look.color("surface").lightness()
        pixels = (image.pixelColor(x, y).lightness() for x in range(image.width()) for y in range(image.height()))
        return sum(abs(pixel - behind) for pixel in pixels) / abs(look.color("text").lightness() - behind)

    assert ink("dark") < 1.1 * ink("light"), (ink("dark"), ink("light"))


def test_the_bundled_chinese_font_has_the_signs_of_the_texts(qtbot: QtBot) -> None:
    font = QRawFont(str(resources() / "fonts" / "HalftoneSansSC-Regular.ttf"), 13)
    written = "".join((*chinese().values(), *(chapter.markdown for chapter in chapters("zh_CN"))))
    assert [sign for sign in sorted(set(written)) if "\u4e00" <= sign <= "\u9fff" and not font.supportsCharacter(ord(sign))] == []


def test_a_change_of_theme_is_told(qtbot: QtBot) -> None:
    with qtbot.waitSignal(theme.watcher().changed):
        theme.set_theme("light")
    assert theme.current().name == "light"
    theme.set_theme("dark")


def test_every_icon_that_is_named_is_there_and_none_is_there_for_nothing() -> None:
    source = "\n".join(file.read_text("utf-8") for file in GUI.rglob("*.py"))
    named = set(re.findall(r'"([a-z0-9]+(?:-[a-z0-9]+)*)"', source))
    bundled = {file.stem for file in LUCIDE.glob("*.svg")}
    assert bundled <= named
    assert (LUCIDE / "LICENSE").is_file()


def test_an_icon_for_which_there_is_no_room_yet_is_none(qtbot: QtBot) -> None:
    assert icons.icon("image").pixmap(QSize(0, 16)).isNull()  # Qt warns where something paints on it


def test_an_icon_takes_the_colour_it_is_given(qtbot: QtBot) -> None:
    image = QImage(32, 32, QImage.Format.Format_ARGB32)
    image.fill(0)
    painter = QPainter(image)
    icons.paint(painter, "circle-check", QRectF(0, 0, 32, 32), QColor("#4CC08A"))
    painter.end()
    opaque = {image.pixelColor(x, y).name() for x in range(32) for y in range(32) if image.pixelColor(x, y).alpha() == 255}
    assert opaque == {"#4cc08a"}
