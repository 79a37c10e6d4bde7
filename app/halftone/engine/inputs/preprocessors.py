"""Preprocessors of control pictures that need no weights, by the formulas of A1111's extension and with its numbers.

Source: Mikubill/sd-webui-controlnet, scripts/preprocessor. Its edges, blurs and sizes are OpenCV's, and so are these: other
resamplers differ by a few levels, which moves edges.
"""

from collections.abc import Callable
from typing import Any, Final

import cv2
import numpy as np
from numpy.typing import NDArray

from halftone.contract.preprocessors import PREPROCESSORS
from halftone.contract.vocabulary import Resize

Pixels = NDArray[np.uint8]
"""(height, width, 3), RGB."""
_PADDED: Final = 64
"""Edges of what is computed are multiples of this."""
_FEW: Final = 200
"""A picture with fewer colours is a drawing, and is enlarged without new ones."""


def drawn(name: str, picture: Pixels, resolution: int, thresholds: tuple[float, ...]) -> Pixels:
    """What a preprocessor draws of a picture. resolution: the shorter edge that it works at, where it is one that scales."""
    draw = _DRAWN[name]
    if not PREPROCESSORS[name].scaled:
        return draw(picture, thresholds)
    scaled = at_resolution(picture, resolution)
    height, width, _ = scaled.shape
    if name == "blur_gaussian":  # the padding would be blurred into it
        return draw(scaled, thresholds)
    return np.ascontiguousarray(draw(padded(scaled), thresholds)[:height, :width])


def at_resolution(picture: Pixels, resolution: int) -> Pixels:
    """The picture with its shorter edge of so many pixels."""
    height, width, _ = picture.shape
    factor = resolution / min(height, width)
    way = cv2.INTER_CUBIC if factor > 1 else cv2.INTER_AREA
    return np.asarray(cv2.resize(picture, _scaled((width, height), factor), interpolation=way), np.uint8)


def _scaled(size: tuple[int, int], factor: float) -> tuple[int, int]:
    """A size times a factor; no edge is less than one pixel."""
    return max(1, round(size[0] * factor)), max(1, round(size[1] * factor))


def padded(picture: Pixels) -> Pixels:
    """Repeat the last row and column up to multiples of 64."""
    height, width, _ = picture.shape
    return np.pad(picture, ((0, -height % _PADDED), (0, -width % _PADDED), (0, 0)), mode="edge")


def pixel_perfect(own: tuple[int, int], size: tuple[int, int], resize: Resize = "stretch") -> int:
    """The shorter edge of a picture that is as large as the result, or that lies inside it. own, size: (width, height)."""
    within = min if resize == "fill" else max
    return min(_scaled(own, within(size[0] / own[0], size[1] / own[1])))


def fitted(picture: Pixels, size: tuple[int, int], resize: Resize) -> Pixels:
    """What was drawn in the size of the result, (width, height): stretched, cropped at both sides, or on a ground of the median
    colour of its edges.
    """
    if resize == "stretch":
        return resized(picture, size)
    own = picture.shape[1], picture.shape[0]
    factor = (max if resize == "crop" else min)(size[0] / own[0], size[1] / own[1])
    scaled = resized(picture, _scaled(own, factor))
    height, width, _ = scaled.shape
    left, top = abs(width - size[0]) // 2, abs(height - size[1]) // 2
    if resize == "crop":
        return np.ascontiguousarray(scaled[top : top + size[1], left : left + size[0]])
    edges = np.concatenate([picture[0], picture[-1], picture[:, 0], picture[:, -1]])
    ground = np.tile(np.median(edges, axis=0).astype(np.uint8), (size[1], size[0], 1))
    ground[top : top + height, left : left + width] = scaled
    return ground


def resized(picture: Pixels, size: tuple[int, int]) -> Pixels:
    """What was drawn in the size of the result, (width, height)."""
    height, width, _ = picture.shape
    if (width, height) == size:
        return picture
    few = len(np.unique(picture.reshape(-1, 3), axis=0)) < _FEW
    smaller = size[0] * size[1] < width * height
    way = cv2.INTER_NEAREST if few else cv2.INTER_AREA if smaller else cv2.INTER_CUBIC
    return np.asarray(cv2.resize(picture, size, interpolation=way), np.uint8)


