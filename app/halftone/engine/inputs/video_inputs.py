"""What pipelines of videos call their arguments, and what they do where one is left out."""

import inspect
from collections.abc import Container
from typing import Any, Final

from halftone.contract.facts import ModelFacts
from halftone.contract.request import OptionValue
from halftone.library.videos import usual_fps

_RATES: Final = ("fps", "frame_rate")
"""What pipelines call frames per second that they take the movement from."""
_SEVERAL: Final = 2
"""Of a pipeline that makes videos of a length which it alone knows."""


def with_rate(accepted: Container[str], wanted: dict[str, Any], fps: int | None) -> dict[str, Any]:
    """Arguments of a pipeline, with the frames per second that were asked for where it takes them. accepted: the names of its
    own; an option that names one of them stays.
    """
    return {name: fps for name in _RATES if name in accepted and fps is not None} | wanted


def expected_frames(pipe: Any, num_frames: int | None) -> int:
    """How many frames the pipeline makes; 1 of a picture."""
    own = inspect.signature(pipe.__call__).parameters.get("num_frames")
    if own is None:
        return 1
    config = getattr(getattr(pipe, "unet", None), "config", None)
    known = (num_frames, own.default, getattr(config, "num_frames", None))
    return next((value for value in known if isinstance(value, int)), _SEVERAL)


def fps_of(pipe: Any, fps: int | None, options: dict[str, OptionValue], facts: ModelFacts) -> int:
    """Frames per second of a video: what was asked for, else what the pipeline takes its movement from, else what the family
    learned from.
    """
    own = inspect.signature(pipe.__call__).parameters
    told = [options.get(name, own[name].default) for name in _RATES if name in own]
    return fps or next((round(rate) for rate in told if isinstance(rate, int | float) and rate >= 1), usual_fps(facts))
