"""The worker's log: one file for its log records, stray prints and crash dumps, in the order they happened."""

import logging
import os
from pathlib import Path
from typing import Final

from halftone.settings import places
from halftone.settings.regular_files import open_regular
from halftone.settings.streams import open_log

MAX_BYTES: Final = 2 * 2**20
KEPT: Final = 3

log = logging.getLogger(__name__)


def worker_log() -> Path | None:
    """The file for the next worker's stderr, to be appended to. A full one is rotated away first. None where no log can be
    written: the worker goes without.
    """
    try:
        path = places.log_dir() / "worker.log"
        if os.path.exists(path) and path.stat().st_size > MAX_BYTES:
            _rotate(path)
        open_log(path).close()
    except OSError as error:
        log.info("the worker has no log: %s", error)
        return None
    return path


def last_lines(path: Path, size: int = 8192) -> str:
    """The end of the log, at most `size` bytes, for the details of a lost worker. Empty if there is no log."""
    try:
        with open_regular(path) as file:
            file.seek(max(0, path.stat().st_size - size))
            return file.read().decode("utf-8", "replace")
    except OSError:
        return ""


def _rotate(path: Path) -> None:
    """worker.log becomes worker.log.1, and so on; the oldest goes."""
    for number in range(KEPT - 1, 0, -1):
        older = path.with_name(f"{path.name}.{number}")
        if os.path.exists(older):
            older.replace(path.with_name(f"{path.name}.{number + 1}"))
    path.replace(path.with_name(f"{path.name}.1"))
