"""What is known to go wrong before the first step, judged from plain facts. No torch: the facts come from `forecast`."""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from halftone.contract.training import Omen, Remedy
from halftone.contract.vocabulary import FLOAT_LIMITS, DType

SMALLEST: Final[dict[DType, float]] = {"float16": 2.0**-24, "bfloat16": 2.0**-133, "float32": 2.0**-149}
"""Smallest number above zero (subnormal) of each type: IEEE 754 binary16 and binary32; bfloat16 has binary32's exponents."""
SMALLEST_NORMAL: Final[dict[DType, float]] = {"float16": 2.0**-14, "bfloat16": 2.0**-126, "float32": 2.0**-126}
_BITS: Final[dict[DType, int]] = {"float16": 10, "bfloat16": 7, "float32": 23}
"""Bits behind the leading one."""
_LOST_SHARE: Final = 0.5
"""Share of the weights whose update may be lost to rounding before it is reported."""
_RATE_OF_WEIGHTS: Final = 1.0
"""An update as large as the weights themselves, in every step, is no training."""
_LARGE_CLIP: Final = 100.0
_LARGE_SCALE: Final = 2.0**24
_PICTURE: Final = 10.0
"""Mean of |x| above which what is fed looks like bytes (0 to 255) and not like numbers around zero."""


@dataclass(frozen=True)
class GroupFacts:
    """Trained parameters of one type in one group of the optimizer.

    adaptive: each update is about as large as the rate (Adam and its kin); medians: of |weight| by tensor; gradient: median of
    |g| over non-zero ones, None before the first backward pass.
    """

    name: str
    count: int
    dtype: DType
    states: DType
    rate: float
    epsilon: float | None
    beta2: float | None
    adaptive: bool
    medians: tuple[float, ...] = ()
    gradient: float | None = None


@dataclass(frozen=True)
class RunFacts:
    """A training about to begin. computes: type of the passes; scale: first factor of the loss, None: not scaled; norms: modules
    that turn zeros into bad numbers; broken: bad parameters; data: largest and mean |x| of the inputs.
    """

    groups: tuple[GroupFacts, ...]
    computes: DType
    clip: float | None
    scale: float | None
    norms: tuple[str, ...] = ()
    broken: tuple[str, ...] = ()
    data: tuple[tuple[str, float, float], ...] = ()


def omens(run: RunFacts) -> tuple[Omen, ...]:
    """Everything that will go wrong, then everything that may."""
    found = [*_weights(run), *_data(run), *_norms(run), *_loss_scale(run), *_clipping(run)]
    for group in run.groups:
        found += [*_epsilon(group), *_second_moment(group), *_resolution(group), *_rate(group)]
    return tuple(sorted(found, key=lambda omen: not omen.certain))


def rounded(value: float, dtype: DType) -> float:
    """The number that a type holds for a positive value, to nearest: 0.0 where it is below half of its smallest one."""
    if value <= 0.0 or not math.isfinite(value):
        return value
    step = max(2.0 ** (math.floor(math.log2(value)) - _BITS[dtype]), SMALLEST[dtype])
    return round(value / step) * step


def spacing(value: float, dtype: DType) -> float:
    """Distance from a number to the next larger one of its type."""
    if value < SMALLEST_NORMAL[dtype]:
        return SMALLEST[dtype]
    return 2.0 ** (math.floor(math.log2(value)) - _BITS[dtype])


def _weights(run: RunFacts) -> Iterable[Omen]:
    if run.broken:
        yield Omen(code="weights-nonfinite", certain=True, name=run.broken[0], count=len(run.broken), remedies=("mend-file",))


def _data(run: RunFacts) -> Iterable[Omen]:
    for name, largest, mean in run.data:
        if not math.isfinite(largest):
            yield Omen(code="data-nonfinite", certain=True, name=name, remedies=("normalise",))
        elif mean > _PICTURE:
            yield Omen(code="data-not-normalised", certain=False, name=name, value=mean, limit=_PICTURE, remedies=("normalise",))


def _norms(run: RunFacts) -> Iterable[Omen]:
    if run.norms:
        names = run.norms
        yield Omen(
            code="norm-epsilon-zero",
            certain=False,
            name=names[0],
            dtype=run.computes,
            count=len(names),
            remedies=("norm-epsilon-up", "bfloat16"),
        )


