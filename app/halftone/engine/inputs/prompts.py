"""What a check draws by default."""

import inspect
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, cast

import msgspec

from halftone.contract.parameters import seed_after
from halftone.contract.request import CheckInputs
from halftone.contract.vocabulary import Depth
from halftone.engine.inputs import made_up
from halftone.engine.inputs.check_sizes import quickly_made
from halftone.engine.inputs.fitting_arguments import with_usable_size
from halftone.engine.inputs.resolve import size_multiple, task_pipeline
from halftone.engine.inputs.video_inputs import known_frames
from halftone.engine.inputs.wanted import Inputs, of_check
from halftone.engine.loading.load import Loaded
from halftone.engine.sampling.rehearsal import is_sound, sound_steps
from halftone.engine.sampling.samplers import fewest_steps
from halftone.library.tasks import needs_control, needs_mask, needs_picture, needs_video
from halftone.metadata.start_images import picture_size

QUICK_STEPS: Final = 3
"""Noise levels of a quick check: first, middle, last of the schedule."""
MOST_WORDS: Final = 1024
"""No text encoder of a picture model reads more."""
_WEIGHTS: Final = ("({}:1.5)", "\\({}\\)", "(({}))", "[{}]", "({}:0.3)")
_QUOTED: Final = 'a sign that says "good morning"'
PROMPTS: Final = (
    "a photograph of a red sun over green hills",
    "a portrait of an old woman, soft light",
    "a crowded street at night, neon signs, rain",
    "a white cup on a white table",
    "a black cat in a dark room",
    "a detailed map of an old city",
    "a bowl of colourful fruit, close-up",
    "abstract shapes, high contrast",
)


def prompts_to_read(loaded: Loaded) -> tuple[str, ...]:
    """Prompts for the text encoders alone, beside ordinary ones: one that fills their length with real words, some weighted (most
    families pad with the same masked token), an empty one, one in quotes where an encoder reads only those, and the learned
    words.
    """
    words = " ".join(_own_prompts(Path(loaded.facts.path))).replace(",", "").split()
    long = [_weighted(words[index % len(words)], index) for index in range(_reading_length(loaded))]
    quoted = (_QUOTED,) if loaded.facts.pipeline.startswith("HunyuanImage") else ()
    named = (", ".join(one.inversion.name for one in loaded.inversions),) if loaded.inversions else ()
    return " ".join(long), "", *quoted, *named


def _reading_length(loaded: Loaded) -> int:
    """Tokens that the pipeline reads; a word is one at least."""
    parameter = inspect.signature(loaded.pipe.__call__).parameters.get("max_sequence_length")
    own = parameter.default if parameter is not None and isinstance(parameter.default, int) else 0
    return min(max(own, loaded.facts.prompt_tokens), MOST_WORDS)


