"""What the window knows, frozen, and `apply`, the pure step to the next state. Recorded events replay as a test."""

from dataclasses import dataclass, replace
from typing import Literal

from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import (
    DeviceFacts,
    Finding,
    LayerPeak,
    MemoryFacts,
    ModelFacts,
    OperationResult,
    PictureFacts,
    SelfTestReport,
)
from halftone.contract.messages import (
    AnyEvent,
    FindingMade,
    Generate,
    JobCommand,
    JobEnded,
    JobStarted,
    LayersMeasured,
    MemoryChanged,
    ModelChanged,
    PhaseChanged,
    PictureReady,
    PlanChanged,
    PreviewReady,
    Ready,
    Refused,
    Report,
    SelfTest,
    StepDone,
    TestDone,
    WorkerLost,
)
from halftone.contract.plan import Plan
from halftone.contract.words import Outcome, Phase

WorkerState = Literal["starting", "ready", "lost", "refused"]
NoticeKind = Literal[
    "failed",
    "disk-full",
    "worker-lost",
    "worker-refused",
    "not-written",
    "not-kept",
    "cure-applied",
    "cure-failed",
    "cure-undone",
    "cure-dropped",
    "cure-unchecked",
    "saved",
    "copied",
    "deleted",
    "removed",
    "other-model",
    "models-gone",
    "model-refused",
    "fragile-begun",
    "fragile-made",
    "fragile-failed",
]


@dataclass(frozen=True, kw_only=True)
class Job:
    """One entry of the queue. Times are seconds of the window's monotonic clock. mended: bad steps that were done again."""

    id: str
    command: JobCommand
    title: str
    queued: float = 0.0
    started: float | None = None
    phase: Phase | None = None
    phase_started: float = 0.0
    phases_done: tuple[Phase, ...] = ()
    done: int = 0
    total: int | None = None
    detail: str = ""
    plan: Plan | None = None
    steps: tuple[StepDone, ...] = ()
    mended: tuple[int, ...] = ()
    pictures: tuple[PictureFacts, ...] = ()
    layers: tuple[LayerPeak, ...] = ()
    findings: tuple[Finding, ...] = ()
    tests: tuple[OperationResult, ...] = ()
    stopping: Literal["", "cancel", "keep"] = ""

    @property
    def kind(self) -> str:
        """The command's name: "Generate", "Examine", "SelfTest", "Repair" or "Upscale"."""
        return type(self.command).__name__

    @property
    def model(self) -> str | None:
        """The model this job runs, if it runs one."""
        if isinstance(self.command, Generate):
            return self.command.request.model
        return getattr(self.command, "model", None)

    @property
    def running(self) -> bool:
        return self.started is not None

    @property
    def fraction(self) -> float | None:
        """Share of the present phase that is done, None when its length is not known."""
        if self.total is None or self.total <= 0:
            return None
        return min(1.0, self.done / self.total)


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a job ended, with what it had gathered until then."""

    job: Job
    outcome: Outcome
    error: ErrorFacts | None
    report: Report | None


@dataclass(frozen=True, kw_only=True)
class Notice:
    """One message for the user, as facts; `gui.text` has the words. action: what its button does, "" for none."""

    number: int
    kind: NoticeKind
    facts: tuple[str, ...] = ()
    error: ErrorFacts | None = None
    job: Job | None = None


@dataclass(frozen=True, kw_only=True)
class AppState:
    """jobs: the running one first, then those that wait. paused: nothing new starts. pictures: of this session, newest first.

    loaded: the model in memory; warming: name of the one that is being loaded without a job, "" for none. making: the fragile
    demo model is being written.
    """

    worker: WorkerState = "starting"
    version: str = ""
    devices: tuple[DeviceFacts, ...] = ()
    device: DeviceFacts | None = None
    self_test: SelfTestReport | None = None
    jobs: tuple[Job, ...] = ()
    paused: bool = False
    memory: MemoryFacts | None = None
    loaded: ModelFacts | None = None
    loaded_device: str = ""
    warming: str = ""
    making: bool = False
    pictures: tuple[PictureFacts, ...] = ()
    ended: Ended | None = None
    notices: tuple[Notice, ...] = ()
    log: str = ""
    next_notice: int = 1

    @property
    def running(self) -> Job | None:
        """The job that the worker is computing."""
        return self.jobs[0] if self.jobs and self.jobs[0].running else None

    @property
    def measuring(self) -> bool:
        """True while the self-test runs or waits."""
        return any(isinstance(job.command, SelfTest) for job in self.jobs)

    def job(self, job_id: str) -> Job | None:
        return next((job for job in self.jobs if job.id == job_id), None)

    def running_kind(self, *kinds: str) -> Job | None:
        """The running job if it is of one of these kinds."""
        job = self.running
        return job if job is not None and job.kind in kinds else None


@dataclass(frozen=True, kw_only=True)
class Queued:
    """A new job for the queue. first: before all that wait (the running one is never displaced)."""

    job: Job
    first: bool = False


@dataclass(frozen=True, kw_only=True)
class Removed:
    job: str


@dataclass(frozen=True, kw_only=True)
class Moved:
    """Put a waiting job before (-1) or behind (+1) its neighbour, or at an absolute place among the waiting."""

    job: str
    by: int = 0
    to: int | None = None


@dataclass(frozen=True, kw_only=True)
class Sent:
    """The job's command went to the worker."""

    job: str


