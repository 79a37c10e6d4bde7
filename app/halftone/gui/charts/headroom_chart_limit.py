"""The limit in the headroom chart: its line, the dotted zones beside it, and the text where no bar is."""

from collections.abc import Iterable

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QColor, QPainter, QPen

from halftone.contract.vocabulary import TIGHT_BITS
from halftone.gui import theme
from halftone.gui.charts import headroom_chart_text
from halftone.gui.charts.headroom_chart_frame import PITCH, Frame, Tops, bar_top
from halftone.gui.i18n import tr
from halftone.gui.kit import figures
from halftone.gui.kit.painting import CENTRE, ink, plate, stroke, width_of, write
from halftone.health.headroom import DISC, ChartData, PartBox, cure_boxes, far_limit, limit_exp


def _dots(painter: QPainter, area: QRectF, colour: QColor, radius_of: tuple[float, float], *, upward: bool) -> None:
    """A staggered screen of dots; the radius runs from the first to the second value away from the limit line."""
    painter.save()
    ink(painter, colour)
    painter.setClipRect(area)
    rows = int(area.height() / PITCH) + 1
    for row in range(rows):
        step = (row + 0.55) * PITCH
        y = area.bottom() - step if upward else area.top() + step
        radius = radius_of[0] + (radius_of[1] - radius_of[0]) * min(1.0, row / max(1, rows - 1))
        x = area.left() + 4 + (PITCH / 2 if row % 2 else 0)
        while x < area.right():
            painter.drawEllipse(QPointF(x, y), radius, radius)
            x += PITCH
    painter.restore()


def zones(painter: QPainter, frame: Frame, data: ChartData) -> None:
    if far_limit(data.dtype):
        return
    line = frame.y(limit_exp(data.dtype))
    above = QRectF(frame.plot.left(), frame.plot.top(), frame.plot.width(), line - frame.plot.top())
    _dots(painter, above, theme.current().color("chart.limit", 0.36), (0.8, 2.0), upward=True)
    tight = frame.y(limit_exp(data.dtype) - TIGHT_BITS)
    below = QRectF(frame.plot.left(), line, frame.plot.width(), tight - line)
    if below.height() > 5:
        _dots(painter, below, theme.current().color("warn", 0.4), (0.8, 0.8), upward=False)


def limit_line(painter: QPainter, frame: Frame, data: ChartData) -> None:
    """Draw the limit of the checked type; one far above the chart is only named, and FP16's is drawn for comparison."""
    if far_limit(data.dtype):
        pen, y = QPen(theme.current().color("chart.axis"), 1), frame.y(limit_exp("float16"))
        pen.setDashPattern([4, 4])
        painter.setPen(pen)
        painter.drawLine(QPointF(frame.plot.left(), y), QPointF(frame.plot.right(), y))
        return
    y = frame.y(limit_exp(data.dtype))
    stroke(painter, QPointF(frame.plot.left(), y), QPointF(frame.plot.right(), y), "chart.limit", 1.5)
    if frame.compact:
        return
    text = headroom_chart_text.limit_text(data.dtype)
    half = theme.grown(10)
    chip = QRectF(frame.plot.left() + 8, y - half, width_of(text, "caption-strong", numbers=True) + 26, 2 * half)
    plate(painter, chip, 5, "surface-raised", "chart.limit")
    write(painter, chip, text, "caption-strong", "chart.limit", CENTRE, numbers=True)


def zone_words(painter: QPainter, frame: Frame, data: ChartData, tops: Tops) -> None:
    if far_limit(data.dtype):
        _far_words(painter, frame, data, tops)
        return
    x = frame.plot.left() + width_of(headroom_chart_text.limit_text(data.dtype), "caption-strong") + 46
    line = frame.y(limit_exp(data.dtype))
    tight = frame.y(limit_exp(data.dtype) - TIGHT_BITS)
    if tight - line >= theme.grown(14):
        words = tr("Tight: under {0} bits of headroom", 2)
        words_on(painter, frame, QPointF(x, line + 3), words, "warn", tops)
    reach = headroom_chart_text.reach_text(data.dtype)
    if reach and line - frame.plot.top() >= theme.grown(34):
        words_on(painter, frame, QPointF(x, frame.plot.top() + 2), reach, "text-muted", tops)


def _far_words(painter: QPainter, frame: Frame, data: ChartData, tops: Tops) -> None:
    """What the type holds, at the top, and below it where FP16 would end."""
    x = frame.plot.left() + 8
    reach = headroom_chart_text.reach_text(data.dtype)
    words_on(painter, frame, QPointF(x, frame.plot.top() + 2), reach, "text-muted", tops)
    line = frame.y(limit_exp("float16"))
    below = line - frame.plot.top() < theme.grown(36)
    here = tr("FP16 ends at {0}", figures.group(65504))
    words_on(painter, frame, QPointF(x, line + 2 if below else line - theme.grown(17)), here, "text-muted", tops)


def bar_tops(frame: Frame, boxes: Iterable[PartBox], *, after: bool) -> Tops:
    """What words must not cover: the bars, and the edges of the cure's boxes."""
    boxes = list(boxes)
    edges = [(x - 2, x + 2, frame.plot.top()) for span in cure_boxes(boxes) for x in span]
    bars = [(one.x, one.x + one.width, bar_top(frame, one.top, after=after)) for box in boxes for one in box.columns]
    return [*bars, *edges]


def words_on(painter: QPainter, frame: Frame, at: QPointF, text: str, tone: str, tops: Tops) -> None:
    """Small words in front of the dots, on a patch of the card's own colour, where no bar or disc is; else left out."""
    width = width_of(text, "caption") + 12
    x = at.x()
    while x + width <= frame.plot.right():
        blocking = [
            right
            for left, right, top in tops
            if right > x - 12 and left < x + width + 12 and top - 2 * DISC - 8 < at.y() + theme.grown(16)
        ]
        if not blocking:
            break
        x = max(blocking) + 13
    else:
        return
    area = QRectF(x, at.y(), width, theme.grown(16))
    painter.fillRect(area, theme.current().color("surface-raised"))
    write(painter, area, text, "caption", tone, CENTRE)
