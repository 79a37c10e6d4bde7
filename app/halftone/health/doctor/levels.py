"""The level of a finite loss over a whole run: a lasting jump, a steady rise, a loss of exactly 0. Pure."""

from collections.abc import Sequence
from itertools import pairwise
from statistics import median
from typing import Final, NamedTuple

from halftone.health.doctor import looking
from halftone.health.doctor.found import Sign
from halftone.library.run_logs.series import Point, Track

ENOUGH: Final = 50
"""Numbers that show a level."""
_BLOCKS: Final = 20
_LEAST: Final = 5
"""Numbers of a block at least."""
_LASTING: Final = 3
"""Least blocks of a new level."""
_HIGHER: Final = 2.0
"""Times the level before, from which a new level is told."""
_ASTRAY: Final = 0.1
"""Share of the numbers around a jump that may be on the wrong side of it."""
_RISING: Final = 0.8
"""Share of the blocks of a rise that lie above the one before."""
_LEAP: Final = 10.0
_SUDDEN: Final = 0.1
"""A loss that fell below this share of the usual before it was 0 reached it."""


class Jump(NamedTuple):
    """A level that is left at once and for good. point: the first number of the new one."""

    before: float
    after: float
    point: Point


def jump_of(track: Track) -> Jump | None:
    """The first lasting jump of a loss, whose numbers are finite."""
    size = _size(track)
    levels = _levels(track)
    for at in range(1, len(levels) - _LASTING + 1):
        before, later = levels[at - 1], levels[at:]
        # the block in which it jumps lies between both levels
        if before > 0 and min(later[1:]) >= _HIGHER * before and later[0] >= before:
            begun = _edge(track, (at - 1) * size, min((at + 2) * size, len(track)), (before * later[1]) ** 0.5)
            return None if begun is None else Jump(before, median(track.values[begun:]), track[begun])
    return None


def leap_of(norms: Sequence[Track], jump: Jump) -> Point | None:
    """The gradient norm that leapt with the loss, and is smaller before and after: a new term of the loss would stay."""
    for track in norms:
        points = track.finite()
        early = [point.value for point in points if point.step < jump.point.step - looking.NEAR]
        late = [point.value for point in points if point.step > jump.point.step + looking.NEAR]
        near = [point for point in points if abs(point.step - jump.point.step) <= looking.NEAR]
        if early and late and near:
            peak = max(near, key=lambda point: point.value)
            return peak if peak.value >= _LEAP * max(median(early), median(late)) else None
    return None


def level_signs(track: Track) -> list[Sign]:
    """Notes on a finite loss that did not diverge."""
    if len(track) < ENOUGH or track.by_epoch:
        return []
    if (nothing := _nothing(track)) is not None:
        return [nothing]
    if (jump := jump_of(track)) is not None:
        values = (jump.before, jump.after, jump.point.step)
        return [Sign(code="level-jump", where=looking.where(track, jump.point), values=values)]
    rise = _rise(track)
    return [] if rise is None else [rise]


def _size(track: Track) -> int:
    return max(_LEAST, len(track) // _BLOCKS)


def _levels(track: Track) -> list[float]:
    size = _size(track)
    return [median(track.values[at : at + size]) for at in range(0, len(track) - size + 1, size)]


def _edge(track: Track, begin: int, end: int, between: float) -> int | None:
    """The index that separates numbers below from those above best; None where they do not separate."""
    above = [value >= between for value in track.values[begin:end]]
    wrong = best = above.count(False)
    edge = 0
    for index, high in enumerate(above, 1):
        wrong += 1 if high else -1
        if wrong < best:
            best, edge = wrong, index
    return begin + edge if 0 < edge < len(above) and best <= _ASTRAY * len(above) else None


def _rise(track: Track) -> Sign | None:
    """A level that rises from its lowest, block by block, to the end."""
    levels = _levels(track)
    lowest = levels.index(min(levels))
    rising = levels[lowest:]
    steps = len(rising) - 1
    up = sum(later > earlier for earlier, later in pairwise(rising))
    if levels[lowest] <= 0 or steps < len(levels) // 2 or up < _RISING * steps or rising[-1] < _HIGHER * levels[lowest]:
        return None
    return Sign(code="level-rise", where=looking.where(track, track[-1]), values=(levels[lowest], rising[-1]))


def _nothing(track: Track) -> Sign | None:
    """A loss of exactly 0 to the end that did not fall to it. transformers' Trainer writes 0 for NaN."""
    begun = len(track)
    while begun and track.values[begun - 1] == 0:
        begun -= 1
    count = len(track) - begun
    if count < ENOUGH:
        return None
    if not begun:
        return Sign(code="loss-zero", where=looking.where(track, track[0]), values=(count,))
    usual, last = median(track.values[:begun]), median(track.values[max(0, begun - _LEAST) : begun])
    if last < _SUDDEN * usual:
        return None
    return Sign(code="loss-zero", where=looking.where(track, track[begun]), values=(count, track.steps[begun], usual))
