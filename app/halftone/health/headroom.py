"""A headroom chart as pure data: parts, columns, room, findings and places of their discs. The window paints it, and so does the
page of a report.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from halftone.contract.facts import CheckReport, Finding, GuardEvent, LayerPeak
from halftone.contract.plan import Plan, rescaled_modules
from halftone.contract.vocabulary import FLOAT_LIMITS, TIGHT_BITS, DType
from halftone.health.judge import held_in, over_and_tight

SERIES_OTHER: Final = "chart.series-6"


@dataclass(frozen=True, slots=True)
class Layer:
    """One layer. exp: log2 of its peak (-inf: all zeros, +inf: not finite). after: the same under the cure (0: not measured).
    dtype_after: its type under the cure; changed: the cure touches it.
    """

    index: int
    component: str
    module: str
    kind: str
    peak: float
    exp: float
    peak_after: float
    exp_after: float
    dtype_after: DType
    changed: bool


@dataclass(frozen=True, slots=True)
class Part:
    """A component, or one half of a VAE, with its layers in running order. name, short: in English; series: its colour token."""

    key: str
    name: str
    short: str
    series: str
    layers: tuple[Layer, ...]


@dataclass(frozen=True, slots=True)
class Mark:
    """A numbered disc. number: as in the findings list (from 1); layer: index of the layer it stands on."""

    number: int
    layer: int
    tight: bool


@dataclass(frozen=True, slots=True)
class ChartData:
    """Everything the painter needs. dtype: the type whose limit is drawn."""

    parts: tuple[Part, ...]
    marks: tuple[Mark, ...]
    dtype: DType

    @property
    def layers(self) -> tuple[Layer, ...]:
        return tuple(layer for part in self.parts for layer in part.layers)


EMPTY = ChartData((), (), "float16")


def log2_peak(peak: float) -> float:
    """log2 of a peak; zero gives -inf, a number that is not finite gives +inf."""
    if not math.isfinite(peak):
        return math.inf
    return math.log2(peak) if peak > 0 else -math.inf


def limit_exp(dtype: DType) -> float:
    return math.log2(FLOAT_LIMITS[dtype])


def far_limit(dtype: DType) -> bool:
    """BF16 and FP32 have far higher limits, which are only named; the chart keeps the scale of FP16."""
    return limit_exp(dtype) > 40


def over_in_float16(report: CheckReport) -> int | None:
    """Number of layers whose peak FP16 cannot hold, without the blocks around them. None where that is nothing new: the check ran
    in a type that is no wider, or measured no layer.
    """
    if not far_limit(report.precision) or not any(math.isfinite(log2_peak(layer.peak)) for layer in report.layers):
        return None
    limit = math.log2(FLOAT_LIMITS["float16"])
    rooms = [limit - log2_peak(layer.peak) for layer in report.layers]
    return over_and_tight([(layer.component, layer.module) for layer in report.layers], rooms)[0]


def room_bits(exp: float, dtype: DType) -> float:
    """Room in bits: log2(limit / peak)."""
    return limit_exp(dtype) - exp


def room_state(exp: float, dtype: DType) -> str:
    """'over', 'tight' or 'fine'."""
    bits = room_bits(exp, dtype)
    return "over" if bits < 0 else "tight" if bits < TIGHT_BITS else "fine"


def part_key(component: str, module: str) -> str:
    """The VAE's two halves are shown apart: they run at different times."""
    if component.startswith("vae"):
        if module.startswith(("encoder", "quant_conv")):
            return f"{component}.encoder"
        return f"{component}.decoder"
    return component


PART_NAMES: Final[dict[str, tuple[str, str]]] = {
    "text_encoder": ("Text encoder", "Text enc."),
    "text_encoder_2": ("Text encoder 2", "Text enc. 2"),
    "text_encoder_3": ("Text encoder 3", "Text enc. 3"),
    "unet": ("UNet", "Denoiser"),
    "transformer": ("Transformer", "Denoiser"),
    "prior": ("Prior", "Prior"),
    "controlnet": ("ControlNet", "ControlNet"),
    "vae.decoder": ("VAE decoder", "Decoder"),
    "vae.encoder": ("VAE encoder", "Encoder"),
}
"""Plain name and short name of each part, in English."""


def part_names(key: str) -> tuple[str, str]:
    """Plain name and short name of a part, in English; one that has none is called by its key."""
    return PART_NAMES.get(key, (key, key))


