"""What `halftone index` does in a process of its own for the window, and its messages on stderr: an object a line."""

import sys
import time
from collections.abc import Callable, Sequence
from typing import Final

import msgspec

from halftone.library.index.facts import Install
from halftone.library.index.hashing import hash_files
from halftone.library.index.programs import find_programs, usual_places
from halftone.library.index.scan import Scanned, scan
from halftone.library.index.store import Index
from halftone.library.index.walk import outermost
from halftone.library.index.watching import watch
from halftone.session.models.index_messages import Hashing, Message, Progress, Root, Scan, Weighing
from halftone.session.models.watched import roots_of
from halftone.settings.store import Settings
from halftone.worker.environment import give_way
from halftone.worker.pipes import end_with_parent

_EVERY: Final = 0.3
"""Seconds between two lines of progress."""
_ALIVE: Final = 30.0
"""Seconds between two empty lines: writing one fails once the window is gone."""


def scan_now(
    settings: Settings, progress: Callable[[str, int, int], object], folders: Sequence[str] | None = None
) -> tuple[Scanned, ...]:
    """Bring the index up to date once. progress: gets root, files read, files to read; folders: None for those of the settings.

    Raises sqlite3.Error.
    """
    with Index() as index:
        return scan(index, roots_of(settings) if folders is None else folders, progress)


def keep_watching(folders: Sequence[str]) -> None:
    """Scan these folders, and again whenever something changes there. Ends with an OSError once the window is gone."""
    _serve_window()
    roots, last = outermost(folders), 0.0

    def progress(root: str, done: int, of: int) -> None:
        nonlocal last
        now = time.monotonic()
        if of and (now - last >= _EVERY or done == of):
            last = now
            _say(Progress(roots.index(root), done, of))

    def scanned(found: tuple[Scanned, ...]) -> None:
        _say(Scan(tuple(Root(one.files, one.offline, tuple(map(_shown, one.closed))) for one in found)))

    with Index() as index:
        watch(index, folders, progress, scanned, lambda: _print(b"\n"))


def hash_now() -> None:
    """Hash the files of the index that are not hashed yet. Ends with an OSError once the window is gone."""
    _serve_window()
    count, last = 0, 0.0

    def hashed(_path: str) -> None:
        nonlocal count, last
        count += 1
        if (now := time.monotonic()) - last >= _EVERY:
            last = now
            _say(Hashing(count))

    def stop() -> bool:
        nonlocal last
        if (now := time.monotonic()) - last >= _ALIVE:  # a long file
            last = now
            _print(b"\n")
        return False

    with Index() as index:
        hash_files(index, stop, hashed)


def weigh(path: str) -> None:
    """Look at every weight of a file of the index, and keep what is found there."""
    from halftone.library.index.weights import weights_of

    _serve_window()
    last = 0.0

    def progress(done: int, of: int) -> None:
        nonlocal last
        if (now := time.monotonic()) - last >= _EVERY:
            last = now
            _say(Weighing(done, of))

    with Index() as index:
        index.keep_weights(path, lambda: weights_of(path, progress))


def programs_here() -> tuple[Install, ...]:
    """The programs of this machine that keep models."""
    return find_programs(usual_places())


def as_json(installs: Sequence[Install]) -> bytes:
    return msgspec.json.encode([install for install in installs if _is_text(install)])


def _serve_window() -> None:
    """Run at low priority, and end with the window."""
    end_with_parent()
    give_way()


def _is_text(install: Install) -> bool:
    return all(_shown(path) == path for path in (install.root, *install.folders))


def _shown(path: str) -> str:
    return path.encode("utf-8", "replace").decode()


def _say(message: Message) -> None:
    _print(msgspec.json.encode(message) + b"\n")


def _print(line: bytes) -> None:
    sys.stderr.buffer.write(line)
    sys.stderr.buffer.flush()
