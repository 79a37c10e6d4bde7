"""Several cards: which worker gets which job of the queue, and what becomes of a card that is lost or left out."""

import msgspec
from tests.helpers import samples
from tests.helpers.cards import FIRST, REPORT, SECOND, TwoCards

from halftone.contract.errors import ErrorFacts
from halftone.contract.messages import (
    Cancel,
    Generate,
    MemoryChanged,
    ModelChanged,
    Quit,
    SelfTest,
    WorkerLost,
)
from halftone.contract.request import PictureRequest
from halftone.session.cards import for_card
from halftone.session.events import Queued
from halftone.session.state import Job


def test_each_card_has_a_job() -> None:
    desk = TwoCards()
    first, second, third = desk.ask(3)
    assert desk.at() == {first: "", second: "cuda:1"}
    assert desk.other.last().request.device == "cuda:1"
    assert desk.own.last().request.device == "auto"
    desk.other.ends()
    assert desk.at() == {first: "", third: "cuda:1"}


def test_the_worker_of_another_card_starts_when_a_job_wants_it() -> None:
    desk = TwoCards()
    desk.ask(1)
    assert not desk.others, "one picture needs one card"
    desk.ask(1)
    assert len(desk.others) == 1


def test_only_one_card_is_used_unless_the_user_wants_all() -> None:
    desk = TwoCards(on=False)
    (first, *_) = desk.ask(3)
    assert desk.at() == {first: ""}
    assert not desk.others
    desk.session.settings.update(msgspec.structs.replace(desk.session.state.settings, all_cards=True))
    desk.settle()
    assert len(desk.at()) == 2


def test_a_card_is_measured_before_its_first_picture() -> None:
    desk = TwoCards(measured=(FIRST,))
    _, second = desk.ask(2)
    assert desk.other.last(SelfTest).device == "cuda:1"
    assert second not in desk.at()
    before = desk.session.state.self_test
    report = msgspec.structs.replace(REPORT, device=SECOND)
    desk.other.ends(report=report)
    assert desk.at()[second] == "cuda:1"
    assert desk.session.state.self_test is before, "it is not the device in use"


def test_a_self_test_that_fails_is_not_repeated() -> None:
    desk = TwoCards(measured=(FIRST,))
    first, second = desk.ask(2)
    desk.other.ends("failed", error=ErrorFacts(code="worker-lost", facts={"cause": "", "log": ""}))
    desk.settle()
    assert [type(command) for command in desk.other.sent].count(SelfTest) == 1
    assert list(desk.at()) == [first]
    desk.own.ends()
    assert list(desk.at()) == [second], "the device in use makes it"


def test_a_card_that_is_not_measured_is_judged_by_the_device_in_use() -> None:
    """Pocket does not fit it in FP32, and does in FP16: it is measured, and then takes the picture."""
    small = msgspec.structs.replace(SECOND, memory_total=3_000_000)
    desk = TwoCards(measured=(FIRST,), second=small)
    _, second = desk.ask(2, width=64, height=64)
    assert desk.other.last(SelfTest).device == small.id
    desk.other.ends(report=msgspec.structs.replace(REPORT, device=small))
    desk.settle()
    assert desk.at()[second] == small.id


def test_a_waiting_self_test_of_a_lost_card_leaves_the_queue() -> None:
    desk = TwoCards(measured=(FIRST,))
    desk.ask(2)
    test = desk.other.last(SelfTest)
    again = Job(id="again", command=SelfTest(job="again", device=test.device), title="", card=test.device)
    desk.session.store.take(Queued(job=again))
    desk.other.dies = True
    desk.other.say(WorkerLost(exit_code=1, signal=None, log="log"))
    desk.other.ends("failed", error=ErrorFacts(code="worker-given-up", facts={"cause": "", "log": ""}))
    assert desk.session.state.job("again") is None


def test_a_picture_for_a_device_by_name_stays_there() -> None:
    desk = TwoCards()
    first, _ = desk.ask(2, device="cuda:1")
    assert desk.at() == {first: ""}
    assert not desk.others


