"""The row above every page: mark, page tabs, job ring, device chip, help and settings."""

from dataclasses import dataclass

from PySide6.QtCore import QEvent, QPointF, QRectF, QSize, Qt
from PySide6.QtGui import QFont, QFontMetrics, QPainter, QPaintEvent, QPen, QResizeEvent
from PySide6.QtWidgets import QAbstractButton, QButtonGroup, QSizePolicy, QWidget

from halftone.contract.facts import DeviceFacts, SelfTestReport
from halftone.contract.vocabulary import DTYPE_NAMES, DType, DTypeState
from halftone.gui import icons, theme
from halftone.gui.device_names import short_name
from halftone.gui.i18n import say, tr
from halftone.gui.kit import actions, figures, meters
from halftone.gui.kit.painting import Painted
from halftone.gui.kit.stock_widgets import Bar, HoverButton, icon_button, label
from halftone.gui.shell.pages import PAGES, PageName, page_keys

_WHOLE = 1000
"""Pixels of width, before the text size, from which all words fit."""
_TAB_EDGE = 12
_TAB_WORDS = _TAB_EDGE + 16 + 8
_LEFT = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)


def memory_text(device: DeviceFacts) -> str:
    """12 GB, "" if the size is not known. Whole gigabytes: cards are sold so."""
    if not device.memory_total:
        return ""
    return f"{figures.decimal(round(device.memory_total / 1e9), 0)}{figures.HARD}GB"


class MarkLabel(Painted):
    """Halftone's mark."""

    def __init__(self, side: int = 20) -> None:
        super().__init__()
        self.setFixedSize(side, side)

    def draw(self, painter: QPainter) -> None:
        icons.paint_mark(painter, QRectF(self.rect()))


def _page_tip(name: PageName) -> str:
    return actions.with_keys(say(PAGES[name].name), *page_keys(name))


class Tab(HoverButton):
    """A page tab: icon, word, a count when the page wants attention, and a line under the active one."""

    def __init__(self, text: str, icon: str, tip: str) -> None:
        super().__init__()
        self.setText(text)
        self.setToolTip(tip)
        self.setAccessibleName(text)
        self.setCheckable(True)
        self.setFont(theme.current().font("body"))
        self._icon = icon
        self._words_left = _TAB_WORDS
        self._count = 0
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Expanding)

    def set_count(self, count: int) -> None:
        """A small disc with a number; 0 hides it."""
        if count != self._count:
            self._count = count
            self.setAccessibleDescription(tr("{0} to review", count) if count else "")
            self.updateGeometry()
            self.update()

    def count(self) -> int:
        return self._count

    def set_iconless(self, iconless: bool) -> None:
        """Show the word only, where large words leave no width for icons."""
        self._words_left = _TAB_EDGE if iconless else _TAB_WORDS
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        width = self._words_left + QFontMetrics(self.font()).horizontalAdvance(self.text()) + 12
        return QSize(width + (24 if self._count else 0), 44)

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        active = self.isChecked()
        ink = colours.color("text" if active or self.hovered else "text-secondary")
        middle = self.height() / 2
        left = self._words_left
        if left > _TAB_EDGE:
            icons.paint(painter, self._icon, QRectF(_TAB_EDGE, middle - 8, 16, 16), ink)
        font = self.font()
        painter.setFont(font)
        painter.setPen(ink)
        painter.drawText(QRectF(left, 0, self.width(), self.height()), _LEFT, self.text())
        if self._count:
            self._paint_count(painter, left + QFontMetrics(font).horizontalAdvance(self.text()) + 8)
        if active:
            painter.fillRect(QRectF(8, self.height() - 2, self.width() - 16, 2), colours.color("accent"))
        painter.end()

    def _paint_count(self, painter: QPainter, left: float) -> None:
        colours = theme.current()
        disc = QRectF(left, self.height() / 2 - 8, 16, 16)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colours.color("accent-subtle"))
        painter.drawEllipse(disc)
        painter.setPen(colours.color("accent-text"))
        painter.setFont(colours.font("caption-strong"))
        painter.drawText(disc, int(Qt.AlignmentFlag.AlignCenter), str(min(self._count, 99)))


