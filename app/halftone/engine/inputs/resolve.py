"""From what was wanted to what will run: arguments of the pipeline, and the resolved request with a reason for each choice."""

import inspect
import linecache
import math
import re
import secrets
import traceback
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import SimpleNamespace, UnionType
from typing import Any, Final, Union, get_args, get_origin

import diffusers
from msgspec.structs import asdict, replace
from PIL import Image

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.parameters import OPTION_PARAMETERS, OUR_OPTIONS, THRESHOLD, option_flag
from halftone.contract.preprocessors import NONE, POSE
from halftone.contract.request import Control, OptionValue, PictureRequest, ResolvedRequest
from halftone.contract.vocabulary import DType
from halftone.contract.wording import Words
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.extras.control_nets import modes_of
from halftone.engine.inputs import made_up
from halftone.engine.inputs.control_pictures import pose_notes, prepared, resized_notes
from halftone.engine.inputs.faces import face_notes, face_numbers, let_faces_pass
from halftone.engine.inputs.start_pictures import Canvas, canvas
from halftone.engine.inputs.video_inputs import length_name, with_rate
from halftone.engine.inputs.wanted import Inputs
from halftone.engine.loading.load import Loaded
from halftone.engine.patches.embeddings import prompt_texts, weighs
from halftone.engine.patches.inversions import Learned
from halftone.engine.sampling.composition import check_composable
from halftone.engine.sampling.samplers import given_steps, leave_out_whole_steps, sampler_name
from halftone.engine.sampling.solver_scheduler import SolverScheduler
from halftone.health.pictures.requests import FIELDS, check_multiple
from halftone.library.add_ons.inversions import unknown_names
from halftone.library.add_ons.ipadapters import reads_faces
from halftone.library.add_ons.unread_inversions import unread_marks
from halftone.library.families.known_families import of_pipeline, reads_brackets
from halftone.library.options import Kind, check_kind, check_one_schedule, typed
from halftone.library.prompts.composed_prompts import composed, is_composed
from halftone.library.prompts.drawn_prompts import spoken
from halftone.library.prompts.prompt_syntax import Rules, notes, plain, rules_of
from halftone.library.resolution_bins import BINNING, computed_size
from halftone.metadata.start_images import picture_size, read_picture

