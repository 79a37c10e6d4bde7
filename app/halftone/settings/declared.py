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
    flags: on the command line, each with the value it sets, None where the flag takes one. torch_name: PyTorch's own name of the
    switch.
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
    torch_name: str | None = None


class Alias(msgspec.Struct, frozen=True):
    """A flag that A1111 users know, and what it sets here."""

    flag: str
    field: str
    value: str | bool


_NUMERICS: Final = Numerics()
_THREE: Final = (
    Choice("when-needed", "When needed", "Only where the numbers would pass the limit."),
    Choice("always", "Always", "Whether it is needed or not."),
    Choice("never", "Never", "Leaves the safety net out."),
)


def _numerics(field: str, section: str, title: str, sentence: str, tooltip: str, **more: object) -> Setting:
    """A setting of the Numerics page; its default is the one of `contract.request.Numerics`."""
    default: str | bool = getattr(_NUMERICS, field)
    kind = "switch" if isinstance(default, bool) else "choice"
    flag = "--" + field.replace("_", "-")
    known: dict[str, object] = {
        "name": f"numerics.{field}",
        "field": field,
        "page": "Numerics",
        "section": section,
        "title": title,
        "sentence": sentence,
        "tooltip": tooltip,
        "kind": kind,
        "default": default,
        "flags": (flag, f"--no-{flag[2:]}") if kind == "switch" else (flag,),
    }
    return msgspec.convert(known | more, Setting)


_PRECISION: Final = (
    _numerics(
        "precision",
        "Precision",
        "Precision mode",
        "Auto uses the fastest type that passed every test, and BF16 for a model that needs its range. "
        "Compared with FP32: steps of a denoiser.",
        "FP32 is what --no-half does: safest, slowest, largest.",
        choices=(
            Choice(
                "auto", "Auto", "The fastest type that passed every test on this device; BF16 for a model that needs its range."
            ),
            Choice("float16", "FP16", "Half the memory; numbers up to 65 504."),
            Choice("bfloat16", "BF16", "Half the memory; large numbers, but only 8 bits of detail."),
            Choice("float32", "FP32", "Full precision, as --no-half does."),
        ),
    ),
    _numerics(
        "vae_float32",
        "Precision",
        "Keep the VAE in FP32",
        "The VAE turns the result into a picture. It overflows most often.",
        "Never leaves out the safety net for the VAE. Black pictures are still recovered.",
        choices=_THREE,
    ),
    _numerics(
        "upcast_cross_attention",
        "Precision",
        "Upcast cross-attention",
        "Computes the attention scores in FP32.",
        "Helps models whose attention scores pass 65 504.",
        choices=_THREE,
    ),
    _numerics(
        "upcast_sampling",
        "Precision",
        "Upcast sampling",
        "The arithmetic between steps runs in FP32, the model stays in FP16.",
        "Costs almost nothing and keeps small differences between steps.",
    ),
)

_SUMS: Final = (
    _numerics(
        "fp16_reduction",
        "Sums inside matrix products",
        "FP16 reduced-precision reduction",
        "Partial sums may be joined in FP16.",
        "PyTorch turns this on. allow_fp16_reduced_precision_reduction",
        torch_name="allow_fp16_reduced_precision_reduction",
    ),
    _numerics(
        "bf16_reduction",
        "Sums inside matrix products",
        "BF16 reduced-precision reduction",
        "Partial sums may be joined in BF16.",
        "PyTorch turns this on. allow_bf16_reduced_precision_reduction",
        torch_name="allow_bf16_reduced_precision_reduction",
    ),
    _numerics(
        "fp16_accumulation",
        "Sums inside matrix products",
        "FP16 accumulation",
        "All sums stay in FP16. Fast, but large sums can overflow.",
        "allow_fp16_accumulation. Models checked without it count as not checked.",
        torch_name="allow_fp16_accumulation",
    ),
    _numerics(
        "math_attention_reduction",
        "Sums inside matrix products",
        "Half-precision math attention reduction",
        "Only matters when the attention backend is Math.",
        "allow_fp16_bf16_reduction_math_sdp. Only with the Math backend.",
        torch_name="allow_fp16_bf16_reduction_math_sdp",
    ),
    _numerics(
        "tf32",
        "Sums inside matrix products",
        "TF32 for FP32 work",
        "Parts that run in FP32 keep 10 bits in products instead of 23.",
        "Keeps 10 bits in products. Undoes part of the gain of a cure.",
        torch_name="allow_tf32",
    ),
)

