"""The laws of jobs, whatever the engine does. Everything runs in one thread: events answer with commands."""

import itertools
from collections.abc import Callable
from pathlib import Path
from typing import cast

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers import samples
from tests.helpers.scripted import AnyAction, Fail, Picture, Say, ScriptedEngine, Steps, Throw, Wait

from halftone.contract.engine import Control, Emit
from halftone.contract.error_codes import ErrorCode
from halftone.contract.facts import MemoryFacts, RepairReport
from halftone.contract.messages import (
    PROTOCOL,
    AnyCommand,
    AnyEvent,
    Cancel,
    Examine,
    Generate,
    Hello,
    JobCommand,
    JobEnded,
    JobStarted,
    Keep,
    Load,
    MemoryChanged,
    ModelChanged,
    PictureReady,
    PreviewReady,
    Quit,
    Ready,
    Refused,
    Repair,
    SelfTest,
    StepDone,
    Unload,
    Upscale,
)
from halftone.contract.request import PictureRequest, UpscaleRequest
from halftone.worker.runner import JobRunner

Answer = Callable[[AnyEvent], AnyCommand | None]
Script = dict[str, list[AnyAction]]


class Desk:
    """A runner, what it sent, and who answers."""

    def __init__(self, script: Script | None = None, answer: Answer | None = None, *, slow: bool = False) -> None:
        self.events: list[AnyEvent] = []
        self.now = 0.0
        self._answer = answer
        self.runner = JobRunner(
            ScriptedEngine(script), self._send, log_path="worker.log", is_behind=lambda: slow, clock=lambda: self.now
        )

    def _send(self, event: AnyEvent, blob: bytes) -> None:
        self.events.append(event)
        if self._answer is not None and (command := self._answer(event)) is not None:
            self.runner.submit(command)

    def carry_out(self, *commands: AnyCommand) -> list[AnyEvent]:
        for command in commands:
            self.runner.submit(command)
        self.runner.run_until_idle()
        return self.events

    def of(self, job: str) -> list[AnyEvent]:
        return [event for event in self.events if event.job == job]

    def end(self, job: str) -> JobEnded:
        """The job's end: there is exactly one, and nothing after it."""
        last = self.of(job)[-1]
        assert isinstance(last, JobEnded)
        assert [type(event) for event in self.of(job)].count(JobEnded) == 1
        return last


def paint(job: str) -> Generate:
    return Generate(job=job, request=PictureRequest(prompt="a red sun"))


COMMANDS: list[JobCommand] = [
    paint("a"),
    Examine(job="a", model="pocket"),
    SelfTest(job="a"),
    Repair(job="a", model="pocket", output="copy"),
    Upscale(job="a", request=UpscaleRequest(pictures=(), upscaler="4x.safetensors")),
]


@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: type(command).__name__)
def test_a_job_starts_ends_once_and_carries_its_report(command: JobCommand) -> None:
    desk = Desk()
    desk.carry_out(command)
    first = desk.of("a")[0]
    assert isinstance(first, JobStarted)
    assert first.kind == type(command).__name__.lower()
    assert desk.end("a").outcome == "done"
    assert desk.end("a").report is not None
    assert desk.end("a").error is None


def test_numbers_rise_by_one_from_zero() -> None:
    events = Desk().carry_out(Hello(), paint("a"), Load(model="pocket"), Unload(), SelfTest(job="b"))
    assert [event.seq for event in events] == list(range(len(events)))


def test_jobs_run_in_the_order_they_came() -> None:
    desk = Desk()
    desk.carry_out(paint("a"), SelfTest(job="b"), paint("c"))
    assert [event.job for event in desk.events if isinstance(event, JobStarted) and event.plan is None] == ["a", "b", "c"]
    assert [event.job for event in desk.events if isinstance(event, JobEnded)] == ["a", "b", "c"]


def test_hello_is_answered_with_the_devices() -> None:
    ready = Desk().carry_out(Hello())[0]
    assert isinstance(ready, Ready)
    assert (ready.protocol, ready.devices) == (PROTOCOL, (samples.CPU,))