SIBLINGS: Final[dict[str, dict[str, str]]] = {
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
NO_MASK: Final = ("KandinskyCombined", "KandinskyV22Combined", "KandinskyImg2Img", "KandinskyV22Img2Img")
"""Their inpainting needs a decoder that was trained for it."""
_GUIDANCES: Final = ("guidance_scale", "prior_guidance_scale", "max_guidance_scale")
"""How pipelines call the guidance; that of two stages acts in the first, that of a video grows to its end."""
_BY_TWO_CALLS: Final = "true_cfg_scale"
"""The guidance of a pipeline that is guided only with a negative prompt."""
_GUIDED_FROM_ZERO: Final = ("ZImage", "Krea2", "Cosmos3")
"""Pipelines that guide below 1, too."""
_AS_ONE: Final = "Guidance: {0} acts as 1, so the negative prompt is not used. A1111 and ComfyUI would mix it in."
_OF_PARTS: Final = ("_get_add_time_ids",)
"""Where pipelines compare their parts' configurations."""
_OURS: Final = {
    "generator",
    "output_type",
    "return_dict",
    "callback",
    "callback_steps",
    "callback_on_step_end",
    "callback_on_step_end_tensor_inputs",
    "self",
    "args",
    "kwargs",
}

_SKIPPING: Final = "skip_layer_guidance_scale"
_SKIPPED: Final = "skip_guidance_layers"
_LAYERS: Final = (7, 8, 9)
"""What Stability AI and ComfyUI leave out of SD 3.5 Medium where nothing else is asked for."""
_REFERENCE: Final = (224, 224)
"""Width and height of a made-up picture for an IP-Adapter: what CLIP's image encoders read."""
_KINDS: Final[dict[Any, Kind]] = {bool: "switch", int: "whole number", float: "number", str: "text"}


def task_pipeline(loaded: Loaded, inputs: Inputs) -> Any:
    """The pipeline or its sibling for the task. Raises start-no-picture, start-no-mask, control-unsupported."""
    pipe = loaded.pipe
    for given, name, family in (
        (inputs.masked, "mask_image", "AutoPipelineForInpainting"),
        (inputs.image is not None, "image", "AutoPipelineForImage2Image"),
    ):
        if not given or (name in _parameters(pipe) and not inputs.controls):
            continue
        if name == "mask_image" and type(pipe).__name__.startswith(NO_MASK):
            raise HalftoneError("start-no-mask", model=loaded.facts.name)
        own = SIBLINGS[name].get(type(pipe).__name__)
        try:
            with quiet_libraries():
                pipe = getattr(diffusers, family).from_pipe(pipe) if own is None else _over(pipe, getattr(diffusers, own))
        except (ValueError, TypeError) as error:
            if inputs.controls:
                detail = Words("diffusers has no such pipeline that starts from a picture")
                raise HalftoneError("control-unsupported", str(error), model=loaded.facts.name, detail=detail) from error
            lacking = "start-no-mask" if name == "mask_image" else "start-no-picture"
            raise HalftoneError(lacking, str(error), model=loaded.facts.name) from error
        pipe.set_progress_bar_config(disable=True)
        break
    leave_out_whole_steps(pipe)
    if any(reads_faces(one.path) for one in inputs.ip_adapters):
        let_faces_pass(pipe)
    return pipe


def _over(pipe: Any, kind: Any) -> Any:
    """Another pipeline over the components of this one; a class's own `from_pipe` would turn them all to float32."""
    held = {**pipe.config, **pipe.components}
    return kind(**{name: held[name] for name in inspect.signature(kind).parameters if name in held})


def _parameters(pipe: Any) -> dict[str, inspect.Parameter]:
    return dict(inspect.signature(pipe.__call__).parameters)


def simple_options(pipe: Any) -> dict[str, Kind]:
    """What `--option` can give to a pipeline (or its class), in its order: numbers, texts and switches without a flag here."""
    kinds = {name: _kinds(parameter.annotation) for name, parameter in _parameters(pipe).items()}
    return {name: known[0] for name, known in kinds.items() if known and name not in _OURS and name not in FIELDS}


def _kinds(hint: Any) -> list[Kind]:
    """What a parameter takes, single values before lists."""
    found: list[Kind] = [kind for one in _single(hint) if (kind := _KINDS.get(one)) is not None]
    for one in _single(hint):
        if get_origin(one) in (list, tuple) and all(kind in _KINDS for kind in get_args(one) if kind is not Ellipsis):
            return [*found, "list"]
    return found


def _single(hint: Any) -> tuple[Any, ...]:
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def _options(pipe: Any, options: Mapping[str, OptionValue]) -> dict[str, Any]:
    """Options as the pipeline takes them, without ours. Raises setting-bad-value for a value of another kind."""
    check_one_schedule(type(pipe).__name__, options)
    for name in OUR_OPTIONS & options.keys():
        check_kind(name, options[name], ("number",))
    found: dict[str, Any] = {name: value for name, value in options.items() if name not in OUR_OPTIONS}
    if found.get(_SKIPPING):
        found.setdefault(_SKIPPED, list(_LAYERS))
    for name, value in found.items():
        hint = parameter.annotation if (parameter := _parameters(pipe).get(name)) is not None else None
        if kinds := _kinds(hint):
            check_kind(name, value, kinds)
        if isinstance(value, list) and any(get_origin(one) is tuple for one in _single(hint)):
            found[name] = tuple(value)
    return found


def _check_guidance(wanted: Mapping[str, Any], options: Mapping[str, OptionValue]) -> None:
    """Raise setting-bad-value for what would do nothing, because it changes ordinary guidance, and for two ways to change it."""
    guidance = wanted.get("guidance_scale")
    for name in (_SKIPPING, THRESHOLD):
        if options.get(name) and guidance is not None and guidance <= 1:
            value, allowed = Words("set at guidance 1, where it does nothing"), Words("more guidance")
            raise HalftoneError("setting-bad-value", name=option_flag(name), value=value, allowed=allowed)
    if options.get(THRESHOLD) and options.get("guidance_rescale"):
        value, allowed = Words("used with {0}", (option_flag("guidance_rescale"),)), Words("one of the two")
        raise HalftoneError("setting-bad-value", name=option_flag(THRESHOLD), value=value, allowed=allowed)


def _check_layers(pipe: Any, wanted: Mapping[str, Any], options: Mapping[str, OptionValue]) -> None:
    """Raise setting-bad-value for layers to leave out that the model does not have: without any the guidance would do nothing."""
    blocks = getattr(getattr(pipe, "transformer", None), "transformer_blocks", None)
    if not options.get(_SKIPPING) or blocks is None:
        return
    lacking = [layer for layer in wanted.get(_SKIPPED) or () if layer not in range(len(blocks))]
    if lacking:
        value = Words("{0} with this model, whose last layer is {1}", (", ".join(map(str, lacking)), len(blocks) - 1))
        allowed = Words("--option {0} with others, or no {1}", (f"{_SKIPPED}=[…]", option_flag(_SKIPPING)))
        raise HalftoneError("setting-bad-value", name=Words("Skipped layers"), value=value, allowed=allowed)


def start_canvas(pipe: Any, inputs: Inputs) -> Canvas | None:
    """What the pipeline starts from, None where no picture was given. Raises image-unreadable, mask-*."""
    if inputs.image is None:
        return None
    return canvas(inputs.image, inputs.mask, inputs.start, (inputs.width, inputs.height), size_multiple(pipe))


def pipeline_arguments(pipe: Any, inputs: Inputs, start: Canvas | None) -> dict[str, Any]:
    """What was given, for the pipeline. Raises option-unknown, image-unreadable, size-not-multiple, start-no-strength,
    strength-too-small, prompt-uncomposed.
    """
    accepted = _parameters(pipe)
    wanted: dict[str, Any] = {
        **inputs.shown,
        **_heeded(pipe, inputs),
        "width": inputs.width,
        "height": inputs.height,
        "num_inference_steps": inputs.steps,
        length_name(accepted): inputs.num_frames,
        **_started(accepted, inputs, start),
        **_options(pipe, inputs.options),
    }
    _check_guidance(wanted, inputs.options)
    _check_layers(pipe, wanted, inputs.options)
    wanted = with_rate(accepted, wanted, inputs.fps)
    if inputs.ip_adapters:
        made = [made_up.picture(_REFERENCE)] if "reference picture" in inputs.made_up else []
        shown: list[Any] = [
            face_numbers(one) if reads_faces(one.path) else [read_picture(image) for image in one.images] or made
            for one in inputs.ip_adapters
        ]
        one = hasattr(pipe, "is_ip_adapter_active")  # SD 3 takes one, of one adapter
        wanted["ip_adapter_image"] = shown[0] if one else shown
    wanted |= _control_arguments(pipe, inputs, start)
    wanted |= _readable(pipe, inputs, prompt_texts(wanted))
    given = {name: value for name, value in wanted.items() if value is not None}
    for name in given:
        if name in _OURS or name not in accepted:
            raise HalftoneError("option-unknown", name=option_flag(name), known=typed(simple_options(pipe)) or Words("none"))
    for name, value in ((Words("Width"), inputs.width), (Words("Height"), inputs.height)):
        if value is not None:
            check_multiple(name, value, max(8, int(getattr(pipe, "vae_scale_factor", 8))))
    if "image" in given:
        _check_strength(pipe, inputs)
    if "intermediate_timesteps" in accepted and given.get("num_inference_steps", 2) != 2:
        given.setdefault("intermediate_timesteps", None)  # the pipeline's own default is meant for two steps alone
    return given


def _readable(pipe: Any, inputs: Inputs, texts: dict[str, str]) -> dict[str, str]:
    """The prompts that the pipeline cannot take as they are written. Raises prompt-uncomposed."""
    rules = rules_of(inputs.options)
    if not weighs(pipe, rules):
        literal = reads_brackets(of_pipeline(type(pipe).__name__).name)
        return {name: plain(text, rules, literal=literal) for name, text in texts.items()}
    if is_composed(texts.get("prompt", ""), rules):
        weights = (part.weight for part in composed(texts["prompt"], rules))
        check_composable(pipe, inputs.options, weights)
    return {}


def _prompt_notes(pipe: Any, texts: tuple[str, str], rules: Rules, learned: Iterable[Learned]) -> tuple[Words, ...]:
    literal, weights = reads_brackets(of_pipeline(type(pipe).__name__).name), weighs(pipe, rules)
    found, names = notes(texts, weights=weights, rules=rules, literal=literal), [one.inversion.name for one in learned]
    found += unread_marks(texts, names, rules)
    unknown = unknown_names(texts, names, rules) if weights else ()
    return (*found, *(Words("There is no embedding {0}. It is left out, as in ComfyUI.", (name,)) for name in unknown))


def with_prompts(pipe: Any, arguments: dict[str, Any], inputs: Inputs) -> dict[str, Any]:
    """The pipeline's arguments with the prompts of other inputs."""
    names = ("prompt", "negative_prompt")
    wanted = {name: value for name, value in _heeded(pipe, inputs).items() if name in names and value is not None}
    wanted |= _readable(pipe, inputs, prompt_texts(wanted))
    return {name: value for name, value in arguments.items() if name not in names} | wanted


def _started(accepted: dict[str, Any], inputs: Inputs, start: Canvas | None) -> dict[str, Any]:
    """The start picture, its mask and strength; with their size for a pipeline that scales them."""
    if start is None:
        return {}
    wanted: dict[str, Any] = {"image": start.image, "mask_image": start.mask, "strength": inputs.start.strength}
    if "width" not in accepted:
        wanted |= {"width": None, "height": None}
    elif "strength" in accepted:
        wanted |= {"width": start.image.width, "height": start.image.height}
    return wanted


def _control_arguments(pipe: Any, inputs: Inputs, start: Canvas | None) -> dict[str, Any]:
    """Leaves out the part of the steps where it is all and the pipeline knows no other."""
    if not inputs.controls:
        return {}
    accepted = _parameters(pipe)
    name = "control_image" if "control_image" in accepted else "image"
    partly = "control_guidance_end" in accepted or any((one.start, one.end) != (0.0, 1.0) for one in inputs.controls)
    size = _size(inputs, start)
    read = [read_picture(control.image) if control.image else _made_up_control(control, size) for control in inputs.controls]
    seen = read if start is None else [start.along(picture) for picture in read]
    modes = modes_of(pipe.controlnet, inputs.controls) if "control_mode" in accepted else [None] * len(read)
    several = [
        {
            name: prepared(picture, _read_as(control), size),
            "controlnet_conditioning_scale": control.scale,
            **({"control_guidance_start": control.start, "control_guidance_end": control.end} if partly else {}),
            **({"control_mode": mode} if any(one is not None for one in modes) else {}),
        }
        for control, picture, mode in zip(inputs.controls, seen, modes, strict=True)
    ]
    return several[0] if len(several) == 1 else {key: [one[key] for one in several] for key in several[0]}


def _read_as(control: Control) -> Control:
    """How its picture is prepared: nobody stands in a made-up one, so no pose is looked for."""
    return control if control.image or control.preprocessor != POSE else replace(control, preprocessor=NONE)


def _made_up_control(control: Control, size: tuple[int, int]) -> Image.Image:
    """Edges, as a ControlNet is given them; the picture itself where a preprocessor reads it."""
    return made_up.edges(size) if control.preprocessor in (NONE, POSE) else made_up.picture(size)


def _size(inputs: Inputs, start: Canvas | None) -> tuple[int, int]:
    """The size that is computed, where ControlNets are used."""
    return (inputs.width or 512, inputs.height or 512) if start is None else start.image.size


def _heeded(pipe: Any, inputs: Inputs) -> dict[str, Any]:
    """Prompts and guidance under the names that the pipeline has for them, without those that it does not know."""
    accepted = _parameters(pipe)
    guidance = next((name for name in _guidances(pipe) if name in accepted), "")
    wanted: dict[str, Any] = {"prompt": inputs.prompt, "negative_prompt": inputs.negative, guidance: inputs.guidance}
    if guidance == _BY_TWO_CALLS and inputs.negative is None and inputs.guidance is not None:
        wanted["negative_prompt"] = " "  # it is not guided at all without one
    return {name: value for name, value in wanted.items() if name in accepted}


def _guidances(pipe: Any) -> tuple[str, ...]:
    """The guidance arguments: without a guidance layer, a pipeline that guides by two calls has another name for it."""
    config: Any = getattr(getattr(pipe, "transformer", None), "config", None)
    real = type(pipe).__name__.startswith("QwenImage") and not getattr(config, "guidance_embeds", False)
    if type(pipe).__name__.startswith("HunyuanImage") and getattr(config, "guidance_embeds", False):
        return ("distilled_guidance_scale",)
    return (_BY_TWO_CALLS,) if real else _GUIDANCES


def _unheeded(pipe: Any, inputs: Inputs) -> list[Words]:
    """What was asked for that this pipeline does not know."""
    heeded = _heeded(pipe, inputs)
    given = [
        (bool(inputs.prompt.strip()), "prompt" in heeded, Words("Prompt: this model does not use one.")),
        (inputs.negative is not None, "negative_prompt" in heeded, Words("Negative prompt: this model does not use one.")),
        (inputs.guidance is not None, any("scale" in name for name in heeded), Words("Guidance: this model does not use it.")),
    ]
    return [said for asked, taken, said in given if asked and not taken] + _guided_by_two_calls(pipe, inputs)


def _acts_as_one(pipe: Any, inputs: Inputs, facts: ModelFacts) -> list[Words]:
    """Note a guidance below 1 where the pipeline compares with the negative prompt only above 1."""
    guidance, accepted = inputs.guidance, _parameters(pipe)
    if guidance is None or guidance >= 1 or guidance == facts.default_guidance or "negative_prompt" not in accepted:
        return []
    name = next((name for name in _guidances(pipe) if name in accepted), "")
    read_by_unet = getattr(getattr(getattr(pipe, "unet", None), "config", None), "time_cond_proj_dim", None) is not None
    read_by_transformer = name != _BY_TWO_CALLS and _BY_TWO_CALLS in accepted
    others = read_by_unet or read_by_transformer or type(pipe).__name__.startswith(_GUIDED_FROM_ZERO)
    compares = name in (*_GUIDANCES, _BY_TWO_CALLS) and not others
    return [Words(_AS_ONE, (f"{guidance:g}",), about="guidance")] if compares else []


def _guided_by_two_calls(pipe: Any, inputs: Inputs) -> list[Words]:
    """Note how a model is guided that needs a negative prompt, where there is none."""
    if inputs.negative is not None or _guidances(pipe) != (_BY_TWO_CALLS,):
        return []
    if inputs.guidance is None:
        return [Words("Guidance: none, because this model needs a negative prompt or a set guidance for it.")]
    return [Words("Negative prompt: a space, because this model is guided only with one.")]


def refused(options: dict[str, OptionValue], error: Exception) -> Exception:
    """Explain an error of a pipeline: the options it names or uses where it was raised, else its own message about its inputs.
    Any other error is a fault and stays as it is.
    """
    said = (str(error).strip().splitlines() or [type(error).__name__])[0]
    line = _pipeline_line(error)
    blamed = [name for name in options if _names(said, name)] or [name for name in options if _names(line, name)]
    if blamed:
        name, given = "--option", ", ".join(f"{name}={options[name]}" for name in blamed)
        if len(blamed) == 1 and (one := OPTION_PARAMETERS.get(blamed[0])) is not None:
            number = one.number(PictureRequest(prompt="", options={blamed[0]: options[blamed[0]]}))
            name, given = one.flags[0], given if number is None else one.text(number) or f"{number:g}"
        return HalftoneError("setting-bad-value", said, name=name, value=given, allowed=Words("a value that the model takes"))
    own = isinstance(error, ValueError) and _of_pipeline(error)
    return HalftoneError("pipeline-refused", detail=said.rstrip(".")) if own else error


def _names(text: str, option: str) -> bool:
    return re.search(rf"\b{re.escape(option)}\b", text) is not None


def _pipeline_line(error: Exception) -> str:
    """The statement of the pipeline in which it was raised, or that called what raised it; "" where no pipeline did."""
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if "pipelines" in Path(frame.filename).parts]
    if not frames or frames[-1].lineno is None:
        return ""
    last = frames[-1]
    return "".join(linecache.getline(last.filename, line) for line in range(last.lineno or 0, (last.end_lineno or 0) + 1))


