"""New folders appear whole or not at all; leftovers of a killed run are cleared by the next one."""

import contextlib
import secrets
import shutil
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final

from halftone.settings.atomic import is_held, lock, rename_new

_ENDING: Final = ".halftone-part"
_MARK: Final = ".halftone-part"
"""A file in each unfinished folder; a folder without one is not ours to remove. Whoever fills the folder locks it, and the lock
dies with its process, on another machine and in another container too; once the folder is whole, the file is empty.
"""


@contextlib.contextmanager
def new_folder(target: Path) -> Generator[Path]:
    """A folder beside `target` to fill, renamed to it (new, or an empty folder) if the block ends well. Raises OSError."""

    def finish(part: Path) -> None:
        if target.is_dir():
            target.rmdir()
        part.rename(target)

    with _unfinished(target, finish) as part:
        yield part


@contextlib.contextmanager
def new_file(target: Path) -> Generator[Path]:
    """The path of a file to write, renamed to `target` if the block ends well. Raises OSError; FileExistsError for an old one."""
    with _unfinished(target, lambda part: rename_new(part / target.name, target)) as part:
        yield part / target.name


@contextlib.contextmanager
def _unfinished(target: Path, finish: Callable[[Path], None]) -> Generator[Path]:
    """A hidden folder beside `target`, removed in the end unless `finish` renamed it."""
    clear_leftovers(target.parent)
    part = target.with_name(f".{target.name[:40]}.{secrets.token_hex(4)}{_ENDING}")
    part.mkdir()
    try:
        with (part / _MARK).open("xb") as mark:
            with contextlib.suppress(OSError):  # a file system without locks: then nobody else gets one either
                lock(mark)
            mark.write(b"half-done")
            mark.flush()
            yield part
            mark.truncate(0)
        (part / _MARK).unlink()
        finish(part)
    finally:
        shutil.rmtree(part, ignore_errors=True)


def is_unfinished(name: str) -> bool:
    """Whether a folder of this name is still being filled, or was left by a killed run."""
    return name.startswith(".") and name.endswith(_ENDING)


def clear_leftovers(folder: Path) -> None:
    """Remove unfinished folders that nobody fills any more."""
    for part in folder.glob(f".*{_ENDING}"):
        if not part.is_symlink() and _is_abandoned(part / _MARK):
            shutil.rmtree(part, ignore_errors=True)


@contextlib.contextmanager
def claimed(mark: Path) -> Generator[bool]:
    """Claim this file's meaning until the block ends: the file is made, and removed afterwards. False: a living process has it.
    Where the file system has no locks, or nothing can be written, everybody gets it.
    """
    try:
        file = mark.open("ab")
    except OSError:
        yield True
        return
    with file:
        held = is_held(file)
        try:
            yield not held
        finally:
            if not held:
                with contextlib.suppress(OSError):  # where an open file cannot go it goes below
                    mark.unlink()
    if not held and sys.platform == "win32":
        with contextlib.suppress(OSError):
            mark.unlink()


def is_claimed(mark: Path) -> bool:
    """Whether a living process claims this file."""
    try:
        with mark.open("r+b") as file:
            return is_held(file)
    except OSError:
        return False


def _is_abandoned(mark: Path) -> bool:
    try:
        with mark.open("r+b") as file:
            lock(file)
            return file.read(1) != b""
    except OSError:
        return False
