"""The picture that another one is made from: brought to its size, extended, its mask made ready, and the result laid over it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import torch
from PIL import Image, ImageFilter

from halftone.contract.request import Start
from halftone.contract.vocabulary import Resize
from halftone.contract.wording import Words
from halftone.engine.inputs.filling import around, begun_with, extended
from halftone.engine.sampling.film import Film
from halftone.metadata.start_images import read_mask, read_picture

_ALIKE: Final = 0.01
"""Largest difference of two aspects that counts as none."""
_HALF: Final = 128
"""From here on, of 255, a part of a mask is made anew; less shows only at its soft edge."""

Size = tuple[int, int]
"""(width, height)."""
Box = tuple[int, int, int, int]
"""(left, top, right, bottom); it may reach beyond the picture."""


@dataclass(frozen=True)
class Overlay:
    """picture: RGB, lies under the result; alpha: L, how much of the result shows; box: where the result goes, scaled."""

    picture: Image.Image
    alpha: Image.Image
    box: Box

    def lay(self, made: Image.Image) -> Image.Image:
        """The picture with the result over it; where alpha is 0 it is as it was, to the last bit."""
        left, top, right, bottom = self.box
        whole = self.picture.copy()
        whole.paste(_scaled(made, (right - left, bottom - top)), (left, top))
        return Image.composite(whole, self.picture, self.alpha)

    def lay_frames(self, film: Film) -> Film:
        """Every frame of the film laid over it."""
        laid = [np.asarray(self.lay(Image.fromarray(pixels))) for pixels in film]
        return Film([torch.from_numpy(pixels.copy()).permute(2, 0, 1) / 255 for pixels in laid])


@dataclass(frozen=True)
class Canvas:
    """What a pipeline starts from. image: RGB; mask: L, 255 where it is made anew, None: all of it; overlay: what the result is
    laid over, if anything; notes: what was done.
    """

    image: Image.Image
    mask: Image.Image | None = None
    overlay: Overlay | None = None
    notes: tuple[Words, ...] = ()

    def along(self, picture: Image.Image) -> Image.Image:
        """Another picture of the same scene, as a ControlNet is given it: the same part of it, in the same size."""
        if self.overlay is None:
            return _scaled(picture, self.image.size)
        whole = _scaled(picture, self.overlay.picture.size)
        return _scaled(_cut(whole, self.overlay.box), self.image.size)


def canvas(
    image: str | Image.Image,
    mask: str | Image.Image | None,
    start: Start,
    size: tuple[int | None, int | None],
    multiple: int,
) -> Canvas:
    """Make the canvas of a start picture and a mask, files or images. size: asked for; multiple: in pixels, of the pipeline.

    Raises image-unreadable, mask-other-shape, mask-empty.
    """
    picture = read_picture(image) if isinstance(image, str) else image
    drawn, notes = read_mask(mask, picture.size) if isinstance(mask, str) else (mask, ())
    if not start.keeps_size:
        wanted = _wanted(picture.size, size, multiple)
        notes = (*notes, *resized_note(picture.size, wanted, start.resize, multiple))
        picture, drawn = fitted(picture, wanted, start.resize), None if drawn is None else _fitted_mask(drawn, wanted, start)
    if drawn is None and not start.extends:
        return Canvas(picture, notes=notes)
    alpha = None if drawn is None else drawn.filter(ImageFilter.GaussianBlur(start.mask_blur))
    begun = picture if alpha is None else begun_with(picture, alpha, start)
    if start.extends:
        picture, begun, alpha = extended(picture, begun, alpha, start)
    assert alpha is not None
    box = _region(alpha, start, size, multiple)
    computed = _computed_size(box, start, size, multiple)
    given = _scaled(_cut(begun, box), computed)
    soft = np.asarray(_scaled(_cut(alpha, box), computed))
    anew = Image.fromarray(np.where(soft >= min(_HALF, int(soft.max()) // 2 + 1), np.uint8(255), np.uint8(0)))
    return Canvas(given, anew, Overlay(picture, alpha, box), notes)


# --- size ---------------------------------------------------------------------------------------------------------------


def _wanted(own: Size, size: tuple[int | None, int | None], multiple: int) -> Size:
    """What was asked for; of one that was not, what keeps the picture's shape."""
    width, height = size
    if width is None and height is None:
        width, height = own
    elif width is None and height is not None:
        width = round(own[0] * height / own[1])
    elif height is None and width is not None:
        height = round(own[1] * width / own[0])
    assert width is not None
    assert height is not None
    return _down(width, multiple) if size[0] is None else width, _down(height, multiple) if size[1] is None else height


def resized_note(own: Size, wanted: Size, resize: Resize, least: int) -> tuple[Words, ...]:
    """Note a start picture of another shape than the result, or with an edge below the least that the model takes."""
    if abs(own[0] * wanted[1] / (own[1] * wanted[0]) - 1) <= _ALIKE:
        if min(own) >= least:
            return ()
        template = "The start picture is {0} × {1}, smaller than the model can use, and was enlarged to {2} × {3}."
        return (Words(template, tuple(map(str, (*own, *wanted)))),)
    return (Words(_RESIZED[resize], tuple(map(str, (*own, *wanted)))),)


