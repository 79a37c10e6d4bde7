"""Measured facts: devices, self-test, models, layers, findings, check reports, pictures."""

import msgspec

from halftone.contract.errors import ErrorFacts
from halftone.contract.plan import Cure, Plan
from halftone.contract.request import Lora, Numerics, Upscaled, Used
from halftone.contract.vocabulary import (
    AttentionBackend,
    CureKind,
    Depth,
    DeviceDetail,
    DType,
    DTypeState,
    FindingCode,
    OffloadMode,
    Phase,
    ReceiptState,
    Verdict,
)
from halftone.contract.wording import Words


class DeviceFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One device. id as torch spells it ("cpu", "cuda:0"); memory in bytes."""

    id: str
    backend: str
    name: str
    memory_total: int | None = None
    driver: str | None = None
    capability: str | None = None
    torch_version: str = ""
    threads: int | None = None
    details: dict[DeviceDetail, str] = msgspec.field(default_factory=dict[DeviceDetail, str])
    """Further rows of the Device page, only what was read from the system."""


class OperationResult(msgspec.Struct, frozen=True, kw_only=True):
    """One test with a known answer. mode: dtype with its accumulation: "float32", "tf32", "float16", "float16-sums", "bfloat16".
    backend: of attention, where the test chose one.
    """

    mode: str
    operation: str
    size: Words
    outcome: str
    """"right", "wrong", "nonfinite", "zeros" or "missing"."""
    seconds: float
    tolerance: float = 0.0
    expected: float | None = None
    got: float | None = None
    error: float | None = None
    backend: AttentionBackend | None = None


class SpeedResult(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """seconds: median of several runs, made in turns with those of the other modes; runs: all of them, in their order."""

    mode: str
    operation: str
    tflops: float
    seconds: float
    runs: tuple[float, ...] = ()


class BitsResult(msgspec.Struct, frozen=True, kw_only=True):
    """Bits that were right in a sum of `terms` products, of the `bits` that the type keeps (implicit bit included)."""

    mode: str
    bits_kept: float
    bits: int
    terms: int


class DTypeReport(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """speed: float32 seconds over this dtype's seconds for the steps of a denoiser (2.4: 2.4 times as fast), None if not
    measured; the one figure that judges the dtype. spread: distance between the largest and the smallest figure of the single
    runs; None for one run.
    """

    dtype: DType
    state: DTypeState
    reason: Words
    speed: float | None
    failing: OperationResult | None = None
    spread: float | None = None


class SettingEffect(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What one value of one Numerics setting does on this device, against its default value.

    time_ratio: seconds with it over seconds without; error_ratio likewise for the error against float32; None: not measured.
    time_spread: by how much the single ratios of times differ. note: why there is no effect here. dtype: the precision of the
    measurement; None: the same in all.
    """

    setting: str
    value: str
    dtype: DType | None = None
    time_ratio: float | None = None
    time_spread: float | None = None
    error_ratio: float | None = None
    closeness_db: float | None = None
    note: Words | None = None


