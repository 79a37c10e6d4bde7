"""A skipped measurement is made up for when there is nothing else to do."""

import pytest
from tests.helpers import samples
from tests.helpers.sessions import Desk

from halftone.contract.messages import AnyCommand, Cancel, Generate, JobEnded, SelfTest
from halftone.contract.request import PictureRequest
from halftone.contract.vocabulary import Outcome
from halftone.session.devices import QUIET_SECONDS


@pytest.fixture
def desk() -> Desk:
    """On a device that is not known: the measurement runs."""
    return Desk(measured=False)


def end(desk: Desk, outcome: Outcome) -> None:
    """The measurement that was sent last ends."""
    command = measurements(desk.link.sent)[-1]
    report = samples.self_test_report() if outcome == "done" else None
    desk.link.say(JobEnded(job=command.job, outcome=outcome, report=report))


def measurements(sent: list[AnyCommand]) -> list[SelfTest]:
    return [command for command in sent if isinstance(command, SelfTest)]


def idle(desk: Desk) -> bool:
    """The quiet time passes; whether something was measured then."""
    before = len(desk.link.sent)
    desk.clock.pass_by(QUIET_SECONDS - 1)
    assert len(desk.link.sent) == before
    desk.clock.pass_by(2)
    return len(desk.link.sent) > before


def test_what_was_skipped_is_measured_once_nothing_runs(desk: Desk) -> None:
    desk.session.queue.generate(PictureRequest(prompt="hills"))
    end(desk, "cancelled")
    picture = desk.link.sent[-1]
    assert isinstance(picture, Generate)
    assert not idle(desk)
    assert len(measurements(desk.link.sent)) == 1, "the picture goes first"
    desk.link.say(JobEnded(job=picture.job, outcome="done"))
    assert idle(desk)
    assert len(measurements(desk.link.sent)) == 2
    end(desk, "done")
    assert not idle(desk)
    assert len(measurements(desk.link.sent)) == 2


def test_a_picture_that_comes_meanwhile_goes_first(desk: Desk) -> None:
    end(desk, "cancelled")
    assert idle(desk)
    desk.session.queue.generate(PictureRequest(prompt="hills"), endless=True)
    assert desk.link.sent[-1] == Cancel(job=measurements(desk.link.sent)[-1].job)
    end(desk, "cancelled")
    picture = desk.link.sent[-1]
    assert isinstance(picture, Generate)
    desk.link.say(JobEnded(job=picture.job, outcome="done"))
    assert isinstance(desk.link.sent[-1], Generate), "what repeats goes on"
    again = desk.link.sent[-1]
    desk.session.queue.cancel(again.job)
    desk.link.say(JobEnded(job=again.job, outcome="cancelled"))
    assert idle(desk)
    assert len(measurements(desk.link.sent)) == 3


def test_a_second_refusal_holds(desk: Desk) -> None:
    end(desk, "cancelled")
    assert idle(desk)
    desk.session.queue.cancel(measurements(desk.link.sent)[-1].job)
    end(desk, "cancelled")
    assert not idle(desk)
    assert len(measurements(desk.link.sent)) == 2


def test_what_failed_is_not_tried_again_by_itself(desk: Desk) -> None:
    end(desk, "failed")
    assert not idle(desk)
    assert len(measurements(desk.link.sent)) == 1