def test_another_protocol_is_refused() -> None:
    (refused,) = Desk().carry_out(Hello(protocol=PROTOCOL + 1))
    assert isinstance(refused, Refused)
    assert (refused.command, refused.error.code) == ("Hello", "protocol-mismatch")


def test_cancel_ends_a_waiting_job_at_once_and_it_never_starts() -> None:
    desk = Desk(answer=lambda event: Cancel(job="b") if isinstance(event, StepDone) and event.step == 1 else None)
    desk.carry_out(paint("a"), paint("b"), paint("c"))
    assert [type(event) for event in desk.of("b")] == [JobEnded]
    assert desk.end("b").outcome == "cancelled"
    ends = [event.job for event in desk.events if isinstance(event, JobEnded)]
    assert ends == ["b", "a", "c"]


def test_cancel_ends_the_running_job_after_its_step() -> None:
    desk = Desk(answer=lambda event: Cancel(job="a") if isinstance(event, StepDone) and event.step == 2 else None)
    desk.carry_out(paint("a"), paint("b"))
    assert max(event.step for event in desk.of("a") if isinstance(event, StepDone)) == 2
    assert desk.end("a").outcome == "cancelled"
    assert desk.end("b").outcome == "done"


def test_keep_decodes_what_there_is() -> None:
    desk = Desk(answer=lambda event: Keep(job="a") if isinstance(event, StepDone) and event.step == 2 else None)
    desk.carry_out(paint("a"))
    assert max(event.step for event in desk.of("a") if isinstance(event, StepDone)) == 2
    assert any(isinstance(event, PictureReady) for event in desk.of("a"))
    assert desk.end("a").outcome == "done"


def test_cancel_and_keep_of_what_is_not_there_do_nothing() -> None:
    desk = Desk()
    desk.carry_out(Cancel(job="a"), Keep(job="a"), paint("a"))
    desk.carry_out(Cancel(job="a"), Keep(job="a"))
    assert desk.end("a").outcome == "done"


def test_quit_cancels_what_runs_and_what_waits() -> None:
    desk = Desk(answer=lambda event: Quit() if isinstance(event, StepDone) else None)
    desk.carry_out(paint("a"), paint("b"), Load(model="pocket"))
    assert [desk.end(job).outcome for job in "ab"] == ["cancelled", "cancelled"]
    desk.runner.run()  # returns at once
    desk.carry_out(paint("c"))
    assert desk.end("c").outcome == "cancelled"


@pytest.mark.parametrize("after", [True, False], ids=["after its end", "while it runs"])
def test_a_used_job_id_is_refused(*, after: bool) -> None:
    desk = Desk()
    if after:
        desk.carry_out(paint("a"))
    desk.carry_out(*([paint("a")] if after else [paint("a"), paint("a")]))
    refused = [event for event in desk.events if isinstance(event, Refused)]
    assert [(event.command, event.error.code, event.job) for event in refused] == [("Generate", "internal", None)]
    assert desk.end("a").outcome == "done"


@pytest.mark.parametrize(
    ("action", "code"),
    [
        (Fail(code="file-empty"), "file-empty"),
        (Throw(kind="memory-error"), "out-of-memory"),
        (Throw(kind="runtime-error", text="CUDA out of memory. Tried to allocate 2.00 GiB"), "out-of-memory"),
        (Throw(kind="runtime-error", text="DefaultCPUAllocator: can't allocate memory: you tried 9 bytes"), "out-of-memory"),
    ],
)
def test_what_the_user_can_be_told_is_told(action: AnyAction, code: ErrorCode) -> None:
    desk = Desk({"a": [action]})
    desk.carry_out(paint("a"), paint("b"))
    error = desk.end("a").error
    assert error is not None
    assert error.code == code
    assert desk.end("a").outcome == "failed"
    assert desk.end("b").outcome == "done"


