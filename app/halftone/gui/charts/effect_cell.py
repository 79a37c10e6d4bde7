"""What one setting does on this device: time as a bar around a zero line, and eight dots for the closeness to FP32."""

import math
from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, QSize
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QSizePolicy

from halftone.gui import icons, theme
from halftone.gui.i18n import tr
from halftone.gui.kit.painting import END, Painted, dot, stroke, write

TIME, CLOSENESS = 204, 196
TIME_WORDS = TIME - 74
"""Pixels that the words beside the bar have."""
DOTS = 8


@dataclass(frozen=True, slots=True)
class Effect:
    """time_ratio: seconds with over seconds without; dots: 0 to 8; None: not measured. quiet: said in muted colour.

    note: why there is no effect here; stands in place of the two columns.
    """

    time_words: str
    close_words: str
    time_ratio: float | None = None
    dots: float | None = None
    quiet_time: bool = False
    quiet_close: bool = False
    warn: bool = False
    note: str = ""

    @property
    def sentence(self) -> str:
        if self.note:
            return self.note
        return tr("Time: {0}. Closeness to FP32: {1}", self.time_words, self.close_words)


def dots_for_db(db: float) -> float:
    """Eight dots at 55 dB and above (FP16's own noise), one at 15 dB."""
    return min(8.0, max(1.0, 1 + 7 * (db - 15) / 40))


def dots_for_error(ratio: float) -> float:
    """Error grown by `ratio`: each doubling takes two of seven dots away; a smaller error gives the eighth."""
    return min(8.0, max(1.0, 7 - 2 * math.log2(max(ratio, 1e-6))))


class EffectCell(Painted):
    """Two columns; the time column reaches from -1 (far left: twice as quick or better) to +1."""

    def __init__(self) -> None:
        super().__init__()
        self._effect: Effect | None = None
        self.setFixedHeight(theme.grown(32))
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setFixedWidth(theme.grown(TIME) + theme.grown(CLOSENESS))

    def set_effect(self, effect: Effect) -> None:
        self._effect = effect
        self.setAccessibleName(effect.sentence)
        self.update()

    @property
    def effect(self) -> Effect | None:
        return self._effect

    def sizeHint(self) -> QSize:
        return QSize(theme.grown(TIME) + theme.grown(CLOSENESS), theme.grown(32))

    def draw(self, painter: QPainter) -> None:
        if self._effect is None:
            return
        if self._effect.note:
            self._words(painter, 0, self.width() - 4, self._effect.note, quiet=True)
        else:
            self._paint_time(painter, self._effect)
            self._paint_closeness(painter, self._effect)

    def _words(self, painter: QPainter, x: float, width: float, words: str, *, quiet: bool = False, token: str = "") -> None:
        box, tone = QRectF(x, 0, width, self.height()), token or ("text-muted" if quiet else "text")
        write(painter, box, words, "small", tone, numbers=True, cut=END)

    def _paint_time(self, painter: QPainter, effect: Effect) -> None:
        if effect.time_ratio is None:
            self._words(painter, 0, theme.grown(TIME) - 6, effect.time_words, quiet=effect.quiet_time)
            return
        style = theme.current()
        zero, reach, middle = 32.0, 30.0, self.height() / 2
        doublings = math.log2(max(effect.time_ratio, 1e-6)) / 1.25
        share = math.copysign(min(1.0, abs(doublings)) ** 0.6, doublings)  # bent, so that a few percent can still be seen
        length = max(1.5, abs(share) * reach) if abs(effect.time_ratio - 1) >= 0.0005 else 0.0
        if share < 0:
            painter.fillRect(QRectF(zero - length, middle - 3, length, 6), style.color("chart.series-1"))
        elif length:
            painter.fillRect(QRectF(zero, middle - 3, length, 6), style.color("text-muted"))
        stroke(painter, QPointF(zero + 0.5, middle - 6), QPointF(zero + 0.5, middle + 6), "text-muted")
        self._words(painter, 70, theme.grown(TIME) - 70 - (TIME - 70 - TIME_WORDS), effect.time_words, quiet=effect.quiet_time)

    def _paint_closeness(self, painter: QPainter, effect: Effect) -> None:
        x = float(theme.grown(TIME))
        if effect.dots is None:
            self._words(painter, x, theme.grown(CLOSENESS) - 4, effect.close_words, quiet=effect.quiet_close)
            return
        style = theme.current()
        full, none = style.color("warn" if effect.warn else "chart.series-3"), style.color("text-muted", 0.8)
        for index in range(DOTS):
            filled, at = index < round(effect.dots), QPointF(x + 5 + index * 8.2, self.height() / 2)
            dot(painter, at, 3.2 if filled else 0.9, full if filled else none)
        x += DOTS * 8.2 + 10
        if effect.warn:
            icons.paint(painter, "triangle-alert", QRectF(x, self.height() / 2 - 7, 14, 14), style.color("warn"))
            x += 18
        width = self.width() - x - 2
        self._words(painter, x, width, effect.close_words, quiet=effect.quiet_close, token="warn" if effect.warn else "")
