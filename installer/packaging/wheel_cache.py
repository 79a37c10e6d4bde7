"""The folder of wheels that packages are built from: filled once through pip, then read without a network and checked by hash."""

import hashlib
import os
import subprocess
import sys
import tomllib
import zipfile
from typing import Final, NamedTuple

from installer.places import ROOT
from installer.uvtool import PINNED
from installer.words import LaunchError

PINS: Final = os.path.join(ROOT, "installer", "packaging", "wheels.toml")
RUNTIME: Final = "runtime-x86_64"
"""The name in the cache of what starts an AppImage: a program of the AppImage project, which no package index has."""
RUNTIME_VERSION: Final = "20251108"
"""The release of its project type2-runtime."""
RUNTIME_SHA256: Final = "2fca8b443c92510f1483a883f60061ad09b46b978b2631c807cd873a47ec260d"


class Pin(NamedTuple):
    """file: its name in the index; tag: the platform that pip is asked for."""

    file: str
    sha256: str
    tag: str


def pins() -> dict[str, Pin]:
    """Target ("linux-x86_64" …) -> the wheel of uv for it."""
    with open(PINS, "rb") as file:
        return {name: Pin(**row) for name, row in tomllib.load(file).items()}


def fill(cache: str, targets: list[str]) -> None:
    """Download what lacks. Raises LaunchError."""
    os.makedirs(cache, exist_ok=True)
    for target in targets:
        pin = pins()[target]
        if os.path.exists(os.path.join(cache, pin.file)):
            continue
        asked = ("--no-deps", "--only-binary=:all:", "--platform", pin.tag, "--python-version", "3.12", "-d", cache)
        # An environment that uv made has no pip; the interpreter under it has.
        pip = (os.path.realpath(sys.executable), "-m", "pip", "download", "-q")
        done = subprocess.run((*pip, *asked, f"uv=={PINNED}"), check=False)
        if done.returncode != 0:
            raise LaunchError(f"The wheel of uv for {target} could not be downloaded: check the network and start again.")


def programs(cache: str, target: str) -> dict[str, bytes]:
    """Name -> program, from the wheel of uv. Raises LaunchError where the wheel lacks or is not the pinned one."""
    pin = pins()[target]
    path = os.path.join(cache, pin.file)
    try:
        with open(path, "rb") as file:
            found = hashlib.file_digest(file, "sha256").hexdigest()
    except FileNotFoundError as error:
        raise LaunchError(f"{path} is missing; no package was built: run “fetch” with a network once.") from error
    if found != pin.sha256:
        raise LaunchError(
            f"{path} is not the file that was pinned (SHA-256 {found}); no package was built: delete it and fetch it again."
        )
    with zipfile.ZipFile(path) as wheel:
        scripts = {os.path.basename(name): name for name in wheel.namelist() if ".data/scripts/" in name}
        return {name: wheel.read(scripts[name]) for name in ("uv", "uv.exe") if name in scripts}
