"""The AppImage: the program as a compressed file system behind a runtime that mounts it and starts AppRun."""

import hashlib
import os
import subprocess
import tempfile
from collections.abc import Mapping
from typing import Final

from installer.packaging.debian import APP_ID, desktop_files, template
from installer.packaging.payload import Entry, Release, payload, write_tree
from installer.packaging.wheel_cache import RUNTIME, RUNTIME_SHA256, RUNTIME_VERSION
from installer.words import LaunchError

PROGRAM: Final = "usr/lib/halftone"


def build(cache: str, target: str, made: Release, folder: str) -> str:
    """Write the AppImage; returns its path. Raises LaunchError where the runtime lacks, and as `payload`; CalledProcessError."""
    path = os.path.join(folder, f"halftone-{made.version}-x86_64.AppImage")
    start = runtime(os.path.join(cache, RUNTIME), made.runtime)
    write_appimage(payload(cache, target, "appimage", made), start, made, path)
    return path


def write_appimage(program: Mapping[str, Entry], start: bytes, made: Release, path: str) -> None:
    """Write an AppImage whose program's folder holds these files. start: the runtime. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as work:
        tree, system = os.path.join(work, "AppDir"), os.path.join(work, "squashfs")
        os.makedirs(tree)
        write_tree(_tree(program, made), tree, made.epoch)
        os.symlink(f"{APP_ID}.svg", os.path.join(tree, ".DirIcon"))
        os.utime(os.path.join(tree, ".DirIcon"), (made.epoch, made.epoch), follow_symlinks=False)
        os.utime(tree, (made.epoch, made.epoch))
        environ = {name: value for name, value in os.environ.items() if name != "SOURCE_DATE_EPOCH"}
        fixed = ("-all-root", "-noappend", "-no-xattrs", "-mkfs-time", str(made.epoch), "-all-time", str(made.epoch))
        command = ("mksquashfs", tree, system, *fixed, "-comp", "zstd", "-Xcompression-level", "19", "-quiet", "-no-progress")
        subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)
        with open(path, "wb") as whole, open(system, "rb") as file:
            whole.write(start + file.read())
    os.chmod(path, 0o755)


def _tree(program: Mapping[str, Entry], made: Release) -> dict[str, Entry]:
    """Path below the mounted folder -> file. The program's folder is the same as in other packages."""
    files = {f"{PROGRAM}/{name}": entry for name, entry in program.items()}
    desktop = desktop_files(made)
    files |= desktop
    files[f"{APP_ID}.desktop"] = desktop[f"usr/share/applications/{APP_ID}.desktop"]
    files[f"{APP_ID}.svg"] = desktop[f"usr/share/icons/hicolor/scalable/apps/{APP_ID}.svg"]
    files["AppRun"] = Entry(starter(made), runs=True)
    return files


def starter(made: Release) -> bytes:
    """AppRun: the starter of Linux, with a cache of bytecode that outlives the name of the mounted folder."""
    here = '"$(CDPATH=\'\' cd -- "$(dirname -- "$(readlink -f -- "$0")")" && pwd)/' + PROGRAM + '"'
    start = template("halftone.sh", made, PROGRAM=here, STARTER='"${APPIMAGE:-$0}"')
    cache = template("bytecode.sh", made, PROGRAM=PROGRAM, COMMIT=made.commit[:8])
    return start.replace(b"for python in", cache + b"for python in", 1)


def runtime(path: str, own: str = "") -> bytes:
    """Read the runtime. own: as in `Release`. Raises LaunchError where it lacks, or is neither the pinned one nor that."""
    name = f"runtime-x86_64 of release {RUNTIME_VERSION} of AppImage's type2-runtime"
    try:
        with open(path, "rb") as file:
            found = file.read()
    except FileNotFoundError as error:
        raise LaunchError(f"{path} is missing; no AppImage was built: put {name} there and start again.") from error
    if (sha256 := hashlib.sha256(found).hexdigest()) != (own or RUNTIME_SHA256):
        raise LaunchError(
            f"{path} is not the file that was pinned (SHA-256 {sha256}); no AppImage was built: put {name} there, or set "
            "HALFTONE_RUNTIME_SHA256 to the hash of one that you compiled."
        )
    return found