@dataclass(frozen=True, kw_only=True)
class Stopping:
    job: str
    how: Literal["cancel", "keep"]


@dataclass(frozen=True, kw_only=True)
class Paused:
    on: bool


@dataclass(frozen=True, kw_only=True)
class Warming:
    """The worker was asked to load this model, named for the user, before a job needs it."""

    model: str


@dataclass(frozen=True, kw_only=True)
class Making:
    on: bool


@dataclass(frozen=True, kw_only=True)
class Starting:
    """A worker is started again because the user asked for it."""


@dataclass(frozen=True, kw_only=True)
class DeviceChosen:
    device: DeviceFacts | None
    self_test: SelfTestReport | None = None


@dataclass(frozen=True, kw_only=True)
class Noted:
    kind: NoticeKind
    facts: tuple[str, ...] = ()
    error: ErrorFacts | None = None
    job: Job | None = None


@dataclass(frozen=True, kw_only=True)
class Dismissed:
    notice: int


OwnEvent = Queued | Removed | Moved | Sent | Stopping | Paused | Warming | Making | Starting | DeviceChosen | Noted | Dismissed


def apply(state: AppState, event: AnyEvent | OwnEvent, now: float = 0.0) -> AppState:
    """The state after an event of the worker or of the user. now: seconds of a monotonic clock."""
    match event:
        case Queued() | Removed() | Moved() | Sent() | Stopping() | Paused():
            return _apply_queue(state, event, now)
        case DeviceChosen():
            return replace(state, device=event.device, self_test=event.self_test)
        case Noted():
            return note(state, event.kind, facts=event.facts, error=event.error, job=event.job)
        case Dismissed():
            return replace(state, notices=tuple(n for n in state.notices if n.number != event.notice))
        case Ready():
            return replace(state, worker="ready", version=event.version, devices=event.devices, loaded=None, warming="")
        case Making():
            return replace(state, making=event.on)
        case Starting():
            return replace(state, worker="starting")
        case Warming() | ModelChanged() | MemoryChanged():
            return _apply_memory(state, event)
        case Refused():
            return _refused(state, event)
        case WorkerLost():
            worker: WorkerState = "refused" if state.worker == "refused" else "lost"
            return replace(state, worker=worker, loaded=None, warming="", memory=None, log=event.log)
        case JobEnded():
            return _end(state, event)
        case _:
            return _apply_progress(state, event, now)


def _apply_memory(state: AppState, event: Warming | ModelChanged | MemoryChanged) -> AppState:
    match event:
        case Warming():
            return replace(state, warming=event.model)
        case ModelChanged():
            return replace(state, loaded=event.model, loaded_device=event.device, warming="")
        case MemoryChanged():
            return replace(state, memory=event.memory)


def _refused(state: AppState, event: Refused) -> AppState:
    """A model that cannot be loaded early is not told: the picture that needs it says why."""
    if event.command == "Hello":
        return note(replace(state, worker="refused"), "worker-refused", error=event.error)
    return replace(state, warming="") if event.command == "Load" else state


def note(
    state: AppState, kind: NoticeKind, *, facts: tuple[str, ...] = (), error: ErrorFacts | None = None, job: Job | None = None
) -> AppState:
    """The state with one more message; only the newest fifty are kept."""
    notice = Notice(number=state.next_notice, kind=kind, facts=facts, error=error, job=job)
    return replace(state, notices=(*state.notices[-49:], notice), next_notice=notice.number + 1)