def _of_pipeline(error: Exception) -> bool:
    """Whether a pipeline, or what reads its pictures, refused an input, and not a part's configuration."""
    frames = traceback.extract_tb(error.__traceback__)
    last = Path(frames[-1].filename) if frames else Path()
    looks = bool(frames) and frames[-1].name not in _OF_PARTS
    return looks and "diffusers" in last.parts and ("pipelines" in last.parts or last.stem == "image_processor")


def _check_strength(pipe: Any, inputs: Inputs) -> None:
    """Raise strength-too-small where the pipeline's arithmetic, over a schedule of so many steps, would compute none. Samplers of
    Halftone's compute one at least.
    """
    steps = steps_of(pipe, inputs, 1)
    strength = _strength(pipe, inputs)
    inner = (one for one in (pipe, *vars(pipe).values()) if isinstance(one, diffusers.DiffusionPipeline))
    own = next((found for one in inner if (found := getattr(type(one), "get_timesteps", None)) is not None), None)
    is_own = isinstance(getattr(pipe, "scheduler", None), SolverScheduler)
    if own is None or strength is None or is_own or inputs.options.get("denoising_start") is not None:
        return
    given = {"num_inference_steps": steps, "strength": strength, "device": "cpu", "timesteps": list(range(steps))}
    known = dict(list(inspect.signature(own).parameters.items())[1:])
    if any(parameter.default is parameter.empty and name not in given for name, parameter in known.items()):
        return
    scheduled = SimpleNamespace(scheduler=SimpleNamespace(timesteps=given["timesteps"], order=1))
    if own(scheduled, **{name: value for name, value in given.items() if name in known})[1] < 1:
        low = math.ceil(100 / steps) / 100
        raise HalftoneError("strength-too-small", steps=steps, value=strength, low=low)


