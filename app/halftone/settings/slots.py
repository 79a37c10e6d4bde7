"""A place for each open window to keep its queue and its drafts, which the next window takes over where that one was killed.

Beside the kept files lie locks, which the system opens when their process ends, however it ends: one of the window, and one of
each worker of it, which may live on for a moment.
"""

import contextlib
import itertools
import logging
import os
from pathlib import Path
from typing import IO, Final

from halftone.settings.atomic import is_held, write_atomically
from halftone.settings.places import data_dir
from halftone.settings.private import private_folder

log = logging.getLogger(__name__)

_QUEUE: Final = ".queue"
_DRAFTS: Final = ".drafts"
_WINDOW: Final = ".window"
_WORKER: Final = ".worker-"


class Slot:
    """The place of this window, until it is closed."""

    def __init__(self, base: Path, lock: IO[bytes]) -> None:
        self._base = base
        self._lock = lock
        self._before = tuple(base.parent.glob(f"{base.name}{_WORKER}*"))
        """Locks of workers of the windows before; the own one has yet to start."""

    @property
    def worker_lock(self) -> Path:
        """What the lock of a worker is named after; its process id follows."""
        return _named(self._base, _WORKER)

    @property
    def has_workers(self) -> bool:
        """Whether a worker of a window before still runs. Locks of those that are gone are removed."""
        found = [path for path in self._before if path.exists() and _is_locked(path)]
        return bool(found)

    def queue(self) -> bytes:
        """The kept queue, empty for none."""
        return _read(_named(self._base, _QUEUE))

    def drafts(self) -> bytes:
        """The kept drafts, empty for none."""
        return _read(_named(self._base, _DRAFTS))

    def keep_queue(self, data: bytes) -> None:
        """Raises OSError."""
        _keep(_named(self._base, _QUEUE), data)

    def keep_drafts(self, data: bytes) -> None:
        """Raises OSError."""
        _keep(_named(self._base, _DRAFTS), data)

    def drop_drafts(self) -> None:
        """The settings have newer ones: drop those of this window and of windows that were killed. Raises OSError."""
        for path in self._base.parent.glob(f"*{_DRAFTS}"):
            if path.stem == self._base.name:
                path.unlink(missing_ok=True)
                continue
            with path.with_suffix(_WINDOW).open("ab+") as lock:
                if not is_held(lock):
                    path.unlink(missing_ok=True)

    def close(self) -> None:
        """Let the next window have it."""
        self._lock.close()


def kept_texts() -> bytes:
    """What all windows keep, one after another: files that are named in it are still needed."""
    try:
        return b"\n".join(_read(path) for path in (data_dir() / "windows").glob("*") if path.suffix in (_QUEUE, _DRAFTS))
    except OSError:
        return b""


def take_slot() -> Slot | None:
    """The first place that no window has, one with a queue first, then one with drafts. None where no file can be locked."""
    try:
        folder = private_folder(data_dir() / "windows")
        left = [path.stem for kept in (_QUEUE, _DRAFTS) for path in sorted(folder.glob(f"*{kept}")) if path.stem.isdigit()]
        for name in itertools.chain(left, map(str, itertools.count(1))):
            base = folder / name
            lock = _named(base, _WINDOW).open("ab+")
            if not is_held(lock):
                return Slot(base, lock)
            lock.close()
    except OSError as error:
        log.warning("The queue will not be kept: %s", error)
    return None


def hold_worker_lock(base: str) -> IO[bytes] | None:
    """Lock the file of this worker until the process ends."""
    try:
        file = Path(f"{base}{os.getpid()}").open("ab+")  # noqa: SIM115 - it stays open
    except OSError as error:
        log.warning("this worker has no lock: %s", error)
        return None
    is_held(file)
    return file


def _named(base: Path, ending: str) -> Path:
    return base.with_name(base.name + ending)


def _is_locked(path: Path) -> bool:
    with contextlib.suppress(OSError):
        with path.open("ab+") as file:
            if is_held(file):
                return True
        path.unlink()
    return False


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        log.warning("%s cannot be read: %s", path.name, error)
        return b""


def _keep(path: Path, data: bytes) -> None:
    if data:
        write_atomically(path, data, private=True)
    else:
        path.unlink(missing_ok=True)
