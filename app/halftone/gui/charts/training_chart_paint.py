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
from halftone.gui.kit.painting import CENTRE, RIGHT, dot, ink, plate, stroke, width_of, write
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
    line = QRectF(0, box.top() - _TITLE - 4, frame.right, _TITLE - 4)
    x = round(write(painter, line, words, "body-strong")) + 12
    return x + round(write(painter, line.adjusted(x, 1, 0, 1), note, "caption", "text-muted"))


def _tick(painter: QPainter, frame: Frame, y: float, words: str) -> None:
    stroke(painter, QPointF(frame.left, round(y) + 0.5), QPointF(frame.right, round(y) + 0.5), "chart.grid")
    write(painter, QRectF(0, y - 10, frame.left - 10, 20), words, "caption", "chart.axis", RIGHT, numbers=True)


def _paint_loss(painter: QPainter, frame: Frame, drawn: Drawn) -> None:
    colours, box = theme.current(), frame.loss
    x = _title(painter, frame, box, tr("Loss"))
    for words, token, width in ((tr("one step"), "chart.train-raw", 1.0), (tr("smoothed"), "chart.series-1", 2.0)):
        line = QRectF(x, box.top() - _TITLE - 3, 200, _TITLE - 4)
        x += round(write(painter, line, words, "caption", "text-muted")) + 8
        stroke(painter, QPointF(x, line.center().y()), QPointF(x + 18, line.center().y()), token, width)
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
    at, words = QPointF(frame.x(last.step), frame.loss_y(last.last)), loss_text(last.last)
    dot(painter, at, 4, "chart.series-1", "surface-raised", 1.5)
    wide = round(width_of(words, "body-strong", numbers=True))
    fits = at.x() + 10 + wide < frame.right + 20
    box = QRectF(at.x() + 10, at.y() - 10, wide, 20) if fits else QRectF(at.x() - wide - 8, at.y() - 26, wide, 20)
    write(painter, box, words, "body-strong", numbers=True)


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
        words = tr("clipped above {0}", figures.decimal(drawn.clip, 1 if drawn.clip >= 0.1 else 3))
        write(painter, QRectF(frame.left, y - 20, box.width(), 18), words, "caption", "text-secondary", RIGHT)


def power_words(power: int) -> str:
    """10 to this power, as an axis has it."""
    return number(10.0**power) if -4 < power < 6 else figures.power(power, 10)


def _paint_events(painter: QPainter, frame: Frame, drawn: Drawn) -> None:
    """A line through all panels at each bad number; the newest has its label."""
    painter.setPen(QPen(theme.current().color("warn"), 1.2, Qt.PenStyle.DotLine))
    spans = [(frame.loss.top(), frame.strip.bottom())]
    parts = [(box.top(), box.bottom()) for box in (frame.loss, frame.norm, frame.strip)]
    for x in sorted({round(frame.x(one.step)) for one in drawn.caught}):
        for top, bottom in spans if x > _TITLES else parts:  # not through the titles between the panels
            painter.drawLine(QPointF(x, top), QPointF(x, bottom))
    if not drawn.caught:
        return
    last = drawn.caught[-1]
    words = tr("stopped at {0}", figures.group(last.step))
    wide = round(width_of(words, "caption-strong", numbers=True)) + 18
    x = frame.x(last.step)
    left = x + 8 if x + 8 + wide <= frame.right + 20 else x - 8 - wide
    box = QRectF(left, frame.loss.top(), wide, 20)
    plate(painter, box, 3, "warn-subtle", "warn-border")
    write(painter, box, words, "caption-strong", "warn", CENTRE, numbers=True)


def _paint_strip(painter: QPainter, frame: Frame, drawn: Drawn) -> None:
    box, strip = frame.strip, drawn.strip
    head = QRectF(box.left(), box.top() + 4, box.width(), 0)
    if not drawn.watched:
        _title(painter, frame, head, tr("NaN guard"), tr("off"))
        return
    per = say(Words("{0} steps per dot", (strip.per,), one="1 step per dot"))
    _title(painter, frame, head, tr("NaN guard"), per)
    line = QRectF(frame.left, box.top() - _TITLE, box.width(), _TITLE - 4)
    write(painter, line, tr("{0} stopped", figures.group(len(drawn.caught))), "small", "text-secondary", RIGHT)
    places = [frame.x(min(strip.per * (dot + 0.5), frame.steps)) for dot in range(strip.dots)]
    for index, row in enumerate(WATCHED):
        y = box.top() + _ROW * (index + 0.5)
        beside = QRectF(0, y - 9, frame.left - 10, 18)
        write(painter, beside, ROWS[row].text(catalogue()), "caption", "text-secondary", RIGHT)
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
    reach, turns = _MARK / math.cos(math.pi / 8), [math.pi / 8 * (2 * corner + 9) for corner in range(8)]
    ink(painter, "danger", "surface-raised", 1.5)
    painter.drawPolygon(QPolygonF([at + QPointF(math.cos(turn), math.sin(turn)) * reach for turn in turns]))
    edge = theme.current().color("surface-raised")
    painter.setPen(QPen(edge, 1.7, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
    for way in (1, -1):
        painter.drawLine(QPointF(at.x() - 2.4, at.y() - 2.4 * way), QPointF(at.x() + 2.4, at.y() + 2.4 * way))


def _paint_axis(painter: QPainter, frame: Frame) -> None:
    wide = round(width_of(figures.group(frame.steps), "caption", numbers=True)) + 26
    for step in step_ticks(frame.steps, max(1, round((frame.right - frame.left) / wide / 1.2))):
        words = tr("step {0}", 0) if step == 0 else figures.group(step)
        box = QRectF(frame.x(step) - 60, frame.axis, 120, 18)
        write(painter, box, words, "caption", "chart.axis", CENTRE, numbers=True)


def paint_hover(painter: QPainter, frame: Frame, step: int, lines: Sequence[str], width: float) -> None:
    """A line at a step, and a card with its values."""
    x, roles = frame.x(step), ("small-strong", *("small" for _ in lines[1:]))
    stroke(painter, QPointF(round(x) + 0.5, frame.loss.top()), QPointF(round(x) + 0.5, frame.strip.bottom()), "text-muted")
    wide = max(round(width_of(line, role, numbers=True)) for line, role in zip(lines, roles, strict=True)) + 20
    high = 18 * len(lines) + 12
    left = x + 12 if x + 12 + wide < width else x - 12 - wide
    box = QRectF(max(0.0, left), frame.loss.top() + 26, wide, high)
    plate(painter, box, 5, "surface-overlay", "border-strong")
    for index, (line, role) in enumerate(zip(lines, roles, strict=True)):
        place = QRectF(box.left() + 10, box.top() + 6 + 18 * index, wide, 18)
        write(painter, place, line, role, "text-secondary" if index else "text", numbers=True)
