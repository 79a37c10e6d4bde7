"""The headroom chart as inline SVG: bars in running order, limit and tight lines, the cure's box, a disc on each finding. The
page's style sheet (`report.css`) colours its classes.
"""

import html
import math
from collections.abc import Iterable
from gettext import NullTranslations
from typing import Final

from halftone.contract.vocabulary import DTYPE_NAMES, FLOAT_LIMITS, TIGHT_BITS
from halftone.contract.wording import ENGLISH, Words, number
from halftone.health import headroom
from halftone.health.part_names import bits

WIDTH: Final = 1040.0
HEIGHT: Final = 330.0
_LEFT, _RIGHT, _TOP, _BOTTOM = 34.0, 1.0, 8.0, 44.0
_PITCH, _GAP = 5.4, 11.0
_LETTER: Final = 6.2
"""Pixels of a letter of a name; longer names are shortened."""


class _Frame:
    """Where the bars stand, in pixels, and which exponents its bottom and top mean."""

    def __init__(self, data: headroom.ChartData) -> None:
        self.low, self.high = headroom.axis_range(data, compact=False)
        self.left, self.right = _LEFT, WIDTH - _RIGHT
        self.top, self.bottom = _TOP, HEIGHT - _BOTTOM

    def y(self, exp: float) -> float:
        clamped = min(max(exp, self.low), self.high)
        return self.bottom - (clamped - self.low) / (self.high - self.low) * (self.bottom - self.top)

    def bar_top(self, layer: headroom.Layer) -> float:
        """A layer of zeros keeps a visible foot."""
        return min(self.y(layer.exp), self.bottom - 2)


def chart_svg(data: headroom.ChartData, title: str, catalogue: NullTranslations = ENGLISH) -> str:
    """An <svg> element. title: its contents in one sentence, for screen readers."""
    frame = _Frame(data)
    boxes = headroom.lay_out(data, frame.left, frame.right - frame.left, _PITCH, _GAP, after=False)
    height = frame.bottom - frame.top
    parts = [
        *_grid(frame),
        *_bars(frame, data, boxes, catalogue),
        *_lines(frame, data, catalogue),
        *(part for box in boxes for part in _part(frame, box, catalogue)),
        *(
            f'<rect class="cure" x="{start - 1.5:.1f}" y="{frame.top:g}" width="{end - start + 2:.1f}" height="{height:g}"/>'
            for start, end in headroom.cure_boxes(boxes)
        ),
        *_discs(frame, data, boxes),
    ]
    return (
        f'<svg class="chart" role="img" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" xmlns="http://www.w3.org/2000/svg">'
        f"<title>{html.escape(title)}</title>{''.join(parts)}</svg>"
    )


def _grid(frame: _Frame) -> Iterable[str]:
    for exponent in headroom.ticks(frame.low, frame.high, 7):
        y = frame.y(exponent)
        yield _line(frame.left, y, frame.right, y, "grid")
        power = str(exponent).replace("-", "\u2212")
        raised = f'2<tspan dy="-4" font-size="8">{power}</tspan>'
        yield f'<text class="axis" x="{frame.left - 6:g}" y="{y + 4:.1f}" text-anchor="end">{raised}</text>'


def _bars(
    frame: _Frame, data: headroom.ChartData, boxes: Iterable[headroom.PartBox], catalogue: NullTranslations
) -> Iterable[str]:
    for box in boxes:
        for column in box.columns:
            state = headroom.room_state(column.top.exp, data.dtype)
            tone = box.part.series.removeprefix("chart.") if state == "fine" else state
            yield _bar(frame, data, column, tone, catalogue)


def _bar(frame: _Frame, data: headroom.ChartData, column: headroom.Column, tone: str, catalogue: NullTranslations) -> str:
    layer = column.top
    top = frame.bar_top(layer)
    width = column.width - min(6.0, max(1.0, column.width * 0.2))
    said = html.escape(layer_words(layer, data).text(catalogue))
    return (
        f'<g class="{tone}"><title>{said}</title>'
        f'<rect class="body" x="{column.x:.1f}" y="{top:.1f}" width="{width:.1f}" height="{frame.bottom - top:.1f}"/>'
        f'<rect x="{column.x:.1f}" y="{top:.1f}" width="{width:.1f}" height="2"/></g>'
    )


