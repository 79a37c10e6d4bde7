"""Recognises a model file or a diffusers folder from headers alone: family, base, kind, stored type, what it holds and lacks.

The tables are in `kinds`; here a file is divided into its parts, and each is looked up. No weight is read.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final, Literal

import msgspec

from halftone.library.families.known_families import BY_NAME, Family, Prediction, of_pipeline, parts_of
from halftone.library.files.folder import Part, stored_dtype
from halftone.library.files.header import COMFY_QUANT, Header, count_numbers
from halftone.library.files.hub import revision_name
from halftone.library.kinds.additions import ADDITIONS, IMAGE_PROJECTION
from halftone.library.kinds.layouts import DIFFUSERS, Base, Layout, titled_base
from halftone.library.kinds.loras import LoraFacts, lora_facts
from halftone.library.kinds.marks import Shapes, View, view_of
from halftone.library.kinds.parts import IMAGE_ENCODERS, TEXT_ENCODERS, VAES, PartKind
from halftone.library.kinds.transformers import TRANSFORMERS
from halftone.library.kinds.unets import UNETS

Kind = Literal[
    "checkpoint", "denoiser", "VAE", "text encoder", "image encoder", "parts", "LoRA", "embedding", "ControlNet", "IP-Adapter",
    "T2I-Adapter", "motion module", "style model", "upscaler", "shard", "unknown",
]  # fmt: skip
"""checkpoint: a denoiser together with other parts of its model; parts: several of these without a denoiser."""

LAYOUTS: Final[tuple[Layout, ...]] = (*TRANSFORMERS, *UNETS)

_DENOISER: Final = ("model.diffusion_model.", "diffusion_model.", "net.", "unet.", "transformer.", "dit.", "model.", "")
_WRAPPED: Final = "state_dict."
_PART: Final = re.compile(
    r"(?:first_stage_model|vae|audio_vae|cond_stage_model\.(?:transformer|model)|conditioner\.embedders\.\d+\.(?:transformer|model)"
    r"|text_encoders\.[^.]+(?:\.transformer)?|text_encoder(?:_\d)?(?:\.transformer)?|clip_[lgh](?:\.transformer)?"
    r"|t5xxl(?:\.transformer)?|image_encoder|clip_l_vision)\."
)
_SHARD: Final = re.compile(r".*-(\d{5})-of-(\d{5})", re.DOTALL)
_QUANTISED: Final[tuple[tuple[str, str], ...]] = (
    (".quant_state.bitsandbytes__nf4", "NF4"),
    (".quant_state.bitsandbytes__fp4", "FP4"),
    (".SCB", "INT8"),
    (".wscales", "SVDQuant"),
    (".wcscales", "SVDQuant"),
    (".smooth_factor", "SVDQuant"),
    (".scale_weight", "scaled FP8"),
    (".weight_scale", "scaled FP8"),
    (".scaled_fp8", "scaled FP8"),
    (COMFY_QUANT, "scaled FP8"),
)
"""How the names of some tensors end, and what that tells."""
_SAYS_V: Final = ("v", "v_prediction", "v-prediction", "vpred")
_SAYS_NOISE: Final = ("epsilon", "eps")
_WORDS: Final = (768, 1024, 1280, 2048, 4096)
"""Widths of text encoders, which a textual inversion has to have."""


class Recognised(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """family: as in `known_families`, "" where it is not known. base: which model of it. sure: False where only the file's name
    says so.

    naming: "original" or "diffusers". dtype: as in torch, or GGUF's type; quantised: the scheme, "" for plain numbers. takes:
    needed inputs beside a prompt. alike: built as its family's other models are, whatever it takes. holds, lacks: parts of the
    model. size, steps, guidance: its usual ones. lora: of a LoRA; its families are those it fits. scale: of an upscaler. split:
    (number of this file, of all) of a shard.
    """

    kind: Kind
    family: str = ""
    base: str = ""
    sure: bool = True
    naming: str = ""
    dtype: str = "none"
    quantised: str = ""
    prediction: Prediction = ""
    takes: tuple[str, ...] = ()
    alike: bool = True
    holds: tuple[str, ...] = ()
    lacks: tuple[str, ...] = ()
    size: int | None = None
    steps: int | None = None
    guidance: float | None = None
    lora: LoraFacts | None = None
    scale: int | None = None
    split: tuple[int, int] | None = None


def recognise(header: Header, name: str = "") -> Recognised:
    """Recognise the file with this header. name: the file's, without its ending; used only where shapes leave a choice."""
    view = view_of(header.tensors)
    found = _recognised(view.below(_wrapper(view)), header.metadata, name)
    dtype = stored_dtype(list(header.tensors))
    return msgspec.structs.replace(found, dtype=dtype, quantised=_quantised(header, dtype))