@pytest.mark.logs("Generate failed")
@pytest.mark.parametrize("kind", ["value-error", "runtime-error", "system-exit"])
def test_what_nobody_foresaw_is_internal_with_its_traceback(kind: str) -> None:
    desk = Desk({"a": [msgspec.convert({"type": "Throw", "kind": kind, "text": "odd\nmore"}, Throw)]})
    desk.carry_out(paint("a"), paint("b"))
    error = desk.end("a").error
    assert error is not None
    assert (error.code, error.facts["log"]) == ("internal", "worker.log")
    assert error.facts["detail"] == ("4" if kind == "system-exit" else "odd")
    assert "Traceback" in error.details
    assert desk.end("b").outcome == "done"


@pytest.mark.logs("illegal memory access")
def test_after_a_lost_device_what_waits_is_left_to_the_next_worker() -> None:
    desk = Desk({"a": [Throw(kind="runtime-error", text="CUDA error: an illegal memory access was encountered")]})
    desk.carry_out(paint("a"), paint("b"))
    error = desk.end("a").error
    assert error is not None
    assert error.code == "device-lost"
    assert desk.runner.device_lost
    assert desk.of("b") == []
    desk.runner.run()  # returns at once, though a job waits


def test_an_interrupt_from_the_keyboard_goes_on_after_the_end() -> None:
    desk = Desk({"a": [Throw(kind="keyboard-interrupt")]})
    with pytest.raises(KeyboardInterrupt):
        desk.carry_out(paint("a"))
    assert desk.end("a").outcome == "cancelled"
    desk.carry_out(paint("b"))
    assert desk.end("b").outcome == "done"


@pytest.mark.logs("engine sent JobEnded", "engine sent Ready")
def test_the_engine_cannot_end_its_job() -> None:
    early = [Say(event=JobEnded(job="a", outcome="done")), Say(event=Ready(version="", protocol=1, pid=1, devices=()))]
    desk = Desk({"a": [*early, Picture()]})
    desk.carry_out(paint("a"))
    assert desk.end("a").report is not None
    assert not any(isinstance(event, Ready) for event in desk.events)


@pytest.mark.logs("could not be sent")
def test_a_report_that_no_wire_carries_is_a_failure() -> None:
    class Sloppy(ScriptedEngine):
        def repair(self, command: Repair, emit: Emit, control: Control) -> RepairReport:
            return cast("RepairReport", object())  # types do not hold at run time

    events: list[AnyEvent] = []

    def send(event: AnyEvent, blob: bytes) -> None:
        msgspec.msgpack.encode(event)
        events.append(event)

    runner = JobRunner(Sloppy(), send)
    runner.submit(Repair(job="a", model="pocket", output="x"))
    runner.run_until_idle()
    assert [type(event) for event in events] == [JobStarted, JobEnded, MemoryChanged]
    assert isinstance(events[1], JobEnded)
    assert events[1].error is not None


def test_previews_are_left_out_while_the_reader_is_slow_and_nothing_else() -> None:
    quick, slow = Desk(), Desk(slow=True)
    quick.carry_out(paint("a"))
    slow.carry_out(paint("a"))
    kinds = [type(event) for event in quick.events if not isinstance(event, PreviewReady)]
    assert [type(event) for event in slow.events] == kinds
    assert len(quick.events) > len(slow.events)


def test_memory_is_told_after_jobs_and_loads_when_it_changed() -> None:
    desk = Desk({"a": []})
    desk.carry_out(Hello(), paint("a"), Load(model="pocket"), Load(model="pocket"), Unload())
    told = [event.memory.own for event in desk.events if isinstance(event, MemoryChanged)]
    base = samples.MEMORY.own
    assert told == [base, base + 5_000_000, base]


def test_memory_is_told_at_most_once_a_second_during_a_job() -> None:
    class Growing(ScriptedEngine):
        used = 0

        def memory(self) -> MemoryFacts:
            self.used += 1
            return msgspec.structs.replace(samples.MEMORY, own=self.used)

    events: list[AnyEvent] = []
    times = iter(number / 4 for number in range(1000))
    engine = Growing({"a": [Steps(steps=20, preview_size=0)]})
    runner = JobRunner(engine, lambda event, _: events.append(event), clock=lambda: next(times))
    runner.submit(paint("a"))
    runner.run_until_idle()
    # 20 steps, a quarter of a second each, 5 seconds; the last one comes after the job.
    assert sum(isinstance(event, MemoryChanged) for event in events) == 6


