"""Every setting, declared once: default, choices, words, flags. The settings page, the command line and the guide use this."""

from typing import Final, Literal

import msgspec

from halftone.contract.request import Numerics


class Choice(msgspec.Struct, frozen=True):
    """One value of a setting: as stored, as shown, and what it does (empty where the setting's own sentence says it)."""

    value: str
    label: str
    sentence: str = ""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """name: as in the settings file ("numerics.precision"); field: of Numerics, or of Settings for the other pages.

    kind: "choice" (choices list all values), "switch", "text" (free, `choices` empty), "folders" (a list of them) or "file".
    flags: on the command line.
    """

    name: str
    field: str
    page: str
    section: str
    title: str
    sentence: str
    tooltip: str
    kind: Literal["choice", "switch", "text", "folders", "file"]
    default: str | bool | tuple[str, ...]
    choices: tuple[Choice, ...] = ()
    flags: tuple[str, ...] = ()


class Alias(msgspec.Struct, frozen=True):
    """A flag that A1111 users know, and what it sets here."""

    flag: str
    field: str
    value: str | bool


_NUMERICS: Final = Numerics()
_THREE: Final = (
    Choice("when-needed", "When needed", "Only to avoid overflow."),
    Choice("always", "Always", "Whether it is needed or not."),
    Choice("never", "Never", "Leaves the safety net out."),
)


def _numerics(field: str, section: str, title: str, sentence: str, tooltip: str, choices: tuple[Choice, ...] = ()) -> Setting:
    """A setting of the Numerics page; its default is the one of `contract.request.Numerics`."""
    default: str | bool = getattr(_NUMERICS, field)
    flag = field.replace("_", "-")
    return Setting(
        name=f"numerics.{field}",
        field=field,
        page="Numerics",
        section=section,
        title=title,
        sentence=sentence,
        tooltip=tooltip,
        kind="switch" if isinstance(default, bool) else "choice",
        default=default,
        choices=choices,
        flags=(f"--{flag}", f"--no-{flag}") if isinstance(default, bool) else (f"--{flag}",),
    )


def _folders(name: str, section: str, title: str, sentence: str, tooltip: str) -> Setting:
    """A list of folders on the Folders page. name: of what they hold, in the singular."""
    return Setting(
        name=f"folders.{name}s",
        field=f"{name}_folders",
        page="Folders",
        section=section,
        title=title,
        sentence=sentence,
        tooltip=tooltip,
        kind="folders",
        default=(),
    )


_PRECISION: Final = (
    _numerics(
        "precision",
        "Precision",
        "Precision mode",
        "Compared with FP32, per denoiser step.",
        "FP32 is safest, slowest and largest.",
        choices=(
            Choice("auto", "Auto", "The fastest accurate precision; BF16 for models that need its range."),
            Choice("float16", "FP16", "Half the memory; values up to 65 504."),
            Choice("bfloat16", "BF16", "Half the memory; wide range, 8 bits of detail."),
            Choice("float32", "FP32", "Full precision, like --no-half."),
        ),
    ),
    _numerics(
        "vae_float32",
        "Precision",
        "Keep the VAE in FP32",
        "The VAE overflows most often.",
        "Black pictures are recovered even with Never.",
        choices=_THREE,
    ),
    _numerics(
        "upcast_cross_attention",
        "Precision",
        "Upcast cross-attention",
        "Computes the attention scores in FP32.",
        "For models whose attention scores pass 65 504.",
        choices=_THREE,
    ),
    _numerics(
        "upcast_sampling",
        "Precision",
        "Upcast sampling",
        "The sampler computes in FP32, the model in FP16.",
        "Costs almost nothing.",
    ),
)

_SUMS: Final = (
    _numerics(
        "fp16_reduction",
        "Matrix multiplication",
        "FP16 reduced-precision reduction",
        "Partial sums may be added in FP16.",
        "PyTorch default: on. allow_fp16_reduced_precision_reduction",
    ),
    _numerics(
        "bf16_reduction",
        "Matrix multiplication",
        "BF16 reduced-precision reduction",
        "Partial sums may be added in BF16.",
        "PyTorch default: on. allow_bf16_reduced_precision_reduction",
    ),
    _numerics(
        "fp16_accumulation",
        "Matrix multiplication",
        "FP16 accumulation",
        "Sums stay in FP16. Fast, but can overflow.",
        "allow_fp16_accumulation. Checks made without it no longer apply.",
    ),
    _numerics(
        "math_attention_reduction",
        "Matrix multiplication",
        "Half-precision math attention reduction",
        "Only with the Math attention backend.",
        "allow_fp16_bf16_reduction_math_sdp",
    ),
    _numerics(
        "tf32",
        "Matrix multiplication",
        "TF32 for FP32 work",
        "FP32 products keep 10 bits instead of 23.",
        "Undoes part of the gain of a cure.",
    ),
)

_ATTENTION: Final = (
    _numerics(
        "attention_backend",
        "Attention",
        "Attention backend",
        "Auto leaves the choice to PyTorch. Compared with Math.",
        "Backends that fail a test on this GPU cannot be chosen.",
        choices=(
            Choice("auto", "Auto"),
            Choice("flash", "Flash"),
            Choice("efficient", "Efficient"),
            Choice("cudnn", "cuDNN"),
            Choice("math", "Math"),
        ),
    ),
)

