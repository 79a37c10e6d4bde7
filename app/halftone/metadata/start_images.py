"""Start pictures and masks: read as they are shown, refused in a sentence."""

from typing import TYPE_CHECKING, Final, TypeVar

from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.settings.picture_files import opened_picture, turned

if TYPE_CHECKING:
    from collections.abc import Callable

    from PIL import Image

Found = TypeVar("Found")

_ORIENTATION: Final = 0x0112
_TURNED: Final = (5, 6, 7, 8)
"""EXIF 2.32, Orientation: turned by a quarter, so that width is height."""
_RGB: Final = ("RGB", "RGBA", "P")
"""Modes of pictures with an RGB colour profile."""
_OPAQUE: Final = ("L", "RGB")
_ALIKE: Final = 0.01
"""Largest difference of two equal aspects."""


def read_picture(path: str) -> "Image.Image":
    """In RGB, turned as its camera noted. Raises image-unreadable, picture-too-large."""
    return _opened(path, lambda picture: turned(picture).convert("RGB"))


def read_beside(path: str) -> "tuple[Image.Image | None, bytes | None]":
    """(transparency in L, ICC profile of RGB), as the picture is shown, None for none. Raises image-unreadable."""

    def beside(picture: "Image.Image") -> "tuple[Image.Image | None, bytes | None]":
        clear = picture.has_transparency_data
        profile = picture.info.get("icc_profile") if picture.mode in _RGB else None
        alpha = turned(picture).convert("RGBA").getchannel("A") if clear else None
        return alpha, profile or None

    return _opened(path, beside)


def picture_size(path: str) -> tuple[int, int]:
    """(width, height) as it is shown, from the beginning of the file. Raises image-unreadable."""

    def size(picture: "Image.Image") -> tuple[int, int]:
        width, height = picture.size
        return (height, width) if picture.getexif().get(_ORIENTATION) in _TURNED else (width, height)

    return _opened(path, size, decoded=False)


def read_mask(path: str, size: tuple[int, int]) -> "tuple[Image.Image, tuple[Words, ...]]":
    """(mask of that size in L: 255 where something new is to be, notes). size: of its picture. Transparency counts as black.

    Raises image-unreadable, picture-too-large, mask-other-shape, mask-empty.
    """
    from PIL import Image

    def grey(picture: Image.Image) -> Image.Image:
        if picture.mode in _OPAQUE and not picture.has_transparency_data:
            return turned(picture).convert("L")
        shown = turned(picture).convert("RGBA")
        return Image.alpha_composite(Image.new("RGBA", shown.size, "black"), shown).convert("L")

    mask = _opened(path, grey)
    check_shape(path, mask.size, size)
    if mask.getbbox() is None:
        raise HalftoneError("mask-empty", path=path)
    if mask.size == size:
        return mask, ()
    note = Words("The mask is {0} × {1} and was scaled to the picture's {2} × {3}.", tuple(map(str, (*mask.size, *size))))
    return mask.resize(size, Image.Resampling.BILINEAR), (note,)


def check_mask(path: str, picture: str) -> None:
    """Raise what `read_mask` and `picture_size` raise."""
    read_mask(path, picture_size(picture))


def check_shape(path: str, own: tuple[int, int], size: tuple[int, int]) -> None:
    """Raise mask-other-shape where a mask and its picture have different aspects."""
    if abs(own[0] * size[1] / (own[1] * size[0]) - 1) > _ALIKE:
        here, there = f"{own[0]} × {own[1]}", f"{size[0]} × {size[1]}"
        raise HalftoneError("mask-other-shape", path=path, own=here, picture=there)


def _opened(path: str, look: "Callable[[Image.Image], Found]", *, decoded: bool = True) -> Found:
    with opened_picture(path, decoded=decoded) as picture:
        return look(picture)
