"""What pipelines of videos call their arguments, and what they do where one is left out."""

import inspect
from collections.abc import Container
from typing import Any, Final

from halftone.contract.facts import ModelFacts
from halftone.contract.request import OptionValue
from halftone.library.videos import usual_fps

_RATES: Final = ("fps", "frame_rate")
"""What pipelines call frames per second that they take the movement from."""
_LENGTHS: Final = ("num_frames", "frames", "video_length")
"""What pipelines call the number of frames."""
_SEVERAL: Final = 2
"""Frames of a pipeline whose video length only it knows."""


def with_rate(accepted: Container[str], wanted: dict[str, Any], fps: int | None) -> dict[str, Any]:
    """Add the frames per second where the pipeline takes them. accepted: its arguments; an option that names one wins."""
    return {name: fps for name in _RATES if name in accepted and fps is not None} | wanted


def length_name(accepted: Container[str]) -> str:
    """What a pipeline calls the number of frames. accepted: the names of its arguments."""
    return next((name for name in _LENGTHS if name in accepted), _LENGTHS[0])


def known_frames(pipe: Any) -> int | None:
    """How many frames the pipeline makes by itself; None where that is not known, or it takes no number."""
    accepted = inspect.signature(pipe.__call__).parameters
    own = accepted.get(length_name(accepted))
    if own is None:
        return None
    parts = (("unet", "num_frames"), ("transformer", "sample_frames"))
    told = [getattr(getattr(getattr(pipe, part, None), "config", None), name, None) for part, name in parts]
    return next((value for value in (own.default, *told) if isinstance(value, int) and value > 0), None)


def expected_frames(pipe: Any, num_frames: int | None) -> int:
    """How many frames the pipeline makes; 1 of a picture."""
    accepted = inspect.signature(pipe.__call__).parameters
    if length_name(accepted) not in accepted:
        return 1
    return num_frames or known_frames(pipe) or _SEVERAL


def fps_of(pipe: Any, fps: int | None, options: dict[str, OptionValue], facts: ModelFacts) -> int:
    """Frames per second of a video: asked for, else the pipeline's for movement, else the family's training."""
    own = inspect.signature(pipe.__call__).parameters
    told = [options.get(name, own[name].default) for name in _RATES if name in own]
    return fps or next((round(rate) for rate in told if isinstance(rate, int | float) and rate >= 1), usual_fps(facts))
