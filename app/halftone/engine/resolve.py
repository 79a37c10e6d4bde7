"""From what was wanted to what will run: arguments of the pipeline, and the resolved request with a reason for each choice."""

import inspect
import math
import secrets
import traceback
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Final, Union, get_args, get_origin

import diffusers

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.request import CheckInputs, Control, OptionValue, PictureRequest, ResolvedRequest
from halftone.contract.words import DType
from halftone.engine.control_pictures import prepared, resized_notes
from halftone.engine.embeddings import prompt_texts, takes_weights
from halftone.engine.load import Loaded
from halftone.engine.quiet import quiet_libraries
from halftone.engine.samplers import sampler_name
from halftone.engine.video_inputs import with_rate
from halftone.health.requests import FIELDS, check_multiple
from halftone.library.options import Kind
from halftone.library.prompt_syntax import notes, plain

NOTE: Final = "halftone.json"
"""A model folder may carry its own defaults in this file, as Pocket does; others keep the pipeline's own."""
_SIBLINGS: Final[dict[str, dict[str, str]]] = {
    "mask_image": {
        "ChromaPipeline": "ChromaInpaintPipeline",
        "FluxKontextPipeline": "FluxKontextInpaintPipeline",
        "Flux2KleinPipeline": "Flux2KleinInpaintPipeline",
    },
    "image": {
        "ChromaPipeline": "ChromaImg2ImgPipeline",
        "LTXPipeline": "LTXImageToVideoPipeline",
        "SanaSprintPipeline": "SanaSprintImg2ImgPipeline",
    },
}
"""Pipelines over the same components that diffusers' own tables of tasks leave out."""
_NO_MASK: Final = ("KandinskyCombined", "KandinskyV22Combined")
"""Their inpainting needs a decoder that was trained for it."""
_GUIDANCES: Final = ("guidance_scale", "prior_guidance_scale", "max_guidance_scale")
"""How pipelines call the guidance; that of two stages acts in the first, that of a video grows to its end."""
_OURS: Final = {"generator", "output_type", "return_dict", "callback", "callback_on_step_end", "self", "args", "kwargs"}

_KINDS: Final[dict[type, Kind]] = {bool: "switch", int: "whole number", float: "number", str: "text"}


@dataclass(frozen=True)
class Inputs:
    """What the user gave, for a picture or for a check; None: the pipeline's own default."""

    prompt: str
    negative: str | None
    width: int | None
    height: int | None
    steps: int | None
    guidance: float | None
    image: Any
    """A file, or a picture of Pillow."""
    mask: str | None
    num_frames: int | None
    fps: int | None
    options: dict[str, OptionValue]
    controls: tuple[Control, ...] = ()


def of_request(request: PictureRequest, facts: ModelFacts, image: Any = None) -> Inputs:
    """The request's inputs, completed by the defaults a model carries itself. image: in the place of the request's."""
    own = (Path(facts.path) / NOTE).is_file()
    image = request.image if image is None else image
    sized = (own or bool(request.controls)) and image is None  # a control picture is brought to the size of the result
    return Inputs(
        prompt=request.prompt,
        negative=request.negative or None,
        width=request.width or (facts.native_width if sized else None),
        height=request.height or (facts.native_height if sized else None),
        steps=request.steps or (facts.default_steps if own else None),
        guidance=facts.default_guidance if own and request.guidance is None else request.guidance,
        image=image,
        mask=request.mask,
        num_frames=request.num_frames,
        fps=request.fps,
        options=request.options,
        controls=request.controls,
    )


def of_check(inputs: CheckInputs, facts: ModelFacts, prompt: str) -> Inputs:
    """The same for a check; prompt: used when none was given."""
    request = PictureRequest(
        prompt=inputs.prompt or prompt,
        negative=inputs.negative or "",
        width=inputs.width,
        height=inputs.height,
        steps=inputs.steps,
        guidance=inputs.guidance,
        image=inputs.image,
        mask=inputs.mask,
        num_frames=inputs.num_frames,
        options=inputs.options,
        controls=inputs.controls,
    )
    return of_request(request, facts)


