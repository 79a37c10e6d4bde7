"""What the program knows, frozen; `reducer.apply` makes the next state."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final, Literal, NamedTuple

import msgspec

from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import (
    CheckReport,
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
    TestPicture,
    Upscale,
)
from halftone.contract.plan import Plan
from halftone.contract.request import ALONE, Extras, Numerics, PictureRequest
from halftone.contract.training import Caught, TrainConfig, TrainPicture
from halftone.contract.vocabulary import DTYPE_NAMES, DType, Outcome, Phase, Precision
from halftone.contract.wording import Words
from halftone.health.precision import AS_SET, resolve_precision
from halftone.health.training.training_memory import TrainingForecast
from halftone.health.training.training_record import RunRecord
from halftone.library.add_ons.extras import extras_key
from halftone.library.add_ons.inversions import Inversion, matched
from halftone.library.files.small_files import SmallFile
from halftone.library.training_data.training_runs import BrokenRun
from halftone.session.models.healths import Healths
from halftone.session.models.watched import Library
from halftone.session.pictures.draft import EMPTY, Draft, extras, usable
from halftone.session.pictures.fix import Fix
from halftone.session.pictures.gallery_state import GalleryState
from halftone.session.pictures.grid import Grid
from halftone.session.pictures.history import PictureHistory
from halftone.session.pictures.memory_estimate import Networks
from halftone.session.update_state import Updating
from halftone.settings.store import Settings

WorkerState = Literal["starting", "ready", "lost", "refused"]
NoticeKind = Literal[
    "failed",
    "disk-full",
    "worker-lost",
    "card-lost",
    "worker-refused",
    "worker-late",
    "not-written",
    "not-kept",
    "cure-applied",
    "cure-failed",
    "cure-undone",
    "cure-dropped",
    "cure-unchecked",
    "saved",
    "saved-all",
    "copied",
    "deleted",
    "models-deleted",
    "not-deleted",
    "not-restored",
    "not-saved",
    "pictures-gone",
    "added",
    "converting",
    "converted",
    "converted-open",
    "converted-unknown",
    "convert-failed",
    "removed",
    "other-model",
    "models-gone",
    "model-refused",
    "not-checked",
    "fragile-begun",
    "fragile-made",
    "fragile-failed",
    "went-on",
    "made-again",
    "queue-left",
    "queue-unread",
    "queue-cleared",
    "grid-made",
    "grid-failed",
    "web-picture",
    "serving",
    "not-serving",
    "no-farm",
    "not-farmed",
    "update-damaged",
]


@dataclass(frozen=True, kw_only=True)
class Job:
    """One entry of the queue. Times are seconds of the window's monotonic clock. mended: bad steps that were done again.

    root: the first id of an entry that has run under several, "" for its own; life: how many it had before. grid: the pictures of
    which the command makes the next one. deaths: workers that died since it last made a picture. held: it is being edited.
    leaving: it is being handed to the farm. upscaler: the upscale model for its pictures, "" for none. chained: it upscales a
    picture because the job that made it asked for it. endless: another one follows it (`AppState.endless`). card: id of the
    other card that computes it, or that a waiting job is only for; "" for the worker of the device in use.
    """

    id: str
    command: JobCommand
    title: str
    root: str = ""
    life: int = 0
    grid: Grid | None = None
    deaths: int = 0
    held: bool = False
    leaving: bool = False
    upscaler: str = ""
    chained: bool = False
    endless: bool = False
    card: str = ""
    queued: float = 0.0
    started: float | None = None
    phase: Phase | None = None
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
    def key(self) -> str:
        """Names the entry as long as it is in the queue."""
        return self.root or self.id

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


def renewed(job: Job, command: JobCommand) -> Job:
    """The same entry, waiting under another id with what is left for it to do: the worker takes an id only once."""
    name = f"{job.key}-{job.life + 1}"
    return Job(
        id=name,
        command=msgspec.structs.replace(command, job=name),
        title=job.title,
        root=job.key,
        life=job.life + 1,
        grid=job.grid,
        deaths=job.deaths,
        upscaler=job.upscaler,
        chained=job.chained,
        endless=job.endless,
        queued=job.queued,
    )


@dataclass(frozen=True, kw_only=True)
class Card:
    """Another card of the machine that takes jobs of the queue, with a worker of its own. worker: "off" until a job wants it;
    measured: its self-test is known; loaded, memory: as the state has them of the device in use.
    """

    device: DeviceFacts
    worker: WorkerState | Literal["off"] = "off"
    measured: bool = False
    loaded: ModelFacts | None = None
    memory: MemoryFacts | None = None

    @property
    def id(self) -> str:
        return self.device.id


@dataclass(frozen=True, kw_only=True)
class Sheet:
    """A grid whose pictures are all over, until its sheet is saved. key: of its entry in the queue."""

    key: str
    title: str
    grid: Grid


@dataclass(frozen=True, kw_only=True)
class Endless:
    """A request that is made again and again until it is cancelled. upscaler: as a job has it."""

    request: PictureRequest
    upscaler: str = ""


@dataclass(frozen=True, kw_only=True)
class LeftQueue:
    """What an earlier window left in its queue, until the user says what becomes of it."""

    jobs: tuple[Job, ...] = ()
    endless: Endless | None = None

    @property
    def pictures(self) -> int:
        """How many pictures were waiting."""
        counts = [job.grid.count - len(job.grid.cells) if job.grid is not None else _pictures(job.command) for job in self.jobs]
        return max(sum(counts), 1 if self.endless is not None else 0)


def _pictures(command: JobCommand) -> int:
    if isinstance(command, Generate):
        return command.request.batch
    return len(command.request.pictures) if isinstance(command, Upscale) else 1


@dataclass(frozen=True, kw_only=True)
class Ended:
    """How a job ended, with what it had gathered until then."""

    job: Job
    outcome: Outcome
    error: ErrorFacts | None
    report: Report | None


@dataclass(frozen=True, kw_only=True)
class Notice:
    """One message for the user, as facts; the window has the words. refused: files that could not be used, and why."""

    number: int
    kind: NoticeKind
    facts: tuple[str, ...] = ()
    error: ErrorFacts | None = None
    job: Job | None = None
    why: Words | None = None
    refused: tuple[tuple[str, ErrorFacts], ...] = ()


class Found(NamedTuple):
    """Models, what is wrong with those that cannot be used, and of these the ones that lack only small files and the files that
    run in the place of a model's transformer; by their names. closed: folders that cannot be read; loras: the LoRAs
    beside them, by name. Nothing in the state is changed in place.
    """

    models: dict[str, ModelFacts]
    errors: dict[str, ErrorFacts]
    waiting: dict[str, ModelFacts]
    parts: dict[str, ModelFacts]
    closed: tuple[str, ...] = ()
    loras: Mapping[str, str] = MappingProxyType({})

    @property
    def listed(self) -> tuple[ModelFacts, ...]:
        """All that are known, those that can be used alone first."""
        return (*self.models.values(), *self.waiting.values(), *self.parts.values())


NOTHING_FOUND: Final = Found({}, {}, {}, {})


@dataclass(frozen=True, kw_only=True)
class Lacking:
    """A model that was wanted and lacks small files. error: why the last try to get them failed; came: (bytes, of how many) of
    what is being fetched, None where nothing came yet.
    """

    model: ModelFacts | None = None
    files: tuple[SmallFile, ...] = ()
    error: ErrorFacts | None = None
    fetching: bool = False
    came: tuple[int, int] | None = None


@dataclass(frozen=True, kw_only=True)
class Loras:
    """paths: by name, of the LoRAs in the folders that were read."""

    paths: Mapping[str, str] = field(default_factory=dict[str, str])
    folders: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True)
class Embeddings:
    """known: those of the folders; widths: of the words of the selected model."""

    known: tuple[Inversion, ...] = ()
    widths: tuple[int, ...] = ()

    @property
    def fitting(self) -> tuple[Inversion, ...]:
        """Those that the selected model can read; files that a request names before those of the folders."""
        return tuple(one for one in self.known if self.widths and matched(one, self.widths))


@dataclass(frozen=True)
class Shown:
    """A test picture with its thumbnail as PNG."""

    picture: TestPicture
    thumbnail: bytes


@dataclass(frozen=True, kw_only=True)
class TrainingRun:
    """The newest training. record: grows in place, `events` counts how often; end: how it ended; both None before the first.

    open: what was stopped and not looked at yet, the newest last; heard: when each came, by step and name; resumed: the folder
    of the run that it goes on with; pausing: it will pause after the step at hand; answered: the worker has yet to go on.
    """

    id: str = ""
    record: RunRecord | None = None
    events: int = 0
    end: Ended | None = None
    shown: tuple[Shown, ...] = ()
    open: tuple[Caught, ...] = ()
    heard: Mapping[tuple[int, str], float] = field(default_factory=dict[tuple[int, str], float])
    resumed: str | None = None
    pausing: bool = False
    answered: bool = False

    @property
    def refused(self) -> bool:
        """Whether it ended before its first step was begun."""
        return self.end is not None and self.record is not None and self.record.begins is None

    @property
    def asking(self) -> bool:
        """Whether it waits for an answer to what its guard found."""
        return self.record is not None and self.record.asks is not None and not self.answered

    @property
    def folder(self) -> str:
        """The folder of the run, "" before its first step."""
        return self.record.folder if self.record is not None else ""


@dataclass(frozen=True, kw_only=True)
class Preparation:
    """What is known before a training begins. busy: the pictures of its folder are being read; broken: runs that nobody stopped,
    as far as they are still to be offered; earlier: all that can be gone on with, the newest first; forecast: the memory of what
    is in the form, None while it is computed and where nothing is known.
    """

    busy: bool = False
    pictures: tuple[TrainPicture, ...] | None = None
    error: ErrorFacts | None = None
    broken: tuple[BrokenRun, ...] = ()
    earlier: tuple[BrokenRun, ...] = ()
    forecast: TrainingForecast | None = None


ReportKey = tuple[str, str, DType, str]


def report_key(model: ModelFacts, device: DeviceFacts, precision: DType, extras: Extras) -> ReportKey:
    return model.fingerprint, device.id, precision, extras_key(extras)


@dataclass(frozen=True, kw_only=True)
class AppState:
    """jobs: those that run first, that of the device in use before others, then those that wait. paused: nothing new starts.
    cards: other cards that take jobs too. sheets: of grids, to be saved. left: by an earlier window.

    loaded: the model in memory; warming: name of the one that is being loaded without a job, "" for none. making: the fragile
    demo model is being written. once: the precision chosen on Create, which holds until another is chosen there and is never
    written. draft: what the Create page asks for; training_draft: what the Train page asks for, None
    before the first change; open_rows: its rows that are unfolded. reports: checks that ended, and cures
    that were applied, since the start. selections: how often a model was chosen; hosted: the file of a transformer alone that was
    chosen last, and with which selection. unclear: how many checks ended that only their page explains.
    """

    settings: Settings = field(default_factory=Settings)
    once: Precision | None = None
    models: Found = NOTHING_FOUND
    selections: int = 0
    hosted: tuple[int, str] = (0, "")
    lacking: Lacking = Lacking()
    embeddings: Embeddings = Embeddings()
    loras: Loras = field(default_factory=Loras)
    library: Library = field(default_factory=Library)
    healths: Healths = field(default_factory=Healths)
    reports: Mapping[ReportKey, CheckReport] = field(default_factory=dict[ReportKey, CheckReport])
    unclear: int = 0
    training: TrainingRun = TrainingRun()
    preparation: Preparation = Preparation()
    training_draft: TrainConfig | None = None
    worker: WorkerState = "starting"
    version: str = ""
    devices: tuple[DeviceFacts, ...] = ()
    device: DeviceFacts | None = None
    self_test: SelfTestReport | None = None
    cards: tuple[Card, ...] = ()
    jobs: tuple[Job, ...] = ()
    paused: bool = False
    endless: Endless | None = None
    sheets: tuple[Sheet, ...] = ()
    left: LeftQueue = LeftQueue()
    memory: MemoryFacts | None = None
    loaded: ModelFacts | None = None
    loaded_device: str = ""
    warming: str = ""
    making: bool = False
    ended: Ended | None = None
    notices: tuple[Notice, ...] = ()
    log: str = ""
    next_notice: int = 1
    draft: Draft = EMPTY
    open_rows: frozenset[str] = frozenset()
    history: PictureHistory = field(default_factory=PictureHistory)
    fix: Fix = field(default_factory=Fix)
    networks: Networks = field(default_factory=Networks)
    gallery: GalleryState = field(default_factory=GalleryState)
    updating: Updating = field(default_factory=Updating)

    @property
    def numerics(self) -> Numerics:
        """Those that hold for the next picture."""
        numerics = self.settings.numerics
        return numerics if self.once is None else msgspec.structs.replace(numerics, precision=self.once)

    @property
    def model(self) -> ModelFacts | None:
        """Facts of the selected model, None while they are being read or when its file is missing."""
        return self.models.models.get(self.settings.last_model)

    @property
    def model_lacking(self) -> ModelFacts | None:
        """The selected model, if it lacks only small files."""
        return self.models.waiting.get(self.settings.last_model)

    @property
    def device_id(self) -> str:
        """The device in use, or the wanted one while the worker is not ready."""
        return self.device.id if self.device is not None else self.settings.device

    @property
    def device_precision(self) -> tuple[DType, Words]:
        """The dtype that runs where no model says otherwise, and why."""
        wanted = self.numerics.precision
        if self.device is None:
            unmeasured = Words("FP32, because nothing else was measured.")
            return ("float32", unmeasured) if wanted == "auto" else (wanted, Words(AS_SET, (DTYPE_NAMES[wanted],)))
        return resolve_precision(wanted, self.self_test, self.device)

    @property
    def extras(self) -> Extras:
        """What the next pictures use beside the model's own parts."""
        return extras(usable(self.draft, self.model))

    def extras_of(self, model: ModelFacts) -> Extras:
        """What a model is checked and judged with: what is chosen belongs to the selected one."""
        return self.extras if model.id == self.settings.last_model else ALONE

    @property
    def running(self) -> Job | None:
        """The job that the worker of the device in use is computing."""
        return self.jobs[0] if self.jobs and self.jobs[0].running and not self.jobs[0].card else None

    @property
    def begun(self) -> tuple[Job, ...]:
        """All jobs that are being computed, on whichever card."""
        return tuple(job for job in self.jobs if job.running)

    @property
    def measuring(self) -> bool:
        """True while the self-test of the device in use runs or waits."""
        return any(isinstance(job.command, SelfTest) and not job.card for job in self.jobs)

    def card(self, name: str) -> Card | None:
        """Another card in use, by its id."""
        return next((card for card in self.cards if card.id == name), None)

    def job(self, name: str) -> Job | None:
        """The entry of the queue with this id or key."""
        return next((job for job in self.jobs if name in (job.id, job.key)), None)

    def running_kind(self, *kinds: str) -> Job | None:
        """The running job if it is of one of these kinds."""
        job = self.running
        return job if job is not None and job.kind in kinds else None