class JobRing(HoverButton):
    """Shown while a job runs: ring, share done and number of jobs. Opens the queue."""

    def __init__(self) -> None:
        super().__init__()
        self._fraction: float | None = None
        self._jobs = 0
        self._brief = False
        self.setFont(theme.current().font("small", numbers=True))
        self.setToolTip(tr("Show the queue"))
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.hide()

    def show_jobs(self, fraction: float | None, jobs: int) -> None:
        """fraction: share of the running job that is done, None if not known; jobs: all, the running one included."""
        if (fraction, jobs) == (self._fraction, self._jobs):
            return
        self._fraction, self._jobs = fraction, jobs
        self.setVisible(jobs > 0)
        self.setAccessibleName(self._words())
        self.updateGeometry()
        self.update()

    def _words(self) -> str:
        count = tr("{0} jobs", self._jobs, one="1 job")
        if self._fraction is None:
            return count
        return f"{round(self._fraction * 100)}{figures.HARD}% · {count}"

    def _shown_words(self) -> str:
        return self._words().partition(" · ")[0] if self._brief else self._words()

    def set_brief(self, brief: bool) -> None:
        """Leave the number of jobs out, where large words leave no width for it."""
        self._brief = brief
        self.updateGeometry()
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(8 + 16 + 8 + QFontMetrics(self.font()).horizontalAdvance(self._shown_words()) + 8, theme.grown(28))

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        if self.hovered:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colours.color("hover"))
            painter.drawRoundedRect(QRectF(self.rect()), 5, 5)
        meters.paint_ring(painter, QRectF(8, self.height() / 2 - 8, 16, 16), self._fraction)
        painter.setPen(colours.color("text-secondary"))
        painter.setFont(self.font())
        painter.drawText(QRectF(32, 0, self.width(), self.height()), _LEFT, self._shown_words())
        painter.end()


@dataclass(frozen=True)
class ChipPart:
    """One state on the device chip."""

    icon: str
    text: str
    tone: str
    dtype: str = ""
    """The name of the type alone."""


def chip_part(dtype: DType, state: DTypeState | None) -> ChipPart:
    """How the chip shows the verdict of the self-test on a dtype; None: not measured."""
    name = DTYPE_NAMES[dtype]
    match state:
        case "works":
            return ChipPart("circle-check", tr("{0} ok", name), "ok", name)
        case "wrong":
            return ChipPart("triangle-alert", tr("{0} faulty", name), "warn", name)
        case "slow":
            return ChipPart("clock", tr("{0} slow", name), "text-secondary", name)
        case "missing":
            return ChipPart("ban", tr("no {0}", name), "text-muted", name)
        case None:
            return ChipPart("circle-dashed", tr("{0} not measured", name), "text-muted", name)


class DeviceChip(HoverButton):
    """Name and memory of the device and what its half precision is worth, measured. Opens the Device page."""

    def __init__(self) -> None:
        super().__init__()
        self.setCheckable(True)
        self._shown: tuple[DeviceFacts | None, SelfTestReport | None, DType] | None = None
        self._device: DeviceFacts | None = None
        self._parts: tuple[ChipPart, ...] = ()
        self._uses = ""
        self._faulty = False
        self._narrow = self._brief = False
        self.setFont(theme.current().font("small"))
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setToolTip(_page_tip("device"))

    def show_device(self, device: DeviceFacts | None, report: SelfTestReport | None, uses: DType) -> None:
        """uses: the dtype that the next picture runs in."""
        if (device, report, uses) == self._shown:
            return
        self._shown = (device, report, uses)
        self._device = device
        states: dict[DType, DTypeState] = {entry.dtype: entry.state for entry in report.dtypes} if report is not None else {}
        halves: tuple[DType, DType] = ("float16", "bfloat16")
        self._parts = tuple(chip_part(dtype, states.get(dtype)) for dtype in halves) if device else ()
        self._faulty = states.get("float16") == "wrong"
        avoided = any(states.get(dtype) in ("wrong", "slow") for dtype in halves)
        name = DTYPE_NAMES[uses]
        self._uses = tr("uses {0}", name) if avoided else ""
        words = ", ".join([self._title(), *(part.text for part in self._parts), *filter(None, [self._uses])])
        self.setAccessibleName(tr("Device: {0}", words))
        self.updateGeometry()
        self.update()

    def set_narrow(self, narrow: bool) -> None:
        """Leave the memory out where the bar is narrow."""
        if narrow != self._narrow:
            self._narrow = narrow
            self.updateGeometry()
            self.update()

    def set_brief(self, brief: bool) -> None:
        """Leave the states to the icons and their colours, where large words leave no width for them."""
        if brief != self._brief:
            self._brief = brief
            self.updateGeometry()
            self.update()

    def _title(self) -> str:
        if self._device is None:
            return tr("Looking for a GPU…")
        name = QFontMetrics(self._strong()).elidedText(short_name(self._device), Qt.TextElideMode.ElideRight, 190)
        memory = memory_text(self._device)
        return name if self._narrow or not memory else f"{name} · {memory}"

    def _strong(self) -> QFont:
        font = theme.current().font("small")
        font.setWeight(font.Weight.Medium)
        return font

    def sizeHint(self) -> QSize:
        return QSize(self.width_of(brief=self._brief), theme.grown(28))

    def width_of(self, *, brief: bool) -> int:
        """Pixels that it takes with or without the words of the states."""
        plain = QFontMetrics(self.font())
        width = 10 + theme.grown(16) + 6 + QFontMetrics(self._strong()).horizontalAdvance(self._title()) + 10
        if self._parts:
            width += 11
        for part in self._parts:
            width += theme.grown(14) + 5 + plain.horizontalAdvance(part.dtype if brief else part.text) + 10
        if self._uses and not brief:
            width += plain.horizontalAdvance(self._uses) + 10
        return width

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        edge = "accent" if self.isChecked() else "warn-border" if self._faulty else "border-strong"
        ground = "accent-subtle" if self.isChecked() else "hover" if self.hovered else "surface-raised"
        painter.setPen(QPen(colours.color(edge), 1))
        painter.setBrush(colours.color(ground))
        painter.drawRoundedRect(QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5), 5, 5)
        middle = self.height() / 2
        kind = "cpu" if self._device is not None and self._device.backend == "cpu" else "gpu"
        side = theme.grown(16)
        icons.paint(painter, kind, QRectF(10, middle - side / 2, side, side), colours.color("text"))
        x = self._text(painter, 16 + side, self._title(), "text", strong=True) + 10
        if self._parts:
            painter.setPen(QPen(colours.color("border-control"), 1))
            painter.drawLine(QPointF(x + 0.5, middle - 8), QPointF(x + 0.5, middle + 8))
            x += 11
        side = theme.grown(14)
        for part in self._parts:
            icons.paint(painter, part.icon, QRectF(x, middle - side / 2, side, side), colours.color(part.tone))
            x = self._text(painter, x + side + 5, part.dtype if self._brief else part.text, part.tone) + 10
        if not self._brief:
            self._text(painter, x, self._uses, "text-muted")
        painter.end()

    def _text(self, painter: QPainter, x: float, text: str, token: str, *, strong: bool = False) -> float:
        """Draw a word; returns where it ends."""
        font = self._strong() if strong else self.font()
        painter.setFont(font)
        painter.setPen(theme.current().color(token))
        painter.drawText(QRectF(x, 0, self.width(), self.height()), _LEFT, text)
        return x + QFontMetrics(font).horizontalAdvance(text)


