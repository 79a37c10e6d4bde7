"""The file or folder that a user names as an add-on: read, or refused in a sentence."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from halftone.contract.error_codes import ErrorCode
from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.library.files.folder import INDEX, read_json, read_part
from halftone.library.files.header import Header, refuse_misnamed
from halftone.library.models import PICKLES
from halftone.settings.disk import unread_words

_IS_PICKLE: Final = Words("it is a pickle file, which can run code; Halftone does not open it")


@contextmanager
def reading(path: str, missing: ErrorCode, unfit: ErrorCode) -> Generator[Path]:
    """The path, to be read in the block. Raises HalftoneError `missing`, model-pickle, `unfit` for the system's refusal, or as
    `refuse_misnamed`.
    """
    place = Path(path)
    try:
        if place.suffix.lower() in PICKLES and os.path.exists(place):
            refuse_misnamed(place)
            raise HalftoneError("model-pickle", path=path)  # it can be converted, whatever it is
        yield place
    except FileNotFoundError as error:
        raise HalftoneError(missing, path=path) from error
    except (OSError, ValueError) as error:  # a name that is too long, or one with a null in it
        raise HalftoneError(unfit, path=path, detail=unread_words(error)) from error


def refuse_folder(path: str, unfit: ErrorCode, detail: Words | None = None) -> None:
    """Raise HalftoneError `unfit` for a folder."""
    if os.path.isdir(path):
        raise HalftoneError(unfit, path=path, detail=detail or Words("it is a folder"))


def config_in(folder: Path, unfit: ErrorCode, whole: Words) -> dict[str, Any]:
    """Read the configuration of a part. whole: the reason for the folder of a whole model. Raises HalftoneError `unfit`."""
    if os.path.isfile(folder / INDEX):
        raise HalftoneError(unfit, path=str(folder), detail=whole)
    if not os.path.isfile(folder / "config.json"):
        raise HalftoneError(unfit, path=str(folder), detail=Words("it is a folder without a config.json"))
    return read_json(folder / "config.json")


def weights_in(path: str, unfit: ErrorCode) -> tuple[tuple[Path, Header], ...]:
    """The weight files of such a folder, a divided one in order. Raises HalftoneError `unfit`, and what a header raises."""
    place = Path(path)
    try:
        return read_part(place.parent, place.name).files
    except HalftoneError as error:
        if error.code == "model-pickle":
            raise HalftoneError(unfit, path=str(error.facts["path"]), detail=_IS_PICKLE) from error
        if error.code == "model-incomplete":
            raise HalftoneError(unfit, path=path, detail=Words("it has no {0}", (error.facts["missing"],))) from error
        raise
