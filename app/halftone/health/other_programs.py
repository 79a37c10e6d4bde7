"""What to set in ComfyUI, A1111, Forge or diffusers, so that a model with this check stays finite there.

Sources: ComfyUI comfy/cli_args.py, model_management.py, sd1_clip.py (text encoders compute in float32) and
ldm/modules/attention.py (only split and quad attention follow the upcast option); A1111 modules/cmd_args.py, shared_options.py;
Forge backend/args.py and reForge ldm_patched/modules/args_parser.py, which read none of A1111's precision options; diffusers'
pipelines.
"""

import math
from collections.abc import Callable, Collection, Mapping
from typing import Final

import msgspec

from halftone.contract.facts import CheckReport, Finding, ModelFacts
from halftone.contract.vocabulary import FLOAT_LIMITS, FindingCode, Layout, OtherProgram
from halftone.contract.wording import Words
from halftone.health.diffusers_code import can_load, loading_code
from halftone.health.headroom import far_limit
from halftone.health.judge import is_serious
from halftone.health.part_names import plain_component
from halftone.health.program_families import A1111, COMFYUI, FORGE, LOADS, is_of_another_size
from halftone.library.files.copies import can_be_written

PROGRAM_NAMES: Final[dict[OtherProgram, str]] = {"comfyui": "ComfyUI", "a1111": "A1111, Forge", "diffusers": "diffusers"}
LAYOUTS: Final[dict[OtherProgram, Layout]] = {"comfyui": "file", "a1111": "file", "diffusers": "folder"}
"""What the programs load."""
_APPS: Final[dict[OtherProgram, tuple[str, ...]]] = {
    "comfyui": (COMFYUI,),
    "a1111": (A1111, FORGE),
    "diffusers": ("diffusers",),
}
LAUNCH: Final = Words("Launch options")
_SD_SETTINGS: Final = Words("Settings > Stable Diffusion, switch on")
_LOADER: Final = Words("Load Diffusion Model node")
_CODE: Final = Words("Python code")
UPCASTING: Final = ("StableDiffusionXL", "Kolors", "AuraFlow", "StableVideoDiffusion", "AnimateDiffSDXL")
"""Beginnings of diffusers' pipelines that follow the VAE's force_upcast."""
_ATTENTION: Final[frozenset[FindingCode]] = frozenset({"attention-overflow"})
_SUMS: Final[frozenset[FindingCode]] = frozenset({"accumulation-overflow"})
_UNDERFLOW: Final[frozenset[FindingCode]] = frozenset({"underflow"})


class ToSet(msgspec.Struct, frozen=True, kw_only=True):
    """One thing to set. app: the program; where: the place in it; value: what to write there; instead: another value that works,
    "" without one; parts: of the model that need it.
    """

    app: str
    where: Words
    value: str
    instead: str = ""
    parts: tuple[Words, ...] = ()


class Export(msgspec.Struct, frozen=True, kw_only=True):
    """refusal: why there is no repaired file, as a sentence; None where one in the layout of the program needs no setting."""

    program: OtherProgram
    settings: tuple[ToSet, ...] = ()
    notes: tuple[Words, ...] = ()
    refusal: Words | None = None

    @property
    def rescale(self) -> bool:
        return self.refusal is None


class _Needs(msgspec.Struct, frozen=True):
    """Component -> codes of its findings, all of a report. bfloat16: the check offers it as a cure."""

    codes: dict[str, frozenset[FindingCode]]
    bfloat16: bool

    def of(self, *roles: str) -> tuple[str, ...]:
        return tuple(name for name in self.codes if _role(name) in roles)

    def only(self, codes: frozenset[FindingCode], *roles: str) -> bool:
        """Whether parts with these roles have findings, all of them of these codes."""
        found = self.of(*roles)
        return bool(found) and all(self.codes[name] <= codes for name in found)


def export(report: CheckReport, program: OtherProgram) -> Export:
    """Say what keeps the checked model finite in another program."""
    needs = _needs(report)
    strange = _not_loaded(report, program)
    if len(strange) == len(_APPS[program]):
        return Export(program=program, notes=strange, refusal=Words("{0} cannot load it.", (PROGRAM_NAMES[program],)))
    if report.verdict == "broken":
        notes = (Words("No setting of {0} helps this model.", (PROGRAM_NAMES[program],)),)
        return Export(program=program, notes=notes, refusal=Words("The model is broken, and rescaling does not mend that."))
    if not needs.codes:
        notes = (Words("Nothing to set: the model stays in range in FP16."),)
        return Export(program=program, notes=notes, refusal=Words("There is nothing to repair."))
    settings, notes = _PROGRAMS[program](report, needs)
    return Export(program=program, settings=settings, notes=(*strange, *notes), refusal=_no_repair(report, program))


