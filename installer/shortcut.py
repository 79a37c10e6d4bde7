"""Adds Halftone to the applications menu of a Linux desktop."""

import os
import sys
from collections.abc import Mapping

from installer.places import ROOT
from installer.words import LaunchError

ICONS = ("resources/icons/halftone.svg", "resources/icons/halftone.png")


def quoted(argument: str) -> str:
    """One argument of an Exec line: quoted by the desktop entry rules, whose backslashes the value rules then double."""
    escaped = "".join("\\" + sign if sign in '"`$\\' else sign for sign in argument).replace("%", "%%")
    return '"' + escaped.replace("\\", "\\\\") + '"'


def entry(root: str) -> str:
    icon = next((os.path.join(root, name) for name in ICONS if os.path.exists(os.path.join(root, name))), "image-x-generic")
    lines = {
        "Type": "Application",
        "Name": "Halftone",
        "Comment": "Generates pictures on your own GPU",
        "Exec": quoted(os.path.join(root, "installer", "halftone.sh")),
        "Icon": icon.replace("\\", "\\\\"),
        "Terminal": "false",
        "Categories": "Graphics;",
        "StartupNotify": "true",
    }
    return "[Desktop Entry]\n" + "".join(f"{name}={value}\n" for name, value in lines.items())


def add(environ: Mapping[str, str], root: str = ROOT, platform: str = sys.platform) -> str:
    """Write the entry for this user; returns its path."""
    if not platform.startswith("linux"):
        raise LaunchError(
            "A menu entry can be added on Linux only; nothing was changed: "
            "on this system double-click halftone.command (macOS) or halftone.bat (Windows) in the installer folder."
        )
    data = environ.get("XDG_DATA_HOME") or os.path.join(environ.get("HOME") or os.path.expanduser("~"), ".local", "share")
    folder = os.path.join(data, "applications")
    path = os.path.join(folder, "halftone.desktop")
    try:
        os.makedirs(folder, exist_ok=True)
        with open(path, "w", encoding="utf-8") as file:
            file.write(entry(root))
        os.chmod(path, 0o755)
    except OSError as error:
        raise LaunchError(
            f"The menu entry {path} could not be written ({error.strerror}); nothing was changed: check the folder's permissions."
        ) from error
    return path
