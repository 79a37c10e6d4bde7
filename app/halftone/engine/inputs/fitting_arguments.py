"""Arguments that a pipeline takes, where what it would use by itself is something that it refuses.

Its own size is not one that its VAE can decode, or not among those that it rounds sizes to; or it reads longer prompts than its
denoiser has places for.
"""

import inspect
from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import product
from typing import Any, Final, cast

from halftone.contract.facts import ModelFacts
from halftone.engine.inputs.resolve import size_multiple
from halftone.engine.inputs.wanted import Inputs

Changes = dict[str, Any]
"""Arguments of a pipeline; nothing of what was given is among them."""
BINNING: Final = "use_resolution_binning"
"""What makes a pipeline round a size to one of a table, which it looks for by its denoiser's size."""
LENGTH: Final = "max_sequence_length"
_MULTIPLES: Final = (16, 32, 64, 128)
"""Of pixels, that a size is tried at where the pipeline refuses a smaller multiple."""
_LENGTHS: Final = (77, 16)
"""Of prompts in tokens: what CLIP reads, and next to nothing."""


def with_usable_size(pipe: Any, inputs: Inputs, facts: ModelFacts) -> Inputs:
    """Give a size where none was given and the pipeline could not use its own: one that is missing, or no multiple of what it
    takes.
    """
    accepted = inspect.signature(pipe.__call__).parameters
    if inputs.width or inputs.height or inputs.image is not None or "width" not in accepted or _is_usable(pipe):
        return inputs
    multiple = size_multiple(pipe)
    return replace(inputs, width=_up(facts.native_width, multiple), height=_up(facts.native_height, multiple))


def _is_usable(pipe: Any) -> bool:
    """Whether a pipeline that takes its size from its denoiser's can use that."""
    denoiser = getattr(pipe, "unet", None) or getattr(pipe, "transformer", None)
    config = cast("Any", getattr(denoiser, "config", None))
    if config is None or "sample_size" not in config or not hasattr(pipe, "vae_scale_factor"):
        return True
    size, scale, multiple = config["sample_size"], int(pipe.vae_scale_factor), size_multiple(pipe)
    sides = size if isinstance(size, list | tuple) and len(size) == 2 else (size,)
    return all(isinstance(side, int) and 0 < side * scale <= _LARGEST and side * scale % multiple == 0 for side in sides)


_LARGEST: Final = 16384
"""Pixels of an edge beyond which a denoiser's size is a mistake."""


def _up(value: int, multiple: int) -> int:
    return max(multiple, -(-value // multiple) * multiple)


def variants(pipe: Any, inputs: Inputs, facts: ModelFacts) -> Iterator[Changes]:
    """Give what else to try where the pipeline refuses its inputs, the fewest changes first."""
    accepted = set(inspect.signature(pipe.__call__).parameters) - inputs.options.keys()
    sized = {"width", "height"} <= accepted and not (inputs.width or inputs.height) and inputs.image is None
    axes: list[list[Changes]] = [
        [{}, *({BINNING: False} for _ in range(BINNING in accepted))],
        [{}, *({LENGTH: length} for length in _lengths(pipe) if LENGTH in accepted)],
        [{}, *(_size(facts, multiple) for multiple in _MULTIPLES if sized)],
    ]
    found = sorted((list(filter(None, chosen)) for chosen in product(*axes)), key=len)
    yield from ({name: value for one in chosen for name, value in one.items()} for chosen in found if chosen)


def _size(facts: ModelFacts, multiple: int) -> Changes:
    return {"width": _up(facts.native_width, multiple), "height": _up(facts.native_height, multiple)}


def _lengths(pipe: Any) -> Iterable[int]:
    """Lengths to try for prompts: what the denoiser has places for, where it says so, then shorter ones."""
    config = cast("Any", getattr(getattr(pipe, "transformer", None), "config", None)) or {}
    own = config.get("max_text_seq_length")
    return dict.fromkeys((*([own] if isinstance(own, int) and own > 0 else []), *_LENGTHS))


def with_changes(inputs: Inputs, changes: Changes) -> Inputs:
    """The inputs of a check with some of these arguments, and their names among what was made up."""
    sizes = {name: value for name, value in changes.items() if name in ("width", "height")}
    options = {name: value for name, value in changes.items() if name not in sizes}
    names = (*(("size",) if sizes else ()), *options)
    made = tuple(dict.fromkeys((*inputs.made_up, *names)))
    return replace(inputs, **sizes, options={**inputs.options, **options}, made_up=made)
