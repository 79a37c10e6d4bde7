"""Paints the headroom chart: dotted zones, bars, limit line, discs, cure box and component lines. No widget state in here."""

from collections.abc import Iterable
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QFontMetricsF, QPainter, QPen

from halftone.contract.vocabulary import DType
from halftone.gui import theme
from halftone.gui.charts import headroom_chart_text
from halftone.gui.charts.headroom_chart_frame import PITCH, Frame, bar_top
from halftone.gui.charts.headroom_chart_limit import bar_tops, limit_line, words_on, zone_words, zones
from halftone.gui.i18n import tr
from halftone.gui.kit import figures
from halftone.gui.kit.painting import CENTRE, END, RIGHT, START, dot, ink, plate, stroke, width_of, write
from halftone.health.headroom import (
    DISC,
    ChartData,
    Column,
    Layer,
    Mark,
    PartBox,
    cure_boxes,
    free_place,
    room_state,
    ticks,
)


def paint_base(painter: QPainter, frame: Frame, data: ChartData, boxes: Iterable[PartBox], *, after: bool, share: float) -> None:
    """Everything but selection and hover. share: part of the width that is measured (1.0 unless a check is running)."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    boxes = list(boxes)
    _grid(painter, frame)
    zones(painter, frame, data)
    _bars(painter, frame, data, boxes, after=after)
    if share < 1.0:
        _waiting(painter, frame, share)
    limit_line(painter, frame, data)
    if not frame.compact:
        zone_words(painter, frame, data, bar_tops(frame, boxes, after=after))
    if not data.parts:
        words_on(painter, frame, frame.plot.center() - QPointF(60, 8), tr("Not measured yet"), "text-muted", [])
    _part_lines(painter, frame, boxes, data.dtype if share >= 1.0 else None)


def _grid(painter: QPainter, frame: Frame) -> None:
    font, small = (theme.current().font("caption", numbers=True) for _ in range(2))
    small.setPixelSize(theme.grown(8))
    for exponent in ticks(frame.low, frame.high, 4 if frame.compact else 7):
        y = round(frame.y(exponent)) + 0.5
        stroke(painter, QPointF(frame.plot.left(), y), QPointF(frame.plot.right(), y), "chart.grid")
        painter.setPen(theme.current().color("chart.axis"))
        raised = str(exponent).replace("-", figures.MINUS)
        painter.setFont(small)
        width = QFontMetricsF(small).horizontalAdvance(raised)
        right = frame.plot.left() - 9
        painter.drawText(QPointF(right - width, y), raised)
        painter.setFont(font)
        painter.drawText(QPointF(right - width - QFontMetricsF(font).horizontalAdvance("2") - 0.5, y + theme.grown(4)), "2")


def _bars(painter: QPainter, frame: Frame, data: ChartData, boxes: Iterable[PartBox], *, after: bool) -> None:
    painter.setPen(Qt.PenStyle.NoPen)
    for box in boxes:
        for column in box.columns:
            if column.x + column.width < frame.plot.left() or column.x > frame.plot.right():
                continue
            _bar(painter, frame, data, box, column, after=after)


def _bar(painter: QPainter, frame: Frame, data: ChartData, box: PartBox, column: Column, *, after: bool) -> None:
    state = headroom_chart_text.state_of(column.top, data.dtype, after=after)
    gap = min(6.0, max(1.0, column.width * 0.2))
    left, right = max(column.x, frame.plot.left()), min(column.x + column.width - gap, frame.plot.right())
    if right <= left:
        return
    top = bar_top(frame, column.top, after=after)
    colours, tone = theme.current(), {"over": "chart.limit", "tight": "warn"}.get(state, box.part.series)
    fill = colours.color(tone, 0.5 if state == "over" else 0.34)
    painter.fillRect(QRectF(left, top, right - left, frame.plot.bottom() - top), fill)
    cap = "chart.after-cure" if after and column.top.changed else tone
    painter.fillRect(QRectF(left, top, right - left, 2), colours.color(cap))


def _waiting(painter: QPainter, frame: Frame, share: float) -> None:
    """What is not measured yet: a quiet row of dots on the ground line."""
    ink(painter, theme.current().color("text-muted", 0.55))
    x = frame.plot.left() + frame.plot.width() * share + PITCH / 2
    while x < frame.plot.right():
        painter.drawEllipse(QPointF(x, frame.plot.bottom() - 3), 1.2, 1.2)
        x += PITCH


def _part_lines(painter: QPainter, frame: Frame, boxes: list[PartBox], dtype: DType | None) -> None:
    """dtype: the one whose limit is drawn; None while layers are to come."""
    y = frame.plot.bottom() + (4 if frame.compact else 7)
    shown = [(box, max(box.x, frame.plot.left()), min(box.x + box.width - 1, frame.plot.right())) for box in boxes]
    shown = [(box, left, right) for box, left, right in shown if right - left >= 2]
    for box, left, right in shown:
        pen = QPen(theme.current().color(box.part.series), 2 if frame.compact else 3)
        pen.setCapStyle(Qt.PenCapStyle.FlatCap)
        painter.setPen(pen)
        painter.drawLine(QPointF(left, y), QPointF(right, y))
        _part_name(painter, frame, box, left, right, y)
        if not frame.compact:
            words = "" if dtype is None else headroom_chart_text.cure_label(box.part, dtype)
            _part_count(painter, box, left, right, y, words)


def _part_name(painter: QPainter, frame: Frame, box: PartBox, left: float, right: float, y: float) -> None:
    metrics = QFontMetricsF(theme.current().font("caption"))
    name = tr(box.part.name)
    label = name if metrics.horizontalAdvance(name) <= right - left else tr(box.part.short)
    if metrics.horizontalAdvance(label) > right - left + 8:
        label = metrics.elidedText(label, END, right - left)
    if frame.compact:
        write(painter, QRectF(left, y + 1, right - left, theme.grown(16)), label, "caption", "text-secondary", CENTRE)
    else:
        write(painter, QRectF(left, y + 4, right - left + 8, theme.grown(15)), label, "caption", "text-secondary")


def _part_count(painter: QPainter, box: PartBox, left: float, right: float, y: float, cure_text: str) -> None:
    """Layer count below the name, and on the right of the same line what the cure does here, as far as they fit."""
    count = headroom_chart_text.part_count(len(box.part.layers))
    wide, cured = width_of(count, "caption"), width_of(cure_text, "caption") + 2
    if cure_text and cured <= right - left + 8:
        place = QRectF(right - cured, y + theme.grown(18), cured, theme.grown(15))
        write(painter, place, cure_text, "caption", "text-secondary", RIGHT)
        wide += cured + 12
    if wide <= right - left + 8:
        write(painter, QRectF(left, y + theme.grown(18), right - left + 8, theme.grown(15)), count, "caption", "text-muted")


def paint_cure(painter: QPainter, frame: Frame, boxes: Iterable[PartBox]) -> None:
    """Dashed outline around what the cure changes."""
    pen = QPen(theme.current().color("text-secondary"), 1)
    pen.setDashPattern([3, 3])
    painter.setPen(pen)
    painter.setBrush(Qt.BrushStyle.NoBrush)
    for start, end in cure_boxes(boxes):
        left, right = max(start, frame.plot.left()), min(end, frame.plot.right())
        if right - left > 1:
            painter.drawRect(QRectF(round(left) - 1.5, frame.plot.top() - 0.5, right - left + 2, frame.plot.height() + 1))


@dataclass(frozen=True, slots=True)
class Disc:
    """small: the number does not fit; the disc only shows where the finding is."""

    number: int
    x: float
    y: float
    tone: str
    small: bool = False


def place_discs(frame: Frame, data: ChartData, boxes: Iterable[PartBox], *, after: bool) -> list[Disc]:
    """A disc above the bar of each finding; discs that would touch move up, then sideways."""
    columns = {layer.index: column for box in boxes for column in box.columns for layer in column.members}
    layers = {layer.index: layer for layer in data.layers}
    placed: list[Disc] = []
    for mark in data.marks:
        column = columns.get(mark.layer)
        if column is None or not frame.plot.left() - 1 <= column.x + column.width / 2 <= frame.plot.right() + 1:
            continue
        x = min(max(column.x + column.width / 2, frame.plot.left() + DISC), frame.plot.right() - DISC)
        y = max(bar_top(frame, layers[mark.layer], after=after) - DISC - 6, frame.plot.top() + DISC)
        occupied = [(other.x, other.y) for other in placed if not other.small]
        spot = free_place(x, y, occupied, frame.plot.right(), frame.plot.top())
        placed.append(Disc(mark.number, *(spot or (x, y + DISC)), _disc_tone(mark, layers[mark.layer], after), spot is None))
    return placed


def _disc_tone(mark: Mark, layer: Layer, after: bool) -> str:
    """Return the colour of a finding's disc; where the cure took effect, the disc only marks the place."""
    healed = layer.changed or not mark.tight  # a block is healed by the layers in it, and is not changed itself
    if after and healed and room_state(layer.exp_after, layer.dtype_after) != "over":
        return "unknown"
    return "warn" if mark.tight else "chart.limit"


