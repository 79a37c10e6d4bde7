"""How much slower a component gets under a plan, measured so that the machine's own unrest does not look like a price."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

SHORT: Final = 0.5
"""Seconds; calls below it are run several times with and without the plan in turn."""
ROUNDS: Final = 2
"""Runs in each of the three turns: with the plan, without it, with it again."""
UNREST: Final = 0.2
"""Share by which two single runs of the same call differ on a machine that does other things too (measured: Pocket's UNet on two
shared cores)."""


@dataclass(frozen=True)
class Pace:
    """Seconds of single runs of one call, without and with the plan. weight: how often a picture makes such a call."""

    before: tuple[float, ...]
    after: tuple[float, ...]
    weight: int


def in_pairs(before: Sequence[float], after: Sequence[float], weight: int) -> Pace:
    """As many runs of each side, the first ones: the fastest of three is always faster than the only one of the other side."""
    count = min(len(before), len(after))
    return Pace(tuple(before[:count]), tuple(after[:count]), weight)


def pace_ratio(paces: Sequence[Pace], *, same_work: bool) -> float | None:
    """Seconds with the plan over seconds without it, from the fastest run of each call; None without a run on both sides.

    same_work: the plan changes only numbers (a rescale: the same kernels on the same shapes), so a difference within the spread
    of the runs, or, of single runs, within the unrest, is the machine's and is told as 1.0: about the same.
    """
    known = [pace for pace in paces if pace.before and pace.after]
    before = sum(min(pace.before) * pace.weight for pace in known)
    after = sum(min(pace.after) * pace.weight for pace in known)
    if before <= 0:
        return None
    ratio = after / before
    return 1.0 if same_work and abs(ratio - 1) <= _spread(known) else ratio


def _spread(paces: Sequence[Pace]) -> float:
    """Largest distance between runs of the same call under the same plan, relative to the fastest; a single run shows none, and
    is taken to lie within the unrest.
    """
    sides = [side for pace in paces for side in (pace.before, pace.after)]
    return max(max(side) / min(side) - 1 if len(side) > 1 else UNREST for side in sides if min(side) > 0)
