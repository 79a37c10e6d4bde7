"""Every setting, declared once: default, choices, words, flags. The settings page, the command line and the guide use this."""

from typing import Final, Literal

import msgspec

from halftone.contract.request import Numerics, Saving


class Choice(msgspec.Struct, frozen=True):
    """One value of a setting: as stored, as shown, and what it does (empty where the setting's own sentence says it)."""

    value: str
    label: str
    sentence: str = ""


class Setting(msgspec.Struct, frozen=True, kw_only=True):
    """name: as in the settings file ("numerics.precision"); field: of Numerics, or of Settings for the other pages.

    kind: "choice" (choices list all values), "switch", "text" (free), "number" (whole, within `limits`), "pattern" (of file
    names), "folders" (a list of them) or "file". unit: of a number. flags: on the command line. a1111: what A1111 calls it, where
    that differs; only the search knows it. synonyms: other words that people search for.
    """

    name: str
    field: str
    page: str
    section: str
    title: str
    sentence: str
    tooltip: str
    kind: Literal["choice", "switch", "text", "number", "pattern", "folders", "file"]
    default: str | bool | int | tuple[str, ...]
    choices: tuple[Choice, ...] = ()
    limits: tuple[int, int] = (0, 0)
    unit: str = ""
    flags: tuple[str, ...] = ()
    a1111: str = ""
    synonyms: str = ""


class Alias(msgspec.Struct, frozen=True):
    """A flag that A1111 users know, and what it sets here."""

    flag: str
    field: str
    value: str | bool


_NUMERICS: Final = Numerics()
_SAVING: Final = Saving()
_THREE: Final = (
    Choice("when-needed", "When needed", "Only to avoid overflow."),
    Choice("always", "Always", "Whether it is needed or not."),
    Choice("never", "Never", "Leaves the safety net out."),
)


def _numerics(
    field: str,
    section: str,
    title: str,
    sentence: str,
    tooltip: str,
    choices: tuple[Choice, ...] = (),
    a1111: str = "",
    synonyms: str = "",
) -> Setting:
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
        a1111=a1111,
        synonyms=synonyms,
    )


def _folders(name: str, title: str, sentence: str, tooltip: str, synonyms: str = "") -> Setting:
    """A list of folders on the Folders page. name: of what they hold, in the singular."""
    return Setting(
        name=f"folders.{name}s",
        field=f"{name}_folders",
        page="Folders",
        section="Folders",
        title=title,
        sentence=sentence,
        tooltip=tooltip,
        kind="folders",
        default=(),
        synonyms=synonyms,
    )


_PRECISION: Final = (
    _numerics(
        "precision",
        "Precision",
        "Precision mode",
        "Compared with FP32, per denoiser step.",
        "FP32 is safest, slowest and largest.",
        synonyms="half float16 bfloat16 float32 dtype quality speed",
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
        synonyms="black images NaN",
        a1111="Automatically revert VAE to 32-bit floats",
        choices=_THREE,
    ),
    _numerics(
        "upcast_cross_attention",
        "Precision",
        "Upcast cross-attention",
        "Computes the attention scores in FP32.",
        "For models whose attention scores pass 65 504.",
        a1111="Upcast cross attention layer to float32",
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
        synonyms="--fast speed",
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
        synonyms="SDPA scaled dot product flash-attention sage speed",
        a1111="Cross attention optimization xformers sdp",
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
        synonyms="VRAM GPU video memory OOM out of memory CPU low",
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
        synonyms="VRAM video memory OOM quantize quantization fp8_e4m3fn float8",
    ),
    _numerics(
        "vae_tiling",
        "Memory",
        "VAE tiling",
        "Decodes in tiles: large pictures need far less memory.",
        "Colours can differ slightly between tiles.",
        synonyms="VRAM video memory OOM out of memory tiled VAE decode",
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
        synonyms="faster performance inductor triton",
    ),
)

