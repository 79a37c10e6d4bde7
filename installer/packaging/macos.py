"""The macOS package: a bundle in a zip archive that keeps the right to be executed."""

import os
import plistlib
from typing import Final

from installer.packaging.payload import Entry, Release, payload, write_zip
from installer.places import ROOT

_HERE: Final = os.path.join(ROOT, "installer", "packaging", "macos")
_BUNDLE: Final = "Halftone.app/Contents"


def build(cache: str, target: str, made: Release, folder: str) -> str:
    """Write the archive; returns its path. It is not signed, which its name says. Raises LaunchError as `payload`."""
    path = os.path.join(folder, f"halftone-{made.version}-macos-arm64-unsigned.zip")
    inside = f"{_BUNDLE}/Resources/halftone"
    files = {f"{inside}/{name}": entry for name, entry in payload(cache, target, "macos", made).items()}
    write_bundle(files, made, path)
    return path


def write_bundle(files: dict[str, Entry], made: Release, path: str) -> None:
    """Write the archive of a bundle. files: the program's, under their names in it."""
    inside = f"{_BUNDLE}/Resources/halftone"
    files = files | {
        f"{_BUNDLE}/Info.plist": Entry(plistlib.dumps(_properties(made))),
        f"{_BUNDLE}/MacOS/Halftone": _read("Halftone"),
        f"{_BUNDLE}/PkgInfo": Entry(b"APPL????"),
        f"{_BUNDLE}/Resources/halftone.icns": Entry(_read("../../../resources/icons/halftone.icns").data),
        f"{inside}/first-start.command": _read("first-start.command"),
        f"{inside}/is_ready.py": Entry(_read("is_ready.py").data),
    }
    write_zip(files, path, made.epoch)


def _read(name: str) -> Entry:
    with open(os.path.join(_HERE, *name.split("/")), "rb") as file:
        return Entry(file.read(), runs=True)


def _properties(made: Release) -> dict[str, object]:
    """What the Finder reads of a bundle."""
    return {
        "CFBundleDisplayName": "Halftone",
        "CFBundleExecutable": "Halftone",
        "CFBundleIconFile": "halftone.icns",
        "CFBundleIdentifier": "org.halftone.Halftone",
        "CFBundleInfoDictionaryVersion": "6.0",
        "CFBundleLocalizations": ["en", "zh_CN"],
        "CFBundleName": "Halftone",
        "CFBundlePackageType": "APPL",
        "CFBundleShortVersionString": made.version,
        "CFBundleVersion": made.version,
        "LSApplicationCategoryType": "public.app-category.graphics-design",
        "LSMinimumSystemVersion": "14.0",
        "NSHighResolutionCapable": True,
    }
