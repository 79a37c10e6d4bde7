"""The training of a session, without a page."""

import msgspec
import pytest
from tests.helpers import samples
from tests.helpers.sessions import Desk

from halftone.contract.messages import (
    AnyEvent,
    Decide,
    Hold,
    JobEnded,
    Keep,
    TrainBegins,
    TrainCaught,
    TrainHeld,
    TrainStep,
)
from halftone.session.state import TrainingRun
from halftone.session.training import kept_training
from halftone.settings.store import Settings

CONFIG = samples.TRAIN
CAUGHT = samples.caught()


@pytest.fixture
def desk() -> Desk:
    made = Desk()
    made.session.training.start(CONFIG)
    say(made, TrainBegins(config=CONFIG, pictures=(), omens=(), dtype="float16", folder="/loras/run", first=1))
    return made


def run(desk: Desk) -> TrainingRun:
    return desk.session.state.training


def say(desk: Desk, event: AnyEvent) -> None:
    """Of the training."""
    desk.link.say(msgspec.structs.replace(event, job=run(desk).id))


def step(number: int) -> TrainStep:
    return TrainStep(step=number, steps=CONFIG.steps, loss=0.1, norm=0.2, rate=1e-4, scale=1.0, seconds=0.5)


def test_each_step_changes_the_state(desk: Desk) -> None:
    heard: list[int] = []
    desk.session.store.subscribe(lambda state: state.training, lambda found: heard.append(found.events))
    for number in (1, 2):
        say(desk, step(number))
    record = run(desk).record
    assert record is not None
    assert (record.step, heard) == (2, [2, 3])


def test_what_was_stopped_stays_open_until_it_was_looked_at(desk: Desk) -> None:
    desk.clock.pass_by(5)
    say(desk, TrainCaught(caught=CAUGHT))
    assert run(desk).open == (CAUGHT,)
    assert run(desk).heard == {(CAUGHT.step, CAUGHT.name): 5.0}
    desk.session.training.dismiss(CAUGHT)
    assert run(desk).open == ()
    desk.session.training.look_at(CAUGHT)
    desk.session.training.look_at(CAUGHT)
    assert run(desk).open == (CAUGHT,)


def test_a_question_is_answered_once_and_the_next_one_asked(desk: Desk) -> None:
    say(desk, TrainCaught(caught=CAUGHT, asks=True))
    assert run(desk).asking
    desk.session.training.decide("keep-cure")
    assert desk.link.sent[-1] == Decide(job=run(desk).id, choice="keep-cure")
    assert not run(desk).asking
    say(desk, TrainCaught(caught=CAUGHT, asks=True))
    assert run(desk).asking


def test_a_pause_is_pending_until_the_worker_holds(desk: Desk) -> None:
    desk.session.training.hold(True)
    assert desk.link.sent[-1] == Hold(job=run(desk).id, on=True)
    assert run(desk).pausing
    say(desk, TrainHeld(on=True, step=1))
    assert not run(desk).pausing


def test_the_end_waits_for_what_is_saved_but_not_for_ever(desk: Desk) -> None:
    left: list[str] = []
    desk.session.training.finish(lambda: left.append("over"))
    assert desk.link.sent[-1] == Keep(job=run(desk).id)
    desk.clock.pass_by(29)
    assert left == []
    desk.clock.pass_by(2)
    assert left == ["over"]
    say(desk, JobEnded(outcome="done", report=samples.train_report(CONFIG)))
    assert left == ["over"]


def test_one_that_is_begun_again_waits_for_the_end_of_the_first(desk: Desk) -> None:
    first = run(desk).id
    desk.session.training.begin_again(CONFIG)
    assert run(desk).id == first
    say(desk, JobEnded(outcome="cancelled"))
    assert run(desk).id != first
    assert desk.session.training.running


def test_the_draft_is_a_part_of_the_state_and_comes_back_at_the_next_start() -> None:
    desk = Desk()
    assert desk.session.state.training_draft is None
    desk.session.training.put(CONFIG)
    desk.session.training.put(msgspec.structs.replace(CONFIG, learning_rate=float("nan")))
    assert desk.session.state.training_draft == CONFIG, "what is being typed waits"
    kept = kept_training(desk.session.state.training_draft)
    assert Desk(Settings(first_run_done=True, train=kept)).session.state.training_draft == CONFIG
    assert Desk(Settings(first_run_done=True, train="{")).session.state.training_draft is None
