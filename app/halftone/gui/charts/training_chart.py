"""The chart of a training: loss, gradient norm and the guard's strip over one axis of steps, with a line at each bad number."""

import math

from PySide6.QtCore import QEvent, QSize, Qt, Signal
from PySide6.QtGui import QAccessible, QKeyEvent, QMouseEvent, QPainter

from halftone.contract.training import Caught, TrainConfig
from halftone.gui.charts import training_chart_paint
from halftone.gui.charts.cached_chart import CachedChart
from halftone.gui.i18n import catalogue, listed, sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.accessible import give_role
from halftone.gui.kit.message_bars import announce
from halftone.health.training.training_curve import Curves, near
from halftone.health.training.training_record import RunRecord
from halftone.health.training.training_sentences import ROWS, caught_title

_REACH = 6
"""Pixels from which an event is meant by the pointer."""
_SPOKEN = 0.25
"""Progress is announced in such parts."""


class TrainChart(CachedChart):
    """Hover reads the values of a step; arrow keys go step by step, PageUp and PageDown from bad number to bad number."""

    event_chosen = Signal(object)
    """The `Caught` that was clicked, or chosen with Enter."""

    def __init__(self) -> None:
        super().__init__()
        self._record = RunRecord(TrainConfig(model="", pictures="", output=""))
        self._curves = Curves()
        self._at: int | None = None
        self._told = 0
        self._resize()
        self.setAccessibleName(tr("Training"))

    def sizeHint(self) -> QSize:
        return QSize(860, 560)

    def minimumSizeHint(self) -> QSize:
        return QSize(380, 372)

    # data

    def follow(self, record: RunRecord) -> None:
        """Show this training, which may have grown; painted at most every 100 ms."""
        if record is not self._record:
            self._record, self._at, self._told = record, None, 0
        self.refresh_soon()

    @property
    def at(self) -> int | None:
        """The step whose values are read, None while none is."""
        return self._at

    def refresh(self) -> None:
        super().refresh()
        self.setAccessibleDescription(self.summary())
        part = math.floor(self._record.step / max(1, self._record.steps) / _SPOKEN)
        if part > self._told and self.isVisible():
            announce(self, self.summary())
        self._told = part

    # painting

    def _resize(self) -> None:
        width = max(1.0, self.width() - 24 - training_chart_paint.label_width())
        self._drawn = training_chart_paint.gather(self._record, width, self._curves)
        self._frame = training_chart_paint.frame_of(self._drawn, self.width(), self.height())

    def paint_base(self, painter: QPainter) -> None:
        self._resize()
        training_chart_paint.paint(painter, self._frame, self._drawn)

    def paint_over(self, painter: QPainter) -> None:
        if self._at is not None:
            training_chart_paint.paint_hover(painter, self._frame, self._at, self.reading(self._at), self.width())

    # words

    def reading(self, step: int) -> tuple[str, ...]:
        """The values of a step, a line each; the first names it."""
        record, lines = self._record, [tr("Step {0}", figures.group(step))]
        if not 1 <= step <= record.step:
            return (*lines, tr("not reached yet"))
        loss, smooth, norm = (values[step - 1] for values in (record.losses, record.smoothed, record.norms))
        shown = training_chart_paint.loss_text
        lines += [tr("Loss {0}, smoothed {1}", shown(loss), shown(smooth))] if loss == loss else []
        lines += [tr("Gradient norm {0}", figures.peak(norm))] if norm == norm else []
        found = self.event_at(step)
        if found is not None:
            lines.append(f"{ROWS[found.watched].text(catalogue())}: {caught_title(found).text(catalogue())}")
        return tuple(lines)

    def event_at(self, step: float) -> Caught | None:
        """The bad number that a step of the axis means."""
        return near(step, self._drawn.caught, abs(self._frame.step(self._frame.left + _REACH)))

    def summary(self) -> str:
        """The chart in a sentence or two."""
        record = self._record
        if not record.step:
            return tr("No steps yet.")
        where = tr("Step {0} of {1}", figures.group(record.step), figures.group(record.steps))
        smooth = record.smoothed[-1]
        loss = tr("loss {0}", training_chart_paint.loss_text(smooth)) if smooth == smooth else ""
        stopped = record.stopped
        bad = tr("no NaN") if not stopped else tr("{0} NaNs", stopped, one="1 NaN")
        return sentences(f"{listed(where, loss, bad)}.")

    # input

    def _go_to(self, step: int | None, *, speak: bool = False) -> None:
        if step is not None:
            step = min(max(1, step), max(1, self._record.steps))
        if step != self._at:
            self._at = step
            self.update()
        if speak and step is not None:
            words = listed(*self.reading(step))
            self.setAccessibleDescription(words)
            announce(self, words)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        x = event.position().x()
        inside = self._frame.left - 2 <= x <= self._frame.right + 2 and event.position().y() < self._frame.axis
        step = self._frame.step(x)
        found = self.event_at(step) if inside else None
        self.setCursor(Qt.CursorShape.PointingHandCursor if found else Qt.CursorShape.ArrowCursor)
        self._go_to((found.step if found else round(step)) if inside else None)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        found = self.event_at(self._frame.step(event.position().x()))
        if event.button() == Qt.MouseButton.LeftButton and found is not None:
            self.event_chosen.emit(found)

    def leaveEvent(self, event: QEvent) -> None:
        self._go_to(None)
        super().leaveEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        here = self._at if self._at is not None else self._record.step
        per = max(1, round(self._frame.step(self._frame.left + 1)))
        events = [one.step for one in self._drawn.caught]
        goals: dict[int, int | None] = {
            Qt.Key.Key_Left: here - per,
            Qt.Key.Key_Right: here + per,
            Qt.Key.Key_Home: 1,
            Qt.Key.Key_End: self._record.step,
            Qt.Key.Key_PageUp: max((step for step in events if step < here), default=here),
            Qt.Key.Key_PageDown: min((step for step in events if step > here), default=here),
        }
        if event.key() in goals:
            self._go_to(goals[event.key()], speak=True)
        elif event.key() == Qt.Key.Key_Escape and self._at is not None:
            self._go_to(None)
        elif event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and (found := self.event_at(here)) is not None:
            self.event_chosen.emit(found)
        else:
            super().keyPressEvent(event)


give_role(TrainChart, QAccessible.Role.Chart)
