"""Standard streams and logs whose failures stop no work."""

import io
import logging
import logging.handlers
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

from halftone.contract.wording import Words
from halftone.settings.disk import system_words
from halftone.settings.regular_files import check_regular

LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"
NO_LOG: Final = "no file, because none can be written"
"""Passed to a worker in the place of its log, where there is none."""
_PRIVATE: Final = 0o600


def log_words(place: str) -> Words | str:
    """Name a worker's log for the words of an error. place: its path, or NO_LOG."""
    return Words(NO_LOG) if place == NO_LOG else place


class LogFile(logging.handlers.RotatingFileHandler):
    """A private rotating log; failed writes are dropped. lost: called with the system's words at the first failure."""

    def __init__(self, path: Path, *, most: int, backups: int, lost: Callable[[str], object] = lambda _why: None) -> None:
        self._lost: Callable[[str], object] | None = lost
        super().__init__(path, maxBytes=most, backupCount=backups, encoding="utf-8", delay=True)
        self.setFormatter(logging.Formatter(LOG_FORMAT))

    def _open(self) -> io.TextIOWrapper:
        return open_log(Path(self.baseFilename))

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802 - logging's own name
        error = sys.exc_info()[1]
        if not isinstance(error, OSError):
            super().handleError(record)
            return
        self._give_up(error)

    def close(self) -> None:
        try:
            super().close()
        except OSError as error:  # what was buffered cannot be written either
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        lost, self._lost = self._lost, None
        if lost is not None:
            lost(str(system_words(error)))


def open_log(path: Path) -> io.TextIOWrapper:
    """A log file, opened to be appended to; made for its owner alone. Raises OSError."""
    return open(path, "a", encoding="utf-8", errors="backslashreplace", opener=_private)


def _private(path: str, flags: int) -> int:
    if os.path.lexists(path):
        check_regular(path)
    return os.open(path, flags, _PRIVATE)


class _Unfailing(io.RawIOBase):
    """Writes to a descriptor, and drops what fails."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: "bytes | bytearray | memoryview", /) -> int:  # pyright: ignore[reportIncompatibleMethodOverride]
        left = memoryview(data)
        try:
            while left:
                left = left[os.write(self._descriptor, left) :]
        except OSError:
            pass  # a full disk, or a reader that has gone: nobody can be told here
        return len(data)


def unfailing(descriptor: int) -> io.TextIOWrapper:
    """A text stream over a descriptor that never raises."""
    return io.TextIOWrapper(_Unfailing(descriptor), "utf-8", errors="backslashreplace", write_through=True)  # pyright: ignore[reportArgumentType]
