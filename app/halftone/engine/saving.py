"""A finished picture is not lost: it takes the next free name when its own is taken."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from PIL import Image

from halftone.contract.errors import HalftoneError
from halftone.metadata.picture import numbered, output_error, save_picture

_ATTEMPTS: Final = 100
"""Names that are tried while others keep taking them."""


def write_picture(
    image: Image.Image, path: Path, base: Path, texts: Callable[[Path], tuple[str, str]], *, overwrite: bool
) -> Path:
    """Save as `path`, or under the next free number of `base` if that was taken since; returns where it lies.

    texts: the parameters and the receipt that belong to a path. Raises HalftoneError output-* and disk-full.
    """
    for _ in range(_ATTEMPTS):
        try:
            save_picture(image, path, *texts(path), overwrite=overwrite)
        except HalftoneError as error:
            if error.code != "output-exists":
                raise
            path = free_name(base)
        except OSError as error:
            raise output_error(error, path, 0) from error
        except (ValueError, SyntaxError) as error:  # what the encoders say to a size that their format cannot hold
            raise HalftoneError("output-failed", path=str(path), detail=str(error)) from error
        else:
            return path
    raise HalftoneError("output-exists", path=str(path))


def free_name(path: Path) -> Path:
    """The first of a-2.png, a-3.png and so on that nothing has."""
    index = 1
    while os.path.lexists(found := numbered(path, index)):
        index += 1
    return found
