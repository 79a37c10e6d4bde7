"""A sample of the trainings that `tests.bench.training.trials` draws: every kind of fault and of oddity once."""

import pytest
from tests.bench.training.trials import faulty, odd_alarms, plain_alarms
from tests.helpers.training_oddities import ODDITIES
from tests.helpers.training_trials import NEW_FAULTS, case

SEED = 11


@pytest.mark.parametrize("number", range(len(NEW_FAULTS)), ids=lambda number: NEW_FAULTS[number].name)
def test_a_fault_is_caught_named_and_outlived(number: int) -> None:
    outcome = faulty(case(SEED, number))
    assert outcome.good, outcome.line()


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("number", range(len(ODDITIES)))
def test_a_sound_training_that_looks_odd_is_no_finding_and_ends_where_it_would(number: int) -> None:
    assert odd_alarms(SEED, number) == []


@pytest.mark.parametrize("number", range(6))
def test_a_plain_training_is_no_finding(number: int) -> None:
    assert plain_alarms(SEED, number) == []