def paint_discs(painter: QPainter, discs: Iterable[Disc], selected: int | None, hovered: int | None) -> None:
    for disc in sorted(discs, key=lambda one: (not one.small, one.number == selected)):
        centre = QPointF(disc.x, disc.y)
        if disc.small and disc.number not in (selected, hovered):
            dot(painter, centre, 3.5, disc.tone, "surface-raised")
            continue
        if disc.number in (selected, hovered):
            dot(painter, centre, DISC + 2.25, "", "text" if disc.number == selected else "text-muted", 1.5)
        dot(painter, centre, DISC + 0.5, disc.tone, "surface-raised")
        box = QRectF(disc.x - 12, disc.y - 12, 24, 24)
        write(painter, box, str(disc.number), "caption-strong", "surface-raised", CENTRE, numbers=True)


def paint_hover(painter: QPainter, frame: Frame, column: Column, lines: tuple[str, ...], *, after: bool) -> None:
    """Highlights a column and shows its name, peak and headroom beside it."""
    band = QRectF(column.x - 0.5, frame.plot.top(), max(3.0, column.width), frame.plot.height())
    painter.fillRect(band.intersected(frame.plot), theme.current().color("text", 0.09))
    wide = (width_of(lines[0], "small-strong"), *(width_of(line, "caption", numbers=True) for line in lines[1:]))
    width = min(max(wide) + 20, frame.plot.width())
    line_height = theme.grown(16)
    height = 15.0 + line_height * len(lines)
    x = column.x + column.width + 10
    if x + width > frame.plot.right():
        x = max(frame.plot.left(), column.x - width - 10)
    y = min(max(bar_top(frame, column.top, after=after) + 4, frame.plot.top() + 4), frame.plot.bottom() - height - 4)
    plate(painter, QRectF(x, y, width, height), 5, "surface-overlay", "border-strong")
    for index, line in enumerate(lines):
        role, tone = ("caption", "text-secondary") if index else ("small-strong", "text")
        place = QRectF(x + 10, y + 7 + index * line_height, width - 18, line_height)
        write(painter, place, line, role, tone, numbers=index > 0, cut=START)
