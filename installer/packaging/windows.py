"""The Windows package: an NSIS installer for one user, which deletes by its own list of files and nothing else."""

import os
import posixpath
import subprocess
import tempfile
from collections.abc import Iterable, Mapping
from typing import Final

from installer.packaging.payload import Entry, Release, payload, write_tree
from installer.places import ROOT

_HERE: Final = os.path.join(ROOT, "installer", "packaging", "windows")
_ICON: Final = os.path.join(ROOT, "resources", "icons", "halftone.ico")


def build(cache: str, target: str, made: Release, folder: str) -> str:
    """Write the installer; returns its path. It is not signed, which its name says. Raises LaunchError as `payload`,
    CalledProcessError.
    """
    path = os.path.join(folder, f"halftone-{made.version}-windows-x86_64-unsigned.exe")
    write_installer(payload(cache, target, "windows", made), made, path)
    return path


def write_installer(files: dict[str, Entry], made: Release, path: str) -> None:
    """Write an installer of these files, the starter and the icon. Raises CalledProcessError."""
    with open(os.path.join(_HERE, "halftone.cmd"), "rb") as starter, open(_ICON, "rb") as icon:
        files = files | {"halftone.cmd": Entry(starter.read().replace(b"\n", b"\r\n")), "halftone.ico": Entry(icon.read())}
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as work:
        tree = os.path.join(work, "halftone")
        write_tree(files, tree, made.epoch)
        script = os.path.join(work, "halftone.nsi")
        with open(script, "w", encoding="utf-8") as file:
            file.write(_script(files, tree, path, made))
        environ = {**os.environ, "SOURCE_DATE_EPOCH": str(made.epoch)}
        subprocess.run(("makensis", "-V2", "-INPUTCHARSET", "UTF8", script), env=environ, check=True, stdout=subprocess.DEVNULL)


def _script(files: Mapping[str, Entry], tree: str, out: str, made: Release) -> str:
    with open(os.path.join(_HERE, "halftone.nsi"), encoding="utf-8") as file:
        text = file.read()
    values = {
        "OUT": out,
        "ICON": os.path.join(tree, "halftone.ico"),
        "VERSION": made.version,
        "KILOBYTES": str(sum(len(entry.data) for entry in files.values()) // 1024),
        "INSTALL": "\n".join(_installed(files, tree)),
        "DELETE": "\n".join(f'  Delete "{_inside(name)}"' for name in files),
        "REMOVE": "\n".join(_folders(files)),
    }
    for name, value in values.items():
        text = text.replace(f"@{name}@", value)
    return text


def _installed(files: Iterable[str], tree: str) -> Iterable[str]:
    """One SetOutPath per folder, then its files."""
    last: str | None = None
    for name in sorted(files, key=posixpath.split):
        if (above := posixpath.dirname(name)) != last:
            yield f'  SetOutPath "{_inside(above)}"'
            last = above
        yield f'  File "{os.path.join(tree, *name.split("/"))}"'


def _folders(files: Iterable[str]) -> Iterable[str]:
    """Remove folders from the deepest on; one that holds something else stays."""
    folders = {parent for name in files for parent in _parents(name)}
    yield from (f'  RMDir "{_inside(name)}"' for name in sorted(folders, key=lambda one: (-one.count("/"), one)))


def _parents(name: str) -> Iterable[str]:
    while name := posixpath.dirname(name):
        yield name


def _inside(name: str) -> str:
    """Name a file or folder for NSIS, in which two dollars stand for one."""
    return "\\".join(("$INSTDIR", *filter(None, name.replace("$", "$$").split("/"))))
