"""Opens the files that a user names, only regular ones: a named pipe or a device would block Halftone for ever."""

import codecs
import errno
import io
import os
import stat
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, TypeVar

_Read = TypeVar("_Read")

_KINDS: Final = (
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
)


class NotRegularError(OSError):
    """A pipe, a socket or a device instead of a file. kind: what it is; words: the same as the end of a sentence."""

    def __init__(self, path: str, kind: str | None) -> None:
        from halftone.contract.wording import Words  # the first paint opens files, and waits for no more than it needs

        self.words = Words("it is not a file") if kind is None else Words("it is {0}, not a file", (Words(kind),))
        self.kind = Words(kind or "a special file")
        super().__init__(errno.EINVAL, self.words.text(), path)


def open_regular(path: str | Path) -> io.BufferedReader:
    """A regular file, opened to read bytes. Raises NotRegularError, IsADirectoryError and other OSErrors; never waits."""
    return open(path, "rb", opener=_opened)


def read_regular(path: str | Path, most: int | None = None) -> bytes:
    """All bytes of a regular file, at most `most` of them. Raises OSError as `open_regular`."""
    with open_regular(path) as file:
        return file.read(-1 if most is None else most)


def read_text(path: str | Path) -> str:
    """The text of a UTF-8 file, without the byte order mark of editors on Windows. Raises OSError, UnicodeDecodeError."""
    return read_regular(path).decode("utf-8-sig")


def read_json_bytes(path: str | Path) -> bytes:
    """The bytes of a JSON file, without a byte order mark, which parsers of JSON refuse. Raises OSError."""
    return read_regular(path).removeprefix(codecs.BOM_UTF8)


def read_once(path: Path, read: Callable[..., _Read], *given: Any) -> _Read:
    """`read` of a JSON file's bytes and further arguments, again only after the file was rewritten. Raises OSError, and its."""
    now = os.stat(path)
    return _made_of(path, (now.st_ino, now.st_size, now.st_mtime_ns), read, *given)


@lru_cache(maxsize=256)
def _made_of(path: Path, _stamp: tuple[int, int, int], read: Callable[..., Any], *given: Any) -> Any:
    return read(read_json_bytes(path), *given)


def check_regular(path: str | Path) -> None:
    """Raise what `open_regular` raises for a pipe, a socket, a device or a folder, without opening it."""
    _check_mode(os.stat(path).st_mode, os.fspath(path))


def is_folder(path: str | Path) -> bool:
    """Whether a folder may be there: a closed one counts, so that whoever lists it finds out."""
    try:
        return stat.S_ISDIR(os.stat(path).st_mode)
    except PermissionError:
        return True
    except (OSError, ValueError):
        return False


def _opened(path: str, flags: int) -> int:
    """Check before opening, as that alone can start a device, and again after it."""
    check_regular(path)
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0))
    try:
        _check_mode(os.fstat(handle).st_mode, path)
    except BaseException:
        os.close(handle)
        raise
    return handle


def _check_mode(mode: int, path: str) -> None:
    if stat.S_ISREG(mode):
        return
    if stat.S_ISDIR(mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), path)
    kind = next((kind for is_kind, kind in _KINDS if is_kind(mode)), None)
    raise NotRegularError(path, kind)
