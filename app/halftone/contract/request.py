"""Everything a picture depends on, as the user wants it (may hold None) and as it will run (holds no None)."""

from pathlib import PurePath
from typing import Final

import msgspec

from halftone.contract.vocabulary import (
    POCKET,
    AttentionBackend,
    DType,
    MaskedContent,
    NanCheck,
    Offload,
    OnBlack,
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


class Lora(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """An add-on to a model: a safetensors file, and how much of it is added to the model's weights."""

    path: str
    weight: float = 1.0

    @property
    def name(self) -> str:
        """What other programs call it: its file's name without the ending."""
        return PurePath(self.path.replace("\\", "/")).stem or self.path


def model_stem(path: str) -> str:
    """The last part of a path of any system, without .safetensors."""
    return PurePath(path.replace("\\", "/")).name.removesuffix(".safetensors") or path


class Control(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A ControlNet and the picture that it is given. scale: how strongly it counts; start, end: the part of the steps, from 0 to
    1, in which it does; canny: it is given the picture's edges, else the picture as it is.
    """

    path: str
    image: str
    scale: float = 1.0
    start: float = 0.0
    end: float = 1.0
    canny: bool = False

    @property
    def name(self) -> str:
        """Its file's or folder's name without the ending."""
        return model_stem(self.path)


class Hires(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """A second pass over a picture made larger, as A1111's "Hires. fix" does.

    scale: of width and height. upscaler: "latent" (the latents are interpolated), "lanczos" (the pixels are), or the file of an
    upscale model. steps: that the second pass computes; None: as many as the first. strength: how much of the noise it begins
    with, from 0 to 1; None: what the upscaler needs.
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
    """A second model that makes the last steps of a picture. path: a folder or a file; at: the share of the steps, from 0 to 1,
    after which it takes over.
    """

    path: str
    at: float = 0.8

    @property
    def name(self) -> str:
        """Its file's or folder's name without the ending."""
        return model_stem(self.path)


class Start(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """How a picture is made of another one. strength: from 0.01 to 1, how much of it is made anew; None: the pipeline's own.
    resize: what is done where the two have different shapes. mask_blur: radius in pixels of the blur that softens the mask's
    edge. only_masked: pixels around the masked part that are computed with it, in the whole size of the request; None: the whole
    picture is computed. outpaint: pixels by which the picture is extended at its left, top, right and bottom.
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
    """An IP-Adapter and the pictures that it is given as a prompt is given words. scale: how strongly they count."""

    path: str
    images: tuple[str, ...]
    scale: float = 1.0

    @property
    def name(self) -> str:
        """Its file's name without the ending."""
        return PurePath(self.path.replace("\\", "/")).name.removesuffix(".safetensors") or self.path


class Style(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Words that are put around the prompts; `{prompt}` in them is the place of the user's own, which else come first."""

    name: str
    prompt: str = ""
    negative: str = ""


class Extras(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What is used with a model beside its own parts: numbers that were learned with some of it belong to just that."""

    loras: tuple[Lora, ...] = ()
    vae: str | None = None
    """A VAE's file or folder that takes the place of the model's own."""
    transformer: str | None = None
    """A file of a transformer or UNet, quantised or not, that takes the place of the model's own."""
    controls: tuple[Control, ...] = ()
    """What is learned belongs to the ControlNets; their pictures and strengths do not matter to it."""
    inversions: tuple[str, ...] = ()
    """Files of the textual inversions that the prompts name."""
    ip_adapters: tuple[IpAdapter, ...] = ()
    """As with ControlNets, their pictures and strengths do not matter to what is learned."""

    @property
    def can_be_copied(self) -> bool:
        """No part of the model is another's and none runs beside it: a cure of its weights can be written into a copy of it."""
        return self.vae is None and self.transformer is None and not self.controls and not self.ip_adapters


ALONE: Final = Extras()
"""Nothing beside the model's own parts."""


def extras_of(holder: object) -> Extras:
    """Of what has a field of its own for each."""
    return Extras(**{name: getattr(holder, name) for name in Extras.__struct_fields__})


class PictureRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """What the user asked for. None means: the model's or the device's own default.

    width and height are in pixels; guidance is the classifier-free guidance scale; seed feeds a CPU generator.
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
    image: str | None = None
    mask: str | None = None
    start: Start = Start()
    """How `image` and `mask` are used."""
    num_frames: int | None = None
    video: VideoFormat | None = None
    """Of several frames: the kind of file; None: what the ending of `output` says, else MP4."""
    fps: int | None = None
    """Frames per second of a video; a pipeline that asks for them is given them too. None: what the model was made for."""
    output: str | None = None
    """File to write (one picture) or folder to write into; None: the pictures folder of the settings."""
    overwrite: bool = False
    """Whether the file named by `output` may be replaced."""
    resume_latents: str | None = None
    """A file of kept latents: after a failed decode only the decode runs, after a failed step the steps go on."""
    options: dict[str, OptionValue] = msgspec.field(default_factory=dict)
    loras: tuple[Lora, ...] = ()
    vae: str | None = None
    """A file or a folder; None: the model's own."""
    transformer: str | None = None
    """A .gguf or .safetensors file; None: the model's own."""
    inversions: tuple[str, ...] = ()
    """Files of textual inversions, which the prompt names as their files are named."""
    controls: tuple[Control, ...] = ()
    hires: Hires | None = None
    """A second, larger pass."""
    refiner: Refiner | None = None
    """Another model that goes on with the picture before its last steps."""
    ip_adapters: tuple[IpAdapter, ...] = ()
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
    def masked(self) -> bool:
        """Whether only a part of the start picture is made anew, or more is added to it."""
        return self.mask is not None or self.start.extends

    @property
    def pictures(self) -> tuple[str, ...]:
        """The files of all pictures that it is given."""
        shown = (image for one in self.ip_adapters for image in one.images)
        given = (self.image, self.mask, *(control.image for control in self.controls), *shown)
        return tuple(path for path in given if path is not None)

    @property
    def extras(self) -> Extras:
        """What is used with the model."""
        return extras_of(self)


class ResolvedRequest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
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
    loras: tuple[Lora, ...] = ()
    vae: str | None = None
    transformer: str | None = None
    inversions: tuple[str, ...] = ()
    controls: tuple[Control, ...] = ()
    hires: Hires | None = None
    """width, height and steps are those of the first pass."""
    refiner: Refiner | None = None
    """steps are those of both models."""
    ip_adapters: tuple[IpAdapter, ...] = ()
    variation_seed: int = 0
    variation_strength: float = 0.0
    seed_size: tuple[int, int] | None = None
    styles: tuple[str, ...] = ()
    """Names."""
    written: str = ""
    written_negative: str = ""
    """The prompts as the user wrote them, before styles and draws; "" where they are the same."""
    image: str | None = None
    mask: str | None = None
    start: Start = Start()
    empty_negative: bool = False

    def seeds(self, index: int) -> tuple[int, int | None]:
        """The seed of picture `index` (from 0) of a batch, and that of its variation. With a variation its seed counts up and the
        other one stays, as in A1111.
        """
        if self.variation_strength > 0:
            return self.seed, self.variation_seed + index
        return self.seed + index, None

    @property
    def masked(self) -> bool:
        """Whether the result is laid over the start picture."""
        return self.mask is not None or self.start.extends


class UpscaleRequest(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Finished pictures to be made larger by an upscale model, each in a new file. upscaler: the model's file.

    output: a file (of one picture) or a folder; None: beside each picture.
    """

    pictures: tuple[str, ...]
    upscaler: str
    device: str = "auto"
    precision: Precision = "auto"
    output: str | None = None


class Upscaled(msgspec.Struct, frozen=True, kw_only=True):
    """How a finished picture was made larger: the file it was, the upscale model's file, and how many times larger."""

    source: str
    upscaler: str
    scale: int


class CheckInputs(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, forbid_unknown_fields=True):
    """Inputs of a check. None means: the pipeline's own default."""

    prompt: str | None = None
    negative: str | None = None
    steps: int | None = None
    width: int | None = None
    height: int | None = None
    guidance: float | None = None
    seed: int = 0
    image: str | None = None
    mask: str | None = None
    start: Start = Start()
    num_frames: int | None = None
    options: dict[str, OptionValue] = msgspec.field(default_factory=dict)
    loras: tuple[Lora, ...] = ()
    vae: str | None = None
    transformer: str | None = None
    inversions: tuple[str, ...] = ()
    controls: tuple[Control, ...] = ()
    ip_adapters: tuple[IpAdapter, ...] = ()

    @property
    def masked(self) -> bool:
        """Whether only a part of the start picture is made anew, or more is added to it."""
        return self.mask is not None or self.start.extends

    @property
    def extras(self) -> Extras:
        """What the model is checked with."""
        return extras_of(self)


def inputs_with(extras: Extras) -> CheckInputs:
    """A check of the model as it is used with these."""
    return CheckInputs(**{name: getattr(extras, name) for name in Extras.__struct_fields__})


KARRAS: Final = "Karras"
SCHEDULES: Final = (KARRAS, "Exponential", "Beta", "SGM Uniform")
"""How the noise levels may lie between the steps; the name of one follows that of a sampler."""


def split_sampler(name: str) -> tuple[str, str]:
    """ "DPM++ 2M Karras" -> ("DPM++ 2M", "Karras"); without a schedule the second is empty."""
    way = next((way for way in SCHEDULES if name.endswith(f" {way}")), "")
    return name.removesuffix(f" {way}") if way else name, way