def _not_loaded(report: CheckReport, program: OtherProgram) -> tuple[Words, ...]:
    """A note for each app that does not load such a model."""
    model = report.model
    if program == "diffusers":
        return () if can_load(model) else (Words("diffusers does not load {0} models from one file.", (model.family,)),)
    families = [app for app in _APPS[program] if model.family not in LOADS[app]]
    notes = [Words("{0}: {1} models cannot be loaded, at least not without extensions.", (app, model.family)) for app in families]
    if not families and is_of_another_size(model):
        size = "{0} cannot load it: its UNet is of another size than that of {1} models."
        return tuple(Words(size, (app, model.family)) for app in _APPS[program])
    if A1111 in _APPS[program] and A1111 not in families and _is_gguf(model):
        notes.append(Words("A1111 does not read GGUF files."))
    return tuple(notes)


def _is_gguf(model: ModelFacts) -> bool:
    return model.path.lower().endswith(".gguf")


def _no_repair(report: CheckReport, program: OtherProgram) -> Words | None:
    """Why no repaired file can be written; None where one can."""
    model = report.model
    if model.parts:
        return Words("The model consists of several files.")
    if not can_be_written(model, LAYOUTS[program]):
        one_file = LAYOUTS[program] == "file"
        return (
            Words("Halftone cannot write {0} models as one file.", (model.family,))
            if one_file
            else Words("Halftone cannot write {0} models as a folder.", (model.family,))
        )
    if not report.extras.can_be_copied:
        return Words("The check ran with parts that are not the model's own, and a copy cannot hold these.")
    cures = (cure for cure in report.cures if cure.kind == "rescale" and cure.refusal is None)
    return None if any(cure.plan.rescale for cure in cures) else Words("No rescaling cures what was found.")


def _needs(report: CheckReport) -> _Needs:
    serious = [finding for finding in report.findings if is_serious(finding)]
    if any(finding.code == "device-fault" for finding in serious):
        codes = dict.fromkeys(report.components, frozenset[FindingCode]({"device-fault"}))
    else:
        named: dict[str, set[FindingCode]] = {}
        for finding in serious:
            named.setdefault(_half(finding), set()).add(finding.code)
        codes = {name: frozenset(own) for name, own in named.items()}
    narrow = report.precision
    if far_limit(narrow):  # what the check measured, judged by the limit of the type that those programs prefer
        over = [one for one in report.layers if math.isfinite(one.peak) and one.peak > FLOAT_LIMITS["float16"]]
        codes |= {one.component: frozenset[FindingCode]({"activation-overflow"}) for one in over if one.component not in codes}
    offered = any(cure.kind == "bfloat16" and cure.refusal is None for cure in report.cures)
    return _Needs(codes, offered or (narrow == "bfloat16" and not serious))


def _half(finding: Finding) -> str:
    """The component, with the VAE's encoder apart: only image to image and training run it."""
    encodes = finding.component.startswith("vae") and finding.module.startswith(("encoder", "quant_conv"))
    return f"{finding.component}.encoder" if encodes else finding.component


def _role(component: str) -> str:
    if component.startswith("vae"):
        return "encode" if component.endswith(".encoder") else "decode"
    return "text" if component.startswith(("text_encoder", "image_encoder")) else "denoise"


def _parts(components: Collection[str]) -> tuple[Words, ...]:
    return tuple(plain_component(*name.split(".", 1)) for name in components)


def _comfyui(report: CheckReport, needs: _Needs) -> tuple[tuple[ToSet, ...], tuple[Words, ...]]:
    settings, notes = list[ToSet](), list[Words]()

    def launch(parts: Collection[str], value: str, instead: str = "") -> None:
        if parts:
            settings.append(ToSet(app=COMFYUI, where=LAUNCH, value=value, instead=instead, parts=_parts(parts)))

    launch(needs.of("encode", "decode"), "--fp32-vae", "--bf16-vae" if needs.bfloat16 else "")
    denoisers = needs.of("denoise")
    if needs.only(_ATTENTION, "denoise"):
        launch(denoisers, "--force-upcast-attention --use-split-cross-attention")
    elif needs.only(_SUMS, "denoise") and report.numerics.fp16_accumulation:
        notes.append(Words("Start ComfyUI without --fast, or leave fp16_accumulation out of its list."))
    else:
        launch(denoisers, *(("--bf16-unet", "--fp32-unet") if needs.bfloat16 else ("--fp32-unet",)))
    if denoisers and report.transformer is not None:
        settings.append(ToSet(app=COMFYUI, where=_LOADER, value="weight_dtype: default", parts=_parts(denoisers)))
    large = [name for name in needs.of("text") if needs.codes[name] & {"weights-overflow", "device-fault"}]
    launch(large, "--fp32-text-enc")
    if len(large) < len(needs.of("text")):
        notes.append(Words("ComfyUI computes text encoders in FP32: they need no setting."))
    return tuple(settings), tuple(notes)


