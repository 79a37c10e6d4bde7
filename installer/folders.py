"""Can this folder hold an environment? Found out by trying, before anything is downloaded."""

import os
import shutil
import subprocess
import sys
import uuid
from typing import NamedTuple

from installer.words import LaunchError

GB = 1_000_000_000
# The longest path inside an environment that Python itself must open: Lib\site-packages and 112 characters, with room to grow.
LONGEST_INSIDE = 150
WINDOWS_LIMIT = 259


class Size(NamedTuple):
    """What a set-up takes, measured with the locked versions: to download, and free on the disk while it runs (bytes)."""

    download: float
    disk: float


CPU_SIZE = Size(0.6 * GB, 3 * GB)
GPU_SIZE = Size(3.5 * GB, 12 * GB)


def graphics_card(platform: str = sys.platform) -> bool:
    """Is there a card whose PyTorch build brings gigabytes of libraries? For the sizes only; uv chooses the build."""
    if platform == "darwin":
        return False
    return bool(shutil.which("nvidia-smi")) or os.path.exists("/proc/driver/nvidia/version") or os.path.exists("/dev/kfd")


def lacks_space(free: float, needed: float, folder: str) -> str | None:
    if free >= needed:
        return None
    return (
        f"Halftone needs {needed / GB:.0f} GB free to set itself up but {folder} has {free / GB:.1f} GB; nothing was changed: "
        "free some space, or set HALFTONE_HOME to a folder on a larger disk, and start again."
    )


def path_too_long(home: str, platform: str, long_paths: bool) -> str | None:
    """Windows without long paths refuses files whose full name passes 259 characters."""
    if platform != "win32" or long_paths or len(home) + LONGEST_INSIDE <= WINDOWS_LIMIT:
        return None
    return (
        f"The folder {home} has too long a name for Windows ({len(home)} characters, {WINDOWS_LIMIT - LONGEST_INSIDE} fit); "
        "nothing was changed: move Halftone to a short path such as C:\\Halftone, or set HALFTONE_HOME to one, and start again."
    )


def long_paths_allowed() -> bool:
    if sys.platform != "win32":
        return True
    import winreg

    try:
        with winreg.OpenKey(winreg.HKEY_LOCAL_MACHINE, r"SYSTEM\CurrentControlSet\Control\FileSystem") as key:
            return winreg.QueryValueEx(key, "LongPathsEnabled")[0] == 1
    except OSError:
        return False


def try_folder(home: str) -> str | None:
    """What an environment needs of its file system, tried for real in `home`. None, or the part that failed."""
    probe = os.path.join(home, f"probe-ü {uuid.uuid4().hex[:8]}")
    stage = "cannot be written to"
    try:
        os.makedirs(probe)
        tool = os.path.join(probe, "tool")
        with open(tool, "w", encoding="ascii", newline="\n") as file:
            file.write("#!/bin/sh\nexit 0\n")
        stage = "does not let a file replace another"
        pointer = os.path.join(probe, "pointer")
        shutil.copy(tool, pointer)
        os.replace(pointer, os.path.join(probe, "tool2"))
        os.replace(os.path.join(probe, "tool2"), tool)
        if os.name != "nt":
            stage = "has no symbolic links (FAT and some network folders have none)"
            os.symlink("tool", os.path.join(probe, "link"))
            stage = "does not let programs run"
            os.chmod(tool, 0o755)
            subprocess.run([os.path.join(probe, "link")], check=True, stdin=subprocess.DEVNULL)
        stage = "does not let a folder be renamed"
        os.rename(probe, probe + "-renamed")
        probe += "-renamed"
    except (OSError, subprocess.CalledProcessError):
        return stage
    finally:
        shutil.rmtree(probe, ignore_errors=True)
    return None


def choose_home(candidates: list[str], needed: float) -> str:
    """The first folder that can hold an environment, or the sentence about the one the person would expect."""
    reasons: list[str] = []
    for home in candidates:
        refusal = path_too_long(home, sys.platform, long_paths_allowed())
        if refusal is None and (problem := try_folder(home)):
            refusal = (
                f"The folder {home} {problem}, so it cannot hold Halftone's environment; nothing was changed: "
                "set HALFTONE_HOME to a folder on a local disk and start again."
            )
        if refusal is None:
            refusal = lacks_space(shutil.disk_usage(home).free, needed, home)
        if refusal is None:
            return home
        reasons.append(refusal)
    raise LaunchError(reasons[0])
