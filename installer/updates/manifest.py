"""The manifest of an update: one signed file that says which version it is, for whom, and which archive belongs to it.

The first line is `halftone-update 1 SIGNATURE` (base64), the rest is JSON. What is signed is all bytes after the first line,
behind `CONTEXT`, so that no signature made for something else can be used here.
"""

import base64
import binascii
import json
import os
import re
import sys
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, cast

from installer import versions
from installer.places import ROOT
from installer.updates.ed25519 import is_signed
from installer.updates.reasons import UpdateError

KEY_FILE: Final = os.path.join(ROOT, "installer", "updates", "update-key.txt")
HEAD: Final = b"halftone-update 1 "
CONTEXT: Final = b"Halftone update manifest, version 1\n"
MOST_BYTES: Final = 262_144
"""Of a manifest."""
MOST_ARCHIVE: Final = 200_000_000
MOST_UNPACKED: Final = 600_000_000
MOST_FILES: Final = 20_000


class Manifest(NamedTuple):
    """archive: the file's name beside the manifest; size, unpacked: bytes; lock: digest of the locked packages; notes: language
    ("en", "zh_CN") -> what is new; python: the oldest that its launcher runs on."""

    version: str
    date: str
    target: str
    notes: Mapping[str, str]
    archive: str
    size: int
    sha256: str
    unpacked: int
    files: int
    lock: str
    python: str


def public_key(path: str = KEY_FILE) -> bytes:
    """The 32 bytes of the key that updates are signed with. Raises UpdateError where the build has none."""
    try:
        with open(path, encoding="ascii") as file:
            lines = [line.strip() for line in file if line.strip() and not line.startswith("#")]
        key = base64.b64decode(lines[0], validate=True) if len(lines) == 1 else b""
    except (OSError, UnicodeDecodeError, binascii.Error):
        key = b""
    if len(key) != 32:
        raise UpdateError("no-key")
    return key


def written(manifest: Manifest) -> bytes:
    """The bytes behind the first line."""
    return (json.dumps({"name": "halftone", **manifest._asdict()}, indent=1, ensure_ascii=False) + "\n").encode()


def verified(data: bytes, name: str, key: bytes) -> Manifest:
    """Read a manifest; nothing of it is looked at before its signature is right. name: for errors. Raises UpdateError."""
    head, end, body = data.partition(b"\n")
    if not end or not head.startswith(HEAD):
        raise UpdateError("bad-manifest", name, "its first line")
    try:
        signature = base64.b64decode(head.removeprefix(HEAD).strip(), validate=True)
    except binascii.Error as error:
        raise UpdateError("bad-manifest", name, "its first line") from error
    if not is_signed(CONTEXT + body, signature, key):
        raise UpdateError("bad-signature", name)
    try:
        values = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise UpdateError("bad-manifest", name, "not JSON") from error
    if not isinstance(values, dict):
        raise UpdateError("bad-manifest", name, "not an object")
    return _typed(cast("Mapping[str, Any]", values), name)


_PATTERNS: Final = {
    "name": r"halftone",
    "date": r"\d{4}-\d\d-\d\d",
    "target": r"[a-z0-9_]+-[a-z0-9_]+",
    "archive": r"[A-Za-z0-9][A-Za-z0-9._-]{0,100}",
    "sha256": r"[0-9a-f]{64}",
    "lock": r"[0-9a-f]{64}",
    "python": r"3\.\d{1,2}",
}
_LIMITS: Final = {"size": MOST_ARCHIVE, "unpacked": MOST_UNPACKED, "files": MOST_FILES}


def _typed(values: Mapping[str, Any], name: str) -> Manifest:
    """Raises UpdateError naming the first field that is not as it must be. Unknown fields are for later versions."""
    for field, pattern in _PATTERNS.items():
        if not isinstance(values.get(field), str) or not re.fullmatch(pattern, values[field]):
            raise UpdateError("bad-manifest", name, field)
    if not isinstance(values.get("version"), str) or versions.numbers(values["version"]) is None:
        raise UpdateError("bad-manifest", name, "version")
    for field, most in _LIMITS.items():
        if type(values.get(field)) is not int or not 0 < values[field] <= most:
            raise UpdateError("bad-manifest", name, field)
    notes = values.get("notes")
    if not isinstance(notes, dict) or not all(isinstance(one, str) for pair in notes.items() for one in pair):
        raise UpdateError("bad-manifest", name, "notes")
    return Manifest(**{field: values[field] for field in Manifest._fields})


def judge(manifest: Manifest, target: str, newest: str, *, whole: bool) -> None:
    """Refuse what is not an update for this package. newest: the newest version that was in use; whole: it is undamaged.

    An older version that was signed once may have a hole that was closed since, so it is refused whoever offers it.
    """
    if manifest.target != target:
        raise UpdateError("other-platform", manifest.target, target)
    offered, known = versions.numbers(manifest.version), versions.numbers(newest)
    assert offered is not None
    if known is not None and offered < known:
        raise UpdateError("older", manifest.version, newest)
    if offered == known and whole:
        raise UpdateError("installed", manifest.version)
    needed = tuple(int(part) for part in manifest.python.split("."))
    if sys.version_info[:2] < needed:
        raise UpdateError("old-python", manifest.version, manifest.python, f"{sys.version_info[0]}.{sys.version_info[1]}")
