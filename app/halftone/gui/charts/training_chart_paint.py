"""How the chart of a training is laid out and painted: three panels over one axis of steps."""

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QFontMetrics, QPainter, QPen, QPolygonF

from halftone.contract.training import WATCHED, Caught
from halftone.contract.wording import Words, number
from halftone.gui import theme
from halftone.gui.i18n import catalogue, say, tr
from halftone.gui.kit import figures
from halftone.health.training.training_curve import (
    Bin,
    Curves,
    Strip,
    log_range,
    step_ticks,
    strip_of,
    value_range,
    value_ticks,
)
from halftone.health.training.training_record import RunRecord
from halftone.health.training.training_sentences import ROWS

_LEFT: Final = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
_RIGHT: Final = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
_CENTRE: Final = int(Qt.AlignmentFlag.AlignCenter)
_TITLE: Final = 26.0
_ROW: Final = 17.0
_AXIS: Final = 30.0
_DOT: Final = 9.0
"""Pixels from one dot of the strip to the next."""
_MARK: Final = 7.0
_TITLES: Final = 320.0
"""Pixels from the left that titles of panels may take."""


Scale = Callable[[float], float]
"""A value to its pixel."""


@dataclass(frozen=True)
class Drawn:
    """What is shown, gathered for so many pixels."""

    steps: int
    done: int
    loss: tuple[Bin, ...]
    smooth: tuple[Bin, ...]
    norm: tuple[Bin, ...]
    strip: Strip
    caught: tuple[Caught, ...]
    clip: float
    watched: bool
    """Whether the guard is on."""


@dataclass(frozen=True)
class Frame:
    """The place of the panels in pixels, and what their edges mean."""

    left: float
    right: float
    loss: QRectF
    norm: QRectF
    strip: QRectF
    axis: float
    steps: int
    loss_range: tuple[float, float]
    norm_range: tuple[int, int]

    def x(self, step: float) -> float:
        return self.left + (self.right - self.left) * step / max(1, self.steps)

    def step(self, x: float) -> float:
        return (x - self.left) / max(1.0, self.right - self.left) * self.steps

    def loss_scale(self) -> Scale:
        """For many values at once: what is asked of a box is asked once."""
        (low, high), bottom = self.loss_range, self.loss.bottom()
        per = self.loss.height() / (high - low)
        return lambda value: bottom - (value - low) * per

    def norm_scale(self) -> Scale:
        """Scale of the gradient norms."""
        (low, high), bottom = self.norm_range, self.norm.bottom()
        per, least, most, log = self.norm.height() / (high - low), 10.0**low, 10.0**high, math.log10
        return lambda value: bottom - (log(value) - low if least < value < most else 0 if value <= least else high - low) * per

    def loss_y(self, value: float) -> float:
        return self.loss_scale()(value)

    def norm_y(self, value: float) -> float:
        return self.norm_scale()(value)