def part_series(key: str) -> str:
    """Colour token of a part."""
    if key.startswith("text_encoder"):
        return "chart.series-4" if key == "text_encoder" else "chart.series-3"
    if key.startswith(("unet", "transformer", "prior", "denoiser")):
        return "chart.series-1"
    return "chart.series-2" if key.startswith("vae") else SERIES_OTHER


def _within(module: str, roots: Sequence[str]) -> bool:
    return any(module == root or module.startswith(root + ".") or root == "" for root in roots)


def build(layers: Sequence[LayerPeak], dtype: DType, findings: Sequence[Finding] = (), plan: Plan | None = None) -> ChartData:
    """Groups the layers into parts (in order of first use) and finds the layer of each finding."""
    rescale = {} if plan is None else plan.rescale
    owners = frozenset((component, name) for component, tensors in rescale.items() for name in rescaled_modules(tensors))
    measured = plan is not None and any(one.peak_after is not None for one in layers)
    groups: dict[str, list[Layer]] = {}
    for index, one in enumerate(layers):
        dtype_after = dtype if plan is None else held_in(one, dtype, plan)
        after = one.peak_after
        if after is None:  # where only others were measured, no old peak is taken for one under the cure
            after = 0.0 if measured and dtype_after == dtype else one.peak
        regions = () if plan is None else plan.upcast_modules(one.component)
        changed = dtype_after != dtype or (one.component, one.module) in owners or _within(one.module, regions)
        peaks = one.peak, log2_peak(one.peak), after, log2_peak(after)
        layer = Layer(index, one.component, one.module, one.kind, *peaks, dtype_after, changed)
        groups.setdefault(part_key(one.component, one.module), []).append(layer)
    parts = tuple(Part(key, *part_names(key), part_series(key), tuple(members)) for key, members in groups.items())
    return ChartData(parts, _marks(layers, findings), dtype)


def build_blocks(layers: Sequence[LayerPeak], dtype: DType) -> ChartData:
    """For the compact chart: one component, grouped into its blocks (mid, up.0, up.1, …) in running order."""
    whole = build(layers, dtype)
    groups: list[tuple[str, str, list[Layer]]] = []
    for part in whole.parts:
        for layer in part.layers:
            name = block_name(layer.module)
            if groups and (not name or groups[-1][0] == name):
                groups[-1][2].append(layer)
            else:
                groups.append((name, part.series, [layer]))
    if len(groups) > 1 and not groups[0][0]:
        groups[1] = (groups[1][0], groups[1][1], groups[0][2] + groups[1][2])
        groups = groups[1:]
    parts = tuple(Part(f"{index}", name, name, series, tuple(members)) for index, (name, series, members) in enumerate(groups))
    return ChartData(parts, (), dtype)


def block_name(module: str) -> str:
    """decoder.up_blocks.2.resnets.1.conv2 -> up.2; a layer outside any block belongs to its neighbours and has no name."""
    steps = module.split(".")
    for index, step in enumerate(steps):
        if step == "mid_block":
            return "mid"
        if step in ("up_blocks", "down_blocks", "transformer_blocks", "blocks", "layers", "block") and index + 1 < len(steps):
            return f"{step.split('_')[0]}.{steps[index + 1]}"
    return ""


def _marks(layers: Sequence[LayerPeak], findings: Sequence[Finding]) -> tuple[Mark, ...]:
    marks: list[Mark] = []
    for number, finding in enumerate(findings, start=1):
        index = layer_of(layers, finding)
        if index is not None:
            marks.append(Mark(number, index, finding.code == "tight"))
    return tuple(marks)


def layer_of(layers: Sequence[LayerPeak], named: Finding | GuardEvent) -> int | None:
    """The layer of a finding or an event: the module itself, else the highest one inside it, else none."""
    own = [index for index, one in enumerate(layers) if one.component == named.component and one.module == named.module]
    if own:
        return own[0]
    inside = [
        index
        for index, one in enumerate(layers)
        if one.component == named.component and _within(one.module, (named.module,)) and named.module
    ]
    return max(inside, key=lambda index: log2_peak(layers[index].peak), default=None)


@dataclass(frozen=True, slots=True)
class Column:
    """One bar. top: the layer with the largest peak of those in this column; x, width in pixels."""

    x: float
    width: float
    top: Layer
    members: tuple[Layer, ...]


@dataclass(frozen=True, slots=True)
class PartBox:
    part: Part
    x: float
    width: float
    columns: tuple[Column, ...]


