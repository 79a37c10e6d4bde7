"""Pictures that a request holds, as files until what it asks for is made."""

import contextlib
import tempfile
from collections.abc import Callable, Generator
from pathlib import Path
from typing import NamedTuple

from halftone.contract.errors import HalftoneError
from halftone.metadata.start_images import picture_size
from halftone.serve.dialect import Asked, AskedFromPicture, mask_in, picture_bytes
from halftone.settings.picture_files import opened_picture, turned
from halftone.settings.places import cache_dir
from halftone.settings.private import private_folder


class Sent(NamedTuple):
    """image, mask: of the start picture, None without one; written: (field, base64) -> the file of another picture."""

    image: str | None
    mask: str | None
    written: Callable[[str, str], str]


@contextlib.contextmanager
def files_of(asked: Asked) -> Generator[Sent]:
    """The pictures as files, until those that were asked for are made. Raises HalftoneError."""
    with tempfile.TemporaryDirectory(dir=folder_of_requests()) as folder:
        image = mask = None
        if isinstance(asked, AskedFromPicture):
            image = str(written(folder, "init_images", asked.init_images[0]))
            mask = str(_mask_written(folder, asked.mask, invert=bool(asked.inpainting_mask_invert))) if asked.mask else None
        yield Sent(image, mask, lambda field, text: str(written(folder, field, text)))


def folder_of_requests() -> Path:
    return private_folder(cache_dir() / "serve")


def written(folder: str, field: str, text: str) -> Path:
    """A picture that was sent, as a file. Raises HalftoneError, which names the field."""
    path = Path(folder, f"{field}.png")
    path.write_bytes(picture_bytes(text, field))
    with named(field):
        picture_size(str(path))
    return path


def _mask_written(folder: str, text: str, *, invert: bool) -> Path:
    """A mask that was sent, in shades of grey and turned as it is shown. Raises HalftoneError, which names the field."""
    from PIL import ImageOps

    path = written(folder, "mask", text)
    with named("mask"), opened_picture(path) as picture:
        found = mask_in(turned(picture))
    (ImageOps.invert(found) if invert else found).save(path)
    return path


@contextlib.contextmanager
def named(field: str) -> Generator[None]:
    """Name a field in place of the file that holds what was sent in it."""
    try:
        yield
    except HalftoneError as error:
        raise HalftoneError(error.code, error.details, **{**error.facts, "path": field}) from error
