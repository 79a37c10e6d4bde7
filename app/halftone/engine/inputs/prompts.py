"""What a check draws when nothing else is said."""

import inspect
import json
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

import msgspec

from halftone.contract.request import CheckInputs
from halftone.contract.words import Depth
from halftone.engine.inputs.wanted import Inputs, of_check
from halftone.engine.loading.load import Loaded
from halftone.library.models import POCKET
from halftone.library.tasks import needs_mask, needs_picture
from halftone.settings.places import resources

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
    """Prompts that only the text encoders read, for what one ordinary prompt leaves out.

    One that fills all that they can read with real words, some weighted as other programs write it: most families pad, so every
    place runs anyway, but with the same empty token, and masked; a few read only as far as the prompt goes. And an empty one; and
    where an encoder reads only what stands in quotes, something in quotes; and the words that it was given.
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
    """(inputs, seed) of each picture: one of three steps for the quick check; eight whole ones in several sizes for the
    thorough one.
    """
    own = _own_prompts(Path(loaded.facts.path))
    first = _with_pictures(of_check(inputs, loaded.facts, own[0]), loaded)
    if depth == "quick":
        return [(replace(first, steps=min(inputs.steps or QUICK_STEPS, QUICK_STEPS)), inputs.seed)]
    prompts = [inputs.prompt] if inputs.prompt else [*own, *PROMPTS][: len(PROMPTS)]
    return [
        (_varied(replace(first, prompt=prompt), inputs, loaded, index), inputs.seed + index)
        for index, prompt in enumerate(prompts)
    ]


def _with_pictures(inputs: Inputs, loaded: Loaded) -> Inputs:
    """Pocket's own pictures in the place of those that a model needs and that were not given, in the size it was trained on; and
    every noise level, where it would begin between them.
    """
    facts, examples = loaded.facts, resources() / POCKET / "examples"
    accepted = inspect.signature(loaded.pipe.__call__).parameters
    if inputs.image is None and needs_picture(facts.pipeline):
        if "strength" in accepted and inputs.start.strength is None:
            inputs = replace(inputs, start=msgspec.structs.replace(inputs.start, strength=1.0))
        inputs = replace(inputs, image=str(examples / "1.png"))
        if "width" not in accepted:
            inputs = replace(inputs, width=inputs.width or facts.native_width, height=inputs.height or facts.native_height)
    if not inputs.masked and needs_mask(facts.pipeline):
        own = inputs.image == str(examples / "1.png")
        inputs = replace(inputs, mask=str(examples / "2.png") if own else inputs.image)  # the user's own has its shape
    return inputs


def _varied(first: Inputs, inputs: CheckInputs, loaded: Loaded, index: int) -> Inputs:
    """Every third picture is wide, every third high, unless a size was asked for."""
    if inputs.width or inputs.height or inputs.image or index % 3 == 0 or first.width is None:
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