def _recognised(view: View, metadata: Mapping[str, str], name: str) -> Recognised:
    # most tensors of FaceID are those of LoRAs
    if not view.begins(IMAGE_PROJECTION) and (lora := lora_facts(view.shapes, metadata)):
        family = lora.families[0] if lora.families else ""
        return Recognised(kind="LoRA", family=family, base=lora.base or family, lora=lora)
    if shard := _SHARD.fullmatch(name):
        part = _of_parts(view) or _whole(view, metadata, name)
        split = (int(shard[1]), int(shard[2]))
        return msgspec.structs.replace(part or Recognised(kind="unknown"), kind="shard", split=split, lacks=())
    return _embedding(view) or _addition(view) or _whole(view, metadata, name) or _of_parts(view) or Recognised(kind="unknown")


def _embedding(view: View) -> Recognised | None:
    """A textual inversion: a few vectors of a text encoder's width, under one of a few names or under the word itself."""
    if len(view.shapes) > 4:
        return None
    if view.all(("clip_l", "clip_g")):
        return Recognised(kind="embedding", family="SDXL", base="SDXL")
    widths = {shape[-1] for shape in view.shapes.values() if 0 < len(shape) <= 2 and (len(shape) == 1 or shape[0] <= 256)}
    named = any(name in {"emb_params", "clip_l", "clip_g", "t5xxl"} or name.startswith("string_to_param") for name in view.shapes)
    alone = len(view.shapes) == 1 and "." not in next(iter(view.shapes))
    if not named and not (alone and widths & set(_WORDS)):
        return None
    fits = {768: "Stable Diffusion 1.x", 1024: "Stable Diffusion 2.x", 1280: "SDXL"}
    family = fits.get(next(iter(widths)), "") if len(widths) == 1 else ""
    return Recognised(kind="embedding", family=family, base=family)


def _addition(view: View) -> Recognised | None:
    for addition in ADDITIONS:
        if view.all(addition.marks) and not view.any(addition.without):
            kind: Kind = msgspec.convert(addition.kind, Kind)
            scale = _scale(view) if addition.name == "ESRGAN" else None
            return Recognised(kind=kind, family=addition.base, base=addition.name, scale=scale)
    return None


