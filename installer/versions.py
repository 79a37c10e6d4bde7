"""Which version starts: the package's own, or a newer one that an update brought. On the path of every start, so: few imports.

`versions` in the home folder holds a folder per version and a text file `current` that names one. The program's folder of the
package is never written to. A version counts once its record is there, which is written after its self-check, and it starts
while every file of the record is as it was.
"""

import hashlib
import json
import os
import re
from collections.abc import Mapping
from typing import Final, NamedTuple

from installer import places

FOLDER: Final = "versions"
RECORD: Final = "halftone-version.json"
PACKAGE: Final = "HALFTONE_PACKAGE"
"""Names the folder of the package to the version that it starts."""

DAMAGED: Final = "HALFTONE_DAMAGED"
"""Names a version that cannot start, and its damaged file, to the program that starts in its place."""


class Row(NamedTuple):
    """A file as an update wrote it. changed: its time in nanoseconds."""

    size: int
    changed: int
    sha256: str


def numbers(version: str) -> tuple[int, ...] | None:
    """(1, 2, 0) of "1.2" and of "1.2.0", so that versions can be compared; None where it is no version."""
    if not re.fullmatch(r"(0|[1-9]\d{0,5})(\.(0|[1-9]\d{0,5})){1,3}", version):
        return None
    found = tuple(int(part) for part in version.split("."))
    return found + (0,) * (4 - len(found))


def note(root: str) -> Mapping[str, str]:
    """What a package says of itself; empty for a clone."""
    try:
        with open(os.path.join(root, places.PACKAGE_NOTE), encoding="utf-8") as file:
            return {str(name): str(value) for name, value in json.load(file).items()}
    except (OSError, ValueError, AttributeError):
        return {}


def folder(environ: Mapping[str, str]) -> str | None:
    """Where versions are kept. Every package sets HALFTONE_HOME; without it there is no such place."""
    home = environ.get("HALFTONE_HOME")
    return os.path.join(places.homes(environ)[0], FOLDER) if home else None


def is_inside(root: str, where: str) -> bool:
    return os.path.dirname(os.path.realpath(root)) == os.path.realpath(where)


def pointed(where: str) -> str:
    """The name of the version that `current` names, "" for none."""
    try:
        with open(os.path.join(where, places.POINTER), encoding="ascii") as file:
            name = file.read(100).strip()
    except (OSError, UnicodeDecodeError):
        return ""
    return name if numbers(name) else ""


def is_lost(where: str) -> bool:
    """Whether `current` is there and names no version, as the disk leaves it after a power cut."""
    return not pointed(where) and os.path.lexists(os.path.join(where, places.POINTER))


def record(path: str) -> Mapping[str, Row] | None:
    """Name -> row of each file of a version; None where it was never finished."""
    try:
        with open(os.path.join(path, RECORD), encoding="utf-8") as file:
            return {str(name): Row(int(row[0]), int(row[1]), str(row[2])) for name, row in json.load(file)["files"].items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, IndexError):
        return None


def sum_of(path: str) -> str:
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def damage(path: str) -> str:
    """The first file that is not as the update wrote it, "" for a whole version. A file is read only where its time differs."""
    rows = record(path)
    if rows is None:
        return RECORD
    for name, row in rows.items():
        try:
            inside = os.path.join(path, *name.split("/"))
            found = os.lstat(inside)
            if found.st_size != row.size or (found.st_mtime_ns != row.changed and sum_of(inside) != row.sha256):
                return name
        except OSError:
            return name
    return ""


def kept(where: str) -> list[str]:
    """The names of all finished versions, the newest first."""
    try:
        found = [name for name in os.listdir(where) if numbers(name) and os.path.exists(os.path.join(where, name, RECORD))]
    except OSError:
        return []
    return sorted(found, key=lambda name: numbers(name) or (), reverse=True)


def newest(where: str) -> str:
    """The name of the version that is current; where that is lost the newest that is finished. "" for none."""
    return pointed(where) or next(iter(kept(where) if is_lost(where) else []), "")


class Choice(NamedTuple):
    """path: the folder of a newer version, "" for the package's own; damaged: version and file of one that cannot start."""

    path: str = ""
    damaged: str = ""


def choose(root: str, environ: Mapping[str, str]) -> Choice:
    """What a launcher that lies in `root` starts in its own place."""
    own, where = numbers(note(root).get("version", "")), folder(environ)
    if own is None or where is None or is_inside(root, where):
        return Choice()
    current, damaged = newest(where), places.POINTER if is_lost(where) else ""
    # Of the others only those that were current before: a newer one may have been finished and never chosen.
    for name in (current, *(one for one in kept(where) if (numbers(one) or ()) < (numbers(current) or ()))):
        if (numbers(name) or ()) <= own:
            break
        path = os.path.join(where, name)
        if not (broken := damage(path)):
            return Choice(path, damaged)
        damaged = damaged or f"{name}: {broken}"
    return Choice("", damaged)


def package(root: str, environ: Mapping[str, str]) -> str:
    """The folder of the package: this program's own, or the one that started this version."""
    where = folder(environ)
    return environ.get(PACKAGE, root) if where is not None and is_inside(root, where) else root


def roots(root: str, environ: Mapping[str, str]) -> list[str]:
    """The folders of the programs that may start: this one, and of the package and the versions newer than it the two newest."""
    where = folder(environ)
    if where is None or not places.is_packaged(root):
        return [root]
    own = package(root, environ)
    oldest = numbers(note(own).get("version", "")) or ()
    ordered = [*(os.path.join(where, name) for name in kept(where) if (numbers(name) or ()) > oldest), own]
    return list(dict.fromkeys((root, *ordered[:2])))


def wants(root: str, environ: Mapping[str, str]) -> list[places.Wanted]:
    """What the environments of these programs are built from."""
    found: list[places.Wanted] = []
    for one in roots(root, environ):
        try:
            found.append(places.wanted(dev=False, folder=os.path.join(one, "installer")))
        except OSError:
            continue  # An AppImage that is no longer mounted, or a version that is damaged.
    return list(dict.fromkeys(found))


def environments(home: str, want: places.Wanted) -> list[str]:
    """All finished environments in a home folder that fit, the newest first."""
    found = [os.path.join(home, name) for name in os.listdir(home) if name.startswith("env-")]
    return sorted((env for env in found if places.usable(env, want)), key=os.path.getmtime, reverse=True)


def spared(home: str, keep: str | None, root: str = places.ROOT, environ: Mapping[str, str] = os.environ) -> set[str]:
    """Environments that are not current and that another version which may start needs, one for each."""
    if not places.is_packaged(root):
        return set()
    stamp = places.read_stamp(keep) if keep else None
    found: set[str] = set()
    for want in wants(root, environ):
        if not places.fits(stamp, want):
            found.update(environments(home, want)[:1])
    return found