def _strength(pipe: Any, inputs: Inputs) -> float | None:
    """What was asked for or the pipeline's own, None where it knows none."""
    return inputs.start.strength if inputs.start.strength is not None else _default(pipe, "strength", None)


def size_multiple(pipe: Any) -> int:
    """Pixels of which a size that was not asked for is made a multiple: of those that one token of the denoiser stands for."""
    scale, own = int(getattr(pipe, "vae_scale_factor", 8)), getattr(getattr(pipe, "image_processor", None), "config", {})
    return max(8, scale * int(getattr(pipe, "patch_size", 1) or 1), int(own.get("vae_scale_factor", 8)))


def bins(pipe: Any, options: Mapping[str, OptionValue]) -> bool:
    """Whether the pipeline computes a size of its own table in the place of the one that is asked for."""
    return bool(options.get(BINNING, _default(pipe, BINNING, False)))


def steps_of(pipe: Any, inputs: Inputs, fallback: int) -> int:
    """Count the steps that the pipeline makes: of a schedule that is given, those that were asked for, or its own."""
    given = given_steps(getattr(pipe, "scheduler", None), inputs.options)
    return given or inputs.steps or int(_default(pipe, "num_inference_steps", fallback))


def _default(pipe: Any, name: str, fallback: Any) -> Any:
    parameter = _parameters(pipe).get(name)
    usable = parameter is not None and isinstance(parameter.default, (int, float))
    return parameter.default if usable and parameter is not None else fallback


