"""The hash by which A1111 names a model's file: the first ten signs of the whole file's SHA-256, in old texts eight of a part."""

import hashlib
import re
from collections.abc import Callable
from typing import Final

from halftone.library.files.header import file_stamp
from halftone.settings.regular_files import open_regular

_OLD: Final = 8
"""Signs of the hash that A1111 wrote before 2023: of 64 kB from the second megabyte on."""
_AT, _LENGTH = 0x100000, 0x10000
_PIECE: Final = 1 << 24
_HASH: Final = re.compile(r"[0-9a-f]{8}|[0-9a-f]{10}|[0-9a-f]{64}")

_known: dict[tuple[str, str, bool], str] = {}
"""(path, stamp, old) -> hash."""


def is_hash(text: str) -> bool:
    """Whether it may be one."""
    return _HASH.fullmatch(text.lower()) is not None


def model_hash(path: str, signs: int, stop: Callable[[], bool]) -> str:
    """So many signs of it, from the whole file, read once a version; "" for what cannot be read, or where `stop` says so."""
    key = path, file_stamp(path), signs == _OLD
    if key not in _known:
        try:
            found = _part(path) if signs == _OLD else _whole(path, stop)
        except OSError:
            return ""
        if not found:
            return ""
        _known[key] = found
    return _known[key][:signs]


def _part(path: str) -> str:
    with open_regular(path) as file:
        file.seek(_AT)
        return hashlib.sha256(file.read(_LENGTH)).hexdigest()


def _whole(path: str, stop: Callable[[], bool]) -> str:
    """ "" where it was stopped."""
    digest = hashlib.sha256()
    with open_regular(path) as file:
        while piece := file.read(_PIECE):
            if stop():
                return ""
            digest.update(piece)
    return digest.hexdigest()
