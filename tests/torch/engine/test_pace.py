"""Prices in time: unrest of the machine is no price, real work is."""

import pytest

from halftone.engine.finding.pace import UNREST, Pace, in_pairs, pace_ratio


def test_the_fastest_runs_count_weighted_by_how_often_a_call_is_made() -> None:
    paces = [Pace((1.0, 9.0), (2.0, 2.5), 3), Pace((1.0,), (1.0, 4.0), 1)]
    assert pace_ratio(paces, same_work=False) == pytest.approx(7 / 4)


def test_the_same_work_within_the_spread_costs_nothing() -> None:
    noisy = Pace((1.0, 1.3), (1.25, 1.4), 1)
    assert pace_ratio([noisy], same_work=True) == 1.0
    assert pace_ratio([noisy], same_work=False) == pytest.approx(1.25)
    assert pace_ratio([Pace((1.0, 1.01), (1.25, 1.26), 1)], same_work=True) == pytest.approx(1.25), "more than the unrest"


@pytest.mark.parametrize(("share", "told"), [(0.9 * UNREST, 1.0), (-0.9 * UNREST, 1.0), (1.5 * UNREST, 1 + 1.5 * UNREST)])
def test_single_runs_tell_the_same_work_apart_only_beyond_the_unrest(share: float, told: float) -> None:
    single = Pace((2.0,), (2.0 * (1 + share),), 1)
    assert pace_ratio([single], same_work=True) == pytest.approx(told)
    assert pace_ratio([single], same_work=False) == pytest.approx(1 + share), "other work is told as it was measured"


def test_nothing_measured_is_no_price() -> None:
    assert pace_ratio([Pace((), (1.0,), 1)], same_work=False) is None


def test_as_many_runs_of_each_side_are_compared() -> None:
    """Three runs of which the last two were quick say nothing against the one of the other side."""
    pace = in_pairs((1.0,), (1.0, 0.5, 0.6), 3)
    assert (pace.before, pace.after) == ((1.0,), (1.0,))
    assert pace_ratio([pace], same_work=False) == 1.0
    assert pace_ratio([in_pairs((), (1.0,), 1)], same_work=True) is None
