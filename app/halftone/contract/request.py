"""Everything a picture depends on, as the user wants it (may hold None) and as it will run (holds no None)."""

from functools import lru_cache
from pathlib import PurePath
from typing import Final, TypeVar

import msgspec
from msgspec.structs import force_setattr

from halftone.contract.parameters import seed_after
from halftone.contract.preprocessors import NONE, PREPROCESSORS
from halftone.contract.vocabulary import (
    POCKET,
    AttentionBackend,
    ControlMode,
    DType,
    MaskedContent,
    NanCheck,
    Offload,
    OnBlack,
    PictureFormat,
    Precision,
    Resize,
    VaeTiling,
    VideoFormat,
    WhenNeeded,
)
from halftone.contract.wording import Words

LATENT: Final = "latent"
LANCZOS: Final = "lanczos"
"""Ways to enlarge that need no model."""

OptionValue = str | int | float | bool | list[str | int | float | bool]


class Numerics(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """The settings of Settings > Numerics. Each is declared, with its words and its flag, in `halftone.settings.declared`."""

    precision: Precision = "auto"
    vae_float32: WhenNeeded = "when-needed"
    upcast_cross_attention: WhenNeeded = "when-needed"
    upcast_sampling: bool = True
    fp16_reduction: bool = False
    bf16_reduction: bool = False
    fp16_accumulation: bool = False
    math_attention_reduction: bool = False
    tf32: bool = False
    attention_backend: AttentionBackend = "auto"
    offload: Offload = "auto"
    fp8_storage: bool = False
    vae_tiling: VaeTiling = "auto"
    compile: bool = False
    nan_check: NanCheck = "every-step"
    on_black: OnBlack = "recover"


_SAME_NAMES: Final = ("adapter_model", "pytorch_lora_weights")


class Lora(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An add-on to a model: a safetensors file, and how much of it is added to the model's weights."""

    path: str
    weight: float = 1.0
    encoder_weight: float | None = None
    """The weight in text encoders, where it is another one."""

    @property
    def name(self) -> str:
        """As `add_on_name` has it."""
        return add_on_name(self.path)

    @property
    def weights(self) -> tuple[float, ...]:
        """As A1111 writes them: one for all of the model, or that of the text encoders before that of the rest."""
        return (self.weight,) if self.encoder_weight in (None, self.weight) else (self.encoder_weight, self.weight)

    @property
    def shown_weight(self) -> str:
        return ":".join(f"{weight:g}" for weight in self.weights)

    def weight_in(self, component: str) -> float:
        """How much of it is added to a component of the model."""
        return self.weights[0] if component.startswith("text_encoder") else self.weight


def add_on_name(path: str) -> str:
    """A file's name without the ending; its folder's where peft and diffusers give every file the same name."""
    file = PurePath(path.replace("\\", "/"))
    return (file.parent.name if file.stem in _SAME_NAMES else "") or file.stem or path


def model_stem(path: str) -> str:
    """The last part of a path of any system, without .safetensors; the repository where it is a revision in a hub cache."""
    return repository(path) or file_name(path).removesuffix(".safetensors") or path


def repository(path: str) -> str | None:
    """ORG/NAME of a folder that is one revision in a Hugging Face cache, as its own name is only a commit; None elsewhere."""
    parts = PurePath(path.replace("\\", "/")).parts[-3:]
    if len(parts) < 3 or parts[1] != "snapshots" or not parts[0].startswith("models--"):
        return None
    return parts[0].removeprefix("models--").replace("--", "/")


def file_name(path: str) -> str:
    """The last part of a path of any system."""
    return PurePath(path.replace("\\", "/")).name


class Control(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """scale: its strength; start, end: its part of the steps, from 0 to 1. resize: how its picture fits a result of another
    aspect. preprocessor: what it is given in the place of the
    picture, a name of `halftone.contract.preprocessors`; threshold_a, threshold_b: its numbers, None for the usual ones;
    resolution: the shorter edge that it works at, None for that of the result; preprocessor_model: the folder of the model that
    it runs, where it runs one; kind: what the picture shows, for a ControlNet that was trained for several kinds; mode: whether
    it counts alike for both prompts, softly, or softly and for the prompt alone.
    """

    path: str
    image: str
    scale: float = 1.0
    start: float = 0.0
    end: float = 1.0
    resize: Resize = "stretch"
    preprocessor: str = NONE
    threshold_a: float | None = None
    threshold_b: float | None = None
    resolution: int | None = None
    preprocessor_model: str | None = None
    canny: bool = False
    """What requests said before there were other preprocessors; read, and never written."""
    kind: str = ""
    mode: ControlMode = "balanced"

    def __post_init__(self) -> None:
        if self.canny:
            force_setattr(self, "preprocessor", "canny")
            force_setattr(self, "canny", False)

    @property
    def thresholds(self) -> tuple[float, ...]:
        """The numbers of its preprocessor."""
        own = PREPROCESSORS[self.preprocessor].thresholds
        given = (self.threshold_a, self.threshold_b)
        return tuple(one.usual if value is None else value for one, value in zip(own, given, strict=False))

    @property
    def name(self) -> str:
        """Its file's or folder's name without the ending."""
        return model_stem(self.path)


class Drawing(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A control picture that is drawn to be looked at. size: of the result, (width, height)."""

    control: Control
    size: tuple[int, int]


class Hires(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A second pass over an enlarged picture, A1111's "Hires. fix". scale: of width and height. upscaler: "latent" (the latents
    are interpolated), "lanczos" (the pixels are), or an upscale model's file. steps: of the second pass; None: as many as the
    first. strength: its share of the noise, from 0 to 1; None: the upscaler's usual.
    """

    scale: float = 2.0
    upscaler: str = LATENT
    steps: int | None = None
    strength: float | None = None

    @property
    def upscaler_name(self) -> str:
        """As A1111 writes it: Latent, Lanczos, or the model's file without the ending."""
        return self.upscaler.capitalize() if self.upscaler in (LATENT, LANCZOS) else model_stem(self.upscaler)


class Refiner(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A second model for the last steps of a picture. path: folder or file; at: where it begins, as a share from 0 to 1.
    by_steps: a share of the steps, as in ComfyUI; else of the noise levels, as in diffusers and A1111.
    """

    path: str
    at: float = 0.8
    by_steps: bool = False

    def first_step(self, steps: int) -> int:
        """Its first step, from 0, of so many by its share of the steps."""
        return round(self.at * steps)

    @property
    def name(self) -> str:
        """Its file's or folder's name without the ending."""
        return model_stem(self.path)


class Start(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How a picture is made of another one. strength: from 0.01 to 1, how much of it changes; None: the pipeline's own. resize:
    what happens to another shape. mask_blur: radius in pixels of the blur of the mask's edge. only_masked: pixels around the
    masked part that are computed with it, in the whole size of the request; None: the whole picture is computed. outpaint: pixels
    added at the left, top, right and bottom.
    """

    strength: float | None = None
    resize: Resize = "stretch"
    mask_blur: int = 4
    masked_content: MaskedContent = "original"
    only_masked: int | None = None
    outpaint: tuple[int, int, int, int] = (0, 0, 0, 0)

    @property
    def extends(self) -> bool:
        return any(self.outpaint)

    @property
    def keeps_size(self) -> bool:
        """Whether the result is as large as the start picture, with what is added to it, whatever size was asked for."""
        return self.extends or self.only_masked is not None


class IpAdapter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An IP-Adapter and the pictures that serve as its prompt. scale: its strength."""

    path: str
    images: tuple[str, ...]
    scale: float = 1.0

    @property
    def name(self) -> str:
        """Its file's name without the ending."""
        return model_stem(self.path)


class Style(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Words that are put around the prompts; `{prompt}` in them is the place of the user's own, which else come first."""

    name: str
    prompt: str = ""
    negative: str = ""


class Used(msgspec.Struct, frozen=True, kw_only=True):
    """What is used with a model beside its own parts. Pictures and strengths of ControlNets and IP-Adapters do not matter to what
    is learned with them.

    vae: a file or folder; transformer: a .gguf or .safetensors file; None: the model's own. inversions: files of textual
    inversions, which prompts call by their names.
    """

    loras: tuple[Lora, ...] = ()
    vae: str | None = None
    transformer: str | None = None
    controls: tuple[Control, ...] = ()
    inversions: tuple[str, ...] = ()
    ip_adapters: tuple[IpAdapter, ...] = ()

    @property
    def extras(self) -> "Extras":
        return Extras(**{name: getattr(self, name) for name in Used.__struct_fields__})


class Extras(Used, frozen=True, kw_only=True, omit_defaults=True):
    """These alone: numbers that were learned with some of them belong to just that."""

    @property
    def can_be_copied(self) -> bool:
        """No part of the model is another's and none runs beside it: a cure of its weights can be written into a copy of it."""
        return self.vae is None and self.transformer is None and not self.controls and not self.ip_adapters


ALONE: Final = Extras()
"""Nothing beside the model's own parts."""


class Inputs(Used, frozen=True, kw_only=True):
    """What a run is given. start: how `image` and `mask` are used."""

    image: str | None = None
    mask: str | None = None
    start: Start = Start()

    @property
    def masked(self) -> bool:
        """Whether only a part of the start picture is made anew, or more is added to it."""
        return self.mask is not None or self.start.extends


class Saving(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How a picture is saved. file_names: the pattern of names that the user does not choose (`halftone.settings.file_names`);
    picture_format: of these files; picture_quality: from 1 to 100, of all formats but PNG; save_metadata: whether the file holds
    its parameters and its receipt; ai_label: whether it also says, as IPTC has it, that a model made it.
    """

    file_names: str = "{number}-{seed}"
    picture_format: PictureFormat = "png"
    picture_quality: int = 95
    save_metadata: bool = True
    ai_label: bool = True


class PictureRequest(Inputs, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the user asked for. None means: the model's or the device's own default. width and height are in pixels; guidance is
    the classifier-free guidance scale; seed feeds a CPU generator.
    """

    prompt: str
    negative: str = ""
    empty_negative: bool = False
    """Without a negative prompt, an empty one is encoded all the same. Some pipelines (SDXL, Kandinsky 3) give zeros in its place
    where there is none."""
    model: str = POCKET
    device: str = "auto"
    width: int | None = None
    height: int | None = None
    steps: int | None = None
    guidance: float | None = None
    sampler: str | None = None
    seed: int | None = None
    batch: int = 1
    num_frames: int | None = None
    video: VideoFormat | None = None
    """Of several frames: the kind of file; None: what the ending of `output` says, else MP4."""
    fps: int | None = None
    """Frames per second of a video; a pipeline that asks for them is given them too. None: what the model was made for."""
    output: str | None = None
    """File to write (one picture) or folder to write into; None: the pictures folder of the settings."""
    overwrite: bool = False
    """Whether the file named by `output` may be replaced."""
    saving: Saving = Saving()
    resume_latents: str | None = None
    """A file of kept latents: after a failed decode only the decode runs, after a failed step the steps go on."""
    options: dict[str, OptionValue] = msgspec.field(default_factory=dict)
    hires: Hires | None = None
    """A second, larger pass."""
    refiner: Refiner | None = None
    """Another model that goes on with the picture before its last steps."""
    variation_seed: int | None = None
    variation_strength: float = 0.0
    seed_size: tuple[int, int] | None = None
    """The noise is that of `seed`, turned towards that of `variation_seed` (None: a random one) by a share from 0 to 1, and drawn
    as for a picture of `seed_size`, (width, height) in pixels."""
    styles: tuple[Style, ...] = ()
    wildcards: tuple[str, ...] = ()
    lora_folders: tuple[str, ...] | None = None
    """Where the LoRAs are looked for that drawn words name, for each picture its own; None: they are left out."""
    draws: bool = True
    """Styles are put around the prompts; then, if `draws`, `{a|b}` and `__name__`, a line of name.txt in the folders `wildcards`,
    are drawn for each picture."""
    numerics: Numerics = Numerics()

    @property
    def pictures(self) -> tuple[str, ...]:
        """The files of all pictures that it is given."""
        shown = (image for one in self.ip_adapters for image in one.images)
        given = (self.image, self.mask, *(control.image for control in self.controls), *shown)
        return tuple(path for path in given if path is not None)

    @property
    def models(self) -> tuple[str, ...]:
        """The files and folders of the model and of all that is used with it."""
        beside = (*self.loras, *self.controls, *self.ip_adapters)
        refiner = None if self.refiner is None else self.refiner.path
        upscaler = None if self.hires is None else self.hires.upscaler
        used = (self.model, refiner, upscaler, self.vae, self.transformer, *self.inversions, *(one.path for one in beside))
        return tuple(path for path in used if path is not None)


class ResolvedRequest(Inputs, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What will run. Every automatic choice stands in `reasons`."""

    prompt: str
    negative: str
    model: str
    device: str
    dtype: DType
    width: int
    height: int
    steps: int
    guidance: float
    sampler: str
    seed: int
    batch: int
    options: dict[str, OptionValue]
    numerics: Numerics
    reasons: tuple[Words, ...]
    hires: Hires | None = None
    """width, height and steps are those of the first pass."""
    refiner: Refiner | None = None
    """steps are those of both models."""
    variation_seed: int = 0
    variation_strength: float = 0.0
    seed_size: tuple[int, int] | None = None
    styles: tuple[str, ...] = ()
    """Names."""
    written: str = ""
    written_negative: str = ""
    """The prompts as the user wrote them, before styles and draws; "" where they are the same."""
    empty_negative: bool = False

    def seeds(self, index: int) -> tuple[int, int | None]:
        """The seed of picture `index` (from 0) of a batch, and that of its variation. With a variation its seed counts up and the
        other one stays, as in A1111.
        """
        if self.variation_strength > 0:
            return self.seed, seed_after(self.variation_seed, index)
        return seed_after(self.seed, index), None


class UpscaleRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Finished pictures to be enlarged by an upscale model, each in a new file. upscaler: the model's file. output: a file (of
    one picture) or a folder; None: beside each picture. saving: of new files whose name `output` does not give.
    """

    pictures: tuple[str, ...]
    upscaler: str
    device: str = "auto"
    precision: Precision = "auto"
    output: str | None = None
    saving: Saving = Saving()


class Upscaled(msgspec.Struct, frozen=True, kw_only=True):
    """How a finished picture was enlarged: its file, the upscale model's file, and the factor."""

    source: str
    upscaler: str
    scale: int


class CheckInputs(Inputs, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Inputs of a check. None means: the pipeline's own default."""

    prompt: str | None = None
    negative: str | None = None
    steps: int | None = None
    width: int | None = None
    height: int | None = None
    guidance: float | None = None
    seed: int = 0
    num_frames: int | None = None
    options: dict[str, OptionValue] = msgspec.field(default_factory=dict)


def inputs_with(extras: Extras) -> CheckInputs:
    """A check of the model as it is used with these."""
    return CheckInputs(**{name: getattr(extras, name) for name in Extras.__struct_fields__})


_Holder = TypeVar("_Holder", bound=Used)


def without_places(used: _Holder) -> _Holder:
    """Without the folders of its files; LoRAs stay."""
    nets = tuple(
        msgspec.structs.replace(
            one,
            path=one.name,
            image=file_name(one.image),
            preprocessor_model=None if one.preprocessor_model is None else model_stem(one.preprocessor_model),
        )
        for one in used.controls
    )
    adapters = tuple(
        msgspec.structs.replace(one, path=one.name, images=tuple(map(file_name, one.images))) for one in used.ip_adapters
    )
    return msgspec.structs.replace(
        used,
        vae=None if used.vae is None else file_name(used.vae),
        transformer=None if used.transformer is None else file_name(used.transformer),
        inversions=tuple(PurePath(file_name(path)).stem for path in used.inversions),
        controls=nets,
        ip_adapters=adapters,
    )


KARRAS: Final = "Karras"
BY_COMFYUI: Final = {way: f"{way} (ComfyUI)" for way in ("Beta", "KL Optimal")}
"""Schedules that ComfyUI computes in another way than A1111, by the name that its own have."""
TIME_UNIFORM: Final = "Time Uniform"
"""What A1111's UniPC computes, whatever schedule is chosen there."""
SCHEDULES: Final = (
    KARRAS, "Exponential", "Beta", "SGM Uniform", "Simple", "Normal", "DDIM Uniform", "KL Optimal", "Polyexponential",
    "Linear Quadratic", "Turbo", "Align Your Steps", *BY_COMFYUI.values(), TIME_UNIFORM,
)  # fmt: skip
"""How the noise levels may lie between the steps; the name of one follows that of a sampler."""
BY_DIFFUSERS: Final = {way: f"{way} (diffusers)" for way in (KARRAS, "Exponential", "Beta", "SGM Uniform")}
"""Schedules that Halftone first left to diffusers, whose numbers differ, by the name that these have now."""


@lru_cache(maxsize=2048)
def split_sampler(name: str) -> tuple[str, str]:
    """ "DPM++ 2M Karras" -> ("DPM++ 2M", "Karras"); without a schedule the second is empty."""
    way = next((way for way in (*SCHEDULES, *BY_DIFFUSERS.values()) if name.endswith(f" {way}")), "")
    return name.removesuffix(f" {way}") if way else name, way
