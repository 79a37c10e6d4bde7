"""System packages that no Python package brings: Qt's libraries on Linux, and venv on Debian."""

import ctypes
import os
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from installer import runner
from installer.words import LaunchError, Reporter


class Packages(NamedTuple):
    apt: str
    dnf: str
    pacman: str
    zypper: str


# What PySide6's Qt libraries and their offscreen platform link against, read from the wheels with readelf.
BASE: dict[str, Packages] = {
    "libGL.so.1": Packages("libgl1", "libglvnd-glx", "libglvnd", "libglvnd"),
    "libEGL.so.1": Packages("libegl1", "libglvnd-egl", "libglvnd", "libglvnd"),
    "libX11.so.6": Packages("libx11-6", "libX11", "libx11", "libX11-6"),
    "libxkbcommon.so.0": Packages("libxkbcommon0", "libxkbcommon", "libxkbcommon", "libxkbcommon0"),
    "libfontconfig.so.1": Packages("libfontconfig1", "fontconfig", "fontconfig", "libfontconfig1"),
    "libfreetype.so.6": Packages("libfreetype6", "freetype", "freetype2", "libfreetype6"),
    "libdbus-1.so.3": Packages("libdbus-1-3", "dbus-libs", "dbus", "libdbus-1-3"),
    "libglib-2.0.so.0": Packages("libglib2.0-0", "glib2", "glib2", "libglib-2_0-0"),
    "libgthread-2.0.so.0": Packages("libglib2.0-0", "glib2", "glib2", "libgthread-2_0-0"),
    "libzstd.so.1": Packages("libzstd1", "libzstd", "zstd", "libzstd1"),
}
# What its X11 platform needs beyond that. A Wayland session can do without.
X11: dict[str, Packages] = {
    "libX11-xcb.so.1": Packages("libx11-xcb1", "libX11-xcb", "libx11", "libX11-xcb1"),
    "libxkbcommon-x11.so.0": Packages("libxkbcommon-x11-0", "libxkbcommon-x11", "libxkbcommon-x11", "libxkbcommon-x11-0"),
    "libxcb-cursor.so.0": Packages("libxcb-cursor0", "xcb-util-cursor", "xcb-util-cursor", "libxcb-cursor0"),
    "libxcb-icccm.so.4": Packages("libxcb-icccm4", "xcb-util-wm", "xcb-util-wm", "libxcb-icccm4"),
    "libxcb-image.so.0": Packages("libxcb-image0", "xcb-util-image", "xcb-util-image", "libxcb-image0"),
    "libxcb-keysyms.so.1": Packages("libxcb-keysyms1", "xcb-util-keysyms", "xcb-util-keysyms", "libxcb-keysyms1"),
    "libxcb-render-util.so.0": Packages(
        "libxcb-render-util0", "xcb-util-renderutil", "xcb-util-renderutil", "libxcb-render-util0"
    ),
    "libxcb-util.so.1": Packages("libxcb-util1", "xcb-util", "xcb-util", "libxcb-util1"),
    "libxcb-randr.so.0": Packages("libxcb-randr0", "libxcb", "libxcb", "libxcb-randr0"),
    "libxcb-shape.so.0": Packages("libxcb-shape0", "libxcb", "libxcb", "libxcb-shape0"),
    "libxcb-shm.so.0": Packages("libxcb-shm0", "libxcb", "libxcb", "libxcb-shm0"),
    "libxcb-sync.so.1": Packages("libxcb-sync1", "libxcb", "libxcb", "libxcb-sync1"),
    "libxcb-xfixes.so.0": Packages("libxcb-xfixes0", "libxcb", "libxcb", "libxcb-xfixes0"),
    "libxcb-render.so.0": Packages("libxcb-render0", "libxcb", "libxcb", "libxcb-render0"),
    "libxcb-xkb.so.1": Packages("libxcb-xkb1", "libxcb", "libxcb", "libxcb-xkb1"),
}
INSTALL: dict[str, tuple[str, ...]] = {
    "apt": ("apt-get", "install", "-y", "--no-install-recommends"),
    "dnf": ("dnf", "install", "-y"),
    "pacman": ("pacman", "-S", "--noconfirm", "--needed"),
    "zypper": ("zypper", "--non-interactive", "install"),
}
PROGRAMS = {"apt": "apt-get", "dnf": "dnf", "pacman": "pacman", "zypper": "zypper"}


def manager(which: Callable[[str], str | None] = shutil.which) -> str | None:
    return next((name for name, program in PROGRAMS.items() if which(program)), None)


