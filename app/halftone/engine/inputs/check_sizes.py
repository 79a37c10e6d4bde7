"""The size and length of what a quick check makes, where none was asked for."""

import inspect
import math
from dataclasses import replace
from typing import Any, Final, cast

from halftone.contract.facts import ModelFacts
from halftone.contract.request import CheckInputs
from halftone.engine.inputs.made_up import FRAMES, Size
from halftone.engine.inputs.resolve import task_pipeline
from halftone.engine.inputs.video_inputs import known_frames, length_name
from halftone.engine.inputs.wanted import Inputs
from halftone.engine.loading.load import Loaded
from halftone.health.forecasts.memory_forecast import decoder_scale
from halftone.library.resolution_bins import BINNING
from halftone.library.videos import makes_videos

_FRAME_CELLS: Final = 2048
"""Latent cells of a frame that a processor computes in seconds: most models have so many in 256 × 448 pixels."""
_PICTURE_CELLS: Final = 128 * 128
"""Latent cells of a picture: published models have no more where they are at home."""
_EDGE: Final = 64
"""Pixels; every model takes its multiples."""


def quickly_made(loaded: Loaded, inputs: Inputs, given: CheckInputs) -> Inputs:
    """Ask for few frames, and on a processor for small ones. Every layer runs as it does for a long video.

    A picture keeps the size that its model is made for, unless that has more latent cells than any published model's. given: the
    user's inputs, which stay.
    """
    accepted = inspect.signature(task_pipeline(loaded, inputs).__call__).parameters
    video = makes_videos(loaded.facts)
    if video and inputs.num_frames is None and length_name(accepted) in accepted:
        inputs = replace(inputs, num_frames=few_frames(known_frames(loaded.pipe)))
    if loaded.device.type != "cpu" or given.width or given.height or "width" not in accepted or inputs.image is not None:
        return inputs
    scale = decoder_scale(loaded.networks)
    own = (inputs.width, inputs.height) if inputs.width and inputs.height else _own_size(loaded.pipe, scale, loaded.facts)
    small = small_size(own, scale, _FRAME_CELLS if video else _PICTURE_CELLS)
    if small == own:
        return inputs
    binned = {BINNING: False} if BINNING in accepted else {}
    return replace(inputs, width=small[0], height=small[1], options={**inputs.options, **binned})


def few_frames(own: int | None) -> int:
    """The frames of a check. own: how many the pipeline makes by itself, None where that is not known."""
    return min(own or FRAMES, FRAMES)


def small_size(own: Size, scale: int, cells: int) -> Size:
    """A size of nearly the same shape with at most so many latent cells. scale: pixels of a cell's edge."""
    share = math.sqrt(cells * scale * scale / (own[0] * own[1]))
    return own if share >= 1 else (_down(own[0] * share), _down(own[1] * share))


def _down(edge: float) -> int:
    return max(_EDGE, int(edge) // _EDGE * _EDGE)


def _own_size(pipe: Any, scale: int, facts: ModelFacts) -> Size:
    """The width and height that the pipeline takes by itself."""
    accepted = inspect.signature(pipe.__call__).parameters
    config = cast("Any", getattr(getattr(pipe, "transformer", None), "config", None)) or {}
    edges: list[int] = []
    for name, native in (("width", facts.native_width), ("height", facts.native_height)):
        default, cells = accepted[name].default, config.get(f"sample_{name}")
        edges.append(default if isinstance(default, int) else cells * scale if isinstance(cells, int) else native)
    return edges[0], edges[1]