def canny(picture: Pixels, low: float = 100, high: float = 200) -> NDArray[np.uint8]:
    """(height, width, 3) -> (height, width): 255 on the edges, 0 elsewhere."""
    return np.asarray(cv2.Canny(picture, int(low), int(high)), np.uint8)


def _canny(picture: Pixels, thresholds: tuple[float, ...]) -> Pixels:
    return _rgb(canny(picture, *thresholds))


def _lineart(picture: Pixels, _thresholds: tuple[float, ...]) -> Pixels:
    """How much darker a pixel is than those around it, scaled by the median of the lines."""
    given = picture.astype(np.float32)
    darker = np.min(cv2.GaussianBlur(given, (0, 0), 6.0) - given, axis=2).clip(0, 255)
    lines = darker[darker > 8]
    darker /= max(16, np.median(lines)) if lines.size else 16
    return _rgb((darker * 127).clip(0, 255).astype(np.uint8))


def _scribble(picture: Pixels, thresholds: tuple[float, ...]) -> Pixels:
    """The extended difference of two Gauss filters (Winnemöller, 2011), as A1111's extension simplifies it."""
    given = picture.astype(np.float32)
    narrow, wide = cv2.GaussianBlur(given, (0, 0), 0.5), cv2.GaussianBlur(given, (0, 0), 5.0)
    difference = (255 - np.min(wide - narrow, axis=2)).clip(0, 255).astype(np.uint8)
    return _marked(2 * (255 - difference) > thresholds[0])  # in 8 bits, as there


def _tile(picture: Pixels, thresholds: tuple[float, ...]) -> Pixels:
    height, width, _ = picture.shape
    rate = thresholds[0]
    if rate < 1.1:
        return picture
    size = max(1, int(width / rate)), max(1, int(height / rate))
    return np.asarray(cv2.resize(picture, size, interpolation=cv2.INTER_AREA), np.uint8)


def _blur(picture: Pixels, thresholds: tuple[float, ...]) -> Pixels:
    return np.asarray(cv2.GaussianBlur(picture, (0, 0), thresholds[0]), np.uint8)


def _invert(picture: Pixels, _thresholds: tuple[float, ...]) -> Pixels:
    return 255 - picture


def _threshold(picture: Pixels, thresholds: tuple[float, ...]) -> Pixels:
    return _marked(np.min(picture, axis=2) > thresholds[0])


def _luminance(picture: Pixels, thresholds: tuple[float, ...]) -> Pixels:
    """L of Lab. The extension gives OpenCV red in the place of blue, and so is it here."""
    return _bent(np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2LAB), np.uint8)[:, :, 0], thresholds[0])


def _intensity(picture: Pixels, thresholds: tuple[float, ...]) -> Pixels:
    """V of HSV."""
    return _bent(np.asarray(cv2.cvtColor(picture, cv2.COLOR_BGR2HSV), np.uint8)[:, :, 2], thresholds[0])


def _bent(channel: NDArray[Any], gamma: float) -> Pixels:
    return _rgb(((channel.astype(np.float32) / 255.0) ** gamma * 255.0).clip(0, 255).astype(np.uint8))


def _marked(where: NDArray[np.bool_]) -> Pixels:
    return _rgb(np.where(where, np.uint8(255), np.uint8(0)))


def _rgb(channel: NDArray[np.uint8]) -> Pixels:
    return np.repeat(channel[:, :, None], 3, axis=2)


_DRAWN: Final[dict[str, Callable[[Pixels, tuple[float, ...]], Pixels]]] = {
    "canny": _canny,
    "lineart_standard": _lineart,
    "scribble_xdog": _scribble,
    "tile_resample": _tile,
    "blur_gaussian": _blur,
    "invert": _invert,
    "threshold": _threshold,
    "recolor_luminance": _luminance,
    "recolor_intensity": _intensity,
}