def layer_words(layer: headroom.Layer, data: headroom.ChartData) -> Words:
    """One layer: its name, its peak and its room."""
    name = f"{layer.component}.{layer.module}" if layer.module else layer.component
    room = headroom.room_bits(layer.exp, data.dtype)
    shown = bits(room) if math.isfinite(room) else "\u2013"
    return Words("{0}: peak {1}, headroom {2} bits", (name, number(layer.peak), shown))


def _lines(frame: _Frame, data: headroom.ChartData, catalogue: NullTranslations) -> Iterable[str]:
    name = DTYPE_NAMES[data.dtype]
    limit = Words("{0} limit {1}", (name, number(FLOAT_LIMITS[data.dtype]))).text(catalogue)
    if headroom.far_limit(data.dtype):
        yield _text(frame.left + 6, frame.top + 11, limit, "axis")
        return
    y = frame.y(headroom.limit_exp(data.dtype))
    tight = frame.y(headroom.limit_exp(data.dtype) - TIGHT_BITS)
    yield _line(frame.left, y, frame.right, y, "limit")
    yield _line(frame.left, tight, frame.right, tight, "tight-line")
    yield _text(frame.left + 6, y - 5, limit, "limit-name halo")
    words = Words("Tight: under {0} bits of headroom", (int(TIGHT_BITS),)).text(catalogue)
    yield _text(frame.left + 6, tight - 3, words, "tight-name halo")


def _part(frame: _Frame, box: headroom.PartBox, catalogue: NullTranslations) -> Iterable[str]:
    """The coloured line below a part, its name and how many layers it has."""
    y = frame.bottom + 7
    tone = box.part.series.removeprefix("chart.")
    yield f'<rect class="{tone}" x="{box.x:.1f}" y="{y - 1.5:.1f}" width="{box.width - 1:.1f}" height="3"/>'
    room = int((box.width + 8) / _LETTER)
    name = catalogue.gettext(box.part.name)
    name = name if len(name) <= room else catalogue.gettext(box.part.short)
    yield _text(box.x, y + 16, name if len(name) <= room else f"{name[: max(1, room - 1)]}…", "part")
    count = len(box.part.layers)
    if len(said := Words("{0} layers", (count,), one="1 layer").text(catalogue)) <= room:
        yield _text(box.x, y + 30, said, "axis")


def _discs(frame: _Frame, data: headroom.ChartData, boxes: Iterable[headroom.PartBox]) -> Iterable[str]:
    """A numbered disc above the bar of each finding; the first one is the origin, and has a ring."""
    columns = {layer.index: column for box in boxes for column in box.columns for layer in column.members}
    layers = {layer.index: layer for layer in data.layers}
    taken: list[tuple[float, float]] = []
    for mark in data.marks:
        column = columns[mark.layer]
        x = min(max(column.x + column.width / 2, frame.left + headroom.DISC), frame.right - headroom.DISC)
        y = max(frame.bar_top(layers[mark.layer]) - headroom.DISC - 6, frame.top + headroom.DISC)
        spot = headroom.free_place(x, y, taken, frame.right, frame.top)
        tone = "tight" if mark.tight else "over"
        if spot is None:
            yield f'<circle class="{tone} disc" cx="{x:.1f}" cy="{y + headroom.DISC:.1f}" r="3.5"/>'
            continue
        taken.append(spot)
        ring = f'<circle class="ring" r="{headroom.DISC + 2.5:g}"/>' if mark.number == 1 and not mark.tight else ""
        yield (
            f'<g class="{tone}" transform="translate({spot[0]:.1f} {spot[1]:.1f})">{ring}'
            f'<circle class="disc" r="{headroom.DISC:g}"/>'
            f'<text class="number" y="4" text-anchor="middle">{mark.number}</text></g>'
        )


def _line(x1: float, y1: float, x2: float, y2: float, tone: str) -> str:
    return f'<line class="{tone}" x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}"/>'


def _text(x: float, y: float, words: str, tone: str) -> str:
    return f'<text class="{tone}" x="{x:.1f}" y="{y:.1f}">{html.escape(words)}</text>'
