"""The AppImage: the program as a compressed file system behind a runtime that mounts it and starts AppRun."""

import os
import subprocess
import tempfile
from typing import Final

from installer.packaging.debian import APP_ID, desktop_files, template
from installer.packaging.payload import Entry, Release, payload, write_tree
from installer.words import LaunchError

PROGRAM: Final = "usr/lib/halftone"
_MAGIC: Final = b"AI\x02"
"""Bytes 8 to 10 of an AppImage of type 2, and so of its runtime."""
RUNTIME: Final = "runtime-x86_64"
"""Its name in the cache: a program of the AppImage project, which no package index has."""


def build(cache: str, target: str, made: Release, folder: str) -> str:
    """Write the AppImage; returns its path. Raises LaunchError where the runtime lacks, and as `payload`; CalledProcessError."""
    runtime = _runtime(os.path.join(cache, RUNTIME))
    path = os.path.join(folder, f"halftone-{made.version}-x86_64.AppImage")
    with tempfile.TemporaryDirectory(dir=folder) as work:
        tree, system = os.path.join(work, "AppDir"), os.path.join(work, "squashfs")
        os.makedirs(tree)
        write_tree(tree_of(cache, target, made), tree, made.epoch)
        os.symlink(f"{APP_ID}.svg", os.path.join(tree, ".DirIcon"))
        os.utime(os.path.join(tree, ".DirIcon"), (made.epoch, made.epoch), follow_symlinks=False)
        os.utime(tree, (made.epoch, made.epoch))
        environ = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
        fixed = ("-all-root", "-noappend", "-no-xattrs", "-mkfs-time", str(made.epoch), "-all-time", str(made.epoch))
        command = ("mksquashfs", tree, system, *fixed, "-comp", "zstd", "-Xcompression-level", "19", "-quiet", "-no-progress")
        subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
        with open(path, "wb") as whole, open(system, "rb") as file:
            whole.write(runtime + file.read())
    os.chmod(path, 0o755)
    return path


def tree_of(cache: str, target: str, made: Release) -> dict[str, Entry]:
    """Path below the mounted folder -> file. Nothing in it is written to, so no cache of Python lies elsewhere for it."""
    files = {f"{PROGRAM}/{name}": entry for name, entry in payload(cache, target, "appimage", made).items()}
    desktop = desktop_files(made)
    files |= desktop
    files[f"{APP_ID}.desktop"] = desktop[f"usr/share/applications/{APP_ID}.desktop"]
    files[f"{APP_ID}.svg"] = desktop[f"usr/share/icons/hicolor/scalable/apps/{APP_ID}.svg"]
    here = '"$(CDPATH=\'\' cd -- "$(dirname -- "$(readlink -f -- "$0")")" && pwd)/' + PROGRAM + '"'
    starter = template("halftone.sh", made, PROGRAM=here, STARTER='"${APPIMAGE:-$0}"')
    files["AppRun"] = Entry(_without_cache(starter), runs=True)
    return files


def _without_cache(starter: bytes) -> bytes:
    """The mounted folder has another name at each start: a cache by names would only grow."""
    kept = [line for line in starter.splitlines(keepends=True) if not line.startswith(b"PYTHONPYCACHEPREFIX=")]
    return b"".join(kept).replace(b" PYTHONPYCACHEPREFIX", b"")


def _runtime(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            found = file.read()
    except FileNotFoundError as error:
        name = "the runtime of AppImages of type 2"
        raise LaunchError(f"{path} is missing; no AppImage was built: put {name} for x86-64 there and start again.") from error
    if found[:4] != b"\x7fELF" or found[8:11] != _MAGIC:
        raise LaunchError(f"{path} is not a runtime of AppImages of type 2; no AppImage was built: replace it and start again.")
    return found