def resolve(
    request: PictureRequest,
    loaded: Loaded,
    pipe: Any,
    inputs: Inputs,
    dtype: DType,
    reasons: tuple[Words, ...],
    start: Canvas | None = None,
) -> ResolvedRequest:
    """What will run, without a None; every automatic choice with its reason. start: what it starts from."""
    why = [*reasons, *(() if start is None else start.notes)]
    facts = loaded.facts
    seed = _seed(request.seed, "seed", why)
    variation = _seed(request.variation_seed, "variation_seed", why) if request.variation_strength else 0
    prompt, negative = spoken(request, seed)
    why += [
        *_defaults(request, pipe, inputs, start),
        *_unheeded(pipe, inputs),
        *_acts_as_one(pipe, inputs, facts),
        *_binned(facts, inputs),
    ]
    if inputs.controls:
        given = [(control, picture_size(control.image)) for control in inputs.controls]
        why += [*resized_notes(given, _size(inputs, start)), *pose_notes(inputs.controls)]
    why += face_notes(inputs.ip_adapters)
    why += _prompt_notes(pipe, (prompt, negative), rules_of(request.options), loaded.inversions)
    return ResolvedRequest(
        prompt=prompt,
        negative=negative,
        model=facts.id,
        device=str(loaded.device),
        dtype=dtype,
        width=inputs.width or (facts.native_width if start is None else start.image.width),
        height=inputs.height or (facts.native_height if start is None else start.image.height),
        steps=steps_of(pipe, inputs, facts.default_steps),
        guidance=inputs.guidance
        if inputs.guidance is not None
        else float(_default(pipe, "guidance_scale", facts.default_guidance)),
        sampler=sampler_name(pipe.scheduler) if getattr(pipe, "scheduler", None) is not None else "",
        seed=seed,
        batch=request.batch,
        options=request.options,
        numerics=request.numerics,
        reasons=tuple(why),
        **asdict(request.extras),
        image=request.image,
        mask=request.mask,
        start=request.start if start is None else replace(request.start, strength=_strength(pipe, inputs)),
        empty_negative=request.empty_negative,
        variation_seed=variation,
        variation_strength=request.variation_strength,
        seed_size=request.seed_size,
        styles=tuple(style.name for style in request.styles),
        written=request.prompt if prompt != request.prompt else "",
        written_negative=request.negative if negative != request.negative else "",
    )