def gather(record: RunRecord, width: float, kept: Curves | None = None) -> Drawn:
    """What a plot of so many pixels shows of a training. kept: from the last look at it."""
    columns, steps = max(20, round(width)), max(1, record.steps)
    curves = kept or Curves()
    curves.follow(record, record.rewound)
    return Drawn(
        steps=steps,
        done=record.step,
        loss=curves.loss.of(record.losses, steps, columns // 3),
        smooth=curves.smooth.of(record.smoothed, steps, columns // 4),
        norm=curves.norm.of(record.norms, steps, columns // 5),
        strip=strip_of(record.step, steps, round(width / _DOT), record.caught),
        caught=tuple(one for one in record.caught if one.did != "warned"),
        clip=record.config.clip,
        watched=record.config.guard != "off",
    )


def label_width() -> float:
    """Pixels left of the plot: the names of the strip's rows stand there."""
    metrics = QFontMetrics(theme.current().font("small"))
    return max(64.0, *(metrics.horizontalAdvance(words.text(catalogue())) for words in ROWS.values())) + 14


def frame_of(drawn: Drawn, width: float, height: float) -> Frame:
    """The panels in a widget of this size: the loss takes what the others leave."""
    left, right = label_width(), width - 24
    strip = _ROW * len(WATCHED)
    flexible = max(120.0, height - 3 * _TITLE - strip - _AXIS - 44)
    loss, norm = flexible * 0.68, flexible * 0.32
    top = _TITLE + 6
    loss_box = QRectF(left, top, right - left, loss)
    norm_box = QRectF(left, loss_box.bottom() + 14 + _TITLE + 4, right - left, norm)
    strip_box = QRectF(left, norm_box.bottom() + 12 + _TITLE, right - left, strip)
    return Frame(
        left, right, loss_box, norm_box, strip_box, strip_box.bottom() + 6, drawn.steps,
        value_range(drawn.loss), log_range(drawn.norm, drawn.clip),
    )  # fmt: skip


def paint(painter: QPainter, frame: Frame, drawn: Drawn) -> None:
    """Everything but what follows the pointer."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    _paint_loss(painter, frame, drawn)
    _paint_norm(painter, frame, drawn)
    _paint_events(painter, frame, drawn)
    _paint_strip(painter, frame, drawn)
    _paint_axis(painter, frame)


def _title(painter: QPainter, frame: Frame, box: QRectF, words: str, note: str = "") -> float:
    """Returns where the line of the title ends."""
    colours = theme.current()
    line = QRectF(0, box.top() - _TITLE - 4, frame.right, _TITLE - 4)
    painter.setPen(colours.color("text"))
    painter.setFont(colours.font("body-strong"))
    painter.drawText(line, _LEFT, words)
    x = painter.fontMetrics().horizontalAdvance(words) + 12
    painter.setPen(colours.color("text-muted"))
    painter.setFont(colours.font("caption"))
    painter.drawText(line.adjusted(x, 1, 0, 1), _LEFT, note)
    return x + painter.fontMetrics().horizontalAdvance(note)


def _tick(painter: QPainter, frame: Frame, y: float, words: str) -> None:
    colours = theme.current()
    painter.setPen(QPen(colours.color("chart.grid"), 1))
    painter.drawLine(QPointF(frame.left, round(y) + 0.5), QPointF(frame.right, round(y) + 0.5))
    painter.setPen(colours.color("chart.axis"))
    painter.setFont(colours.font("caption", numbers=True))
    painter.drawText(QRectF(0, y - 10, frame.left - 10, 20), _RIGHT, words)


def _paint_loss(painter: QPainter, frame: Frame, drawn: Drawn) -> None:
    colours, box = theme.current(), frame.loss
    x = _title(painter, frame, box, tr("Loss"))
    for words, token, width in ((tr("one step"), "chart.train-raw", 1.0), (tr("smoothed"), "chart.series-1", 2.0)):
        painter.setPen(colours.color("text-muted"))
        painter.setFont(colours.font("caption"))
        line = QRectF(x, box.top() - _TITLE - 3, 200, _TITLE - 4)
        painter.drawText(line, _LEFT, words)
        x += painter.fontMetrics().horizontalAdvance(words) + 8
        painter.setPen(QPen(colours.color(token), width))
        painter.drawLine(QPointF(x, line.center().y()), QPointF(x + 18, line.center().y()))
        x += 30
    low, high = frame.loss_range
    marks = value_ticks(low, high, max(2, round(box.height() / 48))) if drawn.loss else ()
    for value in marks:
        _tick(painter, frame, frame.loss_y(value), _loss_words(value, marks))
    painter.setPen(QPen(colours.color("chart.train-raw"), 1))
    painter.drawLines(_lines(_points(frame, drawn.loss, frame.loss_scale())))
    painter.setPen(QPen(colours.color("chart.series-1"), 2))
    painter.drawLines(_lines(_points(frame, drawn.smooth, frame.loss_scale())))
    if drawn.smooth:
        _paint_end(painter, frame, drawn.smooth[-1])


def _loss_words(value: float, marks: Sequence[float]) -> str:
    gap = marks[1] - marks[0] if len(marks) > 1 else value
    places = next((places for places in range(8) if abs(round(gap, places) - gap) < gap / 1000), 8) if gap > 0 else 0
    return figures.decimal(value, max(1, places))


def loss_text(value: float) -> str:
    """A loss with three figures: 0.090."""
    return figures.decimal(value, 3) if 0.01 <= abs(value) < 1000 else figures.peak(value)


def _paint_end(painter: QPainter, frame: Frame, last: Bin) -> None:
    """A dot at the end of the smoothed line, with its value."""
    colours = theme.current()
    at, words = QPointF(frame.x(last.step), frame.loss_y(last.last)), loss_text(last.last)
    painter.setPen(QPen(colours.color("surface-raised"), 1.5))
    painter.setBrush(colours.color("chart.series-1"))
    painter.drawEllipse(at, 4, 4)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setFont(colours.font("body-strong", numbers=True))
    painter.setPen(colours.color("text"))
    wide = painter.fontMetrics().horizontalAdvance(words)
    fits = at.x() + 10 + wide < frame.right + 20
    box = QRectF(at.x() + 10, at.y() - 10, wide, 20) if fits else QRectF(at.x() - wide - 8, at.y() - 26, wide, 20)
    painter.drawText(box, _LEFT, words)


def _points(frame: Frame, bins: Sequence[Bin], y_of: Scale) -> list[QPointF]:
    """Through the lowest and highest value of each bin."""
    points: list[QPointF] = []
    left, per = frame.left, (frame.right - frame.left) / max(1, frame.steps)
    for one in bins:
        x = left + per * one.step
        points.append(QPointF(x, y_of(one.low)))
        if one.high != one.low:
            points.append(QPointF(x, y_of(one.high)))
    return points


def _lines(points: Sequence[QPointF]) -> list[QLineF]:
    """From each point to the next: many single lines are painted far sooner than one that crosses itself."""
    return [QLineF(one, other) for one, other in itertools.pairwise(points)]


def _paint_norm(painter: QPainter, frame: Frame, drawn: Drawn) -> None:
    colours, box = theme.current(), frame.norm
    _title(painter, frame, box, tr("Gradient norm"), tr("log scale"))
    low, high = frame.norm_range
    every = max(1, round((high - low) / max(2.0, box.height() / 26)))
    for power in range(low, high + 1, every):
        _tick(painter, frame, frame.norm_y(10.0**power), power_words(power))
    painter.setPen(QPen(colours.color("chart.series-2"), 1.3))
    painter.drawLines(_lines(_points(frame, drawn.norm, frame.norm_scale())))
    if drawn.clip > 0:
        y = frame.norm_y(drawn.clip)
        painter.setPen(QPen(colours.color("chart.axis"), 1, Qt.PenStyle.DashLine))
        painter.drawLine(QPointF(frame.left, y), QPointF(frame.right, y))
        painter.setFont(colours.font("caption"))
        painter.setPen(colours.color("text-secondary"))
        words = tr("clipped above {0}", figures.decimal(drawn.clip, 1 if drawn.clip >= 0.1 else 3))
        painter.drawText(QRectF(frame.left, y - 20, box.width(), 18), _RIGHT, words)


def power_words(power: int) -> str:
    """10 to this power, as an axis has it."""
    return number(10.0**power) if -4 < power < 6 else figures.power(power, 10)


def _paint_events(painter: QPainter, frame: Frame, drawn: Drawn) -> None:
    """A line through all panels at each bad number; the newest has its label."""
    colours = theme.current()
    painter.setPen(QPen(colours.color("warn"), 1.2, Qt.PenStyle.DotLine))
    spans = [(frame.loss.top(), frame.strip.bottom())]
    parts = [(box.top(), box.bottom()) for box in (frame.loss, frame.norm, frame.strip)]
    for x in sorted({round(frame.x(one.step)) for one in drawn.caught}):
        for top, bottom in spans if x > _TITLES else parts:  # not through the titles between the panels
            painter.drawLine(QPointF(x, top), QPointF(x, bottom))
    if not drawn.caught:
        return
    last = drawn.caught[-1]
    words = tr("stopped at {0}", figures.group(last.step))
    painter.setFont(colours.font("caption-strong", numbers=True))
    wide = painter.fontMetrics().horizontalAdvance(words) + 18
    x = frame.x(last.step)
    left = x + 8 if x + 8 + wide <= frame.right + 20 else x - 8 - wide
    box = QRectF(left, frame.loss.top(), wide, 20)
    painter.setPen(QPen(colours.color("warn-border"), 1))
    painter.setBrush(colours.color("warn-subtle"))
    painter.drawRoundedRect(box, 3, 3)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(colours.color("warn"))
    painter.drawText(box, _CENTRE, words)


def _paint_strip(painter: QPainter, frame: Frame, drawn: Drawn) -> None:
    colours, box, strip = theme.current(), frame.strip, drawn.strip
    head = QRectF(box.left(), box.top() + 4, box.width(), 0)
    if not drawn.watched:
        _title(painter, frame, head, tr("NaN guard"), tr("off"))
        return
    per = say(Words("{0} steps per dot", (strip.per,), one="1 step per dot"))
    _title(painter, frame, head, tr("NaN guard"), per)
    painter.setFont(colours.font("small"))
    painter.setPen(colours.color("text-secondary"))
    line = QRectF(frame.left, box.top() - _TITLE, box.width(), _TITLE - 4)
    painter.drawText(line, _RIGHT, tr("{0} stopped", figures.group(len(drawn.caught))))
    places = [frame.x(min(strip.per * (dot + 0.5), frame.steps)) for dot in range(strip.dots)]
    for index, row in enumerate(WATCHED):
        y = box.top() + _ROW * (index + 0.5)
        painter.setFont(colours.font("caption"))
        painter.setPen(colours.color("text-secondary"))
        painter.drawText(QRectF(0, y - 9, frame.left - 10, 18), _RIGHT, ROWS[row].text(catalogue()))
        _paint_row(painter, places, strip.done, y)
        for one in drawn.caught:
            if one.watched == row:
                _paint_mark(painter, QPointF(frame.x(one.step), y))


def _paint_row(painter: QPainter, places: Sequence[float], done: int, y: float) -> None:
    colours = theme.current()
    points = [QPointF(x, y) for x in places]
    round_cap = (Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap)
    for token, wide, dots in (("ok", 4.6, points[:done]), ("border-control", 2.0, points[done:])):
        painter.setPen(QPen(colours.color(token), wide, *round_cap))
        painter.drawPoints(dots)


def _paint_mark(painter: QPainter, at: QPointF) -> None:
    """A filled octagon with a cross."""
    colours, cut = theme.current(), _MARK * math.tan(math.pi / 8)
    corners = (
        (-_MARK, -cut),
        (-cut, -_MARK),
        (cut, -_MARK),
        (_MARK, -cut),
        (_MARK, cut),
        (cut, _MARK),
        (-cut, _MARK),
        (-_MARK, cut),
    )
    painter.setPen(QPen(colours.color("surface-raised"), 1.5))
    painter.setBrush(colours.color("danger"))
    painter.drawPolygon(QPolygonF([QPointF(at.x() + x, at.y() + y) for x, y in corners]))
    painter.setBrush(Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(colours.color("surface-raised"), 1.7, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
    for way in (1, -1):
        painter.drawLine(QPointF(at.x() - 2.4, at.y() - 2.4 * way), QPointF(at.x() + 2.4, at.y() + 2.4 * way))


def _paint_axis(painter: QPainter, frame: Frame) -> None:
    colours = theme.current()
    painter.setFont(colours.font("caption", numbers=True))
    painter.setPen(colours.color("chart.axis"))
    wide = painter.fontMetrics().horizontalAdvance(figures.group(frame.steps)) + 26
    for step in step_ticks(frame.steps, max(1, round((frame.right - frame.left) / wide / 1.2))):
        words = tr("step {0}", 0) if step == 0 else figures.group(step)
        painter.drawText(QRectF(frame.x(step) - 60, frame.axis, 120, 18), _CENTRE, words)


def paint_hover(painter: QPainter, frame: Frame, step: int, lines: Sequence[str], width: float) -> None:
    """A line at a step, and a card with its values."""
    colours = theme.current()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    x = frame.x(step)
    painter.setPen(QPen(colours.color("text-muted"), 1))
    painter.drawLine(QPointF(round(x) + 0.5, frame.loss.top()), QPointF(round(x) + 0.5, frame.strip.bottom()))
    strong, plain = colours.font("small-strong", numbers=True), colours.font("small", numbers=True)
    wide = max(QFontMetrics(strong if not index else plain).horizontalAdvance(line) for index, line in enumerate(lines)) + 20
    high = 18 * len(lines) + 12
    left = x + 12 if x + 12 + wide < width else x - 12 - wide
    box = QRectF(max(0.0, left), frame.loss.top() + 26, wide, high)
    painter.setPen(QPen(colours.color("border-strong"), 1))
    painter.setBrush(colours.color("surface-overlay"))
    painter.drawRoundedRect(box, 5, 5)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for index, line in enumerate(lines):
        painter.setFont(plain if index else strong)
        painter.setPen(colours.color("text-secondary" if index else "text"))
        painter.drawText(QRectF(box.left() + 10, box.top() + 6 + 18 * index, wide, 18), _LEFT, line)