def _weighted(word: str, index: int) -> str:
    """Every fourth word the way A1111's users give it weight, or between brackets that are letters."""
    return word if index % 4 else _WEIGHTS[index // 4 % len(_WEIGHTS)].format(word)


def pictures_to_check(loaded: Loaded, inputs: CheckInputs, depth: Depth) -> list[tuple[Inputs, int]]:
    """(inputs, seed) of each picture: one of three steps for a quick check, eight in several sizes for a thorough one."""
    own = _own_prompts(Path(loaded.facts.path))
    first = _from_all_noise(of_check(inputs, loaded.facts, own[0]), loaded)
    first = with_usable_size(loaded.pipe, first, loaded.facts)
    if depth == "quick":
        steps = _quick_steps(first.start.strength, inputs.steps, fewest_steps(loaded.native_scheduler))
        quick = replace(first, steps=_fit_steps(loaded.native_scheduler, steps, first.start.strength))
        return [(_with_pictures(quickly_made(loaded, quick, inputs), loaded), inputs.seed)]
    prompts = [inputs.prompt] if inputs.prompt else [*own, *PROMPTS][: len(PROMPTS)]
    return [
        (_with_pictures(_varied(replace(first, prompt=prompt), inputs, loaded, index), loaded), seed_after(inputs.seed, index))
        for index, prompt in enumerate(prompts)
    ]


def _from_all_noise(inputs: Inputs, loaded: Loaded) -> Inputs:
    """Begin at noise alone where a picture is started from and no strength was given, so that every noise level is seen."""
    starts = inputs.image is not None or needs_picture(loaded.facts.pipeline)
    if not starts or inputs.start.strength is not None or not _accepted(loaded, inputs, "strength"):
        return inputs
    return replace(inputs, start=msgspec.structs.replace(inputs.start, strength=1.0))


def _accepted(loaded: Loaded, inputs: Inputs, name: str) -> bool:
    """Whether the pipeline that will run has an argument of that name."""
    return name in inspect.signature(task_pipeline(loaded, inputs).__call__).parameters


def _quick_steps(strength: float | None, asked: int | None, fewest: int) -> int:
    """Steps of which a strength leaves those of a quick check, or as many as were asked for. fewest: that its sampler needs."""
    enough = max(fewest, math.ceil(QUICK_STEPS / strength) if strength else QUICK_STEPS)
    return min(asked or enough, enough)


def _fit_steps(scheduler: Any, steps: int, strength: float | None) -> int:
    """The steps, or the first number of more that the sampler can make where its own arithmetic is not finite in these."""
    share = (1.0 - (strength or 1.0), 1.0)
    return steps if is_sound(scheduler, steps, share) is not False else sound_steps(scheduler, steps, share) or steps


def _with_pictures(inputs: Inputs, loaded: Loaded) -> Inputs:
    """Add made-up pictures, masks and frames that the model needs and that were not given, in its own size."""
    pipe, pipeline = loaded.pipe, loaded.facts.pipeline
    size = _size_of(inputs, loaded)
    names: list[str] = []
    if inputs.image is None and _image_needed(pipe, pipeline):
        drawn = made_up.edges if needs_control(pipeline) and not needs_picture(pipeline) else made_up.picture
        inputs = replace(inputs, image=drawn(size))
        names.append("picture" if drawn is made_up.picture else "control picture")
    if not inputs.masked and needs_mask(pipeline):
        shown = inputs.image if inputs.image is not None else None
        own = picture_size(shown) if isinstance(shown, str) else size if shown is None else shown.size
        inputs = replace(inputs, mask=made_up.mask(own))
        names.append("mask")
    if any(not control.image for control in inputs.controls):
        names.append("control picture")
    if any(not one.images for one in inputs.ip_adapters):
        names.append("reference picture")
    shown, more = _further(pipe, pipeline, inputs, size)
    return replace(inputs, shown=shown, made_up=tuple(dict.fromkeys((*names, *more))))


def _image_needed(pipe: Any, pipeline: str) -> bool:
    """Whether it cannot run without what it calls its image: a picture to start from, or one to be steered by."""
    own = inspect.signature(pipe.__call__).parameters
    if "image" not in own:
        return needs_picture(pipeline) and not needs_control(pipeline)
    steered = needs_control(pipeline) and "control_image" not in own
    return needs_picture(pipeline) or steered or own["image"].default is inspect.Parameter.empty


def _further(pipe: Any, pipeline: str, inputs: Inputs, size: made_up.Size) -> tuple[dict[str, Any], list[str]]:
    """(Arguments made up beside the picture and its mask, what they are called)."""
    beside = {"control_image"} if inputs.controls else set[str]()
    needed = {"video"} if needs_video(pipeline) else set[str]()
    names = made_up.lacking(pipe, {"image", "mask_image", *beside, *inputs.options}, needed)
    count = inputs.num_frames or known_frames(pipe) or made_up.FRAMES
    made = {name: made_up.made_for(name, size, count) for name in names}
    return {name: value for name, (_, value) in made.items()}, [called for called, _ in made.values() if called]


def _size_of(inputs: Inputs, loaded: Loaded) -> made_up.Size:
    """Width and height of made-up pictures: those of the result, or of what an upscaler makes it from."""
    facts, pipe = loaded.facts, loaded.pipe
    multiple = size_multiple(pipe)
    smaller = int(getattr(pipe, "vae_scale_factor", 8)) if "Upscale" in facts.pipeline else 1
    native = facts.native_width // smaller, facts.native_height // smaller
    own = (inputs.width or native[0], inputs.height or native[1])
    return max(multiple, own[0] // multiple * multiple), max(multiple, own[1] // multiple * multiple)


def _varied(first: Inputs, inputs: CheckInputs, loaded: Loaded, index: int) -> Inputs:
    """Every third picture is wide, every third high, unless a size was asked for."""
    made = first.image is None and needs_picture(loaded.facts.pipeline)
    if inputs.width or inputs.height or inputs.image or index % 3 == 0 or (first.width is None and not made):
        return first
    long, short = loaded.facts.native_width, loaded.facts.native_height * 3 // 4 // 64 * 64
    if short < 64:
        return first
    return replace(first, width=long, height=short) if index % 3 == 1 else replace(first, width=short, height=long)


def _own_prompts(folder: Path) -> list[str]:
    """Prompts a model brings along (examples.json), else ours."""
    path = folder / "examples.json"
    if not path.is_file():
        return list(PROMPTS)
    content = cast("object", json.loads(path.read_text(encoding="utf-8")))
    prompts = [prompt for prompt in cast("list[object]", content) if isinstance(prompt, str)] if isinstance(content, list) else []
    return prompts or list(PROMPTS)