_OWN_STEPS: Final = "Steps: {0}, set by --option; the requested {1} are not used."


def _defaults(request: PictureRequest, pipe: Any, inputs: Inputs, start: Canvas | None) -> list[Words]:
    """Sentences about the values that were not asked for and that the pipeline or the model has itself."""
    own_strength = start is not None and request.start.strength is None and _strength(pipe, inputs) is not None
    given = given_steps(getattr(pipe, "scheduler", None), inputs.options)
    other = given is not None and inputs.steps not in (None, given)
    cases = (
        (own_strength, Words("Strength: the pipeline's own default.")),
        (other, Words(_OWN_STEPS, (given or 0, inputs.steps or 0))),
        (inputs.steps is None and given is None, Words("Steps: the pipeline's own default.")),
        (request.sampler is None, Words("Sampler: the model's own.")),
    )
    return [sentence for absent, sentence in cases if absent]


_OTHER_SIZE: Final = "Size: this model computes {0} × {1}; the picture is scaled and cropped to {2} × {3}."


def _binned(facts: ModelFacts, inputs: Inputs) -> list[Words]:
    """Note that the model computes another size than was asked for."""
    asked = inputs.width or facts.native_width, inputs.height or facts.native_height
    width, height = computed_size(facts, asked, inputs.options)
    if (width, height) == asked or inputs.image is not None:
        return []
    return [Words(_OTHER_SIZE, tuple(map(str, (width, height, *asked))))]


def _seed(wanted: int | None, name: str, why: list[Words]) -> int:
    if wanted is not None:
        return wanted
    seed = secrets.randbelow(2**32)
    why.append(drawn_seed(name, seed))
    return seed


def drawn_seed(name: str, seed: int) -> Words:
    """Note that a seed was drawn. name: its field."""
    variation = name == "variation_seed"
    return Words("Variation seed {0}: drawn at random." if variation else "Seed {0}: drawn at random.", (str(seed),))