class SelfTestReport(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """What the device can do, measured. measured_at: ISO 8601 with offset. auto: the dtype Auto takes, auto_reason: why.
    not_kept: why it could not be stored, None when it was; it then holds only while the process that measured it lives.
    """

    device: DeviceFacts
    dtypes: tuple[DTypeReport, ...]
    tests: tuple[OperationResult, ...]
    speeds: tuple[SpeedResult, ...]
    bits: tuple[BitsResult, ...]
    effects: tuple[SettingEffect, ...]
    auto: DType
    auto_reason: Words
    measured_at: str
    seconds: float
    not_kept: Words | None = None


class ModelFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A model on disk, from its headers alone. native_*: pixels. fingerprint: of names, sizes and times of its files."""

    id: str
    """What `--model` takes: "pocket", or the path."""
    name: str
    path: str
    family: str
    format: str
    stored_dtype: str
    size_bytes: int
    fingerprint: str
    native_width: int = 512
    native_height: int = 512
    bin_edge: int = 0
    """Edge of the square among the sizes that its pipeline computes whatever is asked for; 0: it computes what is asked for."""
    default_steps: int = 28
    default_guidance: float = 6.0
    prompt_tokens: int = 77
    pipeline: str = ""
    """The class of diffusers that runs it; empty where that is not known."""
    components: tuple[str, ...] = ()
    parts: dict[str, str] = {}
    """Component -> its file, of those that a model in one file lacks and that lie in files of their own."""
    samplers: tuple[str, ...] = ()
    """Names of those that its pipeline takes; empty where that is not known."""
    own_sampler: str = ""
    """Class of its own scheduler, without the ending that all have."""
    sigmas: tuple[float, ...] = ()
    """The smallest and the largest noise level that it was trained with; empty where that is not known. 0 and 1 for flow."""
    kind: str = "checkpoint"
    """What the file is: "checkpoint", "denoiser", "VAE", "LoRA" …, as `halftone.library.families.recognise` has them."""
    base: str = ""
    """Which model of its family it is, as far as that is known; of what is added to a model, the family that it fits."""
    prediction: str = ""
    """What the denoiser gives: "epsilon", "v_prediction", "flow", "edm"; empty where nothing tells."""
    lacks: tuple[str, ...] = ()
    """Parts of a whole model that a single file does not hold."""
    why: Words | None = None
    """Why it cannot make a picture as it is, as the end of a sentence; None for what can."""
    takes_place: bool = False
    """Whether this file can run in the place of the transformer or UNet of a model, with the other parts of that."""
    stored: dict[str, str] = {}
    """Component -> the type that most of its bytes are stored in, spelled as `stored_dtype` is."""
    alias: str = ""
    """Of a LoRA, the name in its metadata, by which prompts of A1111 may call it."""
    training: dict[str, int | float] = {}
    """Settings with which it is known to learn well, by their names in TrainConfig, where its note tells them."""


class FurtherLayer(msgspec.Struct, frozen=True, kw_only=True):
    """A module with the same trouble as a finding names. peak: largest absolute value in the range pass."""

    module: str
    peak: float


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """One fact. Its sentence and remedy are composed by `halftone.health.explain`.

    peak: largest absolute value in the range pass; limit: of `dtype`; step: denoising step, None outside the loop. further:
    modules of the same component that received values over the limit, or are tight as well, in running order. failing: the failed
    test of the device, of a "device-fault".
    """

    code: FindingCode
    component: str
    module: str
    dtype: DType
    peak: float | None
    limit: float | None
    step: int | None = None
    facts: dict[str, str | int | float | bool] = msgspec.field(default_factory=dict[str, str | int | float | bool])
    further: tuple[FurtherLayer, ...] = ()
    failing: OperationResult | None = None


class LayerPeak(msgspec.Struct, frozen=True, kw_only=True, array_like=True):
    """One module output over a whole range pass, in running order. peak_after: under the suggested cure, None if none."""

    component: str
    module: str
    kind: str
    peak: float
    peak_after: float | None = None


class ComponentFacts(msgspec.Struct, frozen=True, kw_only=True):
    """peak, headroom_bits, seconds (one bare forward in the target dtype on this device): None if the component was not run."""

    parameters: int
    peak: float | None
    headroom_bits: float | None
    seconds: float | None
    modules: int


class CheckReport(Used, frozen=True, kw_only=True, tag=True):
    """Everything a check found, with the facts (model, add-ons, device, numerics) that make it stale when they change."""

    model: ModelFacts
    device: DeviceFacts
    precision: DType
    depth: Depth
    verdict: Verdict
    findings: tuple[Finding, ...]
    plan: Plan
    cures: tuple[Cure, ...]
    components: dict[str, ComponentFacts]
    layers: tuple[LayerPeak, ...]
    numerics: Numerics
    checked_at: str
    seconds: float
    applied: bool = False
    """True once the user applied the plan for this model on this device."""
    made_up: tuple[str, ...] = ()
    """Inputs that the check made up: "picture", "mask", "control picture", "reference picture", "video"."""
    sizes: tuple[tuple[int, int, int], ...] = ()
    """(width, height, frames) of the pictures or videos that it ran; empty where nothing had to run."""


class LoraCause(msgspec.Struct, frozen=True, kw_only=True):
    """LoRAs without which the same numbers stay in range, as measured. weight: of the first; share: of their weights, one at
    which the numbers stay in range too, None where none was found; alone: False where the model overflows elsewhere without them
    too.
    """

    names: tuple[str, ...]
    weight: float
    share: float | None
    alone: bool = True


class GuardEvent(msgspec.Struct, frozen=True, kw_only=True):
    """The sentinel acted. step: 1-based denoising step, None for encode and decode.

    kind: "nonfinite", "flat", "flat-tiles". action: "decoded-again", "went-back-one-step", "encoded-again", "stopped", "kept",
    "asked". layers: peaks through the component in float32, for the chart; seconds: time this cost. sound_in_float32: whether
    float32 gives something better from the same inputs, None: not tried. why: of "stopped": "setting", "float32" (bad there too),
    "no-cure" (none, or none that held), "sampler" (its own arithmetic is not finite there); "" otherwise. lora: the LoRAs that
    cause it, None where the model fails alone or none is in use. frames: bad ones of a video, from 1. in_pass: from 1 of a
    picture made in several passes, else 0. remembered: the next pictures begin with this cure.
    """

    step: int | None
    component: str
    module: str
    kind: str
    action: str
    cure: str
    peak: float | None = None
    limit: float | None = None
    seconds: float = 0.0
    plan: Plan | None = None
    layers: tuple[LayerPeak, ...] = ()
    sound_in_float32: bool | None = None
    why: str = ""
    lora: LoraCause | None = None
    frames: tuple[int, ...] = ()
    remembered: bool = False
    in_pass: int = 0


class PassFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """One pass of a picture made in several: what ran, in which size (pixels) and time. kind: "first" or "second". The rest as in
    PictureFacts.
    """

    kind: str
    width: int
    height: int
    steps: int
    seconds: float
    dtypes: dict[str, DType]
    room_bits: float | None = None
    cures: dict[str, CureKind] = msgspec.field(default_factory=dict[str, CureKind])


class Shortage(msgspec.Struct, frozen=True, kw_only=True):
    """The memory of the device ended while a picture was made. phase, step (from 1, None outside the steps): where.

    then: "tiles" (decoded in tiles), "offload" (parts of the model wait outside the device), "stopped". width, height: of the
    picture; fits: (width, height) of the largest of its shape that fits, needed: bytes of the cheapest way left, free: bytes that
    were available, where known.
    """

    phase: Phase
    step: int | None
    then: str
    width: int
    height: int
    fits: tuple[int, int] | None = None
    needed: int | None = None
    free: int | None = None


class SheetFacts(msgspec.Struct, frozen=True, kw_only=True):
    """The pictures of a grid on one sheet. axes: (the request's field, values as they are written on it); pictures: places in
    the grid; recovered, failed, unwatched: how many of them were recovered, are black or missing, and were made without the NaN
    check.
    """

    axes: tuple[tuple[str, str], ...]
    pictures: int
    recovered: int = 0
    failed: int = 0
    unwatched: int = 0


class PictureFacts(msgspec.Struct, frozen=True, kw_only=True):
    """One written picture or video and its numerics receipt. room_bits: headroom of the latents in the denoiser's dtype.

    frames: 1 of a picture; fps: of a video. black, finite: of all frames; flat_frames, broken_frames: those (from 1) of a video
    that are of one colour, or not finite, as written. dark: of the first frame: finite, not flat, yet almost black (mean below 8
    of 255): nothing is wrong with its numbers.

    latents: file of the latents, kept when the picture could not be finished or the user is to be asked; kept_step: the step
    (from 1) after which they were taken, None where all are done; not_kept: a step failed, and the state of its loop cannot be
    kept. cures: component -> "rescale" or "upcast-region"; dtypes show other types. passes: those that were made; steps and
    seconds are of all, room_bits is the smallest.

    variation_seed: seed of the noise towards which the picture's was turned; prompt, negative: as drawn, "" where nothing was;
    loras: those that the drawn words named. cut_short: why the next pass failed; the picture of the one before is saved.
    peak_memory: bytes on the device at the worst moment, weights included; None: not measured. tiled: decoded in tiles. offload:
    parts of the model that waited outside the device. shortages: in order; after a last one that stopped it there is no picture.
    ran: sentences on how it ran (`health.run_reasons`). computed: (width, height) in pixels that the model computed before
    scaling. stopped_of: planned steps, where the user stopped earlier. sheet: of a grid on one sheet; seconds are of all its
    pictures, room_bits is the smallest.
    """

    path: str
    seed: int
    index: int
    width: int
    height: int
    state: ReceiptState
    dtypes: dict[str, DType]
    black: bool
    finite: bool
    dark: bool
    room_bits: float | None
    seconds: float
    steps: int
    events: tuple[GuardEvent, ...] = ()
    latents: str | None = None
    kept_step: int | None = None
    not_kept: bool = False
    cures: dict[str, CureKind] = msgspec.field(default_factory=dict[str, CureKind])
    frames: int = 1
    fps: int | None = None
    flat_frames: tuple[int, ...] = ()
    broken_frames: tuple[int, ...] = ()
    variation_seed: int | None = None
    prompt: str = ""
    negative: str = ""
    loras: tuple[Lora, ...] = ()
    passes: tuple[PassFacts, ...] = ()
    peak_memory: int | None = None
    tiled: bool = False
    offload: OffloadMode = "none"
    shortages: tuple[Shortage, ...] = ()
    cut_short: ErrorFacts | None = None
    ran: tuple[Words, ...] = ()
    upscaled: Upscaled | None = None
    computed: tuple[int, int] | None = None
    stopped_of: int | None = None
    sheet: SheetFacts | None = None

    @property
    def first_size(self) -> tuple[int, int]:
        """Width and height of the first pass."""
        first = self.passes[0] if self.passes else self
        return first.width, first.height

    @property
    def work(self) -> int:
        """Pixels of all steps."""
        width, height = self.computed or (self.width, self.height)
        return sum(one.width * one.height * one.steps for one in self.passes) or width * height * self.steps


class GenerateReport(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    images: tuple[PictureFacts, ...]
    plan: Plan
    events: tuple[GuardEvent, ...]
    seconds: float
    seconds_per_step: float | None


class RepairReport(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """float32_error: relative error of the repaired float32 output, against the original with the merged LoRAs; float16_finite:
    the repaired copy was run in float16.
    """

    path: str
    changed_tensors: int
    float32_error: float
    float16_finite: bool
    seconds: float
    loras: tuple[str, ...] = ()
    """Names of those that were merged."""
    without_add_ons: tuple[str, ...] = ()
    """Components with smaller numbers than LoRAs, ControlNets and IP-Adapters expect; Halftone scales what these add."""


class MemoryFacts(msgspec.Struct, frozen=True, kw_only=True):
    """Bytes on the device: total, used by this program, used by others."""

    total: int
    own: int
    others: int
