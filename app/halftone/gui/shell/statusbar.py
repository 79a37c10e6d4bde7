"""The row below every page: what is going on, memory, precision in use, NaN check, version. Each part leads to its page."""

from PySide6.QtCore import QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QHBoxLayout, QSizePolicy, QToolButton

from halftone import __version__
from halftone.contract.facts import DeviceFacts, MemoryFacts
from halftone.contract.request import Numerics
from halftone.contract.wording import Words
from halftone.gui import icons, theme
from halftone.gui.i18n import catalogue, sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.meters import MemoryMeter
from halftone.gui.kit.stock_widgets import Bar, HoverButton


class StatusPart(QToolButton):
    """A flat word with an optional icon that leads somewhere."""

    def __init__(self, tip: str = "") -> None:
        super().__init__()
        self._shown = ("", "", "")
        self.setProperty("kind", "status")
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        self.setIconSize(QSize(theme.grown(14), theme.grown(14)))
        self.setFont(theme.current().font("caption", numbers=True))
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setToolTip(tip)

    def show_text(self, text: str, icon: str = "", token: str = "text-secondary") -> None:
        if (text, icon, token) == self._shown:
            return
        self._shown = (text, icon, token)
        self.setText(f" {text}" if icon else text)
        self.setAccessibleName(text)
        if icon:
            self.setIcon(icons.icon(icon, token))
        self.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon if icon else Qt.ToolButtonStyle.ToolButtonTextOnly)


class TwoToneButton(HoverButton):
    """A muted word and a value after it."""

    def __init__(self, tip: str) -> None:
        super().__init__()
        self._name = ""
        self._value = ""
        self.setToolTip(tip)
        self.setFont(theme.current().font("caption", numbers=True))
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def show_text(self, name: str, value: str) -> None:
        if (name, value) == (self._name, self._value):
            return
        self._name, self._value = name, value
        self.setAccessibleName(f"{name} {value}".strip())
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        metrics = self.fontMetrics()
        return QSize(metrics.horizontalAdvance(f"{self._name} {self._value}") + 8, 20)

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self.hovered:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colours.color("hover"))
            painter.drawRoundedRect(self.rect(), 3, 3)
        painter.setFont(self.font())
        painter.setPen(colours.color("text-secondary"))
        flags = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        painter.drawText(self.rect().adjusted(4, 0, 0, 0), flags, self._name)
        painter.setPen(colours.color("text"))
        left = 4 + self.fontMetrics().horizontalAdvance(self._name + " ")
        painter.drawText(self.rect().adjusted(left, 0, 0, 0), flags, self._value)
        painter.end()


class MemoryPart(HoverButton):
    """Memory of the device in use."""

    def __init__(self) -> None:
        super().__init__()
        self._meter = MemoryMeter()
        self._name = TwoToneButton("")
        self._figures = TwoToneButton("")
        for part in (self._name, self._meter, self._figures):
            part.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
            part.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        layout = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(2)
        for part in (self._name, self._meter, self._figures):
            layout.addWidget(part, 0, Qt.AlignmentFlag.AlignVCenter)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.hide()

    def show_memory(self, device: DeviceFacts | None, memory: MemoryFacts | None) -> None:
        self.setVisible(memory is not None)
        if memory is None:
            return
        kind = tr("Memory") if device is None or device.backend in ("cpu", "mps") else tr("VRAM")
        used = figures.decimal((memory.own + memory.others) / 1e9)
        total = figures.decimal(memory.total / 1e9)
        self._name.show_text(kind, "")
        self._figures.show_text("", f"{used} / {total}{figures.HARD}GB")
        self._meter.set_memory(memory)
        own, others = figures.size(memory.own), figures.size(memory.others)
        free = figures.size(max(0, memory.total - memory.own - memory.others))
        self.setToolTip(tr("Halftone {0}, other apps {1}, free {2}", own, others, free))
        self.setAccessibleName(f"{kind} {used} / {total} GB")
        self.updateGeometry()

    def sizeHint(self) -> QSize:
        layout = self.layout()
        return layout.sizeHint() if layout is not None else super().sizeHint()

    def paintEvent(self, event: QPaintEvent) -> None:
        return


class StatusBar(Bar):
    """The row itself; the window connects its parts."""

    def __init__(self) -> None:
        super().__init__("layout.statusbar", "top", (10, 10), 8)
        self.activity = StatusPart(tr("Show activity"))
        self.unwatched = StatusPart(tr("NaN check is off. Black pictures are not recovered."))
        self.unwatched.show_text(tr("NaN check is off"), "triangle-alert", "warn")
        self.unwatched.hide()
        self.memory = MemoryPart()
        self.precision = TwoToneButton(tr("Open settings"))
        self.nan_check = TwoToneButton(tr("Open settings"))
        self.version = TwoToneButton(tr("Help"))
        self.version.show_text(__version__, "")
        self.items.addWidget(self.activity)
        self.items.addWidget(self.unwatched)
        self.items.addStretch(1)
        self.add(self.memory, self.precision, self.nan_check, self.version)

    def show_numerics(self, numerics: Numerics, precision: str, reason: Words | None, *, once: bool) -> None:
        """precision: the precision in force, in words; once: it was chosen on Create and is no setting."""
        self.precision.show_text(tr("Precision of the next pictures") if once else tr("Precision"), precision)
        chosen = tr("Chosen on Create. The global setting stays.") if once else ""
        self.precision.setToolTip(sentences(chosen, reason.text(catalogue()) if reason else "") or tr("Open settings"))
        check = {"every-step": tr("every step"), "at-end": tr("at the end"), "off": tr("off")}[numerics.nan_check]
        self.nan_check.show_text(tr("NaN check"), check)
        self.unwatched.setVisible(numerics.nan_check == "off")