def test_the_memory_of_a_long_silent_step_is_told_while_it_grows(tmp_path: Path) -> None:
    class Growing(ScriptedEngine):
        used = 0

        def memory(self) -> MemoryFacts:
            self.used += 1
            return msgspec.structs.replace(samples.MEMORY, own=self.used)

    told: list[int] = []

    def send(event: AnyEvent, _blob: bytes) -> None:
        if isinstance(event, MemoryChanged):
            told.append(event.memory.own)
            if len(told) == 3:
                (tmp_path / "go").touch()

    moments = itertools.count()
    engine = Growing({"a": [Wait(path=str(tmp_path / "go"))]})
    runner = JobRunner(engine, send, clock=lambda: float(next(moments)), watch_memory=0.005)
    runner.submit(paint("a"))
    runner.run_until_idle()
    assert told[:3] == [1, 2, 3], "the job itself said nothing meanwhile"


@pytest.mark.logs("memory could not be read")
def test_a_memory_that_cannot_be_read_breaks_no_job() -> None:
    class Broken(ScriptedEngine):
        def memory(self) -> MemoryFacts:
            raise RuntimeError("no such counter")

    events: list[AnyEvent] = []
    runner = JobRunner(Broken({"a": []}), lambda event, _: events.append(event))
    runner.submit(paint("a"))
    runner.run_until_idle()
    assert [type(event) for event in events] == [JobStarted, JobEnded]


def test_load_and_unload_are_answered_with_the_model() -> None:
    events = Desk().carry_out(Load(model="pocket"), Unload())
    models = [event.model.id if event.model else None for event in events if isinstance(event, ModelChanged)]
    assert models == ["pocket", None]
    assert all(event.job is None for event in events)


def test_a_load_that_fails_is_refused() -> None:
    events = Desk({"load": [Fail(code="model-missing", facts={"path": "x"})]}).carry_out(Load(model="x"))
    assert isinstance(events[0], Refused)
    assert (events[0].command, events[0].error.code) == ("Load", "model-missing")


@pytest.mark.logs("engine could not be loaded")
def test_an_engine_that_cannot_be_made_is_told_to_each_who_asks() -> None:
    def make() -> ScriptedEngine:
        raise ImportError("libtorch is missing")

    events: list[AnyEvent] = []
    runner = JobRunner(make, lambda event, _: events.append(event))
    for command in (Hello(), paint("a")):
        runner.submit(command)
    runner.run_until_idle()
    refused, _, ended = events
    assert isinstance(refused, Refused)
    assert isinstance(ended, JobEnded)
    assert ended.error is not None
    assert refused.error.code == ended.error.code == "worker-start"


ACTIONS: list[AnyAction] = [
    Steps(steps=2),
    Picture(),
    Fail(code="file-empty"),
    Throw(kind="memory-error"),
    Say(event=StepDone(job="someone else", step=1, steps=1, peak=None, finite=None, seconds=0.0)),
]
JOBS = ("a", "b", "c")


ORDERS: list[AnyCommand] = [*map(paint, JOBS), *(Cancel(job=job) for job in JOBS), Load(model="pocket")]
STRIKES: list[AnyCommand] = [Cancel(job="a"), Cancel(job="b"), Keep(job="c"), Quit()]


@given(
    script=st.fixed_dictionaries({job: st.lists(st.sampled_from(ACTIONS), max_size=4) for job in JOBS}),
    commands=st.lists(st.sampled_from(ORDERS), max_size=8),
    strikes=st.dictionaries(st.integers(0, 20), st.sampled_from(STRIKES), max_size=3),
)
def test_each_job_ends_once_and_is_silent_afterwards(
    script: Script, commands: list[AnyCommand], strikes: dict[int, AnyCommand]
) -> None:
    desk = Desk(script, lambda event: strikes.get(event.seq))
    desk.carry_out(*commands)
    for job in {command.job for command in commands if isinstance(command, Generate)}:
        desk.end(job)
    assert [event.seq for event in desk.events] == list(range(len(desk.events)))