_MEMORY: Final = (
    _numerics(
        "offload",
        "Memory",
        "Offload",
        "Weights stay in RAM until the GPU needs them.",
        "For models that do not fit. Slower, same pictures.",
        choices=(
            Choice("auto", "Auto", "Off if everything fits, else the fastest that does."),
            Choice("none", "Off", "Everything stays on the GPU."),
            Choice("model", "Model", "One part at a time, like --medvram."),
            Choice("group", "Group", "One block at a time: less memory, slower."),
            Choice("sequential", "Sequential", "One layer at a time, like --lowvram: least memory, slowest."),
        ),
    ),
    _numerics(
        "fp8_storage",
        "Memory",
        "FP8 storage",
        "Stores the denoiser's weights in 8 bits.",
        "Changes pictures slightly. Checks made without it no longer apply.",
    ),
    _numerics(
        "vae_tiling",
        "Memory",
        "VAE tiling",
        "Decodes in tiles: large pictures need far less memory.",
        "Colours can differ slightly between tiles.",
        choices=(
            Choice("auto", "Auto", "Only if the whole picture does not fit."),
            Choice("always", "Always", "Every picture."),
            Choice("never", "Never", "Even if the picture does not fit."),
        ),
    ),
)

_SPEED: Final = (
    _numerics(
        "compile",
        "Speed",
        "Compile",
        "Slow first step, later ones often faster. For many pictures of one size.",
        "Uses torch.compile where possible.",
    ),
)

_SAFETY: Final = (
    _numerics(
        "nan_check",
        "Safety",
        "NaN check",
        "Looks for NaN and infinity. Turn it off only for debugging.",
        "When off, black pictures are not explained or recovered.",
        choices=(Choice("every-step", "Every step"), Choice("at-end", "At the end"), Choice("off", "Off")),
    ),
    _numerics(
        "on_black",
        "Safety",
        "When a picture comes out black",
        "Halftone explains every black picture.",
        "Recover quietly still notes it in the receipt.",
        choices=(
            Choice("recover", "Recover, then explain"),
            Choice("quiet", "Recover quietly"),
            Choice("ask", "Ask first"),
            Choice("stop", "Stop and explain"),
        ),
    ),
)

_PROGRAM: Final = (
    Setting(
        name="general.device",
        field="device",
        page="General",
        section="Device",
        title="Device",
        sentence="Auto uses a GPU if there is one, else the processor.",
        tooltip="PyTorch name, such as cuda:0 or cpu.",
        kind="text",
        default="auto",
        flags=("--device",),
    ),
    Setting(
        name="general.language",
        field="language",
        page="General",
        section="Language",
        title="Language",
        sentence="The language of the window.",
        tooltip="System follows your desktop.",
        kind="choice",
        default="system",
        choices=(Choice("system", "System"), Choice("en", "English"), Choice("zh_CN", "简体中文")),
    ),
    Setting(
        name="appearance.theme",
        field="theme",
        page="Appearance",
        section="Theme",
        title="Theme",
        sentence="Dark makes colours easier to judge.",
        tooltip="System follows your desktop.",
        kind="choice",
        default="system",
        choices=(Choice("system", "System"), Choice("dark", "Dark"), Choice("light", "Light")),
    ),
    Setting(
        name="folders.pictures",
        field="pictures_folder",
        page="Folders",
        section="Pictures",
        title="Pictures folder",
        sentence="Finished pictures are saved here.",
        tooltip="Default: Halftone in your pictures folder.",
        kind="text",
        default="",
        flags=("--output",),
    ),
    _folders("model", "Models", "Models", "Models and model folders.", "Removing one keeps its files."),
    _folders("lora", "LoRAs", "LoRA folders", "Searched along with your model folders.", "In prompts: <lora:name:weight>"),
    _folders(
        "embedding",
        "Embeddings",
        "Embedding folders",
        "Searched along with your LoRA and model folders.",
        "In prompts: the file name.",
    ),
    _folders(
        "upscaler",
        "Upscale models",
        "Upscale model folders",
        "Searched along with your model folders.",
        "ESRGAN, SwinIR, DAT and others.",
    ),
    Setting(
        name="folders.styles",
        field="styles_file",
        page="Folders",
        section="Styles",
        title="Styles",
        sentence="A styles.csv as written by A1111.",
        tooltip="Read only. Styles you save go into Halftone's own file.",
        kind="file",
        default="",
        flags=("--styles",),
    ),
    _folders(
        "wildcard",
        "Wildcards",
        "Wildcard folders",
        "__name__ in a prompt becomes a line of name.txt.",
        "The seed picks the line.",
    ),
)

DECLARED: Final[tuple[Setting, ...]] = (*_PRECISION, *_SUMS, *_ATTENTION, *_MEMORY, *_SPEED, *_SAFETY, *_PROGRAM)

ALIASES: Final[tuple[Alias, ...]] = (
    Alias("--no-half", "precision", "float32"),
    Alias("--no-half-vae", "vae_float32", "always"),
    Alias("--upcast-attention", "upcast_cross_attention", "always"),
    Alias("--disable-nan-check", "nan_check", "off"),
    Alias("--medvram", "offload", "model"),
    Alias("--lowvram", "offload", "sequential"),
)
"""--upcast-sampling, the fifth name that A1111 users know, is the setting's own flag here."""


_BY_NAME: Final = {name: setting for setting in DECLARED for name in (setting.name, setting.field)}


def declared(name: str) -> Setting:
    """The setting of that name ("numerics.tf32") or field ("tf32"). Raises KeyError."""
    return _BY_NAME[name]
