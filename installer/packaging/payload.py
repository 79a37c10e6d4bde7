"""What every package holds: Halftone's sources as the repository has them, uv, and a note that says which package it is."""

import json
import os
import subprocess
import time
import tomllib
import zipfile
from collections.abc import Mapping
from typing import Final, NamedTuple

from installer.packaging import bill, wheel_cache
from installer.places import PACKAGE_NOTE, ROOT
from installer.versions import numbers
from installer.words import LaunchError

_FOLDERS: Final = ("app/", "resources/", "installer/")
_FILES: Final = ("CHANGELOG.md", "LICENSE", "README.md", "pyproject.toml")
_LEFT_OUT: Final = (
    "installer/packaging/",
    "installer/halftone.",
    "resources/pocket/training/",
    "resources/icons/halftone.ic",
    "resources/icons/make_icons.py",
)
"""Packages have starters of their own; how the demo model was trained is for developers."""


class Entry(NamedTuple):
    """A file of a package. data: its bytes; runs: it has the right to be executed."""

    data: bytes
    runs: bool = False


class Release(NamedTuple):
    """version: as in pyproject.toml; epoch: seconds since 1970 that stand on every file; commit: what was built; runtime: SHA-256
    of a runtime for the AppImage that was compiled in the place of the pinned one.
    """

    version: str
    epoch: int
    commit: str
    runtime: str = ""


def git(*words: str, root: str = ROOT) -> str:
    return subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=True).stdout


def release(environ: Mapping[str, str] = os.environ, root: str = ROOT) -> Release:
    """The release that the checkout is. SOURCE_DATE_EPOCH goes before the time of its commit, HALFTONE_RUNTIME_SHA256 before the
    pinned runtime. Raises LaunchError where a file is not as it was committed, or where no start could compare the version.
    """
    if differing := git("status", "--porcelain", "-z", "--no-renames", "--untracked-files=no", root=root).split("\0")[0]:
        raise LaunchError(f"{differing[3:]} differs from the commit; nothing was built: commit it, or undo the change.")
    with open(os.path.join(root, "pyproject.toml"), "rb") as file:
        version = str(tomllib.load(file)["project"]["version"])
    if numbers(version) is None:
        raise LaunchError(
            f"The version “{version}” of pyproject.toml is not numbers with dots; nothing was built: write one such as 1.2.0."
        )
    epoch = environ.get("SOURCE_DATE_EPOCH") or git("log", "-1", "--format=%ct", root=root).strip()
    own = environ.get("HALFTONE_RUNTIME_SHA256", "")
    return Release(version, int(epoch), git("rev-parse", "HEAD", root=root).strip(), own)


def sources() -> dict[str, Entry]:
    """Path in the checkout -> file, of all that is committed and belongs into a package."""
    found: dict[str, Entry] = {}
    for line in git("ls-files", "-z", "--stage").split("\0"):
        mode, _, name = line.partition("\t")
        if not name or name.startswith(_LEFT_OUT) or not (name.startswith(_FOLDERS) or name in _FILES):
            continue
        with open(os.path.join(ROOT, name), "rb") as file:
            found[name] = Entry(file.read(), mode.startswith("100755"))
    return found


def payload(cache: str, target: str, kind: str, made: Release) -> dict[str, Entry]:
    """Path inside the program's folder -> file. kind: of the package. Raises LaunchError as `wheel_cache.programs`."""
    files = sources()
    files |= {f"uv/{name}": Entry(data, runs=True) for name, data in wheel_cache.programs(cache, target).items()}
    note = {"kind": kind, "target": target, "version": made.version, "commit": made.commit}
    files[PACKAGE_NOTE] = Entry((json.dumps(note, indent=1) + "\n").encode())
    files["bill-of-materials.cdx.json"] = Entry(bill.written(made.version, made.epoch, target, kind, made.runtime))
    return dict(sorted(files.items()))


def write_tree(files: Mapping[str, Entry], folder: str, epoch: int) -> None:
    """Write files below a folder, with fixed rights and times."""
    for name, entry in files.items():
        path = os.path.join(folder, *name.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(entry.data)
        os.chmod(path, 0o755 if entry.runs else 0o644)
    for root, _, names in os.walk(folder, topdown=False):
        for name in names:
            os.utime(os.path.join(root, name), (epoch, epoch))
        os.chmod(root, 0o755)
        os.utime(root, (epoch, epoch))


def write_zip(files: Mapping[str, Entry], path: str, epoch: int) -> None:
    """Write a zip archive with rights of Unix and fixed times, which a zip holds in steps of two seconds."""
    moment = time.gmtime(max(epoch, 315_532_800))[:6]
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=9) as archive:
        for name, entry in sorted(files.items()):
            info = zipfile.ZipInfo(name, moment)
            info.create_system = 3
            info.external_attr = (0o100755 if entry.runs else 0o100644) << 16
            archive.writestr(info, entry.data, zipfile.ZIP_DEFLATED, 9)
