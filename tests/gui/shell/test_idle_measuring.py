"""A skipped measurement is made up for when there is nothing else to do."""

from collections.abc import Iterator

import pytest
import shiboken6
from pytestqt.qtbot import QtBot
from tests.gui.shell.test_controller import PATIENCE, Noting
from tests.helpers import samples

from halftone.contract.messages import AnyCommand, Cancel, Generate, JobEnded, SelfTest
from halftone.contract.request import PictureRequest
from halftone.contract.vocabulary import Outcome
from halftone.gui.controller import Controller
from halftone.settings.store import Settings


@pytest.fixture
def link() -> Noting:
    return Noting()


@pytest.fixture
def controller(qtbot: QtBot, link: Noting) -> Iterator[Controller]:
    """On a device that is not known: the measurement runs."""
    made = Controller(link, Settings(first_run_done=True))
    made.start()
    qtbot.waitUntil(lambda: made.model is not None, timeout=PATIENCE)
    yield made
    made.stop()
    qtbot.waitUntil(lambda: not made.background.busy, timeout=PATIENCE)
    shiboken6.delete(made)


def end(link: Noting, outcome: Outcome) -> None:
    """The measurement that was sent last ends."""
    command = measurements(link.sent)[-1]
    report = samples.self_test_report() if outcome == "done" else None
    link.say(JobEnded(job=command.job, outcome=outcome, report=report))


def measurements(sent: list[AnyCommand]) -> list[SelfTest]:
    return [command for command in sent if isinstance(command, SelfTest)]


def idle(controller: Controller) -> bool:
    """The quiet time passes; whether anything waited for that."""
    waited = controller._idle._quiet.isActive()
    controller._idle.measure()
    return waited


def test_what_was_skipped_is_measured_once_nothing_runs(controller: Controller, link: Noting) -> None:
    controller.generate(PictureRequest(prompt="hills"))
    end(link, "cancelled")
    picture = link.sent[-1]
    assert isinstance(picture, Generate)
    assert not idle(controller)
    assert len(measurements(link.sent)) == 1, "the picture goes first"
    link.say(JobEnded(job=picture.job, outcome="done"))
    assert idle(controller)
    assert len(measurements(link.sent)) == 2
    end(link, "done")
    assert not idle(controller)
    assert len(measurements(link.sent)) == 2


def test_a_picture_that_comes_meanwhile_goes_first(controller: Controller, link: Noting) -> None:
    end(link, "cancelled")
    assert idle(controller)
    controller.generate(PictureRequest(prompt="hills"), endless=True)
    assert link.sent[-1] == Cancel(job=measurements(link.sent)[-1].job)
    end(link, "cancelled")
    picture = link.sent[-1]
    assert isinstance(picture, Generate)
    link.say(JobEnded(job=picture.job, outcome="done"))
    assert isinstance(link.sent[-1], Generate), "what repeats goes on"
    again = link.sent[-1]
    controller.cancel(again.job)
    link.say(JobEnded(job=again.job, outcome="cancelled"))
    assert idle(controller)
    assert len(measurements(link.sent)) == 3


def test_a_second_refusal_holds(controller: Controller, link: Noting) -> None:
    end(link, "cancelled")
    assert idle(controller)
    controller.cancel(measurements(link.sent)[-1].job)
    end(link, "cancelled")
    assert not idle(controller)
    assert len(measurements(link.sent)) == 2


def test_what_failed_is_not_tried_again_by_itself(controller: Controller, link: Noting) -> None:
    end(link, "failed")
    assert not idle(controller)
    assert len(measurements(link.sent)) == 1
