"""What the new part of a picture begins with: the colours around it, noise, or room beyond its edge."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageFilter

from halftone.contract.request import Start

_FEATHER: Final = 2
"""Times the blur: how far the new part of an extended picture reaches into the old one."""
_NOISE: Final = 24.0
"""Standard deviation, of 255, of the noise that an extended picture begins with, so that the model has something to work from."""

_CERTAIN: Final = 8
"""One part in so many that is known decides the colour of a place."""
_LEAST: Final = 1e-6


def begun_with(picture: Image.Image, alpha: Image.Image, start: Start) -> Image.Image:
    """The picture with what its masked part is to begin with."""
    if start.masked_content == "original":
        return picture
    if start.masked_content == "fill":
        return around(picture, Image.fromarray(np.where(np.asarray(alpha) == 0, np.uint8(255), np.uint8(0))))
    noise = np.random.default_rng(0).integers(0, 256, (picture.height, picture.width, 3), dtype=np.uint8)
    return Image.composite(Image.fromarray(noise), picture, alpha)


def extended(
    picture: Image.Image, begun: Image.Image, alpha: Image.Image | None, start: Start
) -> tuple[Image.Image, Image.Image, Image.Image]:
    """(picture, start, alpha) extended to the sides with the edge's colours and noise, blended into the old part."""
    left, top, right, bottom = start.outpaint
    size = (picture.width + left + right, picture.height + top + bottom)
    old = (left, top, left + picture.width, top + picture.height)
    known = Image.new("L", size)
    known.paste(255, old)
    whole, first = Image.new("RGB", size), Image.new("RGB", size)
    whole.paste(picture, old)
    first.paste(begun, old)
    deep = _FEATHER * start.mask_blur
    kept = (old[0] + deep * bool(left), old[1] + deep * bool(top), old[2] - deep * bool(right), old[3] - deep * bool(bottom))
    soft = Image.new("L", size, 255)
    if kept[0] < kept[2] and kept[1] < kept[3]:
        soft.paste(0, kept)
    seen = np.maximum(np.asarray(soft.filter(ImageFilter.GaussianBlur(start.mask_blur))), 255 - np.asarray(known))
    if alpha is not None:
        drawn = Image.new("L", size)
        drawn.paste(alpha, old)
        seen = np.maximum(seen, np.asarray(drawn))
    return whole, _noisy(around(first, known), known), Image.fromarray(seen)


def _noisy(picture: Image.Image, known: Image.Image) -> Image.Image:
    """Add noise where nothing is known."""
    noise = np.random.default_rng(0).normal(0, _NOISE, (picture.height, picture.width, 3))
    noisy = np.clip(np.asarray(picture) + noise, 0, 255).astype(np.uint8)
    return Image.composite(picture, Image.fromarray(noisy), known)


def around(picture: Image.Image, known: Image.Image) -> Image.Image:
    """Fill the unknown part with means of the colours around, over more the farther off. known: L, 255 where it is."""
    if known.getextrema()[0] == known.getextrema()[1]:
        return picture
    weights = (np.asarray(known) == 255)[:, :, None].astype(np.float32)
    colours = np.asarray(picture).astype(np.float32) * weights
    radius = 1 << max(picture.size).bit_length()
    filled: NDArray[Any] = np.zeros_like(colours)
    while radius:
        near = _mean(weights, radius)
        share = np.minimum(_CERTAIN * near, 1)
        filled = filled * (1 - share) + _mean(colours, radius) / np.maximum(near, _LEAST) * share
        radius //= 2
    return Image.composite(picture, Image.fromarray(np.clip(filled + 0.5, 0, 255).astype(np.uint8)), known)


def _mean(values: NDArray[Any], radius: int) -> NDArray[Any]:
    """(height, width, channels): of each place the mean of the square around it, as far as there is one."""
    for axis in (0, 1):
        size = values.shape[axis]
        sums = np.insert(np.cumsum(values, axis), 0, 0, axis)
        low, high = np.maximum(np.arange(size) - radius, 0), np.minimum(np.arange(size) + radius + 1, size)
        shape = [1, 1, 1]
        shape[axis] = size
        values = (sums.take(high, axis) - sums.take(low, axis)) / (high - low).astype(np.float32).reshape(shape)
    return values
