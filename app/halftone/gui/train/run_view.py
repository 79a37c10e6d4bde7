"""The centre of Train while something is trained, and after: how far it is, the chart, and what was stopped."""

import math
from collections.abc import Callable, Sequence

from PySide6.QtCore import QSize, Signal
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QStackedWidget, QWidget

from halftone.contract.training import Caught, Omen
from halftone.gui.charts.training_chart import TrainChart
from halftone.gui.charts.training_table import StepsTable
from halftone.gui.i18n import catalogue, sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import (
    Card,
    IconLabel,
    boxed,
    button,
    clear,
    column,
    fill,
    icon_button,
    label,
    progress_bar,
    row,
)
from halftone.gui.kit.switches import Segmented
from halftone.gui.train.preparation_view import part_of, part_words, progress_words
from halftone.health.training.training_record import RunRecord
from halftone.health.training.training_sentences import ROWS, caught_line, omen_words, remedy_words
from halftone.session.state import Job
from halftone.session.training import Training

_LISTED = 100
_MINUTES = 120
"""Seconds from which the time left is shown in minutes."""


Offered = tuple[str, str, Callable[[], object]]
"""A button: its words, "primary" or "link", and what it does."""


class RunHeader(QWidget):
    """Step n of N, what is left, the pace, what was saved last; a bar below. `chosen`: the view of a narrow centre."""

    chosen = Signal(str)
    export = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.title = label("", "heading-s", numbers=True)
        self.left = label("", "body", "secondary", numbers=True)
        self.pace = label("", "small", "muted", numbers=True)
        self.saved = label("", "small", "muted", numbers=True)
        self.views = Segmented([("chart", tr("Chart")), ("pictures", tr("Test pictures"))])
        self.views.set_value("chart")
        self.views.chosen.connect(self.chosen)
        self.menu = icon_button("file-down", tr("Export report…"), clicked=self.export.emit)
        self.bar = progress_bar(tr("Training"))
        self.as_table = icon_button("table-2", tr("Show as table"), checkable=True)
        icons = row(self.as_table, self.menu, spacing=4)
        self._narrow = False
        self._line = row(self.title, self.left, self.pace, -1, self.saved, self.views, icons, spacing=12)
        self.setLayout(column(self._line, self.bar, spacing=8))

    def show_training(self, training: Training) -> None:
        record = training.run.record
        if record is None:
            return
        job = training.job
        if training.preparing and job is not None:
            self._show_preparing(job)
            return
        waits = job is not None and not job.running
        steps = tr("Step {0} of {1}", figures.group(record.step), figures.group(record.steps))
        self.title.setText(tr("Waiting") if waits else steps)
        self.left.setText(left_words(training, record))
        pace = record.seconds_per_step if training.running and not record.held and not training.run.asking else None
        self.pace.setText(pace_words(pace) if pace else "")
        self.saved.setText(tr("Last saved at step {0}", figures.group(record.saved.step)) if record.saved is not None else "")
        self.menu.setEnabled(record.step > 0)
        self.as_table.setEnabled(True)
        self.bar.setRange(0, max(1, record.steps))
        self.bar.setValue(record.step)
        self._fit()

    def _show_preparing(self, job: Job) -> None:
        self.title.setText(part_words(part_of(job)))
        self.left.setText(tr("cancelling") if job.stopping else progress_words(job))
        for words in (self.pace, self.saved):
            words.setText("")
        self.menu.setEnabled(False)
        self.as_table.setEnabled(False)
        known = job.fraction is not None and part_of(job) in ("load", "encode")
        self.bar.setRange(0, 1000 if known else 0)
        self.bar.setValue(round(1000 * (job.fraction or 0)) if known else 0)

    def set_narrow(self, narrow: bool) -> None:
        self._narrow = narrow
        self.views.setVisible(narrow)
        self._fit()

    def _fit(self) -> None:
        """Leave out what does not fit: the pace, what was saved last, then the time left."""
        self.pace.setVisible(not self._narrow)
        self.saved.show()
        self.left.show()
        for words in (self.pace, self.saved, self.left):
            if self._line.sizeHint().width() > self.width() > 0:
                words.hide()
        self._line.invalidate()  # it took its size as settled when it was asked

    def minimumSizeHint(self) -> QSize:
        """What is shown now holds nobody back: narrower, it gives way."""
        return QSize(0, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self._fit()


def left_words(training: Training, record: RunRecord) -> str:
    """The time that is left, or why none passes."""
    if not training.running:
        return ""
    if training.stopping:
        return tr("saving")
    if training.run.asking:
        return tr("waits for your answer")
    if record.held:
        return tr("paused")
    if record.making_picture:
        return tr("making a test picture")
    left = record.seconds_left
    if left is None:
        return tr("estimating") if record.step else ""
    return tr("about {0} left", figures.duration(_rounded_up(left))) if left > 0 else ""


def _rounded_up(seconds: float) -> float:
    """Round to whole minutes: more would claim too much."""
    return seconds if seconds < _MINUTES else math.ceil(seconds / 60) * 60


def pace_words(seconds: float) -> str:
    """Steps per second, or seconds per step of slow ones."""
    return (
        tr("{0} steps/s", figures.decimal(1 / seconds, 2)) if seconds < 1 else tr("{0} s per step", figures.decimal(seconds, 1))
    )


class EventList(Card):
    """Everything that was stopped or noticed, the newest first. `chosen` carries the `Caught`."""

    chosen = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self._listed: tuple[Caught, ...] = ()
        self._rows = column(spacing=0)
        self.setLayout(column(label(tr("What happened"), "body-strong"), self._rows, spacing=4, margins=(14, 12, 14, 10)))
        self.hide()

    def show_events(self, events: Sequence[Caught]) -> None:
        shown = tuple(events[-_LISTED:])
        if shown == self._listed:
            return
        self._listed = shown
        clear(self._rows)
        fill(self._rows, *(self._row(one) for one in reversed(shown)))
        self.setVisible(bool(shown))

    def _row(self, caught: Caught) -> QWidget:
        noticed = caught.did == "warned"
        icon = IconLabel("info" if noticed else "octagon-x", "accent-text" if noticed else "danger", 14)
        step = button(tr("Step {0}", figures.group(caught.step)), "link", clicked=lambda: self.chosen.emit(caught))
        words = label(caught_line(caught).text(catalogue()), "small", "secondary", wrap=True)
        watched = label(ROWS[caught.watched].text(catalogue()), "small", "muted")
        return boxed(row(icon, step, watched, words, spacing=10, margins=(0, 3, 0, 3), stretch=3))


class ChartCard(Card):
    """The chart on a card, or all its steps in a table."""

    def __init__(self) -> None:
        super().__init__()
        self._record: RunRecord | None = None
        self._shown: tuple[int, int] = (-1, -1)
        self.chart, self.table = TrainChart(), StepsTable()
        self._stack = QStackedWidget()
        self._stack.addWidget(self.chart)
        self._stack.addWidget(self.table)
        self.setLayout(column(self._stack, margins=(14, 10, 14, 6)))

    def follow(self, record: RunRecord) -> None:
        """Show this training, which may have grown."""
        self._record = record
        self.chart.follow(record)
        if self._stack.currentWidget() is self.table:
            self._fill()

    def show_table(self, on: bool) -> None:
        """The table is filled only while it is looked at."""
        self._shown = (-1, -1)
        if on:
            self._fill()
        self._stack.setCurrentWidget(self.table if on else self.chart)

    def _fill(self) -> None:
        record = self._record
        known = (len(record.losses), len(record.caught)) if record is not None else (-1, -1)
        if record is not None and known != self._shown:
            self._shown = known
            self.table.follow(record)


def omen_card(omen: Omen, *buttons: Offered) -> QWidget:
    """What was foreseen before the first step, and what helps."""
    helps = remedy_words(omen)
    prefix = tr("This will fail:") if omen.certain else tr("Warning:")
    words = sentences(prefix, omen_words(omen).text(catalogue()), helps.text(catalogue()) if helps is not None else "")
    return notice("danger" if omen.certain else "warn", "octagon-alert" if omen.certain else "triangle-alert", words, *buttons)


def notice(level: str, icon: str, words: str, *buttons: Offered) -> QWidget:
    """A card of one line."""
    made = [button(said, "primary" if kind == "primary" else "link", clicked=act) for said, kind, act in buttons]
    tone = {"ok": "ok", "warn": "warn", "danger": "danger"}.get(level, "accent-text")
    text = label(words, "body", wrap=True)
    frame = Card(level, layout=row(IconLabel(icon, tone, 18), text, *made, spacing=10, margins=(14, 9, 14, 9), stretch=1))
    frame.setAccessibleName(words)
    return frame
