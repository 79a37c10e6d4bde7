"""The pure step of the state."""

import pytest
from tests.helpers import samples

from halftone.contract.errors import ErrorFacts
from halftone.contract.messages import (
    AnyEvent,
    Examine,
    FindingMade,
    Generate,
    JobEnded,
    JobStarted,
    LayersMeasured,
    MemoryChanged,
    ModelChanged,
    PhaseChanged,
    PictureReady,
    PlanChanged,
    Ready,
    Refused,
    StepDone,
    Upscale,
    WorkerLost,
)
from halftone.contract.request import PictureRequest, UpscaleRequest
from halftone.session.events import Making, Moved, Noted, OwnEvent, Paused, Queued, Removed, RowFolded, Sent, Stopping
from halftone.session.reducer import apply
from halftone.session.state import AppState, Job


def job(name: str) -> Job:
    return Job(id=name, command=Generate(job=name, request=PictureRequest(prompt=name)), title=name)


def play(*events: AnyEvent | OwnEvent, state: AppState | None = None) -> AppState:
    now = 0.0
    current = state or AppState()
    for event in events:
        now += 1.0
        current = apply(current, event, now)
    return current


def step(number: int, name: str = "a") -> StepDone:
    return StepDone(job=name, step=number, steps=4, peak=2.0, finite=True, seconds=0.5)


READY = Ready(version="0.1.0", protocol=1, pid=1, devices=(samples.CPU,))
QUEUE = (Queued(job=job("a")), Queued(job=job("b")), Queued(job=job("c")))


@pytest.mark.parametrize(
    ("events", "order"),
    [
        (QUEUE, "abc"),
        ((*QUEUE, Removed(job="b")), "ac"),
        ((*QUEUE, Removed(job="b"), Queued(job=job("b")), Queued(job=job("b"))), "acb"),
        ((*QUEUE, Sent(job="a"), Removed(job="a")), "abc"),
        ((*QUEUE, Moved(job="c", by=-1)), "acb"),
        ((*QUEUE, Moved(job="a", by=5)), "bca"),
        ((*QUEUE, Moved(job="c", to=0)), "cab"),
        ((*QUEUE, Sent(job="a"), Moved(job="c", to=0)), "acb"),
        ((*QUEUE, Sent(job="a"), Moved(job="a", by=1)), "abc"),
        ((*QUEUE, Moved(job="nobody", by=1)), "abc"),
        ((*QUEUE, Queued(job=job("d"), first=True)), "dabc"),
        ((*QUEUE, Sent(job="a"), Queued(job=job("d"), first=True)), "adbc"),
        ((*QUEUE, JobEnded(job="b", outcome="done")), "ac"),
        ((*QUEUE, JobEnded(job="nobody", outcome="done")), "abc"),
    ],
)
def test_the_queue(events: tuple[AnyEvent | OwnEvent, ...], order: str) -> None:
    assert "".join(entry.id for entry in play(*events).jobs) == order


def test_a_job_runs_from_the_moment_it_was_sent() -> None:
    state = play(Queued(job=job("a")), Sent(job="a"))
    assert state.running is not None
    assert (state.running.queued, state.running.started) == (1.0, 2.0)
    assert state.running_kind("Generate") is state.running
    assert state.running_kind("Examine") is None


def test_the_plan_of_a_picture_follows_the_worker() -> None:
    start = (Queued(job=job("a")), Sent(job="a"), JobStarted(job="a", kind="generate"))
    known = play(*start, JobStarted(job="a", kind="generate", plan=samples.PLAIN)).running
    assert known is not None
    assert known.plan == samples.PLAIN
    cured = PlanChanged(job="a", before=samples.PLAIN, after=samples.RESCALED)
    changed = play(*start, cured).running
    assert changed is not None
    assert changed.plan == samples.RESCALED


def test_phases_and_steps_of_a_picture() -> None:
    state = play(
        Queued(job=job("a")),
        Sent(job="a"),
        JobStarted(job="a", kind="generate", plan=samples.PLAIN),
        PhaseChanged(job="a", phase="load", done=5, total=10),
        PhaseChanged(job="a", phase="encode"),
        PhaseChanged(job="a", phase="denoise", total=4),
        step(1),
        step(2),
    )
    running = state.running
    assert running is not None
    assert running.phases_done == ("load", "encode")
    assert (running.phase, running.done, running.total, running.fraction) == ("denoise", 2, 4, 0.5)
    assert running.plan == samples.PLAIN
    assert running.model == "pocket"


def test_a_repeated_step_replaces_its_first_try() -> None:
    start = (Queued(job=job("a")), Sent(job="a"), PhaseChanged(job="a", phase="denoise", total=4))
    state = play(*start, step(1), step(2), step(3), step(2), step(3))
    assert state.running is not None
    assert [done.step for done in state.running.steps] == [1, 2, 3]


def test_a_bad_step_that_came_out_right_again_is_remembered_as_mended() -> None:
    start = (Queued(job=job("a")), Sent(job="a"), PhaseChanged(job="a", phase="denoise", total=4))
    bad = StepDone(job="a", step=2, steps=4, peak=None, finite=False, seconds=0.1)
    state = play(*start, step(1), bad)
    assert state.running is not None
    assert state.running.mended == ()
    state = play(*start, step(1), bad, bad, step(2), step(3))
    assert state.running is not None
    assert state.running.mended == (2,)
    state = play(*start, step(1), bad, step(2), PhaseChanged(job="a", phase="decode"), PhaseChanged(job="a", phase="denoise"))
    assert state.running is not None
    assert state.running.mended == ()


