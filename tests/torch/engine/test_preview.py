"""Live previews go on for the whole picture, at a small share of its time."""

from pathlib import Path

import pytest
from tests.helpers.engine_runs import generate

from halftone.contract.messages import PreviewReady
from halftone.engine.sampling.preview import EVERY, SHARE, Pace
from halftone.engine.service import DiffusersEngine
from halftone.library.models import POCKET

STEP = 0.3


def shown(costs: list[float], steps: int = 20) -> list[int]:
    """Steps of STEP seconds after which there was a preview; costs: of one after the other, the last one for all that follow."""
    pace, now, left, told = Pace(), 100.0, list(costs), list[int]()
    for step in range(steps):
        now += STEP
        if pace.is_due(now):
            cost = left.pop(0) if len(left) > 1 else left[0]
            now += cost
            pace.spent(now, cost)
            told.append(step)
    return told


def test_a_slow_first_one_does_not_stop_those_that_follow() -> None:
    assert shown([0.05, 0.001]) == list(range(20))


def test_nor_does_one_slow_one_among_the_others() -> None:
    assert shown([0.05, 0.001, 0.001, 1.0, 0.001]) == list(range(20))


@pytest.mark.parametrize("cost", [0.02, 0.06, 0.2])
def test_slow_ones_are_rare(cost: float) -> None:
    told = shown([cost], steps=2000)
    assert cost * len(told) <= SHARE * 2000 * STEP * 1.01 + cost
    assert cost * len(told) >= SHARE * 2000 * STEP * 0.7


def test_pocket_shows_several_in_twenty_steps(engine: DiffusersEngine) -> None:
    report, events = generate(engine, Path(POCKET), family="sd15", steps=20, width=64, height=64)
    assert report.seconds_per_step is not None
    assert len(events.of(PreviewReady)) >= min(4, 20 * report.seconds_per_step / EVERY / 2)
