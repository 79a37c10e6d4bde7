"""The protocol as a state machine: no process, no clock, only bytes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import samples

from halftone.client.protocol import MAX_FAILED_STARTS, MAX_QUICK_DEATHS, QUICK_SECONDS, WorkerProtocol, describe_end
from halftone.contract.errors import say
from halftone.contract.messages import (
    AnyCommand,
    AnyEvent,
    Cancel,
    Generate,
    Hello,
    JobEnded,
    JobStarted,
    Load,
    MemoryChanged,
    Quit,
    Ready,
    StepDone,
    WorkerLost,
)
from halftone.contract.request import PictureRequest
from halftone.contract.wire import WireError, command_reader, pack
from halftone.contract.wording import Words

READY = Ready(seq=0, version="0.1.0", protocol=1, pid=1, devices=(samples.CPU,))


def paint(job: str) -> Generate:
    return Generate(job=job, request=PictureRequest(prompt="a red sun"))


def started(job: str, seq: int) -> JobStarted:
    return JobStarted(seq=seq, job=job, kind="generate")


def ended(job: str, seq: int) -> JobEnded:
    return JobEnded(seq=seq, job=job, outcome="done")


def commands(data: bytes) -> list[AnyCommand]:
    return [command for command, _ in command_reader().feed(data)]


class Talk:
    """The protocol with a hand-driven clock."""

    def __init__(self, *jobs: str, grace: float = 10.0) -> None:
        self.now = 100.0
        self.protocol = WorkerProtocol(grace=grace, clock=lambda: self.now)
        self.protocol.start()
        self.say(READY)
        for job in jobs:
            self.protocol.command(paint(job))

    def say(self, *events: AnyEvent) -> list[AnyEvent]:
        return [event for event, _ in self.protocol.feed(b"".join(map(pack, events)))]

    def die(self, code: int | None = 1, signal: str | None = None) -> list[AnyEvent]:
        return self.protocol.died(code, signal, "worker.log", "the end of the log")


def test_hello_comes_first_and_jobs_that_waited_follow_in_their_order() -> None:
    protocol = WorkerProtocol()
    assert protocol.command(paint("a")) == b""
    assert protocol.command(paint("b")) == b""
    assert commands(protocol.start()) == [Hello(), paint("a"), paint("b")]
    assert commands(protocol.command(paint("c"))) == [paint("c")]


def test_ready_is_remembered() -> None:
    assert Talk().protocol.ready == READY


def test_a_used_job_id_is_refused() -> None:
    talk = Talk("a")
    with pytest.raises(ValueError, match="used before"):
        talk.protocol.command(paint("a"))


def test_blobs_come_with_their_events() -> None:
    talk = Talk("a")
    assert talk.protocol.feed(pack(started("a", 1), b"xyz")) == [(started("a", 1), b"xyz")]


def test_a_job_is_open_until_it_ends() -> None:
    talk = Talk("a", "b")
    assert (talk.protocol.open_jobs, talk.protocol.running) == (("a", "b"), None)
    talk.say(started("a", 1))
    assert (talk.protocol.running, talk.protocol.open_jobs) == ("a", ("a", "b"))
    talk.say(ended("a", 2))
    assert (talk.protocol.open_jobs, talk.protocol.running) == (("b",), None)


def test_a_crash_fails_the_running_job_and_keeps_the_queue() -> None:
    talk = Talk("a", "b", "c")
    talk.say(started("a", 1))
    lost, end = talk.die(None, "SIGSEGV")
    assert lost == WorkerLost(seq=2, exit_code=None, signal="SIGSEGV", log="worker.log")
    assert isinstance(end, JobEnded)
    assert (end.seq, end.job, end.outcome) == (3, "a", "failed")
    assert end.error is not None
    assert (end.error.code, end.error.details) == ("worker-lost", "the end of the log")
    assert end.error.facts == {"cause": Words("it crashed with {0}", ("SIGSEGV",)), "log": "worker.log"}
    assert talk.protocol.may_restart
    assert commands(talk.protocol.start()) == [Hello(), paint("b"), paint("c")]


def test_a_crash_while_nothing_runs_ends_no_job() -> None:
    talk = Talk("a")
    assert [type(event) for event in talk.die()] == [WorkerLost]
    assert commands(talk.protocol.start()) == [Hello(), paint("a")]


def test_a_new_worker_starts_its_numbers_anew() -> None:
    talk = Talk("a")
    talk.die()
    talk.protocol.start()
    assert talk.say(READY, started("a", 1)) == [READY, started("a", 1)]


def test_half_a_message_of_a_dead_worker_is_forgotten() -> None:
    talk = Talk("a")
    talk.protocol.feed(pack(started("a", 1))[:-3])
    talk.die()
    talk.protocol.start()
    assert talk.say(READY) == [READY]


def test_cancel_sets_a_deadline_and_its_passing_asks_for_the_end() -> None:
    talk = Talk("a", grace=10.0)
    talk.say(started("a", 1))
    assert talk.protocol.deadline is None
    talk.protocol.command(Cancel(job="a"))
    talk.now += 5.0
    talk.protocol.command(Cancel(job="a"))  # impatience does not move it
    assert talk.protocol.deadline == 110.0
    assert not talk.protocol.overdue(109.9)
    assert talk.protocol.overdue(110.0)


def test_a_job_that_ends_in_time_is_not_overdue() -> None:
    talk = Talk("a")
    talk.say(started("a", 1))
    talk.protocol.command(Cancel(job="a"))
    talk.say(JobEnded(seq=2, job="a", outcome="cancelled"))
    assert talk.protocol.deadline is None
    assert not talk.protocol.overdue(1e9)


def test_slow_steps_get_the_time_of_two() -> None:
    talk = Talk("a", grace=10.0)
    talk.say(started("a", 1), StepDone(seq=2, job="a", step=1, steps=9, peak=1.0, finite=True, seconds=30.0))
    talk.protocol.command(Cancel(job="a"))
    assert talk.protocol.deadline == 160.0


def test_after_the_grace_the_job_ends_cancelled_and_the_queue_goes_on() -> None:
    talk = Talk("a", "b")
    talk.say(started("a", 1))
    talk.protocol.command(Cancel(job="a"))
    lost, end = talk.die(None, "SIGKILL")
    assert isinstance(lost, WorkerLost)
    assert isinstance(end, JobEnded)
    assert (end.job, end.outcome, end.error) == ("a", "cancelled", None)
    assert commands(talk.protocol.start()) == [Hello(), paint("b")]


def test_a_waiting_job_that_was_cancelled_is_not_sent_again() -> None:
    talk = Talk("a", "b")
    talk.protocol.command(Cancel(job="b"))
    events = talk.die()
    assert [(event.job, event.outcome) for event in events if isinstance(event, JobEnded)] == [("b", "cancelled")]
    assert commands(talk.protocol.start()) == [Hello(), paint("a")]


def test_a_cancel_between_two_workers_reaches_the_next_one() -> None:
    talk = Talk("a")
    talk.die()
    assert talk.protocol.command(Cancel(job="a")) == b""
    assert commands(talk.protocol.start()) == [Hello(), paint("a"), Cancel(job="a")]


def test_after_quit_nothing_is_lost_and_no_worker_follows() -> None:
    talk = Talk("a", "b")
    talk.say(started("a", 1))
    talk.protocol.command(Quit())
    ends = [(event.job, event.outcome) for event in talk.die(0) if isinstance(event, JobEnded)]
    assert ends == [("a", "cancelled"), ("b", "cancelled")]
    assert not talk.protocol.may_restart


def test_workers_that_die_before_they_are_ready_are_not_started_for_ever() -> None:
    protocol = WorkerProtocol()
    protocol.command(paint("a"))
    events: list[AnyEvent] = []
    for left in reversed(range(MAX_FAILED_STARTS)):
        protocol.start()
        events = protocol.died(1, None, "worker.log")
        assert protocol.may_restart is (left > 0)
    (end,) = [event for event in events if isinstance(event, JobEnded)]
    assert end.error is not None
    assert (end.outcome, end.error.code) == ("failed", "worker-start")
    assert protocol.open_jobs == ()


def test_the_last_of_many_crashes_is_not_told_as_a_new_start() -> None:
    talk = Talk(*"abcdefgh"[:MAX_QUICK_DEATHS])
    told: list[str] = []
    for number, job in enumerate(talk.protocol.open_jobs, start=1):
        talk.say(started(job, number))
        (end,) = [event for event in talk.die() if isinstance(event, JobEnded)]
        assert end.error is not None
        told.append(say(end.error))
        if talk.protocol.may_restart:
            talk.protocol.start()
            talk.say(READY)
    assert all("It restarted, and finished work is kept." in words for words in told[:-1])
    assert "It stopped too often. Restart Halftone; finished work is kept." in told[-1]


def test_one_ready_worker_that_lived_makes_good_for_those_before() -> None:
    now = 0.0
    protocol = WorkerProtocol(clock=lambda: now)
    for _ in range(2 * MAX_FAILED_STARTS):
        protocol.start()
        protocol.died(1, None, "worker.log")
        protocol.start()
        protocol.feed(pack(READY))
        now += QUICK_SECONDS
        protocol.died(1, None, "worker.log")
        assert protocol.may_restart


def test_workers_that_die_soon_after_they_were_ready_are_not_started_for_ever() -> None:
    talk = Talk()
    for left in reversed(range(MAX_QUICK_DEATHS)):
        talk.die()
        assert talk.protocol.may_restart is (left > 0)
        talk.protocol.start()
        talk.say(READY)
    talk.protocol.forgive()
    assert talk.protocol.may_restart


def test_a_finished_job_makes_good_for_quick_deaths() -> None:
    talk = Talk()
    for number in range(2 * MAX_QUICK_DEATHS):
        talk.protocol.command(paint(str(number)))
        talk.say(started(str(number), 1), ended(str(number), 2))
        talk.die()
        assert talk.protocol.may_restart
        talk.protocol.start()
        talk.say(READY)


def test_killing_what_does_not_stop_in_time_is_no_sign_against_the_next_worker() -> None:
    talk = Talk()
    for number in range(2 * MAX_QUICK_DEATHS):
        talk.protocol.command(paint(str(number)))
        talk.say(started(str(number), 1))
        talk.protocol.command(Cancel(job=str(number)))
        talk.die(None, "SIGKILL")
        assert talk.protocol.may_restart
        talk.protocol.start()
        talk.say(READY)


@pytest.mark.logs("what cannot be read")
def test_bytes_that_nobody_understands_ask_for_the_end_and_cost_no_good_message() -> None:
    talk = Talk("a")
    assert talk.protocol.broken is None
    assert talk.protocol.feed(pack(started("a", 1)) + b"\x02\x00\x00\x00" + bytes(4) + b"\xa1x") == [(started("a", 1), b"")]
    assert talk.protocol.feed(pack(ended("a", 2))) == []
    assert isinstance(talk.protocol.broken, WireError)
    assert talk.protocol.overdue()
    end = talk.die(None, "SIGKILL")[1]
    assert isinstance(end, JobEnded)
    assert end.error is not None
    assert "could not be read" in str(end.error.facts["cause"])


@pytest.mark.logs("JobEnded for job a, which is not open", "StepDone for job a, which is not open")
def test_a_second_end_and_what_follows_an_end_are_dropped() -> None:
    talk = Talk("a")
    step = StepDone(seq=4, job="a", step=1, steps=2, peak=None, finite=None, seconds=0.1)
    memory = MemoryChanged(seq=5, memory=samples.MEMORY)
    given_on = talk.say(started("a", 1), ended("a", 2), ended("a", 3), step, memory)
    assert given_on == [started("a", 1), ended("a", 2), memory]


@pytest.mark.logs("which is not open")
def test_events_of_a_job_that_nobody_sent_are_dropped() -> None:
    assert Talk().say(started("ghost", 1)) == []


@pytest.mark.logs("number 1 after number 1")
def test_an_event_that_comes_twice_is_dropped() -> None:
    assert Talk("a").say(started("a", 1), started("a", 1)) == [started("a", 1)]


@pytest.mark.parametrize(
    ("code", "signal", "words"),
    [
        (None, "SIGKILL", "the system ended it, often because memory ran out"),
        (None, "SIGSEGV", "it crashed with SIGSEGV"),
        (None, "SIGTERM", "it was ended by SIGTERM"),
        (3, None, "it ended with code 3"),
        (None, None, "it ended without a word"),
    ],
)
def test_the_end_of_a_process_is_told_in_words(code: int | None, signal: str | None, words: str) -> None:
    assert str(describe_end(code, signal)) == words


def test_commands_that_are_no_jobs_are_sent_as_they_are() -> None:
    talk = Talk()
    assert commands(talk.protocol.command(Load(model="pocket"))) == [Load(model="pocket")]
    assert talk.protocol.open_jobs == ()


@given(st.lists(st.sampled_from(["job", "start", "cancel first", "cancel last", "end", "die"]), max_size=30))
def test_whatever_happens_each_job_ends_once(steps: list[str]) -> None:
    """A worker that keeps the laws and dies at any moment: no job ends twice, and none is forgotten."""
    talk, told = Talk(), list[AnyEvent]()
    for number, step in enumerate(steps, start=1):
        protocol = talk.protocol
        if step == "job":
            protocol.command(paint(str(number)))
        elif step.startswith("cancel") and protocol.open_jobs:
            protocol.command(Cancel(job=protocol.open_jobs[0 if step == "cancel first" else -1]))
        elif step == "start" and protocol.running is None and protocol.open_jobs:
            told += talk.say(started(protocol.open_jobs[0], number))
        elif step == "end" and protocol.running is not None:
            told += talk.say(ended(protocol.running, number))
        elif step == "die":
            told += talk.die()
            protocol.start()
            talk.say(READY)
    ends = [event.job for event in told if isinstance(event, JobEnded)]
    sent = [str(number) for number, step in enumerate(steps, start=1) if step == "job"]
    assert sorted([*ends, *talk.protocol.open_jobs], key=str) == sorted(sent)
