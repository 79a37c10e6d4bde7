"""The left column of Train: what is trained and how, fixed while it runs, and the buttons that begin and end it."""

import time

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QWidget

from halftone.gui import theme
from halftone.gui.i18n import listed, sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.navigation import guide_button
from halftone.gui.kit.stock_widgets import (
    ElidedLabel,
    IconLabel,
    boxed,
    button,
    column,
    hline,
    icon_button,
    label,
    row,
    scrolling,
    set_icon,
    surface,
)
from halftone.gui.text import TYPE_NAMES, short
from halftone.gui.train.memory_line import MemoryLine
from halftone.gui.train.setup_form import TrainForm
from halftone.health.training.training_memory import TrainingForecast
from halftone.session.training import Training

WIDTH = 296
_LEAST, _MOST = 260, 400


class TrainSetup(QWidget):
    """`start`, `hold` (on), `keep`, `withdraw`: what was asked for."""

    start = Signal()
    hold = Signal(bool)
    keep = Signal()
    withdraw = Signal()
    earlier = Signal()
    """What was begun before is to be listed."""

    def __init__(self, form: TrainForm) -> None:
        super().__init__()
        self.form = form
        self._held = False
        self.setMinimumWidth(_LEAST)
        self.setMaximumWidth(_MOST)
        self.title = ElidedLabel("", "heading-s")
        self.line = ElidedLabel("", "caption", "muted", numbers=True)
        self.earlier_button = icon_button("rotate-ccw", tr("Resume an earlier run…"), clicked=self.earlier.emit)
        words = column(self.title, self.line, spacing=2)
        self.guide_button = guide_button()
        head = boxed(row(words, self.earlier_button, self.guide_button, spacing=4, margins=(14, 10, 10, 10), stretch=0))
        note = label(tr("Settings are locked while training."), "small", "muted", wrap=True)
        self.fixed = boxed(row(IconLabel("lock", "text-muted", 14), note, spacing=8, stretch=1))
        inside = boxed(column(form, -1, spacing=0))
        self.setLayout(column(head, hline(), scrolling(inside), self._footer(), spacing=0, stretch=2))

    def _footer(self) -> QWidget:
        self.reason = label("", "small", "muted", wrap=True)
        self.memory = MemoryLine()
        self.start_button = button(tr("Start training"), "primary", "play", size="hero", clicked=self.start.emit)
        self.wait_button = button(tr("Remove from queue"), size="large", clicked=self.withdraw.emit)
        self.hold_button = button(
            tr("Pause"), icon="pause", size="large",
            tip=tr("Pauses after this step."), clicked=lambda: self.hold.emit(not self._held),
        )  # fmt: skip
        self.keep_button = button(
            tr("Stop and keep"), icon="square-check-big", size="large", clicked=self.keep.emit
        )  # fmt: skip
        both = (self.hold_button, self.keep_button)
        self._pair = boxed(column(*both, spacing=8) if theme.has_large_text() else row(*both, spacing=8, stretch=(0, 1)))
        parts = (self.fixed, self.memory, self.reason, self.start_button, self.wait_button, self._pair)
        return surface("plain", "top", layout=column(*parts, margins=(14, 12, 14, 12)))

    # --- states -----------------------------------------------------------------------------------------------------

    def show_training(self, training: Training, found: str, refusal: str, room: TrainingForecast | None) -> None:
        """found: what is in the folder of pictures; refusal: why no training can begin; room: the memory that it needs."""
        job, running, record = training.job, training.running, training.run.record
        self.title.set_text(record.config.name if job is not None and record is not None else tr("New LoRA"))
        self.line.set_text(_line(training, found))
        self.fixed.setVisible(running)
        self.memory.show_forecast(room if job is None else None)
        self.form.lock(job is not None, _locked_words(training, found))
        self.start_button.setVisible(job is None)
        self.wait_button.setVisible(job is not None and not running)
        self._pair.setVisible(running)
        self._show_buttons(training)
        waits = tr("Starts after the current job.") if job is not None and not running else ""
        self.start_button.setEnabled(not refusal)
        self.start_button.setToolTip(refusal)
        self.reason.setText(waits or (refusal if job is None else ""))
        self.reason.setVisible(bool(self.reason.text()))
        self.reason.setMinimumHeight(max(0, self.reason.heightForWidth(self.width() - 28)))

    def _show_buttons(self, training: Training) -> None:
        self._held = training.run.record is not None and training.run.record.held
        pausing = tr("Pausing…") if training.run.pausing else tr("Pause")
        self.hold_button.set_words(tr("Continue") if self._held else pausing)
        set_icon(self.hold_button, "play" if self._held else "pause", "text-secondary")
        self.hold_button.setVisible(not training.preparing)
        self.hold_button.setEnabled(not training.stopping and not training.run.asking and not training.run.pausing)
        self.keep_button.setEnabled(not training.stopping)
        if training.preparing:
            words = tr("Cancelling…") if training.stopping else tr("Cancel")
            tip = tr("Nothing is saved yet.")
        else:
            words = tr("Saving…") if training.stopping else tr("Stop and keep")
            tip = sentences(tr("Saves after this step."), tr("You can resume later."))
        self.keep_button.set_words(words)
        self.keep_button.setToolTip(tip)
        set_icon(self.keep_button, "x" if training.preparing else "square-check-big", "text-secondary")


def _line(training: Training, found: str) -> str:
    """Below the name: how long it runs, or what there is to train on."""
    job = training.job
    if job is None:
        return found or tr("Learns your style")
    if not job.running or job.started is None:
        return tr("Queued")
    if training.run.record is not None and training.run.record.held:
        return tr("Paused")
    return tr("Running for {0}", figures.duration(time.monotonic() - job.started))


def _locked_words(training: Training, found: str) -> dict[str, str]:
    """Rows that tell more than was chosen: what the training found and uses."""
    record = training.run.record
    if record is None or training.job is None:
        return {}
    words = {"pictures": found}
    if record.begins is not None:
        words["precision"] = listed(TYPE_NAMES[record.begins.dtype], tr("LoRA in FP32"))
    if record.scale is not None:
        words["loss_scale"] = listed(tr("Auto"), figures.group(round(record.scale)))
    words["name"] = short(record.config.name)
    return {key: value for key, value in words.items() if value}
