"""The text that A1111 writes into pictures and most image programs read.

Three parts: the prompt, a "Negative prompt:" line if there is one, and one last line of "Key: value" pairs. A value with a comma,
a colon or a newline is quoted as JSON.
"""

import json
import math
from collections.abc import Mapping
from pathlib import PurePath
from typing import Any, Final, cast

import msgspec

from halftone import __version__
from halftone.contract.facts import PictureFacts
from halftone.contract.parameters import (
    BY_FIELD,
    FREEU,
    NOISE_SOURCE,
    OPTION_PARAMETERS,
    PAG,
    THRESHOLD,
    Parameter,
    option_numbers,
)
from halftone.contract.plan import Plan
from halftone.contract.preprocessors import NONE
from halftone.contract.request import (
    BY_DIFFUSERS,
    Control,
    Lora,
    Refiner,
    ResolvedRequest,
    file_name,
    model_stem,
    split_sampler,
    without_places,
)
from halftone.contract.vocabulary import ControlMode, MaskedContent, Resize
from halftone.metadata.extensions import for_extensions

NEGATIVE: Final = "Negative prompt:"
EMPTY_NEGATIVE: Final = "Empty negative prompt"
"""An empty text was encoded, which is not the same as none."""
STOPPED: Final = "Stopped after step"
SOLVER: Final = "Solver"
K_DIFFUSION: Final = "k-diffusion"
"""Stands beside a schedule that Halftone's first pictures left to diffusers, and means the numbers of A1111 and ComfyUI."""
EMBEDDINGS: Final = "Embeddings"
OPTIONS: Final = "Options"
"""Other arguments of the pipeline, as a JSON object."""
BY_STEPS: Final = "Refiner switch by sampling steps"
ONLY_MASKED: Final = "Only masked"
RESIZE_NAMES: Final[dict[Resize, str]] = {
    "stretch": "Just resize",
    "crop": "Crop and resize",
    "fill": "Resize and fill",
}
CONTROL_MODES: Final[dict[ControlMode, str]] = {
    "balanced": "Balanced",
    "prompt": "My prompt is more important",
    "control": "ControlNet is more important",
}
CONTROL_RESIZES: Final[dict[Resize, str]] = {
    "stretch": "Just Resize",
    "crop": "Crop and Resize",
    "fill": "Resize and Fill",
}
"""As A1111's ControlNet extension calls them."""
CONTENT_NAMES: Final[dict[MaskedContent, str]] = {"original": "original", "fill": "fill", "noise": "latent noise"}
"""As A1111 calls them."""


def a1111_text(request: ResolvedRequest, picture: PictureFacts, *, distilled: bool = False) -> str:
    """The parameters of one finished picture. distilled: whether the model learnt its guidance, for which Forge has another name
    than for the guidance by two calls.
    """
    sampler, schedule = split_sampler(request.sampler)
    said = next((way for way, ours in BY_DIFFUSERS.items() if schedule == ours), schedule)
    named = option_numbers(request)
    others = {name: value for name, value in request.options.items() if name not in named}
    cures = dict.fromkeys((*picture.cures.values(), *(event.cure for event in picture.events if event.cure)))
    fields: dict[str, str | None] = {
        **_said(request, "steps"),
        STOPPED: None if picture.stopped_of is None else f"{picture.steps} of {picture.stopped_of}",
        "Sampler": sampler,
        "Schedule type": said or None,
        SOLVER: K_DIFFUSION if schedule in BY_DIFFUSERS else None,
        **(_distilled(request) if distilled else _said(request, "guidance")),
        "Seed": str(picture.seed),
        "Size": f"{request.width}x{request.height}",
        "Frames": str(picture.frames) if picture.frames > 1 else None,
        "FPS": str(picture.fps) if picture.fps and picture.frames > 1 else None,
        "Model": model_name(request.model),
        "VAE": None if request.vae is None else file_name(request.vae),
        "Transformer": None if request.transformer is None else file_name(request.transformer),
        **_variation(request),
        **_options_said(request, named),
        **_start(request),
        **_later_passes(request, picture),
        "RNG": OPTION_PARAMETERS[NOISE_SOURCE].text(named.get(NOISE_SOURCE, 0)),
        "Precision": ", ".join(f"{name} {dtype}" for name, dtype in picture.dtypes.items()) or request.dtype,
        "Numerics": picture.state,
        "Cure": ", ".join(cures) or None,
        "Styles": ", ".join(request.styles) or None,
        "Template": request.written or None,
        "Negative Template": request.written_negative or None,
        EMBEDDINGS: ", ".join(PurePath(file_name(path)).stem for path in request.inversions) or None,
        OPTIONS: json.dumps(others, ensure_ascii=False) if others else None,
        EMPTY_NEGATIVE: "True" if request.empty_negative and not request.negative else None,
        "Version": f"Halftone {__version__}",
    }
    fields |= {f"ControlNet {index}": _control(control) for index, control in enumerate(request.controls)}
    for index, one in enumerate(request.ip_adapters):
        pictures = " + ".join(map(file_name, one.images))
        fields[f"IP-Adapter {index}"] = f"Model: {one.name}, Weight: {one.scale:g}, Pictures: {pictures}"
    tags = (f"<lora:{lora.name}:{':'.join(map(number_text, lora.weights))}>" for lora in request.loras)
    prompt = " ".join((request.prompt, *tags))
    return write_parameters(prompt, request.negative, {key: value for key, value in fields.items() if value is not None})