def test_the_second_picture_of_a_batch_begins_with_no_steps() -> None:
    start = (Queued(job=job("a")), Sent(job="a"), PhaseChanged(job="a", phase="denoise", total=4))
    state = play(*start, step(1), step(2), PhaseChanged(job="a", phase="decode"), PhaseChanged(job="a", phase="denoise", total=4))
    assert state.running is not None
    assert state.running.steps == ()


def test_events_of_a_job_that_is_gone_change_nothing() -> None:
    state = play(*QUEUE)
    for event in (step(1, "x"), PhaseChanged(job="x", phase="load"), FindingMade(job="x", finding=samples.OVERFLOW)):
        assert apply(state, event, 9.0) is state


def test_pictures_gather() -> None:
    recovered = samples.picture_facts("/b.png", "recovered")
    state = play(
        Queued(job=job("a")),
        PictureReady(job="a", facts=samples.picture_facts("/a.png"), thumbnail_size=0),
        PictureReady(job="a", facts=recovered, thumbnail_size=0),
    )
    assert [picture.path for picture in state.jobs[0].pictures] == ["/a.png", "/b.png"]
    assert state.jobs[0].pictures[1] is recovered


def test_a_check_gathers_layers_and_findings() -> None:
    check = Job(id="a", command=Examine(job="a", model="pocket"), title="Pocket")
    state = play(
        Queued(job=check),
        LayersMeasured(job="a", layers=samples.LAYERS, done=2, total=4),
        FindingMade(job="a", finding=samples.OVERFLOW),
        JobEnded(job="a", outcome="cancelled"),
    )
    assert state.ended is not None
    assert state.ended.job.layers == samples.LAYERS
    assert state.ended.job.findings == (samples.OVERFLOW,)


@pytest.mark.parametrize(("code", "kind"), [("internal", "failed"), ("disk-full", "disk-full")])
def test_a_failure_is_told_and_keeps_the_job_for_another_try(code: str, kind: str) -> None:
    error = ErrorFacts(code=code)  # pyright: ignore[reportArgumentType]
    state = play(Queued(job=job("a")), JobEnded(job="a", outcome="failed", error=error))
    assert [(notice.kind, notice.error) for notice in state.notices] == [(kind, error)]
    assert state.notices[0].job is not None
    assert state.notices[0].job.id == "a"


def test_cancelling_is_no_failure() -> None:
    state = play(Queued(job=job("a")), Sent(job="a"), Stopping(job="a", how="cancel"), JobEnded(job="a", outcome="cancelled"))
    assert state.notices == ()
    assert state.ended is not None
    assert state.ended.job.stopping == "cancel"


def test_a_self_test_that_ended_is_the_devices_report() -> None:
    report = samples.self_test_report()
    assert play(Queued(job=job("a")), JobEnded(job="a", outcome="done", report=report)).self_test == report


def test_a_lost_worker_forgets_what_was_loaded_and_keeps_the_queue() -> None:
    loaded = (READY, ModelChanged(model=samples.POCKET, device="cpu"), MemoryChanged(memory=samples.MEMORY), *QUEUE)
    state = play(*loaded, WorkerLost(exit_code=3, signal=None, log="/log"))
    assert (state.worker, state.loaded, state.memory, state.log) == ("lost", None, None, "/log")
    assert len(state.jobs) == 3
    assert play(READY, state=state).worker == "ready"


def test_a_worker_that_refuses_to_start_is_told_and_stays_so() -> None:
    refused = Refused(command="Hello", error=ErrorFacts(code="protocol-mismatch", facts={"wanted": 2, "got": 1}))
    state = play(refused, WorkerLost(exit_code=0, signal=None, log="/log"))
    assert state.worker == "refused"
    assert [(notice.kind, notice.error) for notice in state.notices] == [("worker-refused", refused.error)]
    other = Refused(command="Load", error=refused.error)
    assert play(other).worker == "starting"


def test_messages_are_numbered_and_only_fifty_are_kept() -> None:
    state = play(*(Noted(kind="copied") for _ in range(60)))
    assert [notice.number for notice in state.notices] == list(range(11, 61))


def test_making_a_model_lasts_until_it_is_made() -> None:
    assert play(Making(on=True), Noted(kind="copied")).making
    assert not play(Making(on=True), Making(on=False)).making


def test_pause() -> None:
    assert play(Paused(on=True)).paused
    assert not play(Paused(on=True), Paused(on=False)).paused


@pytest.mark.parametrize(
    ("folds", "rows"),
    [
        ((), ""),
        ((("a", True), ("b", True)), "ab"),
        ((("a", True), ("a", True), ("a", False)), ""),
        ((("a", False),), ""),
    ],
)
def test_rows_that_are_open(folds: tuple[tuple[str, bool], ...], rows: str) -> None:
    state = play(*(RowFolded(row=row, open=on) for row, on in folds))
    assert state.open_rows == frozenset(rows)


def test_pictures_tell_the_time_of_the_next_one_and_larger_ones_do_not() -> None:
    made = PictureReady(job="a", facts=samples.picture_facts("/p.png"), thumbnail_size=0, failed_size=0)
    assert len(play(*QUEUE, Sent(job="a"), made, made).history.timed) == 1
    upscale = Job(id="a", command=Upscale(job="a", request=UpscaleRequest(pictures=("/p.png",), upscaler="/u")), title="")
    assert len(play(Queued(job=upscale), Sent(job="a"), made).history.timed) == 0
