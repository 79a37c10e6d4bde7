"""How much slower a component gets under a plan, measured so that the machine's own unrest does not look like a price."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from halftone.health.forecasts.timing import UNREST, Ratio, paired_ratio

SHORT: Final = 0.5
"""Seconds; calls below it are run several times with and without the plan in turn."""
ROUNDS: Final = 5
"""Turns of short calls: once without the plan and once with it."""
LONG_ROUNDS: Final = 2
"""The same of long ones, and only where single runs differ by more than the unrest though the work is the same."""
PATIENCE: Final = 5.0
"""Seconds after which no further turn of short calls is begun."""


@dataclass(frozen=True)
class Pace:
    """Seconds of single runs of one call, without and with the plan, in pairs. weight: how many such calls a picture makes."""

    before: tuple[float, ...]
    after: tuple[float, ...]
    weight: int


def in_pairs(before: Sequence[float], after: Sequence[float], weight: int) -> Pace:
    """Take as many runs of each side, the first ones."""
    count = min(len(before), len(after))
    return Pace(tuple(before[:count]), tuple(after[:count]), weight)


def pace_ratio(paces: Sequence[Pace], *, in_turns: bool) -> Ratio | None:
    """Seconds with the plan over seconds without it; None without a run on both sides.

    in_turns: runs with and without the plan alternated. Runs from different minutes show no difference below the noise of the
    machine, however alike those of one minute are.
    """
    known = [pace for pace in paces if pace.before and pace.after]
    rounds = min((min(len(pace.before), len(pace.after)) for pace in known), default=0)
    before = [sum(pace.before[index] * pace.weight for pace in known) for index in range(rounds)]
    after = [sum(pace.after[index] * pace.weight for pace in known) for index in range(rounds)]
    found = paired_ratio(before, after)
    if found is None or in_turns:
        return found
    return Ratio(found.value, max(found.spread, UNREST))
