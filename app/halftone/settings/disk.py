"""Free space, sizes and missing folders, in the words of error messages."""

import errno
import os
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Final

from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.wording import Words
from halftone.settings.regular_files import NotRegularError


def system_words(error: OSError) -> Words:
    """The system's reason for a failed read or write, as the end of a sentence."""
    if isinstance(error, NotRegularError):
        return error.words
    if error.errno in _KNOWN:
        return Words(_KNOWN[error.errno])
    text = error.strerror or str(error) or type(error).__name__
    return Words("{0}", (text if text[1:2].isupper() or not error.strerror else text[:1].lower() + text[1:],))


def unread_words(error: OSError | ValueError) -> Words:
    """Why a path could not be read, as the end of a sentence. A name with a null in it is a ValueError."""
    return system_words(error) if isinstance(error, OSError) else Words("it cannot be read")


_KNOWN: Final = {
    getattr(errno, "EDQUOT", errno.ENOSPC): "disk quota exceeded",
    errno.ENOSPC: "not enough space on the disk",
    errno.EACCES: "permission denied",
    errno.EPERM: "permission denied",
    errno.EROFS: "read-only file system",
    errno.ENOENT: "no such file or directory",
    errno.EISDIR: "is a directory",
    errno.ENOTDIR: "not a directory",
    errno.EEXIST: "file exists",
    errno.ENAMETOOLONG: "file name too long",
    errno.EIO: "input/output error",
}
"""The usual errors of files. Windows has no quota among its errors, and there a full disk is what counts: it comes later."""


def full_disk(error: BaseException) -> ErrorFacts | None:
    """The error of a full disk or quota that no other code explains; None for any other error."""
    if not isinstance(error, OSError) or error.errno not in _FULL:
        return None
    path = error.filename if isinstance(error.filename, str) else Words("A file that Halftone needs")
    return ErrorFacts(code="output-failed", facts={"path": path, "detail": system_words(error)})


_FULL: Final = (errno.ENOSPC, getattr(errno, "EDQUOT", errno.ENOSPC))
"""Windows has no quota among its errors."""


def need_room(path: Path, folder: Path, need: int) -> None:
    """Raise HalftoneError disk-full for less than `need` bytes, output-failed where the system keeps no files."""
    if (free := free_bytes(folder)) >= need:
        return
    with suppress(OSError):
        if shutil.disk_usage(folder).total == 0:  # as of /proc
            raise HalftoneError("output-failed", path=str(path), detail=Words("the system keeps no files there"))
    raise HalftoneError("disk-full", need=size_text(need), free=size_text(free), folder=str(folder))


def free_bytes(folder: Path) -> int:
    """Bytes that may still be written there; 0 if the disk cannot be asked."""
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        return 0


def no_folder(folder: Path) -> HalftoneError:
    """The error of a missing folder: it or a path above it is a file, or nothing is there."""
    for path in (folder, *folder.parents):
        if os.path.lexists(path) and not os.path.isdir(path):
            return HalftoneError("output-not-folder", path=str(path))
    return HalftoneError("output-folder-missing", folder=str(folder))


def no_right(error: PermissionError, path: str | Path) -> HalftoneError:
    """path: what was to be read, where the error names no file."""
    return HalftoneError("no-right", path=str(error.filename or path))


def size_text(count: int) -> str:
    """Bytes as GB or MB (10^9, 10^6)."""
    return f"{count / 1e9:.1f}\u00a0GB" if count >= 1e9 else f"{count / 1e6:.1f}\u00a0MB"