_SAFETY: Final = (
    _numerics(
        "nan_check",
        "Safety",
        "NaN check",
        "Looks for NaN and infinity. Turn it off only for debugging.",
        "When off, black pictures are not explained or recovered.",
        synonyms="black images infinity",
        choices=(Choice("every-step", "Every step"), Choice("at-end", "At the end"), Choice("off", "Off")),
    ),
    _numerics(
        "on_black",
        "Safety",
        "When a picture comes out black",
        "Halftone explains every black picture.",
        "Recover quietly still notes it in the receipt.",
        synonyms="black images NaN repair retry",
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
        synonyms="GPU CUDA card CPU --device-id",
        field="device",
        page="General",
        section="Program",
        title="Device",
        sentence="Auto uses a GPU if there is one, else the processor.",
        tooltip="PyTorch name, such as cuda:0 or cpu.",
        kind="text",
        default="auto",
        flags=("--device",),
    ),
    Setting(
        name="general.all_cards",
        synonyms="multi GPU several cards parallel",
        field="all_cards",
        page="General",
        section="Program",
        title="Use all GPUs for the queue",
        sentence="Pictures also go to the other GPUs of this kind.",
        tooltip="Each GPU loads its own copy of the model. Checks and training stay on the device above.",
        kind="switch",
        default=False,
    ),
    Setting(
        name="general.language",
        synonyms="translation locale Chinese 中文",
        field="language",
        a1111="Localization",
        page="General",
        section="Program",
        title="Language",
        sentence="The language of the window.",
        tooltip="System follows your desktop.",
        kind="choice",
        default="system",
        choices=(Choice("system", "System"), Choice("en", "English"), Choice("zh_CN", "简体中文")),
    ),
    Setting(
        name="general.serve",
        synonyms="HTTP server web REST Krita Photoshop SillyTavern port",
        field="serve",
        page="General",
        section="Program",
        title="Local interface",
        sentence="Lets programs on this computer generate, as A1111's API does.",
        tooltip="For scripts and chat front ends such as SillyTavern. Needs a token. In a terminal: halftone serve",
        kind="switch",
        default=False,
        a1111="--api",
    ),
    Setting(
        name="saving.file_names",
        field="file_names",
        a1111="Images filename pattern",
        page="General",
        section="Saving",
        title="File names",
        sentence="A / begins a folder. A taken name gets a number; no file is overwritten.",
        tooltip="Known: {number} {seed} {date} {time} {prompt} {model} {sampler} {steps} {guidance} {width} {height}",
        kind="pattern",
        default=_SAVING.file_names,
        flags=("--file-names",),
    ),
    Setting(
        name="saving.picture_format",
        synonyms="image type jpg extension output",
        field="picture_format",
        a1111="File format for images",
        page="General",
        section="Saving",
        title="Picture format",
        sentence="PNG loses nothing. The others are smaller.",
        tooltip="Videos keep their own formats, and upscaled pictures are PNG.",
        kind="choice",
        default=_SAVING.picture_format,
        choices=(Choice("png", "PNG"), Choice("jpg", "JPEG"), Choice("webp", "WebP"), Choice("jxl", "JPEG XL")),
        flags=("--format",),
    ),
    Setting(
        name="saving.picture_quality",
        synonyms="image compression file size",
        field="picture_quality",
        a1111="Quality for saved jpeg images",
        page="General",
        section="Saving",
        title="Quality",
        sentence="For JPEG, WebP and JPEG XL. Above 90, losses are hard to see.",
        tooltip="Higher means larger files.",
        kind="number",
        default=_SAVING.picture_quality,
        limits=(1, 100),
        flags=("--quality",),
    ),
    Setting(
        name="saving.save_metadata",
        synonyms="PNG info EXIF parameters workflow",
        field="save_metadata",
        a1111="Write infotext to metadata of the generated image",
        page="General",
        section="Saving",
        title="Metadata in the file",
        sentence="Prompt, settings and receipt. When off, only the history keeps them.",
        tooltip="A1111 and other programs read the parameters.",
        kind="switch",
        default=True,
        flags=("--metadata", "--no-metadata"),
    ),
    Setting(
        name="saving.ai_label",
        synonyms="IPTC digital source type XMP made with AI content credentials",
        field="ai_label",
        page="General",
        section="Saving",
        title="AI label in the file",
        sentence="IPTC's note that AI made or changed the picture. Some sites show it.",
        tooltip="Needs Metadata in the file.",
        kind="switch",
        default=True,
        flags=("--ai-label", "--no-ai-label"),
    ),
    Setting(
        name="appearance.theme",
        synonyms="dark mode light mode night colour color",
        field="theme",
        page="Appearance",
        section="Appearance",
        title="Theme",
        sentence="Dark makes colours easier to judge.",
        tooltip="System follows your desktop.",
        kind="choice",
        default="system",
        choices=(Choice("system", "System"), Choice("dark", "Dark"), Choice("light", "Light")),
    ),
    Setting(
        name="appearance.text_size",
        synonyms="font scale zoom UI DPI bigger",
        field="text_size",
        page="Appearance",
        section="Appearance",
        title="Text size",
        sentence="Text and controls grow together.",
        tooltip="From 80 to 200 %.",
        kind="number",
        default=100,
        limits=(80, 200),
        unit="%",
    ),
    Setting(
        name="appearance.motion",
        synonyms="animations transitions accessibility",
        field="motion",
        page="Appearance",
        section="Appearance",
        title="Motion",
        sentence="Reduced shows everything at once, without animation.",
        tooltip="System follows your desktop.",
        kind="choice",
        default="system",
        choices=(Choice("system", "System"), Choice("reduced", "Reduced"), Choice("full", "Full")),
    ),
    Setting(
        name="notifications.notify",
        synonyms="notification alert sound popup",
        field="notify",
        page="Notifications",
        section="Notifications",
        title="Notify when a long job ends",
        sentence="Only while another window is in front.",
        tooltip="Shown by your desktop.",
        kind="switch",
        default=True,
    ),
    Setting(
        name="notifications.notify_after",
        field="notify_after",
        page="Notifications",
        section="Notifications",
        title="Long jobs",
        sentence="Jobs that run for at least this long.",
        tooltip="From 1 second to 1 hour.",
        kind="number",
        default=30,
        limits=(1, 3600),
        unit="s",
    ),
    Setting(
        name="notifications.taskbar_progress",
        field="taskbar_progress",
        page="Notifications",
        section="Notifications",
        title="Progress in the taskbar",
        sentence="On the button of the window.",
        tooltip="Windows, and Linux desktops with a dock.",
        kind="switch",
        default=True,
    ),
    Setting(
        name="folders.pictures",
        synonyms="output directory outdir save path images",
        field="pictures_folder",
        page="Folders",
        section="Folders",
        title="Pictures folder",
        sentence="Finished pictures are saved here.",
        tooltip="Default: Halftone in your pictures folder.",
        kind="text",
        default="",
        flags=("--output",),
    ),
    Setting(
        name="folders.gallery",
        synonyms="image browser directory output",
        field="gallery_folders",
        page="Folders",
        section="Folders",
        title="Gallery folders",
        sentence="Pictures in these folders appear in the gallery.",
        tooltip="Also pictures from other programs. Removing one keeps its files.",
        kind="folders",
        default=(),
    ),
    _folders(
        "model",
        "Models",
        "Models and model folders.",
        "Removing one keeps its files.",
        "checkpoints directory --ckpt-dir path ComfyUI A1111",
    ),
    _folders("lora", "LoRA folders", "Searched along with your model folders.", "In prompts: <lora:name:weight>"),
    _folders(
        "embedding",
        "Embedding folders",
        "Searched along with your LoRA and model folders.",
        "In prompts: the file name.",
    ),
    _folders(
        "upscaler",
        "Upscale model folders",
        "Searched along with your model folders.",
        "ESRGAN, SwinIR, DAT and others.",
    ),
    Setting(
        name="folders.styles",
        field="styles_file",
        page="Folders",
        section="Folders",
        title="Styles",
        sentence="A styles.csv as written by A1111.",
        tooltip="Read only. Styles you save go into Halftone's own file.",
        kind="file",
        default="",
        flags=("--styles",),
    ),
    Setting(
        name="folders.tags",
        field="tags_file",
        page="Folders",
        section="Folders",
        title="Tags",
        sentence="Completes tags in prompts: a CSV as A1111's tag completion has them.",
        tooltip="None is included.",
        kind="file",
        default="",
    ),
    _folders(
        "wildcard",
        "Wildcard folders",
        "__name__ in a prompt becomes a line of name.txt.",
        "The seed picks the line.",
    ),
    Setting(
        name="updates.source",
        synonyms="upgrade new version download",
        field="update_source",
        page="Updates",
        section="Updates",
        title="Update source",
        sentence="A folder, a file or an HTTPS address. It is read only when you check.",
        tooltip="Only updates signed for this build are installed.",
        kind="text",
        default="",
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
