"""What the program knows, frozen; `reducer.apply` makes the next state."""

from dataclasses import dataclass
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
    Generate,
    JobCommand,
    Report,
    SelfTest,
    StepDone,
)
from halftone.contract.plan import Plan
from halftone.contract.vocabulary import Outcome, Phase
from halftone.contract.wording import Words
from halftone.session.draft import EMPTY, Draft

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
        """The command's name: "Generate", "Examine", "SelfTest", "Repair", "Upscale" or "Train"."""
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
    """One message for the user, as facts; the window has the words."""

    number: int
    kind: NoticeKind
    facts: tuple[str, ...] = ()
    error: ErrorFacts | None = None
    job: Job | None = None
    why: Words | None = None


@dataclass(frozen=True, kw_only=True)
class AppState:
    """jobs: the running one first, then those that wait. paused: nothing new starts. pictures: of this session, newest first.

    loaded: the model in memory; warming: name of the one that is being loaded without a job, "" for none. making: the fragile
    demo model is being written. draft: what the Create page asks for.
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
    draft: Draft = EMPTY

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