def task_pipeline(loaded: Loaded, inputs: Inputs) -> Any:
    """The loaded pipeline, or its image-to-image or inpainting sibling over the same components. Raises option-unknown."""
    pipe = loaded.pipe
    for given, name, family in (
        (inputs.mask, "mask_image", "AutoPipelineForInpainting"),
        (inputs.image, "image", "AutoPipelineForImage2Image"),
    ):
        if given is None or (name in _parameters(pipe) and not inputs.controls):
            continue
        if name == "mask_image" and type(pipe).__name__.startswith(_NO_MASK):
            raise HalftoneError("option-unknown", name="mask", known=_known(pipe))
        own = _SIBLINGS[name].get(type(pipe).__name__)
        try:
            with quiet_libraries():
                pipe = getattr(diffusers, family).from_pipe(pipe) if own is None else _over(pipe, getattr(diffusers, own))
        except (ValueError, TypeError) as error:
            if inputs.controls:
                detail = "diffusers has none that starts from a picture"
                raise HalftoneError("control-unsupported", str(error), model=loaded.facts.name, detail=detail) from error
            raise HalftoneError("option-unknown", name=name.removesuffix("_image"), known=_known(pipe)) from error
        pipe.set_progress_bar_config(disable=True)
        break
    return pipe


def _over(pipe: Any, kind: Any) -> Any:
    """Another pipeline over the components of this one; a class's own `from_pipe` would turn them all to float32."""
    held = {**pipe.config, **pipe.components}
    return kind(**{name: held[name] for name in inspect.signature(kind).parameters if name in held})


def _parameters(pipe: Any) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(pipe.__call__).parameters)


def simple_options(pipe: Any) -> dict[str, Kind]:
    """What `--option` can give to a pipeline (or its class), in its order: numbers, texts and switches without a flag here."""
    found: dict[str, Kind] = {}
    for name, parameter in _parameters(pipe).items():
        hint = parameter.annotation
        single = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
        kind: Kind | None = next((_KINDS[one] for one in single if isinstance(one, type) and one in _KINDS), None)
        if kind is not None and name not in _OURS and name not in FIELDS:
            found[name] = kind
    return found


def _known(pipe: Any) -> str:
    return ", ".join(sorted(simple_options(pipe))) or "none"


def pipeline_arguments(pipe: Any, inputs: Inputs) -> dict[str, Any]:
    """Keyword arguments for the pipeline: only what was given. Raises option-unknown, image-unreadable, size-not-multiple,
    strength-too-small.
    """
    wanted: dict[str, Any] = {
        **_heeded(pipe, inputs),
        "width": inputs.width,
        "height": inputs.height,
        "num_inference_steps": inputs.steps,
        "image": open_picture(inputs.image, inputs),
        "mask_image": open_picture(inputs.mask, inputs),
        "num_frames": inputs.num_frames,
        **inputs.options,
    }
    accepted = _parameters(pipe)
    wanted = with_rate(accepted, wanted, inputs.fps)
    wanted |= _control_arguments(inputs, "control_image" if "control_image" in accepted else "image")
    if inputs.image is not None and "width" not in accepted:
        wanted |= {"width": None, "height": None}  # the input picture was scaled to them
    if not takes_weights(pipe):
        wanted |= {name: plain(text) for name, text in prompt_texts(wanted).items()}
    given = {name: value for name, value in wanted.items() if value is not None}
    for name in given:
        if name in _OURS or name not in accepted:
            raise HalftoneError("option-unknown", name=name, known=_known(pipe))
    _check_size(pipe, inputs)
    if "image" in given:
        _check_strength(pipe, inputs)
    if "intermediate_timesteps" in accepted and given.get("num_inference_steps", 2) != 2:
        given.setdefault("intermediate_timesteps", None)  # the pipeline's own default is meant for two steps alone
    return given


