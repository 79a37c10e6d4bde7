"""Prices in time: unrest of the machine is no price, real work is."""

import pytest

from halftone.engine.finding.pace import Pace, in_pairs, pace_ratio
from halftone.health.forecasts.timing import UNREST


def test_calls_are_weighted_by_how_often_they_are_made() -> None:
    paces = [Pace((1.0, 1.0), (2.0, 2.0), 3), Pace((1.0, 1.0), (1.0, 1.0), 1)]
    found = pace_ratio(paces, in_turns=True)
    assert found is not None
    assert found.value == pytest.approx(7 / 4)
    assert found.is_measurable


@pytest.mark.parametrize(
    ("before", "after", "shown"),
    [
        ((1.0, 1.3), (1.25, 1.2), False),
        ((1.0, 1.3), (1.25, 1.4), True),
        ((1.0, 1.01), (1.25, 1.26), True),
        ((1.0, 1.0, 1.0), (1.0, 1.54, 1.5), False),
        ((2.0, 1.0, 3.0), (3.0, 1.5, 4.5), True),
    ],
)
def test_turns_show_what_all_of_them_agree_on(before: tuple[float, ...], after: tuple[float, ...], shown: bool) -> None:
    found = pace_ratio([Pace(before, after, 1)], in_turns=True)
    assert found is not None
    assert found.is_measurable is shown


@pytest.mark.parametrize(("share", "shown"), [(0.9 * UNREST, False), (-0.9 * UNREST, False), (1.5 * UNREST, True)])
@pytest.mark.parametrize("runs", [1, 3])
def test_runs_of_different_minutes_show_only_what_exceeds_the_unrest(share: float, shown: bool, runs: int) -> None:
    found = pace_ratio([Pace((2.0,) * runs, (2.0 * (1 + share),) * runs, 1)], in_turns=False)
    assert found is not None
    assert found.value == pytest.approx(1 + share)
    assert found.is_measurable is shown


def test_nothing_measured_is_no_price() -> None:
    assert pace_ratio([Pace((), (1.0,), 1)], in_turns=True) is None
    assert pace_ratio([], in_turns=False) is None


def test_as_many_runs_of_each_side_are_compared() -> None:
    pace = in_pairs((1.0,), (1.0, 0.5, 0.6), 3)
    assert (pace.before, pace.after) == ((1.0,), (1.0,))
    assert pace_ratio([in_pairs((), (1.0,), 1)], in_turns=True) is None
