"""The printing-dot motif, always with a job: headroom, steps done, peaks so far, the empty canvas."""

import math
from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, QSizeF, Qt
from PySide6.QtGui import QColor, QPainter, QPaintEvent, QPen, QPixmap
from PySide6.QtWidgets import QSizePolicy, QWidget

from halftone.contract.vocabulary import TIGHT_BITS
from halftone.gui import theme


def room_tone(bits: float | None) -> str:
    """The tone of this headroom: ok, warn or danger."""
    if bits is None:
        return "unknown"
    return "danger" if bits < 0 else "warn" if bits < TIGHT_BITS else "ok"


class RoomGauge(QWidget):
    """Six dots, one per bit of headroom, small to large. Always put the number beside it."""

    def __init__(self, bits: float | None = None) -> None:
        super().__init__()
        self._bits = bits
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        theme.watcher().changed.connect(self.update)

    def set_bits(self, bits: float | None) -> None:
        self._bits = bits
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(64, 12)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        ink = theme.current().color(room_tone(self._bits))
        ring = theme.current().color("text-muted")
        filled = 0.0 if self._bits is None else max(0.0, self._bits)
        for index in range(6):
            radius = 1.5 + index * (4.1 - 1.5) / 5
            centre = QPointF(4 + index * 10.4, self.height() / 2)
            share = min(1.0, max(0.0, filled - index))
            if share >= 0.5:
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(ink)
                painter.drawEllipse(centre, radius, radius)
            else:
                painter.setPen(QPen(ring, 1))
                painter.setBrush(Qt.BrushStyle.NoBrush)
                painter.drawEllipse(centre, radius - 0.5, radius - 0.5)
        painter.end()