_ATTENTION: Final = (
    _numerics(
        "attention_backend",
        "Attention",
        "Attention backend",
        "Auto leaves the choice to PyTorch. Compared with Math.",
        "Backends that fail a test on this GPU cannot be chosen; the list says why.",
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
        "Weights wait in the computer's memory and come to the GPU when they are used.",
        "For models that do not fit. The pictures stay the same; it takes longer, because weights are copied for every step.",
        choices=(
            Choice("auto", "Auto", "Off while everything fits; else the fastest of these that does, for pictures and checks."),
            Choice("none", "Off", "Everything stays on the GPU."),
            Choice("model", "Model", "One part of the model at a time, as --medvram does."),
            Choice("group", "Group", "One block at a time: less memory, slower."),
            Choice("sequential", "Sequential", "One layer at a time, as --lowvram does: least memory, slowest."),
        ),
    ),
    _numerics(
        "fp8_storage",
        "Memory",
        "FP8 storage",
        "The denoiser's weights are kept in 8 bits and widened, layer by layer, to compute.",
        "Changes pictures a little: weights keep 4 bits of detail instead of 11. Models checked without it count as not checked.",
    ),
    _numerics(
        "vae_tiling",
        "Memory",
        "VAE tiling",
        "Turns the result into a picture part by part: large pictures need far less memory.",
        "The parts overlap and are blended; colours can differ a little between them.",
        choices=(
            Choice("auto", "Auto", "Only where the whole picture at once would not fit."),
            Choice("always", "Always", "Every picture."),
            Choice("never", "Never", "The whole picture at once, even if it does not fit."),
        ),
    ),
)

_SPEED: Final = (
    _numerics(
        "compile",
        "Speed",
        "Compile",
        "The first step takes far longer, later ones often less. For many pictures of one size.",
        "Compiles the blocks that repeat (torch.compile). Where that cannot be done, pictures are made as usual, and say so.",
        torch_name="torch.compile",
    ),
)

_SAFETY: Final = (
    _numerics(
        "nan_check",
        "Safety",
        "NaN check",
        "Looks for values that are not numbers. Off is only for debugging.",
        "Off is only for debugging. Halftone then cannot say where a bad number began.",
        choices=(Choice("every-step", "Every step"), Choice("at-end", "At the end"), Choice("off", "Off")),
    ),
    _numerics(
        "on_black",
        "Safety",
        "When a picture comes out black",
        "Halftone never shows a black picture without saying why.",
        "Recover quietly still writes it into the receipt.",
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
        sentence="What computes the pictures. Auto takes a GPU if there is one, else the processor.",
        tooltip="As PyTorch spells it, for instance cuda:0 or cpu.",
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
        tooltip="System follows the language of your desktop.",
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
        sentence="Dark keeps the colours of a picture easy to judge.",
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
        tooltip="Empty: the folder Halftone in your pictures folder.",
        kind="text",
        default="",
        flags=("--output",),
    ),
    Setting(
        name="folders.models",
        field="model_folders",
        page="Folders",
        section="Models",
        title="Models",
        sentence="Models, and folders in which they are looked for.",
        tooltip="Taken out of this list, a model's files stay where they are.",
        kind="folders",
        default=(),
    ),
    Setting(
        name="folders.loras",
        field="lora_folders",
        page="Folders",
        section="LoRAs",
        title="LoRA folders",
        sentence="LoRAs are looked for here and in your model folders.",
        tooltip="A prompt names them as <lora:name:weight>.",
        kind="folders",
        default=(),
    ),
    Setting(
        name="folders.embeddings",
        field="embedding_folders",
        page="Folders",
        section="Embeddings",
        title="Embedding folders",
        sentence="Embeddings (textual inversions) are looked for here, and where LoRAs and models are.",
        tooltip="A prompt names them by the names of their files.",
        kind="folders",
        default=(),
    ),
    Setting(
        name="folders.upscalers",
        field="upscaler_folders",
        page="Folders",
        section="Upscale models",
        title="Upscale model folders",
        sentence="Upscale models (ESRGAN, SwinIR, DAT …) are looked for here and in your model folders.",
        tooltip="They make finished pictures larger, and those between two passes.",
        kind="folders",
        default=(),
    ),
    Setting(
        name="folders.styles",
        field="styles_file",
        page="Folders",
        section="Styles",
        title="Styles",
        sentence="Words to put around your prompts, from a styles.csv as A1111 writes it.",
        tooltip="Halftone only reads it: styles that you save here go into a file of its own.",
        kind="file",
        default="",
        flags=("--styles",),
    ),
    Setting(
        name="folders.wildcards",
        field="wildcard_folders",
        page="Folders",
        section="Wildcards",
        title="Wildcard folders",
        sentence="Text files of words: __name__ in a prompt becomes a line of name.txt.",
        tooltip="Each picture draws its own line, by its seed.",
        kind="folders",
        default=(),
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


def declared(name: str) -> Setting:
    """The setting of that name ("numerics.tf32") or field ("tf32"). Raises KeyError."""
    for setting in DECLARED:
        if name in {setting.name, setting.field}:
            return setting
    raise KeyError(name)