def _distilled(request: ResolvedRequest) -> dict[str, str | None]:
    twice = request.options.get("true_cfg_scale", 1)
    said = _said(request, "guidance")["CFG scale"]
    return {"CFG scale": number_text(twice) if isinstance(twice, int | float) else None, "Distilled CFG Scale": said}


_PASSES: Final = 2


def _later_passes(request: ResolvedRequest, picture: PictureFacts) -> dict[str, str | None]:
    """The second pass or the second model in A1111's words, if it had its part."""
    hires, refiner = request.hires, request.refiner
    if len(picture.passes) < _PASSES:
        return {}
    if hires is None:
        return {} if refiner is None else _refiner(refiner, request)
    strength = "start.strength" if request.image is None else "hires.strength"  # A1111 has one name for the two
    return {
        BY_FIELD[strength].keys[0]: None if hires.strength is None else number_text(hires.strength),
        **_said(request, "hires.scale"),
        "Hires steps": str(hires.steps or request.steps),
        "Hires upscaler": hires.upscaler_name,
    }


def _refiner(refiner: Refiner, request: ResolvedRequest) -> dict[str, str | None]:
    """By steps, A1111 switches at the first one that is not before the share, so the share is that of this step, rounded down."""
    said = {"Refiner": refiner.name, **_said(request, "refiner.at")}
    if not refiner.by_steps:
        return said
    step, key = refiner.first_step(request.steps), BY_FIELD["refiner.at"].keys[0]
    exact = math.ceil(refiner.at * request.steps) == step
    return said | {BY_STEPS: "True"} | ({} if exact else {key: number_text(math.floor(step / request.steps * 1e4) / 1e4)})


def _start(request: ResolvedRequest) -> dict[str, str | None]:
    """Where a picture was made of another one, in A1111's names where it has them."""
    start, only = request.start, request.start.only_masked
    if request.image is None:
        return {}
    return {
        **_said(request, "start.strength"),
        "Start picture": file_name(request.image),
        "Resize mode": None if start.keeps_size else RESIZE_NAMES[start.resize],
        "Mask": None if request.mask is None else file_name(request.mask),
        **(_said(request, "start.mask_blur") if request.masked else {}),
        "Masked content": CONTENT_NAMES[start.masked_content] if request.mask is not None else None,
        "Inpaint area": None if only is None else ONLY_MASKED,
        **_said(request, "start.only_masked"),
        "Outpaint": ", ".join(map(str, start.outpaint)) if start.extends else None,
    }


def _variation(request: ResolvedRequest) -> dict[str, str | None]:
    """In A1111's words."""
    varied = request.variation_strength > 0
    size = request.seed_size
    return {
        **(_said(request, "variation_seed", "variation_strength") if varied else {}),
        "Seed resize from": None if size is None else f"{size[0]}x{size[1]}",
    }


def _control(control: Control) -> str:
    """As A1111's extension writes them."""
    drawn = control.preprocessor != NONE
    letters = zip("AB", control.thresholds, strict=False)
    fields: dict[str, str | None] = {
        "Module": control.preprocessor,
        "Model": control.name,
        "Weight": f"{control.scale:g}",
        "Resize Mode": CONTROL_RESIZES[control.resize],
        "Processor Res": None if control.resolution is None else str(control.resolution),
        **{f"Threshold {letter}": number_text(value) for letter, value in letters},
        "Guidance Start": f"{control.start:g}",
        "Guidance End": f"{control.end:g}",
        "Pixel Perfect": str(control.resolution is None) if drawn else None,
        "Control Mode": None if control.mode == "balanced" else CONTROL_MODES[control.mode],
        "Kind": control.kind or None,
        "Preprocessor Model": None if control.preprocessor_model is None else model_stem(control.preprocessor_model),
    }
    return ", ".join(f"{name}: {value}" for name, value in fields.items() if value is not None)


