"""Cards of the Device page: verdict, the device itself, what Halftone will do."""

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QRectF, Qt, Signal
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from halftone.contract.facts import DeviceFacts, MemoryFacts
from halftone.gui import icons, theme
from halftone.gui.device import device_view
from halftone.gui.device.device_view import Promise, Verdict
from halftone.gui.health.known_troubles import known_text
from halftone.gui.i18n import listed, tr
from halftone.gui.kit import figures
from halftone.gui.kit.meters import MemoryMeter
from halftone.gui.kit.painting import Painted, plate
from halftone.gui.kit.stock_widgets import (
    Card,
    ElidedLabel,
    FactGrid,
    IconLabel,
    boxed,
    button,
    clear,
    column,
    hline,
    label,
    progress_bar,
    row,
)
from halftone.health.troubles import known_on_device


class VerdictCard(Card):
    """The sentence that counts; while measuring, its progress with Skip."""

    skip = Signal()
    measure = Signal()

    def __init__(self) -> None:
        super().__init__("unknown")
        self._icon = IconLabel("circle-dashed", "unknown", 26)
        self._title = label("", "heading-s", wrap=True)
        self._text = label("", "body", "secondary", wrap=True)
        self._bar = progress_bar(tr("Measurement progress"))
        self._help_text = label("", "small", "secondary", wrap=True)
        self._skip = button(tr("Skip, use FP32"), "", clicked=self.skip.emit)
        self._measure = button(tr("Measure now"), "primary", "gauge", clicked=self.measure.emit)
        self._help = button(tr("How to fix this"), "link", clicked=self._toggle_help)
        buttons = row(self._skip, self._measure, self._help, -1)
        words = column(self._title, self._text, self._bar, self._help_text, 2, buttons, spacing=6)
        top = row(self._icon, words, spacing=14, margins=(16, 14, 16, 14), stretch=1)
        top.setAlignment(self._icon, Qt.AlignmentFlag.AlignTop)
        self.setLayout(top)
        self._help_text.hide()

    def _toggle_help(self) -> None:
        self._help_text.setText(
            tr(
                "Install the GPU driver, then start Halftone with its launcher, which picks the right PyTorch. Supported: "
                "NVIDIA, AMD (ROCm), Intel (XPU) and Apple."
            )
        )
        self._help_text.setVisible(self._help_text.isHidden())

    def set_verdict(self, verdict: Verdict, fraction: float | None, *, first_run: bool, can_measure: bool) -> None:
        self.set_kind(verdict.state)
        tone = {"info": "accent-text"}.get(verdict.state, verdict.state)
        self._icon.set(verdict.icon, tone)
        self._title.setText(verdict.title)
        self._text.setText(verdict.text)
        self._bar.setVisible(verdict.measuring)
        self._bar.setRange(0, 0 if fraction is None and verdict.measuring else 1000)
        self._bar.setValue(round((fraction or 0.0) * 1000))
        self._skip.setVisible(verdict.measuring)
        self._skip.setText(tr("Skip, use FP32") if first_run else tr("Cancel"))
        self._measure.setVisible(not verdict.measuring and verdict.state == "unknown" and can_measure and not verdict.no_gpu)
        self._help.setVisible(verdict.no_gpu)
        if not verdict.no_gpu:
            self._help_text.hide()
        self.setAccessibleName(f"{verdict.title}. {verdict.text}")

    def title(self) -> str:
        return self._title.text()

    def text(self) -> str:
        return self._text.text()


class LegendDot(QWidget):
    """A small square of a legend."""

    def __init__(self, token: str, *, hollow: bool = False) -> None:
        super().__init__()
        self.setFixedSize(10, 10)
        self._token = token
        self._hollow = hollow

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        colour = theme.current().color(self._token)
        if self._hollow:
            painter.setPen(colour)
            painter.drawRect(1, 1, 7, 7)
        else:
            painter.fillRect(1, 1, 8, 8, colour)
        painter.end()


class DeviceTile(Painted):
    """The device's icon on a pale square."""

    def __init__(self) -> None:
        super().__init__()
        self.setFixedSize(40, 40)
        self.icon = "gpu"

    def draw(self, painter: QPainter) -> None:
        plate(painter, QRectF(self.rect()), 6, "accent-subtle")
        icons.paint(painter, self.icon, QRectF(9, 9, 22, 22), theme.current().color("accent-text"))