def test_the_card_that_has_the_model_gets_it() -> None:
    desk = TwoCards()
    desk.ask(2)
    desk.own.say(ModelChanged(model=None))
    desk.other.say(ModelChanged(model=desk.model, device="cuda:1"))
    desk.own.ends()
    desk.other.ends()
    (again,) = desk.ask(1)
    assert desk.at() == {again: "cuda:1"}


def test_a_picture_too_large_for_one_card_waits_for_the_other() -> None:
    desk = TwoCards()
    desk.ask(2)
    desk.own.say(MemoryChanged(memory=msgspec.structs.replace(samples.MEMORY, others=8 * 2**30)))
    desk.own.ends()
    (small,) = desk.ask(1, width=64, height=64)
    assert small not in desk.at(), "nothing is free on the device in use"
    desk.other.ends()
    assert desk.at() == {small: "cuda:1"}


def test_commands_about_a_job_go_to_its_worker() -> None:
    desk = TwoCards()
    first, second = desk.ask(2)
    desk.session.queue.cancel(second)
    assert desk.other.last(Cancel).job == second
    desk.session.queue.cancel(first)
    assert desk.own.last(Cancel).job == first


def test_a_death_costs_no_job_of_another_card() -> None:
    desk = TwoCards()
    first, second = desk.ask(2)
    error = ErrorFacts(code="worker-lost", facts={"cause": "", "log": ""})
    desk.other.ends("failed", error=error)
    desk.settle()
    assert first in desk.at()
    waiting = next(job for job in desk.session.state.jobs if job.root == second or job.id == second)
    assert not waiting.running or waiting.id != second, "it is sent under another id"
    assert len(desk.session.state.jobs) == 2


def test_a_card_whose_workers_keep_dying_takes_no_more() -> None:
    desk = TwoCards()
    first, second = desk.ask(2)
    desk.other.dies = True
    error = ErrorFacts(code="worker-given-up", facts={"cause": "", "log": ""})
    desk.other.say(WorkerLost(exit_code=1, signal=None, log="log"))
    desk.other.ends("failed", error=error)
    desk.settle()
    assert list(desk.at()) == [first]
    assert "card-lost" in desk.kinds
    desk.own.ends()
    assert [job.root for job in desk.session.state.begun] == [second], "the device in use makes it"


def test_a_card_that_is_left_out_ends_its_job_first() -> None:
    desk = TwoCards()
    desk.ask(3)
    desk.session.settings.update(msgspec.structs.replace(desk.session.state.settings, all_cards=False))
    assert not isinstance(desk.other.sent[-1], Quit)
    desk.other.ends()
    assert isinstance(desk.other.sent[-1], Quit)
    assert len(desk.at()) == 1


def test_a_card_left_out_and_taken_again_meanwhile_goes_on() -> None:
    desk = TwoCards()
    desk.ask(4)
    for on in (False, True):
        desk.session.settings.update(msgspec.structs.replace(desk.session.state.settings, all_cards=on))
    desk.other.ends()
    desk.settle()
    assert len(desk.others) == 1
    assert len(desk.at()) == 2


def test_nothing_is_sent_while_the_queue_is_paused() -> None:
    desk = TwoCards()
    desk.session.queue.pause(True)
    desk.ask(3)
    assert not desk.at()
    desk.session.queue.pause(False)
    desk.settle()
    assert len(desk.at()) == 2


def test_all_workers_are_asked_to_leave() -> None:
    desk = TwoCards()
    desk.ask(2)
    desk.session.leave(lambda: None)
    assert isinstance(desk.other.sent[-1], Quit)
    desk.session.stop()
    assert desk.other.stopped


def test_only_pictures_change_their_device() -> None:
    command = SelfTest(job="a", device="cuda:0")
    assert for_card(command, "cuda:1") is command
    picture = Generate(job="a", request=PictureRequest(prompt="a", model="m"))
    assert for_card(picture, "") is picture