class StepDots(QWidget):
    """One dot per step, growing towards the present one, which is ringed. More steps than fit share dots."""

    def __init__(self) -> None:
        super().__init__()
        self._done = 0
        self._total = 0
        self.setFixedHeight(18)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.watcher().changed.connect(self.update)

    def set_steps(self, done: int, total: int) -> None:
        """done of total denoising steps."""
        if (done, total) != (self._done, self._total):
            self._done, self._total = done, total
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._total <= 0:
            return
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        colours = theme.current()
        count = max(1, min(self._total, int((self.width() - 12) // 8)))
        pitch = (self.width() - 14) / max(1, count - 1) if count > 1 else 0
        present = round(self._done / self._total * count) - 1
        for index in range(count):
            centre = QPointF(7 + index * pitch, self.height() / 2)
            painter.setPen(Qt.PenStyle.NoPen)
            if index < present:
                radius = 1.7 + 2.5 * index / max(1, count - 1) * min(1.0, count / max(1, present))
                painter.setBrush(colours.color("accent"))
                painter.drawEllipse(centre, radius, radius)
            elif index == present:
                painter.setBrush(colours.color("accent"))
                painter.setPen(QPen(colours.color("text"), 1.5))
                painter.drawEllipse(centre, 4.6, 4.6)
            else:
                painter.setBrush(colours.color("border-control"))
                painter.drawEllipse(centre, 1.5, 1.5)
        painter.end()


def paint_danger_dots(painter: QPainter, area: QRectF, colour: QColor) -> None:
    """The zone above a limit: dots that grow away from the limit line (the lower edge of the area), like a printing screen."""
    pitch = 6.0
    rows = max(1, math.floor(area.height() / pitch * 2) - 1)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    tint = QColor(colour)
    tint.setAlphaF(0.55)
    painter.setBrush(tint)
    for line in range(rows):
        y = area.bottom() - 3 - line * pitch / 2
        radius = 0.7 + 0.5 * line / max(1, rows - 1)
        x = area.left() + (pitch / 2 if line % 2 else 0) + 2
        while x < area.right() - 1:
            painter.drawEllipse(QPointF(x, y), radius, radius)
            x += pitch
    painter.restore()


class PeakStrip(QWidget):
    """Peak per step against the limit, on a log scale; dotted zone above the limit line, small dots for steps to come."""

    def __init__(self) -> None:
        super().__init__()
        self._peaks: tuple[float | None, ...] = ()
        self._total = 0
        self._limit = 65504.0
        self.setMinimumHeight(44)
        theme.watcher().changed.connect(self.update)

    def set_peaks(self, peaks: Sequence[float | None], total: int, limit: float) -> None:
        """Largest absolute value after each step so far, None where it was not read."""
        if (tuple(peaks), total, limit) != (self._peaks, self._total, self._limit):
            self._peaks, self._total, self._limit = tuple(peaks), total, limit
            self.update()

    @property
    def zone_tone(self) -> str:
        """Colour token of the zone above the limit: it warns only of what was measured."""
        return "chart.limit" if any(peak is not None for peak in self._peaks) else "border-control"

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        colours = theme.current()
        line = 16.0
        zone = colours.color(self.zone_tone)
        paint_danger_dots(painter, QRectF(0, 0, self.width(), line - 1), zone)
        painter.setPen(QPen(zone, 1.5))
        painter.drawLine(QPointF(0, line), QPointF(self.width(), line))
        count = max(self._total, len(self._peaks), 1)
        pitch = self.width() / count
        for index in range(count):
            self._paint_step(painter, index, pitch, line)
        painter.end()

    def _paint_step(self, painter: QPainter, index: int, pitch: float, line: float) -> None:
        colours = theme.current()
        x = index * pitch
        floor = self.height() - 2.0
        peak = self._peaks[index] if index < len(self._peaks) else None
        if index >= len(self._peaks) or peak is None:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(colours.color("border-control"))
            painter.drawEllipse(QPointF(x + pitch / 2, floor - 1.5), 1.2, 1.2)
            return
        bad = not math.isfinite(peak) or peak > self._limit
        room = 0.0 if bad else min(14.0, math.log2(self._limit / max(peak, 1e-6)))
        top = line + 3 + room / 14.0 * (floor - line - 7)
        ink = colours.color("chart.limit" if bad else "chart.series-1")
        width = max(1.5, min(8.0, pitch * 0.6))
        bar = QRectF(x + (pitch - width) / 2, top if not bad else 2, width, floor - (top if not bad else 2))
        fill = QColor(ink)
        fill.setAlphaF(0.45)
        painter.fillRect(bar, fill)
        painter.fillRect(QRectF(bar.left(), bar.top(), bar.width(), 2), ink)


class DotField(QWidget):
    """The empty canvas: a screen of dots that fades towards the middle, where the words stand."""

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        theme.watcher().changed.connect(self.update)

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), theme.current().color("canvas"))
        paint_dot_field(painter, QRectF(self.rect()))
        painter.end()


def paint_dot_field(painter: QPainter, area: QRectF) -> None:
    """Dots on a staggered screen of 15, up to 3.6 in the corners and nothing in the middle, where the words stand.

    One quarter is drawn and mirrored: a dot costs as much as the loop around it, and the first paint is waited for.
    """
    ratio = painter.device().devicePixelRatio()
    quarter = _dot_quarter(QSizeF(area.width() / 2, area.height() / 2), ratio)
    centre = area.center().toPoint()
    for across, down in ((1, 1), (-1, 1), (1, -1), (-1, -1)):
        painter.save()
        painter.translate(centre)
        painter.scale(across, down)
        painter.drawPixmap(0, 0, quarter)
        painter.restore()


def _dot_quarter(size: QSizeF, ratio: float) -> QPixmap:
    """The lower right quarter of the field of dots, its origin in the middle of the field. ratio: device pixels per pixel."""
    image = QPixmap(math.ceil(size.width() * ratio), math.ceil(size.height() * ratio))
    image.setDevicePixelRatio(ratio)
    image.fill(Qt.GlobalColor.transparent)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(theme.current().color("text-muted", 0.085))
    reach = math.hypot(size.width(), size.height())
    pitch = 15.0
    for line in range(int(size.height() / pitch) + 2):
        y = line * pitch
        x = pitch / 2 if line % 2 else 0.0
        while x <= size.width() + pitch:
            radius = min(3.6, 5.2 * max(0.0, math.hypot(x, y * 1.15) / reach - 0.16))
            if radius > 0.3:
                painter.drawEllipse(QPointF(x, y), radius, radius)
            x += pitch
    painter.end()
    return image