def _loss_scale(run: RunFacts) -> Iterable[Omen]:
    half = run.computes == "float16"
    if half and run.scale is None:
        yield Omen(
            code="no-loss-scale", certain=False, dtype="float16", limit=SMALLEST["float16"], remedies=("grad-scaler", "bfloat16")
        )
    if run.scale is not None and not half:
        yield Omen(code="loss-scale-useless", certain=False, dtype=run.computes, value=run.scale)
    if run.scale is not None and half and not 1.0 <= run.scale <= _LARGE_SCALE:
        yield Omen(
            code="loss-scale-range",
            certain=False,
            dtype="float16",
            value=run.scale,
            limit=1.0 if run.scale < 1.0 else _LARGE_SCALE,
            remedies=("grad-scaler",),
        )


def _clipping(run: RunFacts) -> Iterable[Omen]:
    if run.computes == "float32":
        return
    if run.clip is None:
        yield Omen(code="no-clipping", certain=False, dtype=run.computes, remedies=("clip-1",))
    elif run.clip > _LARGE_CLIP:
        yield Omen(code="clip-too-large", certain=False, value=run.clip, limit=_LARGE_CLIP, remedies=("clip-1",))


_STATES: Final[tuple[Remedy, ...]] = ("float32-states", "float32-master", "bfloat16")


def _epsilon(group: GroupFacts) -> Iterable[Omen]:
    if group.epsilon is None:
        return
    held = rounded(group.epsilon, group.states)
    common = {"name": group.name, "dtype": group.states, "count": group.count, "value": group.epsilon}
    if held == 0.0:
        # an element whose gradient is zero, or whose square is, is divided 0 / 0
        yield Omen(
            code="epsilon-zero",
            certain=group.adaptive,
            limit=SMALLEST[group.states],
            remedies=("epsilon-1e-4", *_STATES),
            **common,  # pyright: ignore[reportArgumentType]
        )
    elif held < SMALLEST_NORMAL[group.states]:
        yield Omen(
            code="epsilon-subnormal",
            certain=False,
            limit=SMALLEST_NORMAL[group.states],
            remedies=("epsilon-1e-4", *_STATES),
            **common,  # pyright: ignore[reportArgumentType]
        )


def _second_moment(group: GroupFacts) -> Iterable[Omen]:
    """(1 - beta2) g**2 below the smallest number of the moments' type: they stay zero, and epsilon alone is divided by."""
    if group.gradient is None or group.beta2 is None or group.gradient == 0.0:
        return
    first = (1.0 - group.beta2) * group.gradient**2
    if first < SMALLEST[group.states]:
        yield Omen(
            code="second-moment-underflow",
            certain=False,
            name=group.name,
            dtype=group.states,
            value=first,
            limit=SMALLEST[group.states],
            count=group.count,
            remedies=("float32-states", "float32-master"),
        )


def _resolution(group: GroupFacts) -> Iterable[Omen]:
    if group.dtype == "float32":
        return
    yield Omen(
        code="no-master-weights",
        certain=False,
        name=group.name,
        dtype=group.dtype,
        count=group.count,
        remedies=("float32-master",),
    )
    if not group.adaptive or not group.medians or group.rate <= 0.0:
        return
    lost = [median for median in group.medians if group.rate < spacing(median, group.dtype) / 2]
    if len(lost) >= _LOST_SHARE * len(group.medians):
        typical = sorted(lost)[len(lost) // 2]
        yield Omen(
            code="rate-below-resolution",
            certain=True,
            name=group.name,
            dtype=group.dtype,
            value=group.rate,
            limit=spacing(typical, group.dtype) / 2,
            count=len(lost),
            remedies=("float32-master",),
        )


def _rate(group: GroupFacts) -> Iterable[Omen]:
    if not math.isfinite(group.rate) or group.rate > FLOAT_LIMITS[group.dtype]:
        yield Omen(code="rate-too-high", certain=True, name=group.name, value=group.rate, remedies=("lower-rate",))
    elif group.adaptive and group.medians:
        typical = sorted(group.medians)[len(group.medians) // 2]
        if typical > 0.0 and group.rate > _RATE_OF_WEIGHTS * typical:
            remedies: tuple[Remedy, ...] = ("lower-rate", "warm-up", "cosine")
            yield Omen(code="rate-too-high", certain=False, name=group.name, value=group.rate, limit=typical, remedies=remedies)
