"""Where the environment lives and whether it is the right one. On the path of every start, so: small files, few imports.

A home folder holds `env-<id>` folders, one text file `current` naming the one in use, and `logs/`. A new environment is built
beside the old one and becomes current by replacing that small file, which is one atomic operation on every system. Nothing is
ever renamed under a running program, and a kill at any moment leaves either the old or the new environment in use.
"""

import hashlib
import json
import os
import sys
from collections.abc import Mapping
from typing import NamedTuple

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
STAMP = "halftone-stamp.json"
IN_USE = "in-use"
POINTER = "current"
PACKAGE_NOTE = "installer/package.json"
"""Only packages hold it: which one this is. A clone has none."""

RUNTIME_FILES = ("torch.txt", "requirements.lock")
DEV_FILES = ("requirements-dev.lock",)


class Wanted(NamedTuple):
    """What an environment must have been built from. The clone's own version is left out on purpose: Halftone's code is used in
    place, so a new version with the same locked packages needs no new environment."""

    runtime: str
    dev: str  # empty when the development tools are not asked for


class Stamp(NamedTuple):
    """What an environment was built from, written into it as the last act of building."""

    runtime: str
    dev: str
    base: str  # the interpreter the environment borrows from; it may be uninstalled later
    torch: str
    device: str


def digest(folder: str, names: tuple[str, ...]) -> str:
    total = hashlib.sha256()
    for name in names:
        with open(os.path.join(folder, name), "rb") as file:
            # Git may check text out with other line ends; that changes nothing in the environment.
            total.update(file.read().replace(b"\r\n", b"\n"))
    return total.hexdigest()


def wanted(dev: bool, folder: str = os.path.join(ROOT, "installer")) -> Wanted:
    return Wanted(digest(folder, RUNTIME_FILES), digest(folder, DEV_FILES) if dev else "")


def has_console() -> bool:
    """Whether anybody may read stderr: pythonw, with which a menu of Windows starts Halftone, has none."""
    return sys.__stderr__ is not None


def window_flags() -> int:
    """`creationflags` of a child: without a console to share, Windows would open one for it."""
    return 0x08000000 if sys.platform == "win32" and not has_console() else 0  # CREATE_NO_WINDOW


def user_data(environ: Mapping[str, str], platform: str) -> str:
    """The per-user data folder of the system, as platformdirs would say it."""
    user = environ.get("HOME") or os.path.expanduser("~")
    if platform == "win32":
        return environ.get("LOCALAPPDATA") or os.path.join(user, "AppData", "Local")
    if platform == "darwin":
        return os.path.join(user, "Library", "Application Support")
    return environ.get("XDG_DATA_HOME") or os.path.join(user, ".local", "share")


def homes(environ: Mapping[str, str], root: str = ROOT, platform: str = sys.platform) -> list[str]:
    """Folders that may hold the environment, best first. A person's own choice has no second."""
    chosen = environ.get("HALFTONE_HOME")
    if chosen:
        return [os.path.abspath(os.path.expanduser(chosen))]
    key = hashlib.sha256(root.encode("utf-8", "surrogateescape")).hexdigest()[:12]
    return [os.path.join(root, ".halftone"), os.path.join(user_data(environ, platform), "halftone-launcher", key)]


def is_packaged(root: str = ROOT) -> bool:
    return os.path.exists(os.path.join(root, PACKAGE_NOTE))


def python_in(env: str, platform: str = sys.platform) -> str:
    return os.path.join(env, "Scripts", "python.exe") if platform == "win32" else os.path.join(env, "bin", "python")


def tool_in(env: str, name: str, platform: str = sys.platform) -> str:
    return os.path.join(env, "Scripts", name + ".exe") if platform == "win32" else os.path.join(env, "bin", name)


def current(home: str) -> str | None:
    """The environment in use, or None. An unreadable or foreign pointer is the same as none."""
    try:
        with open(os.path.join(home, POINTER), encoding="utf-8") as file:
            name = file.read().strip()
    except (OSError, UnicodeDecodeError):
        return None
    if not name.startswith("env-") or os.path.basename(name) != name:
        return None
    return os.path.join(home, name)


def make_current(home: str, env: str) -> None:
    temporary = os.path.join(home, f"{POINTER}.{os.getpid()}")
    with open(temporary, "w", encoding="utf-8") as file:
        file.write(os.path.basename(env) + "\n")
        file.flush()
        os.fsync(file.fileno())
    os.replace(temporary, os.path.join(home, POINTER))


def read_stamp(env: str) -> Stamp | None:
    try:
        with open(os.path.join(env, STAMP), encoding="utf-8") as file:
            values = json.load(file)
        return Stamp(**{name: str(values[name]) for name in Stamp._fields})
    except (OSError, ValueError, KeyError, TypeError):
        return None


def write_stamp(env: str, stamp: Stamp) -> None:
    with open(os.path.join(env, STAMP), "w", encoding="utf-8") as file:
        json.dump(stamp._asdict(), file, indent=1)


def fits(stamp: Stamp | None, want: Wanted) -> bool:
    """An environment with development tools also serves every start that does not need them."""
    return stamp is not None and stamp.runtime == want.runtime and (not want.dev or stamp.dev == want.dev)


def usable(env: str, want: Wanted) -> bool:
    stamp = read_stamp(env)
    if stamp is None or not fits(stamp, want):
        return False
    # The interpreter underneath may have been removed, or replaced by the next minor version, since.
    python = python_in(env)
    return os.path.exists(python) and os.path.exists(stamp.base) and (os.name == "nt" or os.path.realpath(python) == stamp.base)


def ready(home: str, want: Wanted) -> str | None:
    env = current(home)
    return env if env is not None and usable(env, want) else None
