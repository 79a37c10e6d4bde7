"""What a check draws when nothing else is said."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Final, cast

from halftone.contract.request import CheckInputs
from halftone.contract.words import Depth
from halftone.engine.load import Loaded
from halftone.engine.resolve import Inputs, of_check

QUICK_STEPS: Final = 3
"""Noise levels of a quick check: first, middle, last of the schedule."""
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


def pictures_to_check(loaded: Loaded, inputs: CheckInputs, depth: Depth) -> list[tuple[Inputs, int]]:
    """(inputs, seed) of each picture: one of three steps for the quick check; eight whole ones in several sizes for the
    thorough one.
    """
    own = _own_prompts(Path(loaded.facts.path))
    first = of_check(inputs, loaded.facts, own[0])
    if depth == "quick":
        return [(replace(first, steps=min(inputs.steps or QUICK_STEPS, QUICK_STEPS)), inputs.seed)]
    prompts = [inputs.prompt] if inputs.prompt else [*own, *PROMPTS][: len(PROMPTS)]
    return [
        (_varied(replace(first, prompt=prompt), inputs, loaded, index), inputs.seed + index)
        for index, prompt in enumerate(prompts)
    ]


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