def _control_arguments(inputs: Inputs, name: str) -> dict[str, Any]:
    """name: of the argument that takes the control pictures."""
    if not inputs.controls:
        return {}
    size = _size(inputs)
    several = [
        {
            name: prepared(_read_picture(control.image), control, size),
            "controlnet_conditioning_scale": control.scale,
            "control_guidance_start": control.start,
            "control_guidance_end": control.end,
        }
        for control in inputs.controls
    ]
    return several[0] if len(several) == 1 else {key: [one[key] for one in several] for key in several[0]}


def _size(inputs: Inputs) -> tuple[int, int]:
    """Of the result, where ControlNets are used."""
    picture = open_picture(inputs.image, inputs)
    return (inputs.width or 512, inputs.height or 512) if picture is None else picture.size


def _heeded(pipe: Any, inputs: Inputs) -> dict[str, Any]:
    """Prompts and guidance under the names that the pipeline has for them, without those that it does not know."""
    accepted = _parameters(pipe)
    guidance = next((name for name in _guidances(pipe) if name in accepted), "")
    wanted: dict[str, Any] = {"prompt": inputs.prompt, "negative_prompt": inputs.negative, guidance: inputs.guidance}
    if guidance == "true_cfg_scale" and wanted["negative_prompt"] is None:
        wanted["negative_prompt"] = " "  # it is not guided at all without one
    return {name: value for name, value in wanted.items() if name in accepted}


def _guidances(pipe: Any) -> tuple[str, ...]:
    """Where a denoiser has no layer for the guidance, a pipeline that guides by two calls calls it otherwise."""
    config: Any = getattr(getattr(pipe, "transformer", None), "config", None)
    real = type(pipe).__name__.startswith("QwenImage") and not getattr(config, "guidance_embeds", False)
    if type(pipe).__name__.startswith("HunyuanImage") and getattr(config, "guidance_embeds", False):
        return ("distilled_guidance_scale",)
    return ("true_cfg_scale",) if real else _GUIDANCES


def _unheeded(pipe: Any, inputs: Inputs) -> list[str]:
    """What was asked for that this pipeline does not know."""
    heeded = _heeded(pipe, inputs)
    given = [
        (bool(inputs.prompt.strip()), "prompt" in heeded, "Prompt: this model reads none."),
        (inputs.negative is not None, "negative_prompt" in heeded, "Negative prompt: this model reads none."),
        (inputs.guidance is not None, any("scale" in name for name in heeded), "Guidance: this model takes none."),
    ]
    return [said for asked, taken, said in given if asked and not taken]


def refused(options: dict[str, OptionValue], error: Exception) -> Exception:
    """What a pipeline's TypeError or ValueError means: an option, where it names one or does not say what it is about; else what
    the pipeline itself says of its inputs. Any other error is a fault and stays as it is.
    """
    said = (str(error).strip().splitlines() or [type(error).__name__])[0]
    own = isinstance(error, ValueError) and _of_pipeline(error)
    if options and (not own or any(name in said for name in options)):
        given = ", ".join(f"{name}={value}" for name, value in options.items())
        return HalftoneError("setting-bad-value", said, name="--option", value=given, allowed="a value that the pipeline takes")
    return HalftoneError("pipeline-refused", detail=said.rstrip(".")) if own else error


def _of_pipeline(error: Exception) -> bool:
    """Whether a pipeline raised it, or what reads its pictures, having looked at its inputs."""
    frames = traceback.extract_tb(error.__traceback__)
    last = Path(frames[-1].filename) if frames else Path()
    return "diffusers" in last.parts and ("pipelines" in last.parts or last.stem == "image_processor")


