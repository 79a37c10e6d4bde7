"""Unpacks the archive of an update. It is signed; what could leave its folder is refused all the same."""

import os
import stat
import unicodedata
import zipfile
from collections.abc import Callable
from typing import Final

from installer.updates.manifest import Manifest
from installer.updates.reasons import UpdateError
from installer.versions import RECORD, Row, sum_of

_CHUNK: Final = 1 << 20
_LONGEST: Final = 180
"""Characters of a name inside: Windows ends whole paths at 260."""
_BAD: Final = frozenset('<>:"|?*\\\0')
_DEVICES: Final = frozenset({"con", "prn", "aux", "nul", *(f"{kind}{number}" for kind in ("com", "lpt") for number in range(10))})


def unpack(path: str, manifest: Manifest, folder: str, progress: Callable[[int, int], object]) -> dict[str, Row]:
    """Write every file below a folder that is new. Returns what was written. Raises UpdateError, OSError."""
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            check(infos, manifest)
            rows: dict[str, Row] = {}
            done = 0
            for info in infos:
                rows[info.filename] = _write(archive, info, os.path.join(folder, *info.filename.split("/")))
                done += info.file_size
                progress(done, manifest.unpacked)
            return rows
    except (zipfile.BadZipFile, NotImplementedError, EOFError, RuntimeError, UnicodeDecodeError) as error:
        raise UpdateError("bad-archive", f"it is damaged: {error}") from error


def check(infos: list[zipfile.ZipInfo], manifest: Manifest) -> None:
    """Look at all names, kinds and sizes before anything is written. Raises UpdateError."""
    if len(infos) != manifest.files:
        raise UpdateError("bad-archive", f"it holds {len(infos)} files and not {manifest.files}")
    if (total := sum(info.file_size for info in infos)) != manifest.unpacked:
        raise UpdateError("bad-archive", f"it unpacks to {total} bytes and not {manifest.unpacked}")
    seen: set[str] = set()
    folders: set[str] = set()
    for info in infos:
        if problem := _problem(info):
            raise UpdateError("bad-archive", f"{problem}: {info.orig_filename!r}")
        name = _folded(info.filename)
        if name in seen:
            raise UpdateError("bad-archive", f"a name stands there twice: {info.filename!r}")
        seen.add(name)
        parts = name.split("/")
        folders.update("/".join(parts[:count]) for count in range(1, len(parts)))
    if both := seen & folders:
        raise UpdateError("bad-archive", f"a name is both a file and a folder: {min(both)!r}")


def _folded(name: str) -> str:
    """The same for names that Windows or macOS take for one."""
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold())


def _problem(info: zipfile.ZipInfo) -> str:
    """Why a file cannot be unpacked, "" where it can."""
    kind = stat.S_IFMT(info.external_attr >> 16)
    if kind == stat.S_IFLNK:
        return "a link"
    if info.is_dir() or kind not in (0, stat.S_IFREG):
        return "not an ordinary file"
    if info.flag_bits & 1:
        return "an encrypted file"
    name = info.filename
    # orig_filename still holds what `zipfile` would drop or replace.
    if info.orig_filename != name or name.startswith("/") or any(sign in _BAD or ord(sign) < 32 for sign in name):
        return "a name that leaves the folder or is not allowed everywhere"
    if any(part in ("", ".", "..") or part[-1] in ". " or part.split(".")[0].lower() in _DEVICES for part in name.split("/")):
        return "a name that leaves the folder or is not allowed everywhere"
    if len(name) > _LONGEST or name == RECORD:
        return "a name that is too long or Halftone's own"
    return ""


def _write(archive: zipfile.ZipFile, info: zipfile.ZipInfo, path: str) -> Row:
    os.makedirs(os.path.dirname(path), exist_ok=True)
    left = info.file_size
    with archive.open(info) as source, open(path, "xb") as file:
        while data := source.read(min(_CHUNK, left + 1)):
            left -= len(data)
            if left < 0:
                raise UpdateError("bad-archive", f"a file is larger than it says: {info.filename!r}")
            file.write(data)
        file.flush()
        if not hasattr(os, "sync"):  # Elsewhere one call before the version becomes current does it for all files.
            os.fsync(file.fileno())
    if left:
        raise UpdateError("bad-archive", f"a file is shorter than it says: {info.filename!r}")
    os.chmod(path, 0o755 if info.external_attr >> 16 & 0o111 else 0o644)
    found = os.stat(path)
    return Row(found.st_size, found.st_mtime_ns, sum_of(path))
