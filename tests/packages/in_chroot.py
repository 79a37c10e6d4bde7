"""Installs the Debian package in a clean Debian, as root, and uses it as an ordinary user: `python3 -m tests.packages.in_chroot
PACKAGE.deb FOLDER`. It needs root, debootstrap and the network that a first start needs; FOLDER is left for a look.

What it shows, a line each: the package installs, an ordinary user completes the first start and makes a picture, nothing is
written below /usr meanwhile, and a purge removes all that the package brought and nothing of the user's.
"""

import argparse
import contextlib
import os
import shutil
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path
from typing import Final

SUITE: Final = "bookworm"
USER: Final = "pia"
PICTURE: Final = "Bilder ü/sun.png"
HOST: Final = ("/etc/resolv.conf", "/etc/pip.conf", "/etc/apt/sources.list.d/debian.sources", "/etc/apt/apt.conf.d")
"""How this machine reaches its package indexes; a person's machine has its own."""


def run(*command: str, **variables: str) -> str:
    done = subprocess.run(command, env={**os.environ, **variables}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(f"{' '.join(command)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}")
    return done.stdout


class Chroot:
    """A Debian of its own in a folder."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def root_does(self, words: str) -> str:
        return run("chroot", str(self.root), "/bin/sh", "-c", words, DEBIAN_FRONTEND="noninteractive", LC_ALL="C.UTF-8")

    def user_does(self, words: str) -> str:
        kept = "".join(f"export {name}='{os.environ[name]}'; " for name in os.environ if name.startswith("PIP_"))
        inner = f"cd; unset HALFTONE_HOME XDG_DATA_HOME; export LC_ALL=C.UTF-8; {kept}{words}"
        return run("chroot", str(self.root), "su", "-", USER, "-c", inner)

    def below_usr(self) -> dict[str, tuple[int, int]]:
        found = (path for path in (self.root / "usr").rglob("*") if not path.is_symlink())
        return {str(path.relative_to(self.root)): (info.st_size, info.st_mtime_ns) for path in found if (info := path.stat())}


@contextlib.contextmanager
def mounted(root: Path, folders: list[str]) -> Generator[None]:
    """The machine's folders of wheels, /proc and /dev, seen inside."""
    places = [(folder, root / folder.lstrip("/")) for folder in (*folders, "/proc", "/dev")]
    try:
        for folder, place in places:
            place.mkdir(parents=True, exist_ok=True)
            run("mount", "--bind", folder, str(place))
        yield
    finally:
        for _, place in reversed(places):
            subprocess.run(("umount", "-l", str(place)), check=False)


def prepare(root: Path) -> Chroot:
    if not (root / "usr").is_dir():
        run("debootstrap", "--variant=minbase", "--include=ca-certificates", SUITE, str(root))
    for name in HOST:
        place = root / name.lstrip("/")
        if os.path.isdir(name):
            shutil.copytree(name, place, dirs_exist_ok=True)
        elif os.path.exists(name):
            place.parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(name, place)
    bundle = "etc/ssl/certs/ca-certificates.crt"
    shutil.copyfile(f"/{bundle}", root / bundle)
    return Chroot(root)


def check(name: str, holds: bool, detail: str = "") -> None:
    print(f"{'ok  ' if holds else 'FAIL'} {name}{f': {detail}' if detail else ''}", flush=True)
    if not holds:
        raise SystemExit(1)


def trial(chroot: Chroot, package: Path) -> None:
    chroot.root_does("apt-get update -q")
    chroot.root_does(f"id {USER} 2>/dev/null || useradd -m -s /bin/bash {USER}")
    before = chroot.below_usr()
    shutil.copy(package, chroot.root / "tmp" / package.name)
    chroot.root_does(f"apt-get install -q -y --no-install-recommends /tmp/{package.name}")
    check("installs with its dependencies", "ok installed" in chroot.root_does("dpkg -s halftone | grep Status"))
    check("dpkg finds every file as it was packed", chroot.root_does("dpkg --verify halftone").strip() == "")
    installed = chroot.below_usr()
    first = chroot.user_does(f"mkdir -p '{Path(PICTURE).parent}'; halftone generate 'a red sun' --steps 4 --output '{PICTURE}'")
    home = chroot.root / "home" / USER
    check("an ordinary user completes the first start and makes a picture", (home / PICTURE).stat().st_size > 1000, first[-200:])
    window = chroot.user_does("QT_QPA_PLATFORM=offscreen timeout 20 halftone gui; echo ended $?")
    check("the window opens, and stays open until it is ended", "ended 124" in window, window[-200:])
    check("nothing was written below /usr", chroot.below_usr() == installed)
    chroot.user_does("halftone settings set language zh_CN 2>/dev/null || true")
    kept = {str(path.relative_to(home)) for path in home.rglob("*") if not path.is_dir()}
    chroot.root_does("apt-get purge -q -y halftone && apt-get autoremove -q -y --purge")
    left = {name for name in set(chroot.below_usr()) - set(before) if "halftone" in name.lower()}
    check("a purge leaves nothing of Halftone below /usr", not left, ", ".join(sorted(left)[:5]))
    now = {str(path.relative_to(home)) for path in home.rglob("*") if not path.is_dir()}
    check("the user's pictures, settings and environment are untouched", now == kept, f"{len(now)} files")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("package", type=Path)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--share", action="append", default=[], help="a folder of wheels to be seen inside, for pip's find-links")
    asked = parser.parse_args()
    chroot = prepare(asked.folder)
    with mounted(asked.folder, asked.share):
        trial(chroot, asked.package)


if __name__ == "__main__":
    sys.exit(main())