class TopBar(Bar):
    """The row itself; the window connects its parts."""

    def __init__(self) -> None:
        super().__init__("layout.topbar", "bottom", (14, 12), 4)
        self.name = label("Halftone", "body-strong")
        font = self.name.font()
        font.setPixelSize(theme.grown(14))
        self.name.setFont(font)
        self._gap = QWidget()
        self._gap.setFixedWidth(16)
        self.tabs: dict[PageName, Tab] = {
            name: Tab(say(page.name), page.tab.icon, actions.with_keys(say(page.tab.tip), *page_keys(name)))
            for name, page in PAGES.items()
            if page.tab is not None
        }
        self.group = QButtonGroup(self)
        self.group.setExclusive(True)
        self.ring = JobRing()
        self.chip = DeviceChip()
        self.help = icon_button("circle-question-mark", actions.tip("guide", tr("Help")), size=18)
        self.settings = icon_button("settings", _page_tip("settings"), size=18, checkable=True)
        self.mark = MarkLabel()
        self.add(self.mark, self.name, self._gap)
        self.items.insertSpacing(1, 6)
        for tab in self.tabs.values():
            self.group.addButton(tab)
            self.items.addWidget(tab)
        self.items.addStretch(1)
        self.add(self.ring, self.chip, self.help, self.settings, gap=2)
        for made in (self.help, self.settings):
            made.setFixedSize(theme.grown(30), theme.grown(30))
        self.openers: dict[PageName, QAbstractButton] = {"device": self.chip, "settings": self.settings}
        self.openers.update(self.tabs)
        for button in (self.chip, self.settings):
            self.group.addButton(button)

    def set_narrow(self, narrow: bool) -> None:
        self.name.setVisible(not narrow)
        self._gap.setFixedWidth(10 if narrow else 16)
        self.chip.set_narrow(narrow)

    def event(self, event: QEvent) -> bool:
        done = super().event(event)
        if event.type() == QEvent.Type.LayoutRequest:
            self._fit_chip()
        return done

    def _fit_chip(self) -> None:
        """Leave the words out of the chip where they do not fit beside the tabs."""
        rest = self.items.sizeHint().width() - self.chip.sizeHint().width()
        whole = rest + self.chip.width_of(brief=False) <= self.width()
        self.chip.set_brief(self.width() < theme.grown(_WHOLE) or not whole)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        brief = self.width() < theme.grown(_WHOLE)
        self._fit_chip()
        self.ring.set_brief(brief)
        for tab in self.tabs.values():
            tab.set_iconless(brief)

    def show_page(self, page: PageName) -> None:
        """Mark the tab, chip or gear of this page."""
        self.openers[page].setChecked(True)
