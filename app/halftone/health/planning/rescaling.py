"""The exact cure: powers of two for groups of tensors so that every peak has room.

A group shrinks its modules' outputs by 2**-k and grows their readers by 2**k. The epsilon of a norm that reads them shrinks by
2**-2k, so that its output stays. The result is the same in exact arithmetic (NUMERICS 3a). Groups found by experiment may omit
what adds next to nothing: their change of the result was measured. Only k is chosen here, from peaks; the engine finds a
network's groups from its structure or by experiment.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from halftone.contract.facts import LayerPeak
from halftone.contract.vocabulary import FLOAT_LIMITS, DType

MARGIN_BITS: Final = 3.0
"""Room a rescaling leaves: one bit more than what counts as tight, for pictures that were not measured."""

SMALLEST_PEAK: Final[dict[DType, float]] = {"float16": 2.0**-12, "bfloat16": 2.0**-124, "float32": 2.0**-124}
"""A shrunk tensor keeps its largest value above this: four times the smallest normal number, so that typical values, a quarter of
the largest, stay normal and keep all their bits.
"""

_UNBOUNDED: Final = 64

TensorPeaks = Mapping[str, Mapping[str, float]]
"""Component -> parameter tensor -> largest absolute value."""


@dataclass(frozen=True, slots=True)
class RescaleGroup:
    """Tensors that can be scaled together without changing the component's result.

    A part of a stored tensor ("proj.weight[:640]") is a tensor of its own here. shrink: parameter tensors multiplied by 2**-k,
    and arguments of forward that are added to their outputs (`input_of`); grow: parameter tensors multiplied by 2**k; modules:
    those whose outputs shrink; epsilons: of the norms that read those, multiplied by 2**-2k. deviation: measured relative change
    of the result with the group shrunk by its own need, 0.0: exact. wide: it spans more than one layer and its readers, so it
    acts after the others.
    """

    component: str
    name: str
    shrink: tuple[str, ...]
    grow: tuple[str, ...]
    modules: tuple[str, ...]
    epsilons: tuple[str, ...] = ()
    deviation: float = 0.0
    wide: bool = False


def choose_shifts(
    groups: Sequence[RescaleGroup],
    layers: Sequence[LayerPeak],
    dtype: DType,
    margin_bits: float = MARGIN_BITS,
    tensors: TensorPeaks | None = None,
) -> list[int]:
    """The k of every group, 0 for none.

    Each group gets the smallest k that brings all of its modules `margin_bits` below the limit of `dtype`, and its stored tensors
    to the limit at most. A group that has that room is left alone, and so is one that cannot reach at least the limit itself
    without pushing a tensor over it or below `SMALLEST_PEAK`. Where groups overlap, wide ones act last.
    """
    state = _State(groups, peaks_by_module(layers), dtype, tensors or {})
    order = sorted(range(len(groups)), key=lambda i: groups[i].wide)
    while any(state.raise_shift(i, margin_bits) for i in order):
        pass  # a neighbour that moved may have made room, or need more; shifts only rise and are bounded, so this ends
    return state.shifts


def exponents(groups: Sequence[RescaleGroup], shifts: Sequence[int]) -> dict[str, dict[str, int]]:
    """Shifts as exponents: component -> tensor or epsilon -> e, multiplied by 2**e (never 0), of several groups added up."""
    found: dict[str, dict[str, int]] = {}
    for group, k in zip(groups, shifts, strict=True):
        if k:
            own = found.setdefault(group.component, {})
            for tensors, step in ((group.shrink, -k), (group.grow, k), (group.epsilons, -2 * k)):
                for tensor in dict.fromkeys(tensors):
                    own[tensor] = own.get(tensor, 0) + step
    kept = {component: {t: e for t, e in own.items() if e} for component, own in found.items()}
    return {component: own for component, own in kept.items() if own}


def deviations(groups: Sequence[RescaleGroup], shifts: Sequence[int]) -> dict[str, float]:
    """Component -> relative change of its result by the shifted groups, added up; exact ones are left out."""
    found: dict[str, float] = {}
    for group, k in zip(groups, shifts, strict=True):
        if k and group.deviation > 0:
            found[group.component] = found.get(group.component, 0.0) + group.deviation
    return found


def peaks_by_module(layers: Sequence[LayerPeak]) -> dict[tuple[str, str], float]:
    """(component, module) -> largest peak."""
    peaks: dict[tuple[str, str], float] = {}
    for layer in layers:
        key = (layer.component, layer.module)
        peaks[key] = larger(peaks.get(key, 0.0), layer.peak)
    return peaks


def peaks_after(
    groups: Sequence[RescaleGroup], shifts: Sequence[int], layers: Sequence[LayerPeak]
) -> dict[tuple[str, str], float]:
    """(component, module) -> peak once the groups are shifted."""
    peaks = peaks_by_module(layers)
    for group, k in zip(groups, shifts, strict=True):
        for module in set(group.modules):
            if (group.component, module) in peaks:
                peaks[group.component, module] *= 2.0**-k
    return peaks


class _State:
    """Shifts while they are being chosen."""

    def __init__(
        self, groups: Sequence[RescaleGroup], peaks: dict[tuple[str, str], float], dtype: DType, tensors: TensorPeaks
    ) -> None:
        self.groups = groups
        self.shifts = [0] * len(groups)
        self.limit = FLOAT_LIMITS[dtype]
        self.smallest = SMALLEST_PEAK[dtype]
        self.peaks = {key: value for key, value in peaks.items() if value > 0}
        self.tensors = {(c, name): value for c, own in tensors.items() for name, value in own.items() if value > 0}

    def raise_shift(self, index: int, margin_bits: float) -> bool:
        """Raise the shift of one group to what it needs and may have; True when it moved."""
        group = self.groups[index]
        wanted = self._bits_needed(group, margin_bits)
        if wanted <= 0:
            return False
        allowed = self._bits_allowed(group)
        step = min(wanted, allowed)
        if step <= 0 or step < self._bits_needed(group, 0.0):
            return False
        self._move(group, index, step)
        return True

    def _bits_needed(self, group: RescaleGroup, margin_bits: float) -> int:
        peaks = [self.peaks[group.component, m] for m in group.modules if (group.component, m) in self.peaks]
        stored = [self.tensors[group.component, t] for t in group.shrink if (group.component, t) in self.tensors]
        if not all(map(math.isfinite, [*peaks, *stored])):
            return 0  # what is not finite in the range pass is no matter of scale
        by_peaks = bits_over(max(peaks, default=0.0), self.limit, margin_bits)
        return max(by_peaks, bits_over(max(stored, default=0.0), self.limit, 0.0))

    def _bits_allowed(self, group: RescaleGroup) -> int:
        """How far the stored tensors let this group move; a tensor that both shrinks and grows does not move.

        Biases may become as small as they like (they are added to far larger numbers), and so may tensors that were below
        SMALLEST_PEAK from the start: verification judges those.
        """
        shrinking = {t for t in group.shrink if t not in group.grow and not t.partition("[")[0].endswith("bias")}
        growing = set(group.grow) - set(group.shrink)
        stored = [self.tensors.get((group.component, t), 0.0) for t in shrinking]
        allowed = [math.floor(math.log2(p / self.smallest)) for p in stored if p >= self.smallest]
        stored = [self.tensors.get((group.component, t), 0.0) for t in growing]
        allowed += [math.floor(math.log2(self.limit / p)) for p in stored if p > 0]
        return min(allowed, default=_UNBOUNDED)

    def _move(self, group: RescaleGroup, index: int, step: int) -> None:
        self.shifts[index] += step
        for module in set(group.modules):
            if (group.component, module) in self.peaks:
                self.peaks[group.component, module] *= 2.0**-step
        for names, exponent in ((group.shrink, -step), (group.grow, step)):
            for tensor in set(names):
                if (group.component, tensor) in self.tensors:
                    self.tensors[group.component, tensor] *= 2.0**exponent


def bits_over(peak: float, limit: float, margin_bits: float) -> int:
    """Smallest k >= 0 with peak * 2**-k at least `margin_bits` below `limit`; 0 for a peak of 0."""
    if peak <= 0:
        return 0
    k = max(0, math.ceil(math.log2(peak) - math.log2(limit) + margin_bits))
    bound = limit * 2.0**-margin_bits
    while k > 0 and peak * 2.0 ** (1 - k) <= bound:  # the logarithm of a power of two may land on the wrong side
        k -= 1
    while peak * 2.0**-k > bound:
        k += 1
    return k


def larger(a: float, b: float) -> float:
    return math.nan if math.isnan(a) or math.isnan(b) else max(a, b)