def share_columns(counts: Sequence[int], total: int, wanted: Sequence[bool] = ()) -> list[int]:
    """Columns of each part, of `total`: small parts get more per layer than large ones, none more than its layers. wanted: parts
    with findings, which get at least a fifth of the width.
    """
    if sum(counts) <= total:
        return list(counts)
    eager = wanted or [False] * len(counts)
    shares = [min(count, total // 5 if want and sum(eager) <= 2 else 8) for count, want in zip(counts, eager, strict=True)]
    room = total - sum(shares)
    open_parts = {index for index, count in enumerate(counts) if count > shares[index]}
    while room > 0 and open_parts:
        weight = sum(counts[index] ** 0.6 for index in open_parts)
        given = 0
        for index in sorted(open_parts):
            extra = min(counts[index] - shares[index], max(1, int(room * counts[index] ** 0.6 / weight)), room - given)
            shares[index] += extra
            given += extra
        room -= given
        open_parts = {index for index in open_parts if counts[index] > shares[index]}
        if given == 0:
            break
    return shares


def lay_out(data: ChartData, left: float, width: float, pitch: float, gap: float, *, after: bool) -> tuple[PartBox, ...]:
    """Boxes of all parts from `left` over `width` pixels, with columns no narrower than about `pitch`."""
    parts = data.parts
    marked = {mark.layer for mark in data.marks if not mark.tight}
    if not parts or width <= 0:
        return ()
    usable = max(1.0, width - gap * (len(parts) - 1))
    counts = [len(part.layers) for part in parts]
    wanted = [any(layer.index in marked for layer in part.layers) for part in parts]
    shares = share_columns(counts, max(len(parts), int(usable / pitch)), wanted)
    step = usable / sum(shares)
    boxes: list[PartBox] = []
    x = left
    for part, columns in zip(parts, shares, strict=True):
        boxes.append(PartBox(part, x, step * columns, _columns(part.layers, columns, x, step, after=after)))
        x += step * columns + gap
    return tuple(boxes)


def _columns(layers: Sequence[Layer], count: int, left: float, step: float, *, after: bool) -> tuple[Column, ...]:
    made: list[Column] = []
    for index in range(count):
        members = tuple(layers[index * len(layers) // count : (index + 1) * len(layers) // count])
        top = max(members, key=lambda layer: layer.exp_after - limit_exp(layer.dtype_after) if after else layer.exp)
        made.append(Column(left + index * step, step, top, members))
    return tuple(made)


def axis_range(data: ChartData, *, compact: bool) -> tuple[float, float]:
    """Exponents at the bottom and at the top of the chart."""
    finite = [layer.exp for layer in data.layers if math.isfinite(layer.exp)]
    highest = math.ceil(max(finite, default=0.0))
    limit = limit_exp("float16") if far_limit(data.dtype) else limit_exp(data.dtype)
    if compact:
        low = math.floor(min(finite, default=5.0)) - 1
        return float(min(limit - 8, max(-2, low))), float(max(round(limit) + 3, highest + 1))
    return -2.0, float(max(round(limit) + 4, highest + 2))


def ticks(low: float, high: float, most: int) -> list[int]:
    """Exponents of the grid lines: multiples of 4, or coarser when there is no room."""
    step = 4
    while (high - low) / step > most:
        step *= 2
    first = math.ceil(low / step) * step
    return list(range(first, math.floor(high) + 1, step))


def cure_boxes(boxes: Iterable[PartBox]) -> list[tuple[float, float]]:
    """From-to in pixels of the columns that the cure changes: close runs are joined, and many runs in one part make one box."""
    spans: list[tuple[float, float]] = []
    for box in boxes:
        run: list[tuple[float, float]] = []
        for column in box.columns:
            if not any(layer.changed for layer in column.members):
                continue
            if run and column.x - run[-1][1] <= 4 * column.width:
                run[-1] = (run[-1][0], column.x + column.width)
            else:
                run.append((column.x, column.x + column.width))
        spans += run if len(run) <= 3 else [(run[0][0], run[-1][1])]
    return spans


DISC: Final = 7.5
"""Radius of a disc in pixels."""


def free_place(x: float, y: float, taken: Sequence[tuple[float, float]], right: float, top: float) -> tuple[float, float] | None:
    """A free place for a disc near (x, y); None: nowhere. taken: centres of other discs; right, top: edges of the plot."""
    for dx, dy in ((0, 0), (0, -17), (17, 0), (-17, 0), (17, -17), (-17, -17), (34, 0), (-34, 0)):
        spot = (x + dx, max(y + dy, top + DISC))
        if all(math.dist(spot, other) >= 2 * DISC + 1 for other in taken) and spot[0] < right:
            return spot
    return None