def _check_strength(pipe: Any, inputs: Inputs) -> None:
    """Raise strength-too-small where the pipeline, asked how many of the steps it would compute, says none."""
    steps = inputs.steps or _default(pipe, "num_inference_steps", 1)
    strength = inputs.options.get("strength", _default(pipe, "strength", 1.0))
    own = getattr(pipe, "get_timesteps", None)
    if own is None or not isinstance(strength, int | float) or not 0 <= strength <= 1:
        return
    given = {"num_inference_steps", "strength", "device"}
    known = inspect.signature(own).parameters
    more = {name for name, parameter in known.items() if parameter.default is parameter.empty} - given
    if more or not given <= set(known) or "strength" not in _parameters(pipe):
        return
    if own(num_inference_steps=steps, strength=strength, device="cpu")[1] < 1:
        low = math.ceil(100 / steps) / 100
        raise HalftoneError("strength-too-small", steps=steps, value=strength, low=low)


def _check_size(pipe: Any, inputs: Inputs) -> None:
    multiple = max(8, int(getattr(pipe, "vae_scale_factor", 8)))
    for name, value in (("Width", inputs.width), ("Height", inputs.height)):
        if value is not None:
            check_multiple(name, value, multiple)


def open_picture(given: Any, inputs: Inputs) -> Any:
    """An input picture in RGB, turned as its camera noted, scaled to the wanted size if one was given. given: its file, or one
    that is ready; None: none.

    Raises image-unreadable.
    """
    if given is None:
        return None
    picture = _read_picture(given) if isinstance(given, str) else given
    width, height = inputs.width or picture.width // 8 * 8, inputs.height or picture.height // 8 * 8
    return picture if picture.size == (width, height) else picture.resize((max(width, 8), max(height, 8)))


def _read_picture(path: str) -> Any:
    from PIL import Image, ImageOps, UnidentifiedImageError

    try:
        with Image.open(path) as opened:
            return ImageOps.exif_transpose(opened).convert("RGB")
    except (OSError, UnidentifiedImageError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise HalftoneError("image-unreadable", str(error), path=path) from error


def _default(pipe: Any, name: str, fallback: Any) -> Any:
    parameter = _parameters(pipe).get(name)
    usable = parameter is not None and isinstance(parameter.default, (int, float))
    return parameter.default if usable and parameter is not None else fallback


def resolve(
    request: PictureRequest, loaded: Loaded, pipe: Any, inputs: Inputs, dtype: DType, reasons: tuple[str, ...]
) -> ResolvedRequest:
    """What will run, without a None; every automatic choice with its reason."""
    why = list(reasons)
    facts = loaded.facts
    seed = request.seed
    if seed is None:
        seed = secrets.randbelow(2**32)
        why.append(f"Seed {seed}: drawn at random.")
    if inputs.steps is None:
        why.append("Steps: the pipeline's own default.")
    if request.sampler is None:
        why.append("Sampler: the model's own.")
    why += _unheeded(pipe, inputs)
    if inputs.controls:
        given = [(control, _read_picture(control.image).size) for control in inputs.controls]
        why += resized_notes(given, _size(inputs))
    why += notes((request.prompt, request.negative), weights=takes_weights(pipe))
    return ResolvedRequest(
        prompt=request.prompt,
        negative=request.negative,
        model=facts.id,
        device=str(loaded.device),
        dtype=dtype,
        width=inputs.width or facts.native_width,
        height=inputs.height or facts.native_height,
        steps=inputs.steps or int(_default(pipe, "num_inference_steps", facts.default_steps)),
        guidance=inputs.guidance
        if inputs.guidance is not None
        else float(_default(pipe, "guidance_scale", facts.default_guidance)),
        sampler=sampler_name(pipe.scheduler) if getattr(pipe, "scheduler", None) is not None else "",
        seed=seed,
        batch=request.batch,
        options=request.options,
        numerics=request.numerics,
        reasons=tuple(why),
        loras=request.loras,
        vae=request.vae,
        inversions=request.inversions,
        controls=request.controls,
    )