_RESIZED: Final[dict[Resize, str]] = {
    "stretch": "The start picture is {0} × {1} and was stretched to {2} × {3}.",
    "crop": "The start picture is {0} × {1} and was cropped to {2} × {3}.",
    "fill": "The start picture is {0} × {1} and was filled out to {2} × {3}.",
}


def fitted(picture: Image.Image, size: Size, resize: Resize) -> Image.Image:
    """Fit a picture into a size: stretched, cropped at both sides, or filled with the colours around."""
    if resize == "stretch":
        return _scaled(picture, size)
    left, top, right, bottom = _inside(picture.size, size, cover=resize == "crop")
    scaled = _scaled(picture, (right - left, bottom - top))
    if resize == "crop":
        return _cut(scaled, (-left, -top, size[0] - left, size[1] - top))
    whole, known = Image.new("RGB", size), Image.new("L", size)
    whole.paste(scaled, (left, top))
    known.paste(255, (left, top, right, bottom))
    return around(whole, known)


def _inside(own: Size, size: Size, *, cover: bool) -> Box:
    """Place a picture that keeps its shape. cover: it is at least as large as the size, else at most."""
    factors = (size[0] / own[0], size[1] / own[1])
    factor = max(factors) if cover else min(factors)
    width, height = max(1, round(own[0] * factor)), max(1, round(own[1] * factor))
    left, top = (size[0] - width) // 2, (size[1] - height) // 2
    return left, top, left + width, top + height


def _fitted_mask(mask: Image.Image, size: Size, start: Start) -> Image.Image:
    """Fit the mask as its picture; what was filled is made anew."""
    if start.resize != "fill":
        return fitted(mask, size, start.resize)
    left, top, right, bottom = _inside(mask.size, size, cover=False)
    whole = Image.new("L", size, 255)
    whole.paste(_scaled(mask, (right - left, bottom - top)), (left, top))
    return whole


# --- the part that is computed ------------------------------------------------------------------------------------------


def _region(alpha: Image.Image, start: Start, size: tuple[int | None, int | None], multiple: int) -> Box:
    """The masked part with what is around it, in the shape of the size; else the whole picture, rounded up to the multiple."""
    width, height = alpha.size
    if start.only_masked is None:
        return 0, 0, _up(width, multiple), _up(height, multiple)
    found = alpha.getbbox()
    assert found is not None, "a mask that is not empty"
    more = start.only_masked
    left, top = max(0, found[0] - more), max(0, found[1] - more)
    right, bottom = min(width, found[2] + more), min(height, found[3] + more)
    aspect = 1.0 if not (size[0] and size[1]) else size[0] / size[1]
    wide = max(right - left, round((bottom - top) * aspect))
    high = max(bottom - top, round((right - left) / aspect))
    left, top = _shifted(left, right, wide, width), _shifted(top, bottom, high, height)
    return left, top, left + wide, top + high


def _shifted(low: int, high: int, length: int, whole: int) -> int:
    """Where a longer part around [low, high) begins: inside of the whole as far as it fits, else centred."""
    begin = low - (length - (high - low)) // 2
    return (whole - length) // 2 if length > whole else min(max(begin, 0), whole - length)


def _computed_size(box: Box, start: Start, size: tuple[int | None, int | None], multiple: int) -> Size:
    left, top, right, bottom = box
    if start.only_masked is None:
        return right - left, bottom - top
    return size[0] or _up(right - left, multiple), size[1] or _up(bottom - top, multiple)


# --- small things -------------------------------------------------------------------------------------------------------


def _down(value: int, multiple: int) -> int:
    return max(multiple, value // multiple * multiple)


def _up(value: int, multiple: int) -> int:
    return -(-value // multiple) * multiple


def _scaled(picture: Image.Image, size: Size) -> Image.Image:
    return picture if picture.size == size else picture.resize(size, Image.Resampling.LANCZOS)


def _cut(picture: Image.Image, box: Box) -> Image.Image:
    """A part of the picture; what lies beyond its edge has the colours of the edge."""
    left, top, right, bottom = box
    if left >= 0 and top >= 0 and right <= picture.width and bottom <= picture.height:
        return picture.crop(box)
    beyond = max(-left, 0), max(-top, 0), max(right - picture.width, 0), max(bottom - picture.height, 0)
    pads: Sequence[tuple[int, int]] = ((beyond[1], beyond[3]), (beyond[0], beyond[2]))
    values = np.asarray(picture)
    wide = np.pad(values, (*pads, (0, 0)) if values.ndim == 3 else pads, mode="edge")
    return Image.fromarray(wide).crop((left + beyond[0], top + beyond[1], right + beyond[0], bottom + beyond[1]))
