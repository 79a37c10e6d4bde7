"""The panel under the canvas while a picture is made: phases, steps, time left, cancel, and the numbers so far."""

import time
from typing import Final, cast

from PySide6.QtCore import QTimer, Signal
from PySide6.QtGui import QHideEvent, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QHBoxLayout, QWidget

from halftone.contract.facts import DeviceFacts
from halftone.contract.vocabulary import FLOAT_LIMITS, Phase
from halftone.gui import text, theme
from halftone.gui.i18n import listed, tr
from halftone.gui.kit import actions, figures
from halftone.gui.kit.built_later import BuiltLater
from halftone.gui.kit.dots import PeakStrip, StepDots
from halftone.gui.kit.message_bars import announce
from halftone.gui.kit.stock_widgets import ElidedLabel, IconLabel, button, column, label, row, set_tone, surface, vline
from halftone.session.state import Job

PHASES: Final[tuple[Phase, ...]] = ("load", "encode", "denoise", "decode", "save")
_SAMPLES: Final = 3
"""Steps measured before a time left is given."""
_TICK_MS: Final = 1000
_RIGHT: Final = 356
"""Pixels: the longest words above the peaks fit."""


def seconds_left(job: Job) -> float | None:
    """Seconds until the last step of the last pass, from the mean of the steps so far; None before there are three."""
    if len(job.steps) < _SAMPLES or job.total is None or job.phase != "denoise":
        return None
    mean = sum(step.seconds for step in job.steps) / len(job.steps)
    return mean * (max(0, job.total - job.done) + job.steps[-1].ahead)


def so_far(job: Job, now: float) -> str:
    """How long a job runs already, "" in its first second. now: seconds of the clock of the job's times."""
    seconds = 0 if job.started is None else int(now - job.started)
    return tr("{0} so far", figures.duration(seconds)) if seconds >= 1 else ""


def steps_per_second(job: Job) -> float | None:
    """Mean speed of the steps so far, None before the first."""
    total = sum(step.seconds for step in job.steps)
    return len(job.steps) / total if total > 0 else None


class PhaseRow(QWidget):
    """Load, Encode prompt, Denoise, Decode, Save: done, running, to come; shape and word, not colour alone."""

    def __init__(self) -> None:
        super().__init__()
        self._icons: dict[Phase, IconLabel] = {}
        self._words: dict[Phase, QWidget] = {}
        self._phase: Phase | None = None
        layout = self._line = QHBoxLayout(self)
        layout.setContentsMargins(0, 0, 0, 0)
        layout.setSpacing(6)
        for phase in PHASES:
            icon = IconLabel("circle", "border-control", 14)
            words = label(text.phase_name(phase), "small", "muted")
            self._icons[phase], self._words[phase] = icon, words
            layout.addWidget(icon)
            layout.addWidget(words)
            layout.addSpacing(10)
        layout.addStretch(1)

    def set_short(self, width: int) -> None:
        """Leave the words of the phases to the icons but for the running one, where all do not fit."""
        for words in self._words.values():
            words.show()
        if self.sizeHint().width() > width:
            for phase, words in self._words.items():
                words.setVisible(phase == self._phase)
        self._line.invalidate()  # it took its size as settled when it was asked

    def show_phase(self, phase: Phase | None, done: tuple[Phase, ...]) -> None:
        self._phase = phase
        place = PHASES.index(phase) if phase in PHASES else -1
        for index, name in enumerate(PHASES):
            words = self._words[name]
            if index == place:
                self._icons[name].set("circle-dot", "accent")
                words.setFont(theme.current().font("small-strong"))
                set_tone(words, "")
            elif name in done or index < place:
                self._icons[name].set("check", "ok")
                words.setFont(theme.current().font("small"))
                set_tone(words, "secondary")
            else:
                self._icons[name].set("circle", "border-control")
                words.setFont(theme.current().font("small"))
                set_tone(words, "muted")


