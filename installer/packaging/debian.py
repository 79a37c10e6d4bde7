"""The Debian package: the program in /usr/lib/halftone, started by /usr/bin/halftone, with the system's Python."""

import gzip
import os
import subprocess
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from email.utils import format_datetime
from typing import Final

from installer.packaging.payload import Entry, Release, payload, write_tree
from installer.places import ROOT
from installer.systemlibs import BASE, X11

APP_ID: Final = "org.halftone.Halftone"
MAINTAINER: Final = "Halftone developers <developers@halftone.org>"
PROGRAM: Final = "usr/lib/halftone"
MACHINES: Final = {"linux-x86_64": "amd64", "linux-aarch64": "arm64"}
"""Target -> its name in Debian."""
_LEVEL: Final = 6
"""Of xz."""
_OVERRIDES: Final = {
    "arm64": {
        "usr/share/lintian/overrides/halftone": Entry(
            b"# uv's own wheel for ARM is linked against musl, statically\n"
            b"halftone: statically-linked-binary [usr/lib/halftone/uv/uv]\n"
        )
    }
}
"""Debian's name of a machine -> what lintian may find in its package, and why."""
_HERE: Final = os.path.join(ROOT, "installer", "packaging", "linux")
_SUMMARY: Final = "generate pictures on your own GPU, never a black one without a reason"
_DESCRIPTION: Final = """\
 Half precision makes image models fast, and now and then it ruins a picture.
 Halftone measures what the graphics card can do, checks a model in one click,
 names the layer that overflows, cures it, and generates pictures and videos
 under a watch.
 .
 The first start of each user sets up an environment with PyTorch in the user's
 own data folder, for which it needs a network once."""


def template(name: str, made: Release, **values: str) -> bytes:
    """A file of the folder linux, with "@NAME@" replaced."""
    with open(os.path.join(_HERE, name), encoding="utf-8") as file:
        text = file.read()
    for key, value in {"VERSION": made.version, "DATE": f"{_time(made):%Y-%m-%d}", **values}.items():
        text = text.replace(f"@{key}@", value)
    return text.encode()


def desktop_files(made: Release) -> dict[str, Entry]:
    """Path below the root of a system -> what a desktop reads of Halftone."""
    with open(os.path.join(ROOT, "resources", "icons", "halftone.svg"), "rb") as file:
        icon = file.read()
    return {
        f"usr/share/applications/{APP_ID}.desktop": Entry(template(f"{APP_ID}.desktop", made)),
        f"usr/share/metainfo/{APP_ID}.metainfo.xml": Entry(template(f"{APP_ID}.metainfo.xml", made)),
        f"usr/share/mime/packages/{APP_ID}.xml": Entry(template(f"{APP_ID}.xml", made)),
        f"usr/share/icons/hicolor/scalable/apps/{APP_ID}.svg": Entry(icon),
    }


def build(cache: str, target: str, made: Release, folder: str, level: int = _LEVEL) -> str:
    """Write the package; returns its path. level: of compression. Raises LaunchError as `payload`, CalledProcessError."""
    machine = MACHINES[target]
    path = os.path.join(folder, f"halftone_{made.version}_{machine}.deb")
    write_package(payload(cache, target, "deb", made), machine, made, path, level)
    return path


def write_package(program: Mapping[str, Entry], machine: str, made: Release, path: str, level: int = _LEVEL) -> None:
    """Write a package whose program's folder holds these files. Raises CalledProcessError."""
    with tempfile.TemporaryDirectory(dir=os.path.dirname(path)) as root:
        files = {f"{PROGRAM}/{name}": entry for name, entry in program.items()}
        files |= desktop_files(made) | _documents(made) | _OVERRIDES.get(machine, {})
        starter = template("halftone.sh", made, PROGRAM=f"/{PROGRAM}", STARTER="halftone")
        files["usr/bin/halftone"] = Entry(starter, runs=True)
        files["DEBIAN/control"] = Entry(_control(machine, made, files))
        files["DEBIAN/md5sums"] = Entry(_sums(files))
        write_tree(files, root, made.epoch)
        environ = {**os.environ, "SOURCE_DATE_EPOCH": str(made.epoch)}
        command = ("dpkg-deb", "--root-owner-group", "-Zxz", f"-z{level}", "--build", root, path)
        subprocess.run(command, env=environ, check=True, stdout=subprocess.DEVNULL)


def _control(machine: str, made: Release, files: Mapping[str, Entry]) -> bytes:
    libraries = sorted({packages.apt for packages in (*BASE.values(), *X11.values())})
    size = sum(-(-len(entry.data) // 1024) for entry in files.values())
    lines = {
        "Package": "halftone",
        "Version": made.version,
        "Architecture": machine,
        "Maintainer": MAINTAINER,
        "Installed-Size": str(size),
        "Depends": ", ".join(["python3 (>= 3.11)", "libc6 (>= 2.34)", "ca-certificates", *libraries]),
        "Recommends": "libnotify-bin",
        "Section": "graphics",
        "Priority": "optional",
        "Homepage": "https://halftone.org",
        "Description": f"{_SUMMARY}\n{_DESCRIPTION}",
    }
    return ("".join(f"{name}: {value}\n" for name, value in lines.items())).encode()


def _documents(made: Release) -> dict[str, Entry]:
    date = format_datetime(_time(made))
    log = f"halftone ({made.version}) unstable; urgency=medium\n\n  * See CHANGELOG.md.\n\n -- {MAINTAINER}  {date}\n"
    return {
        "usr/share/doc/halftone/copyright": Entry(template("copyright", made)),
        "usr/share/doc/halftone/changelog.gz": Entry(gzip.compress(log.encode(), 9, mtime=0)),
        "usr/share/man/man1/halftone.1.gz": Entry(gzip.compress(template("halftone.1", made), 9, mtime=0)),
    }


def _sums(files: Mapping[str, Entry]) -> bytes:
    """The MD5 sums that dpkg's own check of installed files wants."""
    import hashlib

    rows = (
        f"{hashlib.md5(entry.data, usedforsecurity=False).hexdigest()}  {name}\n"
        for name, entry in sorted(files.items())
        if not name.startswith("DEBIAN/")
    )
    return "".join(rows).encode()


def _time(made: Release) -> datetime:
    return datetime.fromtimestamp(made.epoch, UTC)
