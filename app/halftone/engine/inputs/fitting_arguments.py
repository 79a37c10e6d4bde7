"""Arguments that a pipeline takes where it refuses its own defaults: its size is not one that its VAE decodes or that it rounds
to, or it reads longer prompts than its denoiser has places for.
"""

import inspect
import math
import traceback
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import product
from typing import Any, Final, cast

from halftone.contract.facts import ModelFacts
from halftone.contract.request import CheckInputs
from halftone.engine.inputs.resolve import size_multiple
from halftone.engine.inputs.wanted import Inputs
from halftone.library.resolution_bins import BINNING

Changes = dict[str, Any]
"""Arguments of a pipeline; nothing of what was given is among them."""
"""What makes a pipeline round a size to one of a table, which it looks for by its denoiser's size."""
LENGTH: Final = "max_sequence_length"
_MULTIPLES: Final = (16, 32, 64, 128)
"""Multiples in pixels to try a size at where the pipeline refuses a smaller one."""
_LENGTHS: Final = (77, 16)
"""Lengths of prompts in tokens: what CLIP reads, and next to nothing."""


def with_usable_size(pipe: Any, inputs: Inputs, facts: ModelFacts) -> Inputs:
    """Give a size where none was given and the pipeline's own is missing, no allowed multiple, or too large."""
    accepted = inspect.signature(pipe.__call__).parameters
    if inputs.width or inputs.height or inputs.image is not None or "width" not in accepted or _is_usable(pipe, facts):
        return inputs
    return replace(inputs, **_size(pipe, facts, size_multiple(pipe)))


def _is_usable(pipe: Any, facts: ModelFacts) -> bool:
    """Whether a pipeline can use the size that it takes where none is given: its denoiser's, else the one that it is made for."""
    config = _denoiser_config(pipe)
    if not hasattr(pipe, "vae_scale_factor"):
        return True
    if "sample_size" not in config:
        return max(facts.native_width, facts.native_height) <= _largest(pipe)
    size, scale, multiple, most = config["sample_size"], int(pipe.vae_scale_factor), size_multiple(pipe), _largest(pipe)
    sides = size if isinstance(size, list | tuple) and len(size) == 2 else (size,)
    return all(isinstance(side, int) and 0 < side * scale <= most and side * scale % multiple == 0 for side in sides)


_LARGEST: Final = 16384
"""Pixels of an edge beyond which a denoiser's size is a mistake."""


_AXES: Final = 3
"""Tables of a denoiser with one for each axis: of the prompt's places, of rows, of columns (Lumina 2, Z-Image)."""
_PLACES_OF_AN_EDGE: Final[dict[str, Callable[[int], int]]] = {"AuraFlowTransformer2DModel": math.isqrt}
"""How many of a denoiser's places lie along an edge, where its configuration counts those of the whole picture."""


def _largest(pipe: Any) -> int:
    """Pixels of the longest edge that the denoiser has places for."""
    config = _denoiser_config(pipe)
    places, patch = config.get("pos_embed_max_size"), config.get("patch_size")
    if isinstance(places, int) and isinstance(patch, int) and places > 0 and patch > 0:
        along = _PLACES_OF_AN_EDGE.get(type(_denoiser(pipe)).__name__, int)
        return along(places) * patch * int(getattr(pipe, "vae_scale_factor", 8))
    tables, patches = config.get("axes_lens"), config.get("all_patch_size", (patch,))
    if isinstance(tables, list | tuple) and len(tables) == _AXES and isinstance(patches[0], int):
        return min(tables[1:]) * patches[0] * int(getattr(pipe, "vae_scale_factor", 8))
    return _LARGEST


def is_beyond_tables(pipe: Any, error: IndexError) -> bool:
    """Whether a place was looked for that the tables of the denoiser's positions do not have."""
    *_, (frame, _) = traceback.walk_tb(error.__traceback__)
    return "axes_lens" in _denoiser_config(pipe) and frame.f_globals.get("__name__", "").startswith("diffusers.models.")


def _denoiser_config(pipe: Any) -> Mapping[str, Any]:
    return cast("Any", getattr(_denoiser(pipe), "config", None)) or {}


def _denoiser(pipe: Any) -> Any:
    return getattr(pipe, "unet", None) or getattr(pipe, "transformer", None)


def _up(value: int, multiple: int) -> int:
    return max(multiple, -(-value // multiple) * multiple)


def variants(pipe: Any, inputs: Inputs, facts: ModelFacts, given: CheckInputs) -> Iterator[Changes]:
    """Other arguments to try where the pipeline refuses its inputs, the fewest changes first. given: by the user, kept."""
    accepted = set(inspect.signature(pipe.__call__).parameters) - inputs.options.keys()
    sized = {"width", "height"} <= accepted and not (given.width or given.height) and given.image is None
    axes: list[list[Changes]] = [
        [{}, *({BINNING: False} for _ in range(BINNING in accepted))],
        [{}, *({LENGTH: length} for length in _lengths(pipe) if LENGTH in accepted)],
        [{}, *({"width": None, "height": None} for _ in range(sized and inputs.width is not None))],
        [{}, *(_size(pipe, facts, multiple) for multiple in _MULTIPLES if sized)],
        [{}, *({"num_frames": None} for _ in range(given.num_frames is None and inputs.num_frames is not None))],
    ]
    found = sorted((list(filter(None, chosen)) for chosen in product(*axes)), key=len)
    yield from ({name: value for one in chosen for name, value in one.items()} for chosen in found if chosen)


def _size(pipe: Any, facts: ModelFacts, multiple: int) -> Changes:
    """The size that the model is made for, as far as its denoiser has places for it."""
    most = _largest(pipe) // multiple * multiple
    edges = (("width", facts.native_width), ("height", facts.native_height))
    return {name: max(multiple, min(_up(edge, multiple), most)) for name, edge in edges}


def _lengths(pipe: Any) -> Iterable[int]:
    """Lengths to try for prompts: what the denoiser has places for, where it says so, then shorter ones."""
    own = _denoiser_config(pipe).get("max_text_seq_length")
    return dict.fromkeys((*([own] if isinstance(own, int) and own > 0 else []), *_LENGTHS))


def with_changes(inputs: Inputs, changes: Changes) -> Inputs:
    """The inputs of a check with some of these arguments, and the names of its options among what was made up."""
    own = {name: value for name, value in changes.items() if name in ("width", "height", "num_frames")}
    options = {name: value for name, value in changes.items() if name not in own}
    made = tuple(dict.fromkeys((*inputs.made_up, *options)))
    return replace(inputs, **own, options={**inputs.options, **options}, made_up=made)