class TransportPanel(BuiltLater):
    """130 high; the right half with the peaks is hidden in narrow windows."""

    cancel_requested = Signal()
    keep_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(theme.grown(134))
        self._announced = ("", 0)
        self._job: Job | None = None
        self._narrow = False
        self._clock = QTimer(self)
        self._clock.setInterval(_TICK_MS)
        self._clock.timeout.connect(self._tick)
        self.hide()

    def build(self) -> None:
        self.phases = PhaseRow()
        self.title = label("", "heading-s", numbers=True)
        self.left = label("", "body", "secondary", numbers=True)
        self.speed = label("", "small", "muted", numbers=True)
        self.dots = StepDots()
        self.cancel = button(tr("Cancel"), "", "x", tip=actions.tip("cancel", tr("Stop")), clicked=self.cancel_requested.emit)
        self.keep = button(
            tr("Stop and keep"),
            "quiet",
            "square-check-big",
            tip=tr("Keep the picture as it is"),
            clicked=self.keep_requested.emit,
        )
        self.hint = ElidedLabel(tr("Keep the picture as it is"), "caption", "muted")
        buttons = row(self.cancel, self.keep, self.hint, spacing=8)
        buttons.setStretch(2, 1)
        self._first = row(self.title, self.left, self.speed, -1, spacing=12)
        left = column(
            self.phases,
            self._first,
            self.dots,
            -1,
            buttons,
            spacing=8,
        )
        self.strip = PeakStrip()
        self.finite_icon = IconLabel("circle-check", "ok", 14)
        self.finite = ElidedLabel("", "small-strong", "ok", numbers=True)
        self.room = label("", "caption", "muted", numbers=True)
        head = row(label(tr("Numerics"), "small"), 8, self.finite_icon, self.finite, spacing=5)
        head.setStretch(3, 1)
        right = column(
            head,
            self.strip,
            row(label(tr("Peak per step, log scale"), "caption", "muted"), -1, self.room),
            spacing=5,
        )
        self.right = QWidget()
        inner = row(vline(theme.grown(104)), right, spacing=12)
        inner.setStretch(1, 1)
        self.right.setLayout(inner)
        self.right.setFixedWidth(_RIGHT)
        frame = surface("plain", "top")
        layout = row(left, self.right, spacing=14, margins=(16, 11, 16, 11))
        layout.setStretch(0, 1)
        frame.setLayout(layout)
        self.setLayout(column(frame, spacing=0))

    def set_narrow(self, narrow: bool) -> None:
        self._narrow = narrow
        if self.built:
            self._fit()

    def _fit(self) -> None:
        """Hide the phases, steps and peaks, which upscaling does not have."""
        draws = self._job is None or self._job.kind == "Generate"
        self.right.setVisible(draws and not self._narrow)
        self.hint.setVisible(draws and not self._narrow)
        self.phases.setVisible(draws)
        self.keep.setVisible(draws)
        self._shorten()

    def _shorten(self) -> None:
        """Leave out what does not fit: words of phases, then the speed, then the time left."""
        width = self.width() - 32 - (0 if self.right.isHidden() else _RIGHT + 14)
        self.phases.set_short(width)
        self.left.show()
        self.speed.show()
        for words in (self.speed, self.left):
            if self._first.sizeHint().width() > width:
                words.hide()
        self._first.invalidate()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self.built:
            self._shorten()

    def show_job(self, job: Job, device: DeviceFacts | None) -> None:
        """The running picture as it stands."""
        del device
        self.make()
        self._job = job
        self._fit()
        self._announce(job)
        self.phases.show_phase(job.phase, job.phases_done)
        self._show_progress(job)
        self._show_numbers(job)
        self._shorten()
        stopping = job.stopping != ""
        self.cancel.setEnabled(job.stopping != "cancel")
        self.keep.setEnabled(not stopping and job.phase == "denoise")

    def _tick(self) -> None:
        """A step may be long: the time that goes by shows that the program lives."""
        if self._job is not None:
            self._show_progress(self._job)

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self._clock.start()

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self._clock.stop()

    def _announce(self, job: Job) -> None:
        """For screen readers, every quarter only."""
        quarter = int((job.fraction or 0.0) * 4) if job.phase == "denoise" else 0
        if (job.id, quarter) != self._announced and 0 < quarter < 4:
            announce(self, tr("Step {0} of {1}", job.done, job.total))
        self._announced = (job.id, quarter)

    def _show_progress(self, job: Job) -> None:
        counted = job.phase == "denoise" or job.kind == "Upscale"
        total = job.total if counted and job.total else len(job.steps)
        self.dots.set_steps(job.done if counted else len(job.steps), total)
        speed = steps_per_second(job)
        self.speed.setText("" if speed is None else tr("{0} steps/s", figures.decimal(speed, 2 if speed < 10 else 0)))
        left = seconds_left(job)
        if job.stopping == "cancel":
            self.title.setText(tr("Cancelling…"))
            self.left.setText("")
            return
        spent = so_far(job, time.monotonic())
        if job.phase == "denoise" and job.total:
            self.title.setText(text.step_sentence(job, tr("Step {0} of {1}", job.done, job.total)))
            waiting = listed(spent, tr("estimating") if job.total > _SAMPLES else "")
            known = "" if left is None else listed(tr("about {0} left", figures.duration(left)), spent)
            self.left.setText(known or waiting)
            return
        self.title.setText(text.phase_sentence(job.phase))
        self.left.setText(listed(text.tile_words(job) if job.phase == "upscale" else _load_words(job), spent))

    def _show_numbers(self, job: Job) -> None:
        limit = FLOAT_LIMITS[_denoiser_dtype(job)]
        peaks = [step.peak for step in job.steps]
        self.strip.set_peaks(peaks, job.total or len(peaks) if job.phase == "denoise" else len(peaks), limit)
        read = [step for step in job.steps if step.finite is not None]
        good = sum(1 for step in read if step.finite)
        warned = good < len(read) or bool(job.mended)
        words = tr("{0} of {1} steps finite", good, len(read)) if read else ""
        self.finite.set_text(listed(words, _mended_words(job.mended)))
        self.finite_icon.set("" if not read else "triangle-alert" if warned else "circle-check", "warn" if warned else "ok")
        set_tone(self.finite, "warn" if warned else "ok")
        known = [peak for peak in peaks if peak]
        if known:
            room = figures.bits(_room(max(known), limit))
            shown = figures.group(int(limit)) if limit < 1e9 else figures.power(128)
            self.room.setText(tr("Limit {0} · {1} headroom", shown, room))
        else:
            self.room.setText("")


def _mended_words(mended: tuple[int, ...]) -> str:
    if len(mended) > 1:
        return tr("{0} repaired", len(mended))
    return tr("step {0} repaired", mended[0]) if mended else ""


def _room(peak: float, limit: float) -> float:
    import math

    return math.log2(limit / peak) if math.isfinite(peak) else -math.inf


def _denoiser_dtype(job: Job) -> str:
    dtypes = job.plan.dtypes if job.plan is not None else {}
    return next((cast("str", dtypes[name]) for name in ("unet", "transformer") if name in dtypes), "float32")


def _load_words(job: Job) -> str:
    if job.phase != "load" or not job.total or job.total < 1_000_000:
        return ""
    return tr("{0} of {1}", figures.size(job.done), figures.size(job.total))
