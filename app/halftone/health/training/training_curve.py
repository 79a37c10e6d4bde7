"""A chart of a training without pixels: binned values, ticks of its axes, dots of the guard's strip."""

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from halftone.contract.training import WATCHED, Caught, Watched

_NICE: Final = (1, 2, 5, 10)
_FINE: Final = (1, 2, 3, 4, 5, 6, 8, 10)
_EVEN: Final = (1, 2, 4, 5, 10)


@dataclass(frozen=True)
class Bin:
    """Values of neighbouring steps. step: their middle, from 1."""

    step: float
    low: float
    high: float
    last: float


@dataclass(frozen=True)
class Strip:
    """The guard's strip: each dot stands for `per` steps; `done` of `dots` are made. bad: row -> its dots with a bad number."""

    per: int
    dots: int
    done: int
    bad: dict[Watched, tuple[int, ...]]


def bin_values(values: Sequence[float], total: int, columns: int) -> tuple[Bin, ...]:
    """values[i] of step i + 1 in at most `columns` bins over `total` steps. Bins without a known value are left out."""
    return Bins(_whole).of(values, total, columns)


def sample_values(values: Sequence[float], total: int, columns: int) -> tuple[Bin, ...]:
    """As `bin_values`, with the last value of each bin alone: of a line that is smooth."""
    return Bins(_last).of(values, total, columns)


class Bins:
    """Bins of growing values; full ones are made once. bin_of: makes one of values[start:end], None of unknown values."""

    def __init__(self, bin_of: Callable[[Sequence[float], int, int], Bin | None]) -> None:
        self._bin_of = bin_of
        self._per = 0
        self._full = 0
        self._made: list[Bin] = []

    def forget(self) -> None:
        """Values that were there have changed."""
        self._per = 0

    def of(self, values: Sequence[float], total: int, columns: int) -> tuple[Bin, ...]:
        """Of values[i] of step i + 1, in at most `columns` bins over `total` steps."""
        per = max(1, math.ceil(total / max(1, columns)))
        if per != self._per or len(values) < self._full:
            self._per, self._full, self._made = per, 0, []
        while self._full + per <= len(values):
            self._add(self._bin_of(values, self._full, self._full + per))
            self._full += per
        begun = self._bin_of(values, self._full, len(values)) if self._full < len(values) else None
        return (*self._made, *([begun] if begun is not None else []))

    def _add(self, made: Bin | None) -> None:
        if made is not None:
            self._made.append(made)


def _whole(values: Sequence[float], start: int, end: int) -> Bin | None:
    part = values[start:end]
    known = part if not math.isnan(sum(part)) else [value for value in part if value == value]  # NaN differs from itself
    return Bin((start + 1 + end) / 2, min(known), max(known), known[-1]) if known else None


def _last(values: Sequence[float], start: int, end: int) -> Bin | None:
    value = values[end - 1]
    return Bin(end, value, value, value) if value == value and start < end else None


class Curves:
    """The three lines of a chart, kept between draws."""

    def __init__(self) -> None:
        self.loss, self.smooth, self.norm = Bins(_whole), Bins(_last), Bins(_whole)
        self._of: tuple[object, int] | None = None

    def follow(self, record: object, rewound: int) -> None:
        """record: the source of the next values; rewound: how often its steps were taken back."""
        if self._of is None or self._of[0] is not record or self._of[1] != rewound:
            for bins in (self.loss, self.smooth, self.norm):
                bins.forget()
        self._of = (record, rewound)


def strip_of(done: int, total: int, columns: int, caught: Iterable[Caught]) -> Strip:
    """done of total steps in at most `columns` dots, a round number of steps in each."""
    per = nice_above(total / max(1, columns), _FINE)
    bad: dict[Watched, set[int]] = {row: set() for row in WATCHED}
    for one in caught:
        if one.did != "warned":  # no bad number: something that may be meant
            bad[one.watched].add((one.step - 1) // per)
    return Strip(per, math.ceil(total / per), math.ceil(done / per), {row: tuple(sorted(dots)) for row, dots in bad.items()})


def nice_above(value: float, parts: Sequence[int] = _NICE) -> int:
    """The next of 1, 2, 5, 10, 20, 50, …; parts: others than 1, 2, 5, 10."""
    if value <= 1:
        return 1
    size = 10 ** math.floor(math.log10(value))
    return next(size * part for part in parts if size * part >= value * (1 - 1e-9))


def step_ticks(total: int, count: int) -> tuple[int, ...]:
    """Round step numbers from 0 to `total`, about `count` of them."""
    per = nice_above(total / max(1, count))
    return tuple(range(0, total + 1, per))


def value_range(bins: Sequence[Bin]) -> tuple[float, float]:
    """(low, high) that holds all bins with a little air; (0, 1) of none. Never below 0 where no value is."""
    if not bins:
        return 0.0, 1.0
    low, high = min(one.low for one in bins), max(one.high for one in bins)
    air = max((high - low) * 0.12, abs(high) * 0.05, 1e-9)
    return (max(0.0, low - air) if low >= 0 else low - air), high + air


def value_ticks(low: float, high: float, count: int) -> tuple[float, ...]:
    """Round values from `low` to `high`, about `count` of them."""
    if not high > low:
        return ()
    rough = (high - low) / max(1, count)
    size = 10.0 ** math.floor(math.log10(rough))
    per = next(size * part for part in _EVEN if size * part >= rough * (1 - 1e-9))
    first = math.ceil(low / per - 1e-9)
    return tuple(round(per * number, 12) for number in range(first, math.floor(high / per + 1e-9) + 1))


def log_range(bins: Sequence[Bin], clip: float) -> tuple[int, int]:
    """(lowest, highest) power of ten that holds all bins and the clip line, two decades at least."""
    values = [*(one.low for one in bins if one.low > 0), *(one.high for one in bins if one.high > 0)]
    values += [clip] if clip > 0 else []
    if not values:
        return -1, 1
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    low -= 0 if bins else 1
    return low, max(high, low + 2)


def near(step: float, caught: Sequence[Caught], reach: float) -> Caught | None:
    """The event nearest to a step, no further than `reach` steps."""
    found = min(caught, key=lambda one: abs(one.step - step), default=None)
    return found if found is not None and abs(found.step - step) <= reach else None
