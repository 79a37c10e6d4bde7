"""Comparisons of two times: how much longer one thing takes than another, and whether the runs can show it."""

import statistics
from collections.abc import Sequence
from typing import Final, NamedTuple

from halftone.contract.facts import SpeedResult

LEAST: Final = 0.03
"""Share below which no difference counts, however close the runs are."""
UNREST: Final = 0.2
"""Share by which two single runs of the same work differ on a busy machine (measured: Pocket's UNet on two shared cores). A
single pair of runs shows nothing smaller.
"""

FELT: Final = 1.5
"""How many times as long one network must take for a type to count as slow, though another makes up for it."""
_MANY: Final = 5
"""Pairs of runs from which the two that differ most are left out: a short load falls on one of them."""


class Ratio(NamedTuple):
    """Seconds over seconds. spread: how far single runs reach towards 1, of five or more without the largest and smallest."""

    value: float
    spread: float

    @property
    def is_measurable(self) -> bool:
        """Every run lies on the same side of 1, and the difference is worth a word."""
        return is_measurable(self.value, self.spread)


def is_measurable(ratio: float, spread: float | None) -> bool:
    """Whether a ratio of times differs from 1 by more than its runs reach towards 1. None: no spread was stored."""
    return abs(ratio - 1.0) > (LEAST if spread is None else max(spread, LEAST))


def paired_ratio(before: Sequence[float], after: Sequence[float]) -> Ratio | None:
    """The median of after / before, pair by pair, so that a lasting load shows on both sides; None without a pair.

    before, after: seconds of runs in turns. A single pair has no spread and is taken to lie within the unrest.
    """
    ratios = sorted(late / early for early, late in zip(before, after, strict=False) if early > 0 and late > 0)
    if not ratios:
        return None
    middle = ratios[1:-1] if len(ratios) >= _MANY else ratios
    value = statistics.median(ratios)
    reach = value - middle[0] if value > 1.0 else middle[-1] - value
    return Ratio(value, reach if len(ratios) > 1 else UNREST)


def mode_ratio(speeds: Sequence[SpeedResult], mode: str, usual: str) -> Ratio | None:
    """Seconds in one mode over those in another, of all operations that were timed in both, round by round; None without one."""
    runs = {(one.mode, one.operation): one.runs or (one.seconds,) for one in speeds}
    both = [one.operation for one in speeds if one.mode == mode and (usual, one.operation) in runs]
    before, after = ([sum(one) for one in zip(*(runs[side, name] for name in both), strict=False)] for side in (usual, mode))
    return paired_ratio(before, after)


def judged_ratio(speeds: Sequence[SpeedResult], mode: str, usual: str) -> tuple[Ratio, str] | None:
    """The figure that judges a mode: seconds as usual over its own, of all timed networks, and "". A network that takes clearly
    longer (`FELT`) counts alone, with its operation's name: what others save does not help its users.
    """
    whole = mode_ratio(speeds, usual, mode)
    if whole is None or whole.value <= 1.0:
        return None if whole is None else (whole, "")
    names = dict.fromkeys(one.operation for one in speeds)
    single = [(mode_ratio([one for one in speeds if one.operation == name], usual, mode), name) for name in names]
    clear = ((one, name) for one, name in single if one is not None and one.value * FELT < 1.0 and one.is_measurable)
    return min(clear, default=(whole, ""))
