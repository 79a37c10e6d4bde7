"""Pictures, masks, edges and frames that a check makes up where a model needs them and none were given.

They are the same on every machine: whole numbers from a fixed seed, scaled by Pillow. A picture has the spectrum of photographs,
in which each halving of a detail's size halves its contrast (D. J. Field, 1987), and objects with hard edges.
"""

import inspect
from collections.abc import Callable
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from halftone.engine.inputs.preprocessors import canny

Size = tuple[int, int]
"""(width, height)."""
FRAMES: Final = 9
"""Frames of a made-up video where the model names no number: 8 k + 1, which every model takes."""
_SEED: Final = 1987
_OBJECTS: Final = 6
_COARSEST: Final = 4
"""Places across, of the coarsest detail."""
_WORDS: Final = "a photograph of a red sun over green hills"


def picture(size: Size) -> Image.Image:
    """Make a picture in RGB: soft detail of every scale, and a few objects before it."""
    draws = np.random.default_rng(_SEED)
    sums, weights = np.zeros((size[1], size[0], 3), np.int64), 0
    places, weight = _COARSEST, 1 << 16
    while places <= 2 * max(size) and weight:
        noise = Image.fromarray(draws.integers(0, 256, (places, places, 3), dtype=np.uint8))
        sums += weight * np.asarray(noise.resize(size, Image.Resampling.BICUBIC)).astype(np.int64)
        weights, places, weight = weights + weight, 2 * places, weight // 2
    made = Image.fromarray((sums // weights).astype(np.uint8))
    pen = ImageDraw.Draw(made)
    for _ in range(_OBJECTS):
        box, colour = _box(draws, size), tuple(int(value) for value in draws.integers(0, 256, 3))
        (pen.ellipse if draws.integers(2) else pen.rectangle)(box, fill=colour)
    return made


def _box(draws: np.random.Generator, size: Size) -> tuple[int, int, int, int]:
    """(left, top, right, bottom) of an object, from a sixteenth to a quarter of the picture long."""
    width, height = size
    left, top = int(draws.integers(0, width)), int(draws.integers(0, height))
    across, down = int(draws.integers(width // 16, width // 4 + 1)), int(draws.integers(height // 16, height // 4 + 1))
    return left, top, left + across, top + down


def mask(size: Size) -> Image.Image:
    """Make a mask in L, white in an ellipse around the middle that holds about a third of it."""
    made = Image.new("L", size)
    width, height = size
    ImageDraw.Draw(made).ellipse((width // 6, height // 6, width - width // 6 - 1, height - height // 6 - 1), fill=255)
    return made


def edges(size: Size) -> Image.Image:
    """Make the picture's edges in RGB, as a ControlNet for Canny is given them."""
    found: NDArray[np.uint8] = canny(np.asarray(picture(size)))
    return Image.fromarray(np.repeat(found[:, :, None], 3, axis=2))


def frames(size: Size, count: int = FRAMES) -> list[Image.Image]:
    """Make a video: the picture, past which a camera moves by a sixteenth of its width from its first to its last frame."""
    width, height = size
    whole = picture((width + max(1, width // 16), height))
    lefts = [round((whole.width - width) * index / max(1, count - 1)) for index in range(count)]
    return [whole.crop((left, 0, left + width, height)) for left in lefts]


_VIDEOS: Final[dict[str, Callable[[Size, int], list[Image.Image]]]] = {
    "video": frames,
    "control_video": lambda size, count: [edges(size)] * count,
    "conditioning_frames": lambda size, count: [edges(size)] * count,
    "pose_video": frames,
    "face_video": frames,
    "mask_video": lambda size, count: [mask(size)] * count,
}
"""Argument of a pipeline -> what makes it."""
_MAKERS: Final[dict[str, tuple[str, Callable[[Size], Any]]]] = {
    "original_image": ("picture", picture),
    "example_image": ("picture", picture),
    "reference_image": ("picture", picture),
    "mask_image": ("mask", mask),
    "control_mask": ("mask", mask),
    "control_image": ("control picture", edges),
    "condtioning_image": ("control picture", edges),
    "source_prompt": ("", lambda _size: _WORDS),
    "source_subject_category": ("", lambda _size: "sun"),
    "target_subject_category": ("", lambda _size: "sun"),
    "class_labels": ("", lambda _size: [0]),
}
"""Argument -> (its name, "" for no picture; what makes it), but for the image and its mask."""
_WANTED: Final = ("control_image", "control_mask", "control_video", "conditioning_frames", "mask_video")
"""Arguments that a pipeline needs though they have a default."""


def lacking(pipe: Any, given: set[str], needed: set[str]) -> list[str]:
    """Name the arguments to make up for a pipeline. given: those that it has; needed: further ones that it needs."""
    own = inspect.signature(pipe.__call__).parameters
    found = [name for name in (*_MAKERS, *_VIDEOS) if name in own and name not in given]
    return [name for name in found if own[name].default is inspect.Parameter.empty or name in _WANTED or name in needed]


def made_for(name: str, size: Size, count: int) -> tuple[str, Any]:
    """(What it is called in a report, "" where it is no picture; the value) of an argument of a pipeline. count: of frames."""
    if name in _VIDEOS:
        return "video", _VIDEOS[name](size, count)
    called, make = _MAKERS[name]
    return called, make(size)
