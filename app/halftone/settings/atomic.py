"""Files appear whole or not at all: temporary file in the same folder, flushed to the disk, then renamed."""

import contextlib
import errno
import os
import re
import secrets
import stat
import sys
from collections.abc import Callable, Generator, Iterable
from pathlib import Path
from typing import IO, Any, BinaryIO, Final

from halftone.settings.private import FILE, is_private

_HELD: Final = frozenset({errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES, errno.EDEADLK})
"""Errors for a lock that somebody else holds: POSIX, then Windows."""


def lock(file: IO[Any]) -> None:
    """Hold the system's lock until the file is closed. Raises OSError if somebody has it, or where there are no locks."""
    if sys.platform == "win32":
        import msvcrt

        file.seek(0)
        msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
    else:
        import fcntl

        fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)


def is_held(file: IO[Any]) -> bool:
    """Whether somebody else has the lock; else it is ours until the file is closed."""
    try:
        lock(file)
    except OSError as error:
        return error.errno in _HELD
    return False


Content = bytes | Callable[[BinaryIO], object]
"""The bytes of a file, or a function that writes them into the open file."""
_USUAL: Final = 0o666
_PART: Final = re.compile(r"\..{0,40}\.[0-9a-f]{8}\.part", re.DOTALL)


def write_atomically(path: Path, data: Content, *, private: bool = False) -> None:
    """Write `data` to `path`, replacing the old file in one step. Raises OSError; then the old file is untouched.

    A link stays one: its target is replaced. private: for its owner alone, as all files in a folder that only its owner may
    enter.
    """
    path = Path(os.path.realpath(path))
    with _temporary(path, data, private=private) as temporary:
        os.replace(temporary, path)
    _flush_folder(path.parent)


def create_atomically(path: Path, data: Content) -> None:
    """Write `data` to `path`, which must not exist. Raises FileExistsError and other OSErrors; never replaces a file."""
    with _temporary(path, data) as temporary:
        rename_new(temporary, path)
    _flush_folder(path.parent)


@contextlib.contextmanager
def _temporary(path: Path, data: Content, *, private: bool = False) -> Generator[Path]:
    """A file beside `path`, already on the disk; gone afterwards unless renamed. Its lock shows that it is in use."""
    clear_once(path.parent)
    temporary, file = _new_part(path, FILE if private or is_private(path.parent) else _USUAL)
    try:
        with file:
            if isinstance(data, bytes):
                file.write(data)
            else:
                data(file)
            file.flush()
            os.fsync(file.fileno())
            if os.name == "posix":
                yield temporary
                return
        yield temporary  # Windows renames no open file
    finally:
        temporary.unlink(missing_ok=True)


def _new_part(path: Path, mode: int) -> tuple[Path, BinaryIO]:
    """Try again where another process removed it between its creation and its lock."""
    while True:
        temporary = path.with_name(f".{path.stem[:40]}.{secrets.token_hex(4)}.part")
        handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), mode)
        file = os.fdopen(handle, "wb")
        with contextlib.suppress(OSError):  # a file system without locks: then nobody clears its parts either
            lock(file)
        if os.name != "posix" or os.fstat(handle).st_nlink:
            return temporary, file
        file.close()


_cleared: set[Path] = set()


def clear_once(folder: Path) -> None:
    """Clear the left-over parts of a folder, once in each process."""
    if folder not in _cleared:
        _cleared.add(folder)
        clear_parts(folder)


def clear_parts(folder: Path) -> None:
    """Remove the half-written files of killed processes; one in use has a lock, and stays."""
    with contextlib.suppress(OSError):
        clear_named(folder, os.listdir(folder))


def clear_named(folder: Path, names: Iterable[str]) -> None:
    """Clear the left-over parts among the named files of a folder."""
    for name in names:
        if _PART.fullmatch(name):
            _clear(folder / name)


def _clear(part: Path) -> None:
    with contextlib.suppress(OSError):  # held, or where there are no locks: it stays
        if not stat.S_ISREG(os.lstat(part).st_mode):
            return
        with part.open("r+b") as file:
            lock(file)
            if os.name == "posix":
                part.unlink()
        if os.name != "posix":
            part.unlink()


def rename_new(temporary: Path, path: Path) -> None:
    """Rename to a new name. A hard link fails if it exists; without links (FAT), the name is reserved first."""
    try:
        os.link(temporary, path)
    except FileExistsError:
        raise
    except (OSError, NotImplementedError):
        path.open("xb").close()
        try:
            os.replace(temporary, path)
        except OSError:
            path.unlink(missing_ok=True)
            raise


def _flush_folder(folder: Path) -> None:
    """Make the new name survive a power cut; Windows cannot and need not do this."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
