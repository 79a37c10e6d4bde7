"""Keeps Halftone's own files for their owner alone: prompts, pictures of the history and logs are private.

On POSIX only. The user's pictures, models and LoRAs keep the system's rights; what a training stores beside its LoRA (settings,
state, pictures and words) is Halftone's own.
"""

import contextlib
import logging
import os
import stat
from collections.abc import Iterable
from pathlib import Path
from typing import Final

FILE: Final = 0o600
FOLDER: Final = 0o700
_OTHERS: Final = 0o077

log = logging.getLogger(__name__)


def private_folder(folder: Path) -> Path:
    """The folder, made if it is not there, for its owner alone. Raises OSError."""
    folder.parent.mkdir(parents=True, exist_ok=True)
    folder.mkdir(mode=FOLDER, exist_ok=True)
    return folder


def make_private(path: Path) -> None:
    """Make an empty file for its owner alone where there is none. Raises OSError."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, FILE))


def is_private(folder: Path) -> bool:
    """Whether its owner alone may enter a folder."""
    try:
        return os.name == "posix" and not stat.S_IMODE(os.stat(folder).st_mode) & _OTHERS
    except OSError:
        return False


def close_to_others(places: Iterable[Path]) -> None:
    """Remove the rights of others from files and folders, recursively, as an older version made them. Failures are logged; links
    are not followed.

    A closed folder is not walked: nobody else reaches its contents. It is closed last, so that an interrupted walk is repeated.
    """
    if os.name != "posix":
        return
    for place in places:
        if is_private(place):
            continue
        for folder, folders, files in os.walk(place):
            for name in (*folders, *files):
                _close(Path(folder, name))
        _close(place)


def _close(path: Path) -> None:
    try:
        found = os.lstat(path)
        if (stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)) and found.st_mode & _OTHERS:
            os.chmod(path, stat.S_IMODE(found.st_mode) & ~_OTHERS)
    except FileNotFoundError:
        pass  # a temporary file, or one that was never written
    except OSError as error:
        log.info("others may read %s: %s", path, error)