def _said(request: ResolvedRequest, *fields: str) -> dict[str, str | None]:
    """Write numbers under the names that pictures have for them; those that are not there are left out."""
    numbers = ((one, one.number(request)) for one in map(BY_FIELD.__getitem__, fields))
    return {one.keys[0]: _text(one, number) for one, number in numbers if number is not None}


def _text(one: Parameter, number: float) -> str:
    return one.text(number) or number_text(number)


_ENABLED: Final = {FREEU: "freeu_enabled", PAG: "pagi_enabled", THRESHOLD: "dynthres_enabled"}
"""Options -> what Forge writes for them beside their numbers."""


def _options_said(request: ResolvedRequest, named: Mapping[str, float]) -> dict[str, str | None]:
    """Options with a name in pictures. Of what belongs to another option all is written: other programs have other defaults."""
    enabled = {key: "True" for name, key in _ENABLED.items() if name in named}
    usual = {one.keys[0]: _text(one, one.neutral or 0) for one in OPTION_PARAMETERS.values() if one.of and one.of in named}
    return for_extensions({**enabled, **usual, **_said(request, *(OPTION_PARAMETERS[name].field for name in named))})


def number_text(value: float) -> str:
    """A number so that reading it gives the same one: a float shortly where six digits are enough."""
    if isinstance(value, int):
        return str(value)
    short = f"{value:g}"
    return short if float(short) == value else repr(value)


def write_parameters(prompt: str, negative: str, fields: dict[str, str]) -> str:
    """A1111's text. Lines are stripped, as its reader strips them."""
    lines = [_plain(prompt)]
    if stripped := _plain(negative):
        lines.append(f"{NEGATIVE} {stripped}")
    lines.append(", ".join(f"{key}: {_quoted(value)}" for key, value in fields.items()))
    return "\n".join(lines).strip()


def receipt_json(request: ResolvedRequest, picture: PictureFacts, plan: Plan, made_with: Mapping[str, str] | None = None) -> str:
    """Request, plan and numerics receipt of one picture as JSON; numbers are finite or null, and no folder is named. made_with:
    the device and the versions of the libraries.

    Without the file's name and any time, which the history has: the same request on the same machine gives the same bytes.
    """
    refiner, hires = request.refiner, request.hires
    shown = msgspec.structs.replace(
        without_places(request),
        model=model_name(request.model),
        loras=_named(request.loras),
        image=None if request.image is None else file_name(request.image),
        mask=None if request.mask is None else file_name(request.mask),
        refiner=None if refiner is None else msgspec.structs.replace(refiner, path=file_name(refiner.path)),
        hires=None if hires is None else msgspec.structs.replace(hires, upscaler=file_name(hires.upscaler)),
    )
    content = {
        "schema": 1,
        "version": __version__,
        "made_with": made_with or {},
        "request": _with_sentences(shown),
        "plan": _with_sentences(plan),
        "receipt": {**_timeless(msgspec.to_builtins(picture)), "loras": _named(picture.loras)},
    }
    return msgspec.json.encode(content).decode()


def _with_sentences(told: ResolvedRequest | Plan) -> dict[str, Any]:
    """As plain data, with its reasons as English sentences."""
    content = cast("dict[str, Any]", msgspec.to_builtins(told))
    return {name: list(map(str, told.reasons)) if name == "reasons" else value for name, value in content.items()}


def _named(loras: tuple[Lora, ...]) -> tuple[Lora, ...]:
    """Without the folders of their files."""
    return tuple(msgspec.structs.replace(lora, path=lora.name) for lora in loras)


_PASSING: Final = ("path", "index", "seconds", "latents", "peak_memory", "shortages", "cut_short", "ran", "computed")
"""Fields of the moment, not of the picture: its place, its index in a batch, its time and memory."""


def _timeless(facts: Any) -> Any:
    if isinstance(facts, dict):
        held = cast("dict[str, Any]", facts)
        return {name: _timeless(value) for name, value in held.items() if name not in _PASSING}
    return [_timeless(value) for value in cast("list[Any]", facts)] if isinstance(facts, list | tuple) else facts


def model_name(model: str) -> str:
    """The last part of a model's path without .safetensors; other programs show and match just this."""
    return model_stem(model)


def _plain(text: str) -> str:
    return "\n".join(line.strip() for line in text.strip().split("\n"))


def _quoted(value: str) -> str:
    awkward = not value or value != value.strip() or value.startswith('"') or any(letter in value for letter in ",:\n\r")
    return json.dumps(value, ensure_ascii=False) if awkward else value
