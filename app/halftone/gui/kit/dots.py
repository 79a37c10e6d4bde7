"""The printing-dot motif, always with a job: headroom, steps done, peaks so far, the empty canvas."""

import math
from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, QSizeF
from PySide6.QtGui import QPainter, QPaintEvent, QPixmap
from PySide6.QtWidgets import QSizePolicy, QWidget

from halftone.contract.vocabulary import TIGHT_BITS
from halftone.gui import theme
from halftone.gui.kit.painting import Painted, blank, dot, ink, stroke


def room_tone(bits: float | None) -> str:
    """The tone of this headroom: ok, warn or danger."""
    if bits is None:
        return "unknown"
    return "danger" if bits < 0 else "warn" if bits < TIGHT_BITS else "ok"


class RoomGauge(Painted):
    """Six dots, one per bit of headroom, small to large. Always put the number beside it."""

    def __init__(self) -> None:
        super().__init__()
        self._bits: float | None = None
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def set_bits(self, bits: float | None) -> None:
        self._bits = bits
        self.update()

    def sizeHint(self) -> QSize:
        return QSize(64, 12)

    def draw(self, painter: QPainter) -> None:
        tone = room_tone(self._bits)
        filled = 0.0 if self._bits is None else max(0.0, self._bits)
        for index in range(6):
            radius = 1.5 + index * (4.1 - 1.5) / 5
            centre = QPointF(4 + index * 10.4, self.height() / 2)
            if filled - index >= 0.5:
                dot(painter, centre, radius, tone)
            else:
                dot(painter, centre, radius - 0.5, edge="text-muted")


class StepDots(Painted):
    """One dot per step, growing towards the present one, which is ringed. More steps than fit share dots."""

    def __init__(self) -> None:
        super().__init__()
        self._done = 0
        self._total = 0
        self.setFixedHeight(theme.grown(18))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def set_steps(self, done: int, total: int) -> None:
        """done of total denoising steps."""
        if (done, total) != (self._done, self._total):
            self._done, self._total = done, total
            self.update()

    def draw(self, painter: QPainter) -> None:
        if self._total <= 0:
            return
        count = max(1, min(self._total, int((self.width() - 12) // 8)))
        pitch = (self.width() - 14) / max(1, count - 1) if count > 1 else 0
        present = round(self._done / self._total * count) - 1
        for index in range(count):
            centre = QPointF(7 + index * pitch, self.height() / 2)
            if index < present:
                dot(painter, centre, 1.7 + 2.5 * index / max(1, count - 1) * min(1.0, count / max(1, present)), "accent")
            elif index == present:
                dot(painter, centre, 4.6, "accent", "text", 1.5)
            else:
                dot(painter, centre, 1.5, "border-control")


def _paint_danger_dots(painter: QPainter, area: QRectF, tone: str) -> None:
    """The zone above a limit: dots that grow away from the limit line (the lower edge of the area), like a printing screen."""
    pitch = 6.0
    rows = max(1, math.floor(area.height() / pitch * 2) - 1)
    ink(painter, theme.current().color(tone, 0.55))
    for line in range(rows):
        y = area.bottom() - 3 - line * pitch / 2
        radius = 0.7 + 0.5 * line / max(1, rows - 1)
        x = area.left() + (pitch / 2 if line % 2 else 0) + 2
        while x < area.right() - 1:
            painter.drawEllipse(QPointF(x, y), radius, radius)
            x += pitch


class PeakStrip(Painted):
    """Peak per step against the limit, on a log scale; dotted zone above the limit line, small dots for steps to come."""

    def __init__(self) -> None:
        super().__init__()
        self._peaks: tuple[float | None, ...] = ()
        self._total = 0
        self._limit = 65504.0
        self.setMinimumHeight(theme.grown(44))

    def set_peaks(self, peaks: Sequence[float | None], total: int, limit: float) -> None:
        """Largest absolute value after each step so far, None where it was not read."""
        if (tuple(peaks), total, limit) != (self._peaks, self._total, self._limit):
            self._peaks, self._total, self._limit = tuple(peaks), total, limit
            self.update()

    @property
    def zone_tone(self) -> str:
        """Colour token of the zone above the limit: it warns only of what was measured."""
        return "chart.limit" if any(peak is not None for peak in self._peaks) else "border-control"

    def draw(self, painter: QPainter) -> None:
        limit = 16.0
        _paint_danger_dots(painter, QRectF(0, 0, self.width(), limit - 1), self.zone_tone)
        stroke(painter, QPointF(0, limit), QPointF(self.width(), limit), self.zone_tone, 1.5)
        count = max(self._total, len(self._peaks), 1)
        for index in range(count):
            self._paint_step(painter, index, self.width() / count, limit)

    def _paint_step(self, painter: QPainter, index: int, pitch: float, limit: float) -> None:
        x = index * pitch
        floor = self.height() - 2.0
        peak = self._peaks[index] if index < len(self._peaks) else None
        if peak is None:
            dot(painter, QPointF(x + pitch / 2, floor - 1.5), 1.2, "border-control")
            return
        bad = not math.isfinite(peak) or peak > self._limit
        room = 0.0 if bad else min(14.0, math.log2(self._limit / max(peak, 1e-6)))
        top = 2 if bad else limit + 3 + room / 14.0 * (floor - limit - 7)
        tone = "chart.limit" if bad else "chart.series-1"
        width = max(1.5, min(8.0, pitch * 0.6))
        bar = QRectF(x + (pitch - width) / 2, top, width, floor - top)
        painter.fillRect(bar, theme.current().color(tone, 0.45))
        painter.fillRect(QRectF(bar.left(), bar.top(), bar.width(), 2), theme.current().color(tone))


class DotField(QWidget):
    """A screen of dots that fades towards the middle, where the words of the widgets on it stand.

    Staggered by 15, up to 3.6 in the corners. One quarter is drawn and mirrored: a dot costs as much as the loop around it, and
    the first paint is waited for.
    """

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), theme.current().color("canvas"))
        quarter = _dot_quarter(QSizeF(self.width() / 2, self.height() / 2), self.devicePixelRatioF())
        centre = QRectF(self.rect()).center().toPoint()
        for across, down in ((1, 1), (-1, 1), (1, -1), (-1, -1)):
            painter.resetTransform()
            painter.translate(centre)
            painter.scale(across, down)
            painter.drawPixmap(0, 0, quarter)
        painter.end()


def _dot_quarter(size: QSizeF, ratio: float) -> QPixmap:
    """The lower right quarter of the field of dots, its origin in the middle of the field. ratio: device pixels per pixel."""
    image = blank(size, ratio)
    painter = QPainter(image)
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    ink(painter, theme.current().color("text-muted", 0.085))
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
