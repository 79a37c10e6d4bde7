"""What widgets that paint themselves share: a painter at hand, and words, dots and plates in the colours of the theme."""

import math
from collections.abc import Callable
from typing import Final

from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt
from PySide6.QtGui import QColor, QFontMetricsF, QPainter, QPaintEvent, QPen, QPixmap
from PySide6.QtWidgets import QWidget

from halftone.gui import theme

LEFT: Final = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
RIGHT: Final = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
CENTRE: Final = int(Qt.AlignmentFlag.AlignCenter)
END: Final = Qt.TextElideMode.ElideRight
START: Final = Qt.TextElideMode.ElideLeft
Colour = str | QColor
"""A token of the theme, "" for none, or a colour."""


def colour_of(colour: Colour) -> QColor:
    return theme.current().color(colour) if isinstance(colour, str) else colour


def paint_on(widget: QWidget, draw: Callable[[QPainter], object]) -> None:
    """Call `draw` with a painter that smooths edges."""
    painter = QPainter(widget)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    draw(painter)
    painter.end()


class Painted(QWidget):
    """A widget that paints itself in `draw`."""

    def paintEvent(self, event: QPaintEvent) -> None:
        paint_on(self, self.draw)

    def draw(self, painter: QPainter) -> None:
        raise NotImplementedError


def blank(size: QSizeF, ratio: float) -> QPixmap:
    """A pixmap to paint on, with nothing in it. ratio: device pixels per pixel."""
    image = QPixmap(math.ceil(size.width() * ratio), math.ceil(size.height() * ratio))
    image.setDevicePixelRatio(ratio)
    image.fill(Qt.GlobalColor.transparent)
    return image


def ink(painter: QPainter, ground: Colour = "", edge: Colour = "", width: float = 1.0) -> None:
    """Fill with one colour and outline with another."""
    painter.setBrush(colour_of(ground) if ground else Qt.BrushStyle.NoBrush)
    painter.setPen(QPen(colour_of(edge), width) if edge else Qt.PenStyle.NoPen)


def dot(painter: QPainter, at: QPointF, radius: float, ground: Colour = "", edge: Colour = "", width: float = 1.0) -> None:
    ink(painter, ground, edge, width)
    painter.drawEllipse(at, radius, radius)


def plate(painter: QPainter, box: QRectF, radius: float, ground: Colour = "", edge: Colour = "", width: float = 1.0) -> None:
    """A rectangle with round corners."""
    ink(painter, ground, edge, width)
    painter.drawRoundedRect(box, radius, radius)


def stroke(painter: QPainter, start: QPointF, end: QPointF, colour: Colour, width: float = 1.0) -> None:
    painter.setPen(QPen(colour_of(colour), width))
    painter.drawLine(start, end)


def write(
    painter: QPainter,
    box: QRectF,
    words: str,
    role: str,
    colour: Colour = "text",
    flags: int = LEFT,
    *,
    numbers: bool = False,
    cut: Qt.TextElideMode = Qt.TextElideMode.ElideNone,
) -> float:
    """Write in a type role and return the width of the words. numbers: figures of equal width; cut: where words too long end."""
    painter.setFont(theme.current().font(role, numbers=numbers))
    painter.setPen(colour_of(colour))
    metrics = QFontMetricsF(painter.font())
    shown = metrics.elidedText(words, cut, box.width())
    painter.drawText(box, flags, shown)
    return metrics.horizontalAdvance(shown)


def width_of(words: str, role: str, *, numbers: bool = False) -> float:
    return QFontMetricsF(theme.current().font(role, numbers=numbers)).horizontalAdvance(words)