def _scale(view: View) -> int | None:
    """How many times larger an ESRGAN makes a picture: each of its upward layers doubles; a folded input halves first."""
    if (first := view.edge("conv_first.weight", 1)) is not None:
        ups = sum(view.has(f"{name}.weight") for name in ("conv_up1", "conv_up2", "conv_up3", "upconv1", "upconv2"))
        return max(1, 2**ups // {12: 2, 48: 4}.get(first, 1)) if ups else None
    ups = [name for name in view.shapes if re.fullmatch(r"model\.(?:[3-9]|1\d)\.weight", name)]
    return {2: 1, 3: 2, 4: 4, 5: 8}.get(len(ups)) if view.has("model.0.weight") else None


def _whole(view: View, metadata: Mapping[str, str], name: str) -> Recognised | None:
    """A denoiser, alone or with other parts."""
    if (found := denoiser_in(view)) is None:
        return None
    prefix, layout = found
    return _denoiser(_with_rest(view, prefix), layout, _parts(view, prefix), metadata, name)


def _wrapper(view: View) -> str:
    """What stands before all names of a model that was saved with the state of its training."""
    return _WRAPPED if view.begins(f"{_WRAPPED}{_DENOISER[0]}") else ""


def denoiser_in(view: View) -> tuple[str, Layout] | None:
    """(what stands before the names of the denoiser's tensors, how it lies there); None where there is none that is known."""
    for prefix in (_wrapper(view) + _DENOISER[0], *_DENOISER[1:]):
        if not view.begins(prefix):
            continue
        own = _with_rest(view, prefix)
        layout = next((layout for layout in LAYOUTS if own.all(layout.marks) and not own.any(layout.without)), None)
        if layout is not None:
            return prefix, layout
    return None


def _with_rest(view: View, prefix: str) -> View:
    """All tensors, the denoiser's without their prefix."""
    if not prefix:
        return view
    return View({name.removeprefix(prefix): shape for name, shape in view.shapes.items()})


def _denoiser(
    view: View, layout: Layout, holds: tuple[tuple[str, str], ...], metadata: Mapping[str, str], name: str
) -> Recognised:
    """holds: (kind, name) of the other parts in the file."""
    family = BY_NAME[layout.family]
    base, sure = base_of(view, layout, metadata, name)
    return Recognised(
        kind="checkpoint" if holds else "denoiser",
        family=family.name,
        base=base.name,
        sure=sure,
        naming=layout.naming,
        prediction=_prediction(view, metadata) or (family.prediction if base.prediction is None else base.prediction),
        takes=base.takes,
        alike=base.alike,
        holds=tuple(part for _, part in holds),
        lacks=lacking(*parts_of(family.name, base.name), holds),
        size=base.size or family.size,
        steps=base.steps or family.steps,
        guidance=family.guidance if base.guidance is None else base.guidance,
    )


def base_of(view: View, layout: Layout, metadata: Mapping[str, str], name: str) -> tuple[Base, bool]:
    """(which model of its family it is, whether the file itself says so)."""
    fits = (base for base in layout.bases if view.all(base.marks) and not view.any(base.without))
    base = next(fits, Base(layout.family, alike=True))
    titled = titled_base(base.name, metadata, name)
    return titled or (base, True)


def lacking(own_vae: str, own: Sequence[str], holds: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Parts of a whole model that are not among those held; one whose exact kind is not known counts as one that is missing. own:
    its text encoders.
    """
    kinds = list(holds)
    encoders = [name for kind, name in kinds if kind in ("text encoder", "image encoder")]
    missing = [name for name in own if name not in encoders]
    unclear = sum(name not in own for name in encoders)
    vae = () if any(kind == "VAE" for kind, _ in kinds) else (own_vae,)
    return (*vae, *missing[unclear:])


def _parts(view: View, denoiser: str) -> tuple[tuple[str, str], ...]:
    """(kind, name) of every part beside the denoiser."""
    groups: dict[str, dict[str, tuple[int, ...]]] = {}
    for name, shape in view.shapes.items():
        if denoiser and name.startswith(denoiser):
            continue
        if match := _PART.match(name):
            groups.setdefault(match[0], {})[name[match.end() :]] = shape
    return tuple(part for _, shapes in sorted(groups.items()) if (part := _part(shapes)))


def _part(shapes: Shapes) -> tuple[str, str] | None:
    view = View(shapes)
    tables: tuple[tuple[str, tuple[PartKind, ...]], ...] = (
        ("image encoder", IMAGE_ENCODERS),
        ("text encoder", TEXT_ENCODERS),
        ("VAE", VAES),
    )
    for kind, table in tables:
        for part in table:
            if view.all(part.marks) and not view.any(part.without):
                return kind, part.name
    return None


def _of_parts(view: View) -> Recognised | None:
    """A file without a denoiser: one part under its own names, or several."""
    alone = _part(view.shapes)
    found = (alone,) if alone else _parts(view, "")
    if not found:
        return None
    kinds = {kind for kind, _ in found}
    kind: Kind = msgspec.convert(kinds.pop(), Kind) if len(kinds) == 1 else "parts"
    names = tuple(name for _, name in found)
    return Recognised(kind=kind, base=names[0] if len(names) == 1 else "", holds=names)


def _prediction(view: View, metadata: Mapping[str, str]) -> Prediction:
    """What the file says itself: by Stability's model specification, by a trainer's note, or by empty tensors."""
    said = metadata.get("modelspec.prediction_type", "").lower()
    if view.any(("v_pred", "ztsnr")) or said in _SAYS_V or metadata.get("ss_v_parameterization") == "True":
        return "v_prediction"
    return "epsilon" if said in _SAYS_NOISE else ""


def _quantised(header: Header, dtype: str) -> str:
    lines = "".join(["\n.", "\n.".join([tensor.name for tensor in header.tensors]), "\n"])
    scheme = next((scheme for end, scheme in _QUANTISED if f"{end}\n" in lines), "")
    if scheme == "scaled FP8":
        return _scaled(header)
    return scheme or (dtype.upper() if re.match(r"i?q\d|tq\d|mxfp4|nvfp4", dtype) else "")


def _scaled(header: Header) -> str:
    """The scheme of weights with factors beside them, as ComfyUI writes them: it calls each `weight_scale`."""
    tensors = {tensor.name: tensor for tensor in header.tensors}
    for name, factor in tensors.items():
        owner, _, kind = name.rpartition(".")
        weight = tensors.get(f"{owner}.weight")
        if kind == "weight_scale_2":
            return "NVFP4"
        if kind not in ("weight_scale", "scale_weight") or weight is None:
            continue
        if weight.dtype in ("I8", "U8"):
            return "INT8" if weight.dtype == "I8" else "4 bits"
        if count_numbers(factor.shape) not in (1, weight.shape[0] if weight.shape else 1):
            return "MXFP8" if factor.dtype in ("U8", "F8_E8M0") else "FP8 in blocks"
    return "scaled FP8"


_DENOISERS: Final = ("unet", "transformer", "prior")
_CAMEL: Final = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_SAID: Final[dict[str, Prediction]] = {"epsilon": "epsilon", "v_prediction": "v_prediction", "flow_prediction": "flow"}


def of_folder(root: Path, pipeline: str, parts: Mapping[str, Part], scheduler: Mapping[str, object]) -> tuple[Family, Recognised]:
    """(family, facts) of a folder that runs as `pipeline` with these parts. scheduler: its configuration."""
    denoiser = next((part for name in _DENOISERS if (part := parts.get(name))), None)
    family = of_pipeline(pipeline, denoiser.config.get("cross_attention_dim") if denoiser else None)
    base, sure = _base(f"{pipeline} {scheduler.get('_class_name', '')}", family, denoiser, folder_name(root))
    return family, Recognised(
        kind="checkpoint",
        family=family.name,
        base=base.name,
        sure=sure,
        naming=DIFFUSERS,
        dtype=stored_dtype([tensor for part in parts.values() for tensor in part.tensors]),
        prediction=_scheduled(scheduler) or (family.prediction if base.prediction is None else base.prediction),
        takes=base.takes,
        holds=tuple(parts),
        size=base.size,
        steps=base.steps,
        guidance=base.guidance,
    )


def _base(classes: str, family: Family, denoiser: Part | None, name: str) -> tuple[Base, bool]:
    """classes: of the pipeline and the scheduler; words in them count as the model's own."""
    view = view_of(denoiser.tensors if denoiser else ())
    for layout in LAYOUTS:
        same = layout.family == family.name and layout.naming == DIFFUSERS
        if same and view.all(layout.marks) and not view.any(layout.without):
            return base_of(view, layout, {"modelspec.title": _CAMEL.sub(" ", classes)}, name)
    return Base(family.name), True


def _scheduled(scheduler: Mapping[str, object]) -> Prediction:
    name = str(scheduler.get("_class_name", ""))
    if name.startswith("FlowMatch") or scheduler.get("use_flow_sigmas"):
        return "flow"
    return "edm" if name.startswith("EDM") else _SAID.get(str(scheduler.get("prediction_type", "")), "")


def folder_name(root: Path) -> str:
    """The folder's name; in a hub cache the repository's, as the folder's own is only a number."""
    return revision_name(str(root)) or root.name
