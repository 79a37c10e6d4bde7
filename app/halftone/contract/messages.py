"""Commands go to the worker, events come from it: one class per message; an event carries its job (or None) and a rising seq."""

import msgspec

from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import (
    CheckReport,
    DeviceFacts,
    Finding,
    GenerateReport,
    LayerPeak,
    MemoryFacts,
    ModelFacts,
    OperationResult,
    PictureFacts,
    RepairReport,
    SelfTestReport,
)
from halftone.contract.plan import Plan
from halftone.contract.request import CheckInputs, Lora, Numerics, PictureRequest, UpscaleRequest
from halftone.contract.training import Caught, Omen, TrainChoice, TrainConfig, TrainPicture, TrainReport, WiderType
from halftone.contract.vocabulary import Depth, DType, Layout, Outcome, Phase

PROTOCOL = 1


class Command(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Base of all commands."""


class Hello(Command, frozen=True, kw_only=True, tag=True):
    protocol: int = PROTOCOL


class Generate(Command, frozen=True, kw_only=True, tag=True):
    job: str
    request: PictureRequest


class Examine(Command, frozen=True, kw_only=True, tag=True):
    """Check a model. With `plan` set, only verify that plan (the check after a cure was applied)."""

    job: str
    model: str
    device: str = "auto"
    depth: Depth = "quick"
    numerics: Numerics = Numerics()
    inputs: CheckInputs = CheckInputs()
    plan: Plan | None = None


class SelfTest(Command, frozen=True, kw_only=True, tag=True):
    job: str
    device: str = "auto"


class Repair(Command, frozen=True, kw_only=True, tag=True):
    """Write a rescaled copy of the model to `output` (a new or empty folder, or a new file). layout: None for the model's own;
    depth: of the check that shows what to rescale.
    """

    job: str
    model: str
    output: str
    device: str = "auto"
    numerics: Numerics = Numerics()
    loras: tuple[Lora, ...] = ()
    """Merged into the copy."""
    layout: Layout | None = None
    depth: Depth = "quick"


class Upscale(Command, frozen=True, kw_only=True, tag=True):
    """Make finished pictures larger."""

    job: str
    request: UpscaleRequest


class Train(Command, frozen=True, kw_only=True, tag=True):
    """Train a LoRA. resume: folder of a run that was broken off; it goes on exactly where it was last saved."""

    job: str
    config: TrainConfig
    resume: str | None = None


class Hold(Command, frozen=True, kw_only=True, tag=True):
    """Pause a training after this step, with everything in memory, or go on."""

    job: str
    on: bool = True


class Decide(Command, frozen=True, kw_only=True, tag=True):
    """The answer to what a training asked or told."""

    job: str
    choice: TrainChoice
    picture: str = ""
    """Which one is left out."""
    folder: str = ""
    """In which a folder for the run is made and its LoRA is saved."""


class Cancel(Command, frozen=True, kw_only=True, tag=True):
    job: str


class Keep(Command, frozen=True, kw_only=True, tag=True):
    """Stop denoising after this step and decode what there is."""

    job: str


class Load(Command, frozen=True, kw_only=True, tag=True):
    """Bring the model into memory as this request would need it. Not a job: answered by ModelChanged or Refused."""

    model: str
    device: str = "auto"
    numerics: Numerics = Numerics()


class Unload(Command, frozen=True, kw_only=True, tag=True):
    """Give the model's memory back."""


class Quit(Command, frozen=True, kw_only=True, tag=True):
    """Finish the current step, then leave."""


AnyCommand = (
    Hello | Generate | Examine | SelfTest | Repair | Upscale | Train | Hold | Decide | Cancel | Keep | Load | Unload | Quit
)
JobCommand = Generate | Examine | SelfTest | Repair | Upscale | Train
Report = GenerateReport | CheckReport | SelfTestReport | RepairReport | TrainReport


class Event(msgspec.Struct, frozen=True, kw_only=True, tag=True, forbid_unknown_fields=True):
    """Base of all events. seq rises by one from 0 in each worker's life."""

    seq: int = -1
    job: str | None = None


class Ready(Event, frozen=True, kw_only=True, tag=True):
    """The worker speaks. devices: what it can compute on, the preferred one first."""

    version: str
    protocol: int
    pid: int
    devices: tuple[DeviceFacts, ...]


class Refused(Event, frozen=True, kw_only=True, tag=True):
    """A command that is no job could not be carried out (a job's refusal is its JobEnded)."""

    command: str
    error: ErrorFacts


class JobStarted(Event, frozen=True, kw_only=True, tag=True):
    """A job's first event, sent by the runner with plan None; an engine sends it again with its plan. kind: the command's name in
    small letters, "generate", "examine", "selftest", "repair", "upscale" or "train".
    """

    kind: str
    plan: Plan | None = None


class PhaseChanged(Event, frozen=True, kw_only=True, tag=True):
    """done of total units of this phase (bytes, steps, layers, tests); total None: not known."""

    phase: Phase
    done: int = 0
    total: int | None = None
    detail: str = ""


class StepDone(Event, frozen=True, kw_only=True, tag=True):
    """One denoising step. peak: of the latents; finite: None while the sentinel has not read its flag yet or is off. in_pass,
    passes: of a picture made in several, from 1; else 0 and 1. ahead: the work of later passes, in steps of this one by their
    pixels. picture: of those of the job, from 1.
    """

    step: int
    steps: int
    peak: float | None
    finite: bool | None
    seconds: float
    picture: int = 1
    in_pass: int = 0
    passes: int = 1
    ahead: float = 0.0


class PreviewReady(Event, frozen=True, kw_only=True, tag=True):
    """The blob is width * height * 3 bytes, RGB, rows from the top. May be dropped when the reader is slow."""

    step: int
    width: int
    height: int


class LayersMeasured(Event, frozen=True, kw_only=True, tag=True):
    """Layers measured so far in a check, in running order; fills the chart."""

    layers: tuple[LayerPeak, ...]
    done: int
    total: int


class TestDone(Event, frozen=True, kw_only=True, tag=True):
    __test__ = False
    result: OperationResult
    done: int
    total: int


class FindingMade(Event, frozen=True, kw_only=True, tag=True):
    finding: Finding


class PlanChanged(Event, frozen=True, kw_only=True, tag=True):
    before: Plan
    after: Plan


class PictureSaving(Event, frozen=True, kw_only=True, tag=True):
    """A picture is about to be written as `facts.path`: from here on, whoever finds the file knows what it is. The blob is its
    thumbnail.
    """

    facts: PictureFacts


class PictureReady(Event, frozen=True, kw_only=True, tag=True):
    """The blob holds PNG files one after another: the thumbnail, then (when failed_size > 0) what the failing precision gave."""

    facts: PictureFacts
    thumbnail_size: int
    failed_size: int = 0


class TrainBegins(Event, frozen=True, kw_only=True, tag=True):
    """What a training found before its first step. first: its first step, above 1 when it was resumed; folder: of the run;
    memory: bytes that it is expected to need; parameters: of the LoRA; caught: before `first`; wider: why `dtype` is not the
    wanted type. The blob holds the earlier steps: `health.training_record.packed_curve`.
    """

    config: TrainConfig
    pictures: tuple[TrainPicture, ...]
    omens: tuple[Omen, ...]
    dtype: DType
    folder: str
    first: int = 1
    parameters: int = 0
    memory: int | None = None
    caught: tuple[Caught, ...] = ()
    wider: WiderType | None = None


class TrainStep(Event, frozen=True, kw_only=True, tag=True):
    """One step of the optimizer. norm: of the gradients before clipping; scale: of the loss, None where it is not scaled."""

    step: int
    steps: int
    loss: float
    norm: float | None
    rate: float
    scale: float | None
    seconds: float
    applied: bool = True


class TrainCaught(Event, frozen=True, kw_only=True, tag=True):
    """The guard stopped a bad number, or noticed something. asks: it waits for Decide."""

    caught: Caught
    asks: bool = False


class TrainHeld(Event, frozen=True, kw_only=True, tag=True):
    """The training pauses (True) or goes on."""

    on: bool
    step: int


class TrainSaved(Event, frozen=True, kw_only=True, tag=True):
    """The LoRA as it is after this step was written, with what is needed to go on from there. folder: of the run."""

    step: int
    path: str
    folder: str = ""


class TrainUnsaved(Event, frozen=True, kw_only=True, tag=True):
    """What was to be saved after this step could not be: the training goes on in memory and tries again."""

    step: int
    error: ErrorFacts


class TestPicture(Event, frozen=True, kw_only=True, tag=True):
    """A picture that the LoRA made after this step; the blob is its thumbnail as PNG. black: it shows nothing; error: why there
    is none (path is "" then). Without a path and an error: it is being made.
    """

    __test__ = False
    step: int
    path: str
    prompt: str
    seed: int
    black: bool = False
    error: ErrorFacts | None = None


class JobEnded(Event, frozen=True, kw_only=True, tag=True):
    """Exactly one per job, and nothing after it."""

    outcome: Outcome
    error: ErrorFacts | None = None
    report: Report | None = None


class ModelChanged(Event, frozen=True, kw_only=True, tag=True):
    """The model in memory, None when it was unloaded."""

    model: ModelFacts | None
    device: str = ""
    seconds: float = 0.0


class MemoryChanged(Event, frozen=True, kw_only=True, tag=True):
    memory: MemoryFacts


class WorkerLost(Event, frozen=True, kw_only=True, tag=True):
    """Made by the client when the worker process dies. log: path of its log."""

    exit_code: int | None
    signal: str | None
    log: str


AnyEvent = (
    Ready
    | Refused
    | JobStarted
    | PhaseChanged
    | StepDone
    | PreviewReady
    | LayersMeasured
    | TestDone
    | FindingMade
    | PlanChanged
    | PictureSaving
    | PictureReady
    | TrainBegins
    | TrainStep
    | TrainCaught
    | TrainHeld
    | TrainSaved
    | TrainUnsaved
    | TestPicture
    | JobEnded
    | ModelChanged
    | MemoryChanged
    | WorkerLost
)