def _apply_queue(state: AppState, event: Queued | Removed | Moved | Sent | Stopping | Paused, now: float) -> AppState:
    match event:
        case Queued():
            job = replace(event.job, queued=now)
            place = (1 if state.running else 0) if event.first else len(state.jobs)
            return replace(state, jobs=(*state.jobs[:place], job, *state.jobs[place:]))
        case Removed():
            return replace(state, jobs=tuple(job for job in state.jobs if job.id != event.job or job.running))
        case Moved():
            return replace(state, jobs=_moved(state, event))
        case Sent():
            return _change(state, event.job, started=now, phase_started=now)
        case Stopping():
            return _change(state, event.job, stopping=event.how)
        case Paused():
            return replace(state, paused=event.on)


def _moved(state: AppState, event: Moved) -> tuple[Job, ...]:
    head = state.jobs[:1] if state.running else ()
    waiting = list(state.jobs[len(head) :])
    place = next((index for index, job in enumerate(waiting) if job.id == event.job), None)
    if place is None:
        return state.jobs
    job = waiting.pop(place)
    wanted = place + event.by if event.to is None else event.to
    waiting.insert(max(0, min(len(waiting), wanted)), job)
    return (*head, *waiting)


def _change(state: AppState, job_id: str | None, **changes: object) -> AppState:
    jobs = tuple(replace(job, **changes) if job.id == job_id else job for job in state.jobs)
    return replace(state, jobs=jobs)


def _apply_progress(state: AppState, event: AnyEvent, now: float) -> AppState:
    """Events of a running job; those of a job that is not in the queue (any more) change nothing."""
    job = state.job(event.job) if event.job is not None else None
    if job is None:
        return state
    match event:
        case JobStarted():
            return _change(state, job.id, plan=event.plan)
        case PlanChanged():
            return _change(state, job.id, plan=event.after)
        case PhaseChanged():
            return _change(state, job.id, **_phase(job, event, now))
        case StepDone():
            steps, mended = _with_step(job.steps, event), _mended(job, event)
            return _change(state, job.id, steps=steps, mended=mended, done=event.step, total=event.steps)
        case LayersMeasured():
            return _change(state, job.id, layers=event.layers)
        case FindingMade():
            return _change(state, job.id, findings=(*job.findings, event.finding))
        case TestDone():
            return _change(state, job.id, tests=(*job.tests, event.result), done=event.done, total=event.total)
        case PictureReady():
            changed = _change(state, job.id, pictures=(*job.pictures, event.facts))
            return replace(changed, pictures=(event.facts, *state.pictures))
        case PreviewReady() | _:
            return state


def _phase(job: Job, event: PhaseChanged, now: float) -> dict[str, object]:
    changes: dict[str, object] = {"phase": event.phase, "done": event.done, "total": event.total, "detail": event.detail}
    if job.phase != event.phase:
        changes["phase_started"] = now
        if job.phase is not None:
            changes["phases_done"] = (*job.phases_done, job.phase)
        if event.phase == "encode" or (event.phase == "denoise" and event.done == 0):
            changes |= {"steps": (), "mended": ()}
    return changes


def _with_step(steps: tuple[StepDone, ...], event: StepDone) -> tuple[StepDone, ...]:
    """Steps in order; a step that was repeated after a repair replaces its first try and all after it."""
    return (*(step for step in steps if step.step < event.step), event)


def _mended(job: Job, event: StepDone) -> tuple[int, ...]:
    """The steps that were bad and are finite now, with the one at hand."""
    bad = any(step.step == event.step and step.finite is False for step in job.steps)
    return (*job.mended, event.step) if bad and event.finite and event.step not in job.mended else job.mended


def _end(state: AppState, event: JobEnded) -> AppState:
    job = state.job(event.job) if event.job is not None else None
    if job is None:
        return state
    ended = Ended(job=job, outcome=event.outcome, error=event.error, report=event.report)
    left = replace(state, jobs=tuple(other for other in state.jobs if other.id != job.id), ended=ended)
    if isinstance(event.report, SelfTestReport):
        left = replace(left, self_test=event.report)
        if event.report.not_kept:
            return note(left, "not-kept", facts=(event.report.device.name, event.report.not_kept))
    if event.outcome == "failed" and event.error is not None:
        kind: NoticeKind = "disk-full" if event.error.code == "disk-full" else "failed"
        return note(left, kind, error=event.error, job=job)
    return left