class DeviceCard(Card):
    """The device: name, memory and the facts that were read from the system."""

    free_memory = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._tile = DeviceTile()
        self._name = label("", "heading-s", wrap=True)
        self._caption = label("", "small", "secondary", wrap=True)
        self._memory_words = ElidedLabel("", "small", numbers=True)
        self._bar = MemoryMeter(square=True)
        self._others = label("", "caption", "secondary", numbers=True)
        self._own = label("", "caption", "secondary", numbers=True)
        self._free = label("", "caption", "secondary", numbers=True)
        marks = (
            row(LegendDot("text-muted"), self._others, spacing=5),
            row(LegendDot("chart.series-1"), self._own, spacing=5),
            row(LegendDot("border-control", hollow=True), self._free, -1, spacing=5),
        )
        memory = label(tr("Memory"), "small", "secondary")
        large = theme.has_large_text()
        if not large:
            self._memory_words.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
        words = column(memory, self._memory_words) if large else row(memory, self._memory_words, spacing=8, stretch=1)
        self._loaded = ElidedLabel("", "small", "secondary")
        self.free = button(tr("Free memory"), "", clicked=self.free_memory.emit)
        loaded = column(self._loaded, self.free, spacing=4) if large else row(self._loaded, self.free, spacing=8, stretch=0)
        legend = column(*marks, spacing=2) if large else row(*marks, spacing=9)
        self._memory = boxed(column(words, self._bar, legend, 4, loaded, 4, hline(), spacing=6))
        self._rows = FactGrid(across=12, down=9, names=96)
        self._shown: list[tuple[str, str]] | None = None
        names = column(self._name, self._caption, spacing=1)
        top = row(self._tile, names, spacing=12, stretch=1)
        self.setLayout(column(top, self._memory, self._rows, spacing=12, margins=(16, 14, 16, 14)))

    def set_device(self, device: DeviceFacts, memory: MemoryFacts | None) -> None:
        self._tile.icon = "cpu" if device.backend == "cpu" else "gpu"
        self._tile.update()
        self._name.setText(device.name)
        self._caption.setText(device_view.device_caption(device))
        self._memory.setVisible(memory is not None and memory.total > 0)
        if memory is not None and memory.total > 0:
            used = memory.own + memory.others
            own, others, free = (figures.size(count) for count in (memory.own, memory.others, max(0, memory.total - used)))
            self._memory_words.set_text(tr("{0} of {1} in use", figures.size(used), figures.size(memory.total)))
            self._others.setText(tr("Other apps {0}", _gigabytes(memory.others)))
            self._own.setText(f"Halftone {_gigabytes(memory.own)}")
            self._free.setText(tr("Free {0}", _gigabytes(max(0, memory.total - used))))
            self._bar.set_memory(memory)
            self._bar.setAccessibleName(tr("Halftone {0}, other apps {1}, free {2}", own, others, free))
        rows = device_view.device_rows(device)
        if memory is None and device.memory_total:
            rows.insert(0, (tr("Memory"), figures.size(device.memory_total)))
        rows += [(tr("Known"), known_text(trouble)) for trouble in known_on_device(device)]
        if rows != self._shown:
            self._shown = rows
            self._rows.fill(
                (label(name, "small", "secondary"), label(value, "small", wrap=True, numbers=True)) for name, value in rows
            )

    def set_loaded(self, names: Sequence[str], *, can_free: bool) -> None:
        """names: of the models in memory; can_free: whether one of them is not used by a job."""
        self._loaded.set_text(tr("In memory: {0}", listed(*names)) if names else tr("No model in memory"))
        self.free.setEnabled(can_free)
        why = tr("The next picture reloads the model.") if can_free else tr("In use by the running job.")
        self.free.setToolTip(why if names else "")


_ONE_LINE: Final = 300


class PromiseCard(Card):
    """What Halftone will do, each with its measured reason, which stands below where one line is too short for both."""

    change = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._rows = column()
        head = row(label(tr("What Halftone will do"), "heading-s"), -1, button(tr("Change"), "link", clicked=self.change.emit))
        self.setLayout(column(head, self._rows, spacing=8, margins=(16, 10, 16, 14)))
        self._shown: tuple[Promise, ...] | None = None
        self._narrow = False

    def set_narrow(self, narrow: bool) -> None:
        """Put every reason below what it is the reason of, for a narrow page."""
        if narrow != self._narrow:
            self._narrow = narrow
            promises, self._shown = self._shown, None
            self.set_promises(promises or ())

    def set_promises(self, promises: tuple[Promise, ...]) -> None:
        if promises == self._shown:
            return
        self._shown = promises
        clear(self._rows)
        for one in promises:
            text, reason = label(one.text, "body"), label(one.reason, "small", "secondary")
            text.setToolTip(one.tip)
            if self._narrow or text.sizeHint().width() + reason.sizeHint().width() > _ONE_LINE:
                text.setWordWrap(True)
                reason.setWordWrap(True)
                words = column(text, *([reason] if one.reason else []))
                check = IconLabel("check", "ok", 16)
                line = row(check, words, spacing=8, stretch=1)
                line.setAlignment(check, Qt.AlignmentFlag.AlignTop)
            else:
                line = row(IconLabel("check", "ok", 16), text, -1, reason, spacing=8)
            self._rows.addLayout(line)


def _gigabytes(count: int) -> str:
    """The number alone; the unit stands above."""
    return figures.decimal(count / 1e9)