def _a1111(report: CheckReport, needs: _Needs) -> tuple[tuple[ToSet, ...], tuple[Words, ...]]:
    own = [] if report.model.family not in LOADS[A1111] or _is_gguf(report.model) else _only_a1111(report, needs)
    return (*own, *_forge(needs)), (
        Words("Forge and reForge ignore --no-half, --no-half-vae and --upcast-sampling. They always switch the NaN check off."),
        Words("Never use --disable-nan-check alone: it hides the message and keeps the black picture."),
    )


def _only_a1111(report: CheckReport, needs: _Needs) -> list[ToSet]:
    vaes, others = needs.of("encode", "decode"), needs.of("text", "denoise")
    found = [_a1111_launch("--no-half-vae", vaes)] if vaes else []
    if not others:
        return found
    if not needs.of("text") and needs.only(_ATTENTION, "denoise"):
        value = "Upcast cross attention layer to float32"
        return [*found, ToSet(app=A1111, where=_SD_SETTINGS, value=value, parts=_parts(others))]
    if needs.only(_UNDERFLOW, "text", "denoise") and report.plan.settings.get("upcast_sampling"):
        return [*found, _a1111_launch("--upcast-sampling", others)]
    return [_a1111_launch("--no-half", (*vaes, *others))]


def _a1111_launch(value: str, parts: Collection[str]) -> ToSet:
    return ToSet(app=A1111, where=LAUNCH, value=value, parts=_parts(parts))


def _forge(needs: _Needs) -> list[ToSet]:
    settings = list[ToSet]()

    def launch(parts: Collection[str], value: str, instead: str = "") -> None:
        if parts:
            settings.append(ToSet(app=FORGE, where=LAUNCH, value=value, instead=instead, parts=_parts(parts)))

    launch(needs.of("encode", "decode"), "--vae-in-fp32", "--vae-in-bf16" if needs.bfloat16 else "")
    if needs.only(_ATTENTION, "denoise"):
        launch(needs.of("denoise"), "--force-upcast-attention --attention-split")
    else:
        launch(needs.of("denoise"), *(("--unet-in-bf16", "--all-in-fp32") if needs.bfloat16 else ("--all-in-fp32",)))
    launch(needs.of("text"), "--clip-in-fp32")
    return settings


def _diffusers(report: CheckReport, needs: _Needs) -> tuple[tuple[ToSet, ...], tuple[Words, ...]]:
    parts, instead = _parts(needs.codes), ""
    model = report.model
    half = loading_code(model, "torch.float16")
    alone = not needs.of("encode", "decode", "text")
    if alone and needs.only(_ATTENTION, "denoise"):
        lines = [*half, "torch.backends.cuda.allow_fp16_bf16_reduction_math_sdp(False)", *_upcast_attention(needs)]
    elif alone and needs.only(_SUMS, "denoise"):
        lines = [*half, *(f"torch.backends.cuda.matmul.{name} = False" for name in _SUM_SWITCHES)]
    elif needs.of("text", "denoise", "encode"):
        chosen = "torch.bfloat16" if needs.bfloat16 else "torch.float32"
        lines, instead = list(loading_code(model, chosen)), "torch_dtype=torch.float32" if needs.bfloat16 else ""
    elif model.pipeline.startswith(UPCASTING) and "weights-overflow" not in needs.codes["vae"]:
        lines = [*half, "pipe.vae.register_to_config(force_upcast=True)"]
    else:
        lines = [*loading_code(model, "torch.float16", "torch.float32"), *_DECODE_WIDE]
    return (ToSet(app="diffusers", where=_CODE, value="\n".join(lines), instead=instead, parts=parts),), ()


_SUM_SWITCHES: Final = ("allow_fp16_accumulation", "allow_fp16_reduced_precision_reduction")
_DECODE_WIDE: Final = (
    "decode = pipe.vae.decode",
    "pipe.vae.decode = lambda latents, *rest, **named: decode(latents.float(), *rest, **named)",
)


def _upcast_attention(needs: _Needs) -> tuple[str, ...]:
    """For a UNet: torch's own attention does not read `upcast_attention`."""
    if "unet" not in needs.codes:
        return ()
    return (
        "from diffusers.models.attention_processor import AttnProcessor",
        "pipe.unet.set_attn_processor(AttnProcessor())",
        "for layer in pipe.unet.modules():",
        '    if hasattr(layer, "upcast_attention"):',
        "        layer.upcast_attention = True",
    )


_PROGRAMS: Final[Mapping[OtherProgram, Callable[[CheckReport, _Needs], tuple[tuple[ToSet, ...], tuple[Words, ...]]]]] = {
    "comfyui": _comfyui,
    "a1111": _a1111,
    "diffusers": _diffusers,
}
