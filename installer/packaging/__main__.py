"""Builds the packages that people double-click: `python3 -m installer.packaging fetch`, then `… build`.

    python3 -m installer.packaging fetch [TARGET …]     downloads uv's wheels into the cache, the one step that needs a network
    python3 -m installer.packaging build [KIND …]       builds deb, appimage, windows and macos, as far as the tools are there
    python3 -m installer.packaging update [TARGET …]    makes updates, signed with the private key of --key
    python3 -m installer.packaging key                  prints the line of installer/updates/update-key.txt for that key

Options: --cache DIR (build/wheels), --out DIR (dist); for updates --key FILE.pem, --notes FILE (English), --notes-zh FILE.
For another key, write its line into that file and sign the update that brings it with the former key and --new-key.
"""

import argparse
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from typing import Final, NamedTuple

from installer.packaging import appimage, debian, macos, updates, wheel_cache, windows
from installer.packaging.payload import Release, release
from installer.places import ROOT
from installer.updates.manifest import KEY_FILE, public_key
from installer.updates.reasons import UpdateError
from installer.words import LaunchError


class Kind(NamedTuple):
    """tools: programs that it takes; targets: one package each."""

    tools: tuple[str, ...]
    targets: tuple[str, ...]
    build: Callable[[str, str, Release, str], str]


KINDS: Final = {
    "deb": Kind(("dpkg-deb",), ("linux-x86_64", "linux-aarch64"), debian.build),
    "appimage": Kind(("mksquashfs",), ("linux-x86_64",), appimage.build),
    "windows": Kind(("makensis",), ("windows-x86_64",), windows.build),
    "macos": Kind((), ("macos-arm64",), macos.build),
}
LARGEST: Final = 50_000_000
"""Bytes of a package."""


def arguments(words: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python3 -m installer.packaging", description="Builds Halftone's packages.")
    parser.add_argument("action", choices=("fetch", "build", "update", "key"))
    parser.add_argument("names", nargs="*", help="targets to fetch or to update, kinds to build; all by default")
    parser.add_argument("--cache", default=os.path.join(ROOT, "build", "wheels"), help="the folder of uv's wheels")
    parser.add_argument("--out", default=os.path.join(ROOT, "dist"), help="where packages go")
    parser.add_argument("--key", default="", help="the private Ed25519 key that signs updates, in PEM, outside of the repository")
    parser.add_argument("--new-key", action="store_true", help="the update brings a new key; --key is the one that it replaces")
    parser.add_argument("--notes", default="", help="a text file that says what is new")
    parser.add_argument("--notes-zh", default="", help="the same in Chinese")
    found = parser.parse_args(words)
    known = KINDS if found.action == "build" else wheel_cache.pins()
    if unknown := [name for name in found.names if name not in known]:
        parser.error(f"unknown: {', '.join(unknown)}; there are {', '.join(known)}")
    return found


def lacking(kind: str, cache: str) -> list[str]:
    """Names of tools that are not installed; the runtime of AppImages lies in the cache."""
    tools = [tool for tool in KINDS[kind].tools if not shutil.which(tool)]
    runtime = os.path.join(cache, wheel_cache.RUNTIME)
    return [*tools, runtime] if kind == "appimage" and not os.path.exists(runtime) else tools


def key_warning(path: str = KEY_FILE) -> str:
    """What a build without an update key means; "" for one with a key."""
    try:
        public_key(path)
    except UpdateError:
        return f"{path} holds no key: these packages will refuse every update."
    return ""


def build(names: list[str], cache: str, folder: str) -> list[str]:
    """Build packages; returns their paths. Raises LaunchError."""
    made, paths = release(), list[str]()
    if warning := key_warning():
        print(warning)
    os.makedirs(folder, exist_ok=True)
    for name in names or KINDS:
        if tools := lacking(name, cache):
            if names:
                raise LaunchError(f"The package {name} needs {', '.join(tools)}; nothing was built: install it and start again.")
            print(f"{name}: left out, as {', '.join(tools)} is missing")
            continue
        for target in KINDS[name].targets:
            path = KINDS[name].build(cache, target, made, folder)
            size = os.path.getsize(path)
            print(f"{path}  {size / 1e6:.1f} MB")
            if size > LARGEST:
                raise LaunchError(f"{path} is larger than {LARGEST // 1_000_000} MB: leave something out.")
            paths.append(path)
    return paths


def update(asked: argparse.Namespace) -> None:
    """Make the updates of the checkout. Raises LaunchError."""
    paths = zip(updates.LANGUAGES, (asked.notes, asked.notes_zh), strict=True)
    said = updates.notes({language: path for language, path in paths if path})
    for target in asked.names or wheel_cache.pins():
        made = updates.build(asked.cache, target, release(), asked.out, asked.key, said, asked.new_key)
        print(f"{made.manifest}\n{made.archive}  {os.path.getsize(made.archive) / 1e6:.1f} MB")


def main(words: list[str]) -> int:
    asked = arguments(words)
    try:
        if asked.action == "fetch":
            wheel_cache.fill(asked.cache, asked.names or list(wheel_cache.pins()))
        elif asked.action == "key":
            print(updates.key_line(asked.key))
        elif asked.action == "update":
            update(asked)
        else:
            build(asked.names, asked.cache, asked.out)
    except (LaunchError, subprocess.CalledProcessError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
