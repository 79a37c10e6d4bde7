"""Files appear whole or not at all: temporary file in the same folder, flushed to the disk, then renamed."""

import contextlib
import os
import secrets
from collections.abc import Callable, Generator
from pathlib import Path
from typing import BinaryIO

Content = bytes | Callable[[BinaryIO], object]
"""What a file is to hold, or what writes it into a file that is open."""


def write_atomically(path: Path, data: Content) -> None:
    """Write `data` to `path`, replacing what was there in one step. Raises OSError; then the old file is untouched.

    A link stays one: the file that it leads to is replaced.
    """
    path = Path(os.path.realpath(path))
    with _temporary(path, data) as temporary:
        os.replace(temporary, path)
    _flush_folder(path.parent)


def create_atomically(path: Path, data: Content) -> None:
    """Write `data` to `path`, which must not exist. Raises FileExistsError and other OSErrors; never replaces a file."""
    with _temporary(path, data) as temporary:
        rename_new(temporary, path)
    _flush_folder(path.parent)


@contextlib.contextmanager
def _temporary(path: Path, data: Content) -> Generator[Path]:
    """A file beside `path`, already on the disk; gone afterwards unless it was renamed."""
    temporary = path.with_name(f".{path.stem[:40]}.{secrets.token_hex(4)}.part")
    handle = os.open(temporary, os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0), 0o666)
    try:
        with os.fdopen(handle, "wb") as file:
            if isinstance(data, bytes):
                file.write(data)
            else:
                data(file)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)


def rename_new(temporary: Path, path: Path) -> None:
    """A hard link fails if the name is taken; where there are no links (FAT), the name is reserved first."""
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
    """The new name too must survive a power cut; Windows cannot and need not do this."""
    if os.name != "posix":
        return
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