def loads(soname: str) -> bool:
    """Asked of the very loader that Qt will ask."""
    try:
        ctypes.CDLL(soname)
    except OSError:
        return False
    return True


def missing(table: Mapping[str, Packages], has: Callable[[str], bool] = loads) -> list[str]:
    return [soname for soname in table if not has(soname)]


def packages(sonames: Sequence[str], name: str) -> list[str]:
    both = {**BASE, **X11}
    return sorted({str(getattr(both[soname], name)) for soname in sonames})


def command(name: str | None, wanted: Sequence[str]) -> str:
    """The line a person can paste."""
    if name is None:
        return "your package manager's install command for: " + " ".join(wanted)
    line = [part for part in INSTALL[name] if part not in ("-y", "--noconfirm", "--non-interactive", "--no-install-recommends")]
    return "sudo " + " ".join([*line, *wanted]).replace("apt-get", "apt")


def prefix(environ: Mapping[str, str], reporter: Reporter) -> list[str] | None:
    """What to put before a command to run it as root without a password; None when that is not possible."""
    if sys.platform == "win32":
        return None
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo", path=environ.get("PATH"))
    if sudo and runner.run([sudo, "-n", "true"], environ, reporter, limit=10).code == 0:
        return [sudo, "-n"]
    return None


def install(name: str | None, wanted: Sequence[str], environ: Mapping[str, str], reporter: Reporter) -> bool:
    """Install system packages if that takes no password. Says what it does, as it changes more than Halftone's own folder."""
    before = prefix(environ, reporter)
    if name is None or before is None or not wanted:
        return False
    # sudo drops variables, hence `env`; without it a package could stop to ask about a time zone.
    quiet = [*before, "env", "DEBIAN_FRONTEND=noninteractive"]
    reporter.begin("Installing system packages: " + " ".join(wanted))
    outcome = runner.run([*quiet, *INSTALL[name], *wanted], environ, reporter, limit=600)
    if outcome.code != 0 and name == "apt":
        # Fresh containers have no package lists at all, old machines outdated ones.
        runner.run([*quiet, "apt-get", "update"], environ, reporter, limit=300)
        outcome = runner.run([*quiet, *INSTALL[name], *wanted], environ, reporter, limit=600)
    reporter.end()
    return outcome.code == 0


def install_venv(environ: Mapping[str, str], reporter: Reporter) -> bool:
    return manager() == "apt" and install("apt", ["python3-venv"], environ, reporter)


def venv_command() -> str:
    name = manager()
    return command(name, ["python3-venv"] if name == "apt" else ["python-pip" if name == "pacman" else "python3-pip"])


def tolerable(lacking: Sequence[str], for_window: bool, environ: Mapping[str, str]) -> bool:
    """May Halftone go on without these? The tests draw offscreen and a Wayland session needs no X11; all else is needed."""
    only_x11 = not any(soname in BASE for soname in lacking)
    return not lacking or (only_x11 and (not for_window or bool(environ.get("WAYLAND_DISPLAY"))))


def ensure_qt(for_window: bool, environ: Mapping[str, str], reporter: Reporter) -> None:
    """Install Qt's system libraries where possible, else raise the command that does."""
    if not sys.platform.startswith("linux"):
        return
    lacking = missing({**BASE, **X11})
    if not lacking:
        return
    name = manager()
    wanted = packages(lacking, name) if name else lacking
    install(name, wanted, environ, reporter)
    # A library that failed to load once is looked for anew by the loader, so asking again in this process is honest.
    still = missing({**BASE, **X11})
    if not tolerable(still, for_window, environ):
        line = command(name, packages(still, name) if name else still)
        raise LaunchError(
            f"The window needs system libraries that are missing ({', '.join(still)}) and installing them needs your password; "
            f"Halftone itself is set up: run “{line}” and start again."
        )


def ensure_screen(environ: Mapping[str, str], reporter: Reporter) -> None:
    """For the tests: a virtual screen and a font with Chinese, Japanese and Korean. Tests skip without."""
    if manager() != "apt" or not sys.platform.startswith("linux"):
        return
    wanted = [] if shutil.which("Xvfb") else ["xvfb", "xauth"]
    if not any(os.path.isdir(folder) for folder in ("/usr/share/fonts/opentype/noto", "/usr/share/fonts/noto-cjk")):
        wanted.append("fonts-noto-cjk")
    if wanted and not install("apt", wanted, environ, reporter):
        reporter.line(f"Tests that need a screen will be skipped; “{command('apt', wanted)}” would let them run.")
