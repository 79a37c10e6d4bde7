"""The pictures that ControlNets are given: preprocessed where that is asked for, and brought to the size of the result."""

from collections.abc import Sequence
from typing import Final

import numpy as np
from PIL import Image

from halftone.contract.errors import HalftoneError
from halftone.contract.preprocessors import DEPTH, NONE, NORMAL, POSE
from halftone.contract.request import Control
from halftone.contract.vocabulary import Resize
from halftone.contract.wording import Words
from halftone.engine.inputs.preprocessors import drawn, fitted, pixel_perfect
from halftone.library.add_ons.preprocessors import has_detector

_RESIZED: Final[dict[Resize, str]] = {
    "stretch": "The control picture of {0} is {1} × {2} and was stretched to {3} × {4}.",
    "crop": "The control picture of {0} is {1} × {2} and was cropped to {3} × {4}.",
    "fill": "The control picture of {0} is {1} × {2} and was filled out to {3} × {4}.",
}
_BOXES: Final = {
    True: "The detector beside the pose model found the people in the control picture of {0}.",
    False: "No detector lies beside the pose model, so the control picture of {0} counts as one person.",
}
_ALIKE: Final = 0.01
"""Largest difference of two aspects that counts as none."""
_NARROWEST: Final = 16
"""Largest ratio of a picture's edges."""


def prepared(picture: Image.Image, control: Control, size: tuple[int, int]) -> Image.Image:
    """The control picture as its ControlNet takes it. size: (width, height) of the result; its aspect may change.

    Raises HalftoneError control-too-narrow, preprocessor-model, preprocessor-pose-model, preprocessor-failed.
    """
    if control.preprocessor == NONE and control.resize == "stretch":
        return picture if picture.size == size else picture.resize(size, Image.Resampling.LANCZOS)
    if max(picture.size) > _NARROWEST * min(picture.size):  # scaled by its shorter edge, it would take gigabytes
        raise HalftoneError("control-too-narrow", path=control.image, width=picture.width, height=picture.height, most=_NARROWEST)
    pixels = np.asarray(picture.convert("RGB"))
    if control.preprocessor == NONE:
        return Image.fromarray(fitted(pixels, size, control.resize))
    resolution = control.resolution or pixel_perfect(picture.size, size, control.resize)
    if control.preprocessor == DEPTH:
        from halftone.engine.inputs.depth_maps import depth_map  # a preview of the others loads no torch

        found = depth_map(pixels, resolution, control.preprocessor_model or "")
    elif control.preprocessor == NORMAL:
        from halftone.engine.inputs.depth_maps import normal_map

        found = normal_map(pixels, resolution, control.preprocessor_model or "", control.thresholds[0])
    elif control.preprocessor == POSE:
        from halftone.engine.inputs.poses import pose_picture

        found = pose_picture(pixels, resolution, control.preprocessor_model or "", control.thresholds[0])
    else:
        found = drawn(control.preprocessor, pixels, resolution, control.thresholds)
    return Image.fromarray(fitted(found, size, control.resize))


def resized_notes(given: Sequence[tuple[Control, tuple[int, int]]], size: tuple[int, int]) -> tuple[Words, ...]:
    """Note control pictures of another aspect than the result. given: with their (width, height)."""
    width, height = size
    return tuple(
        Words(
            _RESIZED[control.resize],
            (control.name, *map(str, (*own, width, height))),
        )
        for control, own in given
        if abs(own[0] * height / (own[1] * width) - 1) > _ALIKE
    )


def pose_notes(controls: Sequence[Control]) -> tuple[Words, ...]:
    """Say where the boxes of the people came from whose poses are drawn."""
    found = [one for one in controls if one.preprocessor == POSE]
    return tuple(Words(_BOXES[has_detector(one.preprocessor_model or "")], (one.name,)) for one in found)
