"""The limit in the headroom chart: its line, the dotted zones beside it, and the text where no bar is."""

from collections.abc import Iterable

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPen

from halftone.contract.vocabulary import TIGHT_BITS
from halftone.gui.charts import headroom_chart_text
from halftone.gui.charts.headroom_chart_frame import ALIGN_CENTER, PITCH, Frame, Tops, bar_top
from halftone.gui.i18n import tr
from halftone.gui.kit import figures
from halftone.gui.theme import Theme
from halftone.health.headroom import DISC, ChartData, PartBox, cure_boxes, far_limit, limit_exp


def _dots(painter: QPainter, area: QRectF, colour: QColor, radius_of: tuple[float, float], *, upward: bool) -> None:
    """A staggered screen of dots; the radius runs from the first to the second value away from the limit line."""
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(colour)
    painter.save()
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


def zones(painter: QPainter, theme: Theme, frame: Frame, data: ChartData) -> None:
    if far_limit(data.dtype):
        return
    line = frame.y(limit_exp(data.dtype))
    above = QRectF(frame.plot.left(), frame.plot.top(), frame.plot.width(), line - frame.plot.top())
    _dots(painter, above, theme.color("chart.limit", 0.36), (0.8, 2.0), upward=True)
    tight = frame.y(limit_exp(data.dtype) - TIGHT_BITS)
    below = QRectF(frame.plot.left(), line, frame.plot.width(), tight - line)
    if below.height() > 5:
        _dots(painter, below, theme.color("warn", 0.4), (0.8, 0.8), upward=False)


def limit_line(painter: QPainter, theme: Theme, frame: Frame, data: ChartData) -> None:
    """Draw the limit of the checked type; one far above the chart is only named, and FP16's is drawn for comparison."""
    if far_limit(data.dtype):
        _reference_line(painter, theme, frame)
        return
    y = frame.y(limit_exp(data.dtype))
    colour = theme.color("chart.limit")
    painter.setPen(QPen(colour, 1.5))
    painter.drawLine(QPointF(frame.plot.left(), y), QPointF(frame.plot.right(), y))
    if frame.compact:
        return
    text = headroom_chart_text.limit_text(data.dtype)
    font = theme.font("caption-strong", numbers=True)
    chip = QRectF(frame.plot.left() + 8, y - 10, QFontMetricsF(font).horizontalAdvance(text) + 26, 20)
    painter.setBrush(theme.color("surface-raised"))
    painter.setPen(QPen(colour, 1))
    painter.drawRoundedRect(chip, 5, 5)
    painter.setFont(font)
    painter.drawText(chip, ALIGN_CENTER, text)


def _reference_line(painter: QPainter, theme: Theme, frame: Frame) -> None:
    """Draw the limit of FP16 for comparison."""
    y = frame.y(limit_exp("float16"))
    pen = QPen(theme.color("chart.axis"), 1)
    pen.setDashPattern([4, 4])
    painter.setPen(pen)
    painter.drawLine(QPointF(frame.plot.left(), y), QPointF(frame.plot.right(), y))


def zone_words(painter: QPainter, theme: Theme, frame: Frame, data: ChartData, tops: Tops) -> None:
    if far_limit(data.dtype):
        _far_words(painter, theme, frame, data, tops)
        return
    chip = QFontMetricsF(theme.font("caption-strong")).horizontalAdvance(headroom_chart_text.limit_text(data.dtype)) + 46
    x = frame.plot.left() + chip
    line = frame.y(limit_exp(data.dtype))
    tight = frame.y(limit_exp(data.dtype) - TIGHT_BITS)
    if tight - line >= 14:
        words = tr("Tight: under {0} bits of headroom", 2)
        words_on(painter, theme, frame, QPointF(x, line + 3), words, theme.color("warn"), tops)
    reach = headroom_chart_text.reach_text(data.dtype)
    if reach and line - frame.plot.top() >= 34:
        words_on(painter, theme, frame, QPointF(x, frame.plot.top() + 2), reach, theme.color("text-muted"), tops)


def _far_words(painter: QPainter, theme: Theme, frame: Frame, data: ChartData, tops: Tops) -> None:
    """What the type holds, at the top, and below it where FP16 would end."""
    x, muted = frame.plot.left() + 8, theme.color("text-muted")
    reach = headroom_chart_text.reach_text(data.dtype)
    words_on(painter, theme, frame, QPointF(x, frame.plot.top() + 2), reach, muted, tops)
    line = frame.y(limit_exp("float16"))
    below = line - frame.plot.top() < 36
    here = tr("FP16 ends at {0}", figures.group(65504))
    words_on(painter, theme, frame, QPointF(x, line + 2 if below else line - 17), here, muted, tops)


def bar_tops(frame: Frame, boxes: Iterable[PartBox], *, after: bool) -> Tops:
    """What words must not cover: the bars, and the edges of the cure's boxes."""
    boxes = list(boxes)
    edges = [(x - 2, x + 2, frame.plot.top()) for span in cure_boxes(boxes) for x in span]
    bars = [(one.x, one.x + one.width, bar_top(frame, one.top, after=after)) for box in boxes for one in box.columns]
    return [*bars, *edges]


def words_on(painter: QPainter, theme: Theme, frame: Frame, at: QPointF, text: str, colour: QColor, tops: Tops) -> None:
    """Small words in front of the dots, on a patch of the card's own colour, where no bar or disc is; else left out."""
    font = theme.font("caption")
    width = QFontMetricsF(font).horizontalAdvance(text) + 12
    x = at.x()
    while x + width <= frame.plot.right():
        blocking = [
            right for left, right, top in tops if right > x - 12 and left < x + width + 12 and top - 2 * DISC - 8 < at.y() + 16
        ]
        if not blocking:
            break
        x = max(blocking) + 13
    else:
        return
    area = QRectF(x, at.y(), width, 16)
    painter.fillRect(area, theme.color("surface-raised"))
    painter.setFont(font)
    painter.setPen(colour)
    painter.drawText(area, ALIGN_CENTER, text)
