"""A1111's hash of a model's file: the first ten digits of the whole file's SHA-256, in old texts eight of a part."""

import hashlib
import re
from collections.abc import Callable
from typing import Final

from halftone.library.files.header import file_stamp
from halftone.settings.regular_files import open_regular

_OLD: Final = 8
"""Digits of the hash that A1111 wrote before 2023: of 64 kB from the second megabyte on."""
_AT, _LENGTH = 0x100000, 0x10000
_PIECE: Final = 1 << 24
_HASH: Final = re.compile(r"[0-9a-f]{8}|[0-9a-f]{10}|[0-9a-f]{64}")

_known: dict[tuple[str, str, bool], str] = {}
"""(path, stamp, old) -> hash."""


def is_hash(text: str) -> bool:
    """Whether it may be one."""
    return _HASH.fullmatch(text.lower()) is not None


def model_hash(path: str, signs: int, stop: Callable[[], bool]) -> str:
    """So many digits of the hash, computed once a version; "" for a file that cannot be read, or where `stop` returns True."""
    key = path, file_stamp(path), signs == _OLD
    if key not in _known:
        try:
            found = _computed(path, stop, old=signs == _OLD)
        except OSError:
            found = ""
        if not found:
            return ""
        _known[key] = found
    return _known[key][:signs]


def _computed(path: str, stop: Callable[[], bool], *, old: bool) -> str:
    """ "" where it was stopped."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        if old:
            file.seek(_AT)
            return hashlib.sha256(file.read(_LENGTH)).hexdigest()
        while piece := file.read(_PIECE):
            if stop():
                return ""
            digest.update(piece)
    return digest.hexdigest()
