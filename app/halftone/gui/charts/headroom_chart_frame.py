"""The geometry of the headroom chart: its frame, and the tops of its bars."""

from dataclasses import dataclass

from PySide6.QtCore import QRectF

from halftone.gui import theme
from halftone.health.headroom import ChartData, Layer, axis_range

PITCH = 8.0
Tops = list[tuple[float, float, float]]
"""From, to and top of every bar, in pixels."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Geometry of one painting. plot: where the bars stand; low, high: exponents at its bottom and top."""

    plot: QRectF
    low: float
    high: float
    compact: bool

    def y(self, exp: float) -> float:
        clamped = min(max(exp, self.low), self.high)
        return self.plot.bottom() - (clamped - self.low) / (self.high - self.low) * self.plot.height()


def frame_for(data: ChartData, width: float, height: float, *, compact: bool) -> Frame:
    """Leaves space for the axis on the left and for the component lines below."""
    low, high = axis_range(data, compact=compact)
    left, foot, top = (27.0, 20.0, 8.0) if compact else (32.0, 42.0, 6.0)
    left, foot = theme.grown(left), theme.grown(foot)
    return Frame(QRectF(left, top, max(1.0, width - left - 1), max(1.0, height - top - foot)), low, high, compact)


def bar_top(frame: Frame, layer: Layer, *, after: bool) -> float:
    """Pixel row of a bar's top; a layer of zeros keeps a visible foot."""
    return min(frame.y(layer.exp_after if after else layer.exp), frame.plot.bottom() - 2)
