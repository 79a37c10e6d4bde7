"""Hashes whole files in the background, by which other programs and their pictures name models."""

import hashlib
from collections.abc import Callable
from typing import Final

from halftone.library.index.facts import Hashes
from halftone.library.index.store import Index
from halftone.settings.regular_files import open_regular

_PIECE: Final = 1 << 22
_SAFE: Final = (".safetensors", ".sft")


def hash_files(index: Index, stop: Callable[[], bool], done: Callable[[str], object] = lambda _path: None) -> int:
    """Hash every file of the index that was not hashed as it is now; the number of them. What cannot be read is left out.

    stop: asked between pieces of 4 MB; done: gets each path that was hashed.
    """
    count = 0
    for path, stamp in index.unhashed():
        try:
            hashes = file_hashes(path, stop)
        except OSError:
            continue
        if hashes is None:
            break
        index.keep_hashes(path, stamp, hashes)
        count += 1
        done(path)
    return count


def file_hashes(path: str, stop: Callable[[], bool] = lambda: False) -> Hashes | None:
    """SHA-256 of a file, and of a safetensors file's weights alone; None where it was stopped. Raises OSError.

    The weights' hash is the one by which A1111 and kohya name LoRAs: it stays when only the header changes.
    """
    whole = hashlib.sha256()
    weights = hashlib.sha256() if path.lower().endswith(_SAFE) else None
    with open_regular(path) as file:
        left = 8 + int.from_bytes(file.read(8), "little") if weights is not None else 0
        file.seek(0)
        while piece := file.read(_PIECE):
            if stop():
                return None
            whole.update(piece)
            if weights is not None:
                weights.update(piece[left:])
                left = max(0, left - len(piece))
    return Hashes(whole.hexdigest(), "" if weights is None else weights.hexdigest())
