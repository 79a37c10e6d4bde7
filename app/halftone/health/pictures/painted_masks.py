"""Removes painted masks and pasted pictures from Halftone's folder that nothing names any more."""

import logging
import re
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from halftone.contract.errors import HalftoneError
from halftone.gallery.history import History
from halftone.health.pictures.unfinished_pictures import RECORD
from halftone.library.files.header import read_header
from halftone.settings.places import latents_dir, masks_dir
from halftone.settings.slots import kept_texts

log = logging.getLogger(__name__)

DAYS: Final = 30
"""Least age of a removed mask: another window may have it in its form or its queue."""
_OURS: Final = re.compile(r"[0-9a-f]{16}\.png")
"""Names of these masks, by their contents; other files are not touched."""


def forget_painted_masks(form: str) -> int:
    """Remove old masks that no picture of the history, no kept latents, no kept queue and no form name; return how many. form: as
    stored for the next start. Raises sqlite3.Error where the history cannot be asked; then none is removed.
    """
    oldest = time.time() - DAYS * 86_400
    old = [path for path in masks_dir().iterdir() if _OURS.fullmatch(path.name) and path.stat().st_mtime < oldest]
    if not old:
        return 0
    with History() as history:
        texts = [form.encode(), kept_texts(), *history.requests(), *_kept()]
    left = [path for path in old if not any(path.name.encode() in text for text in texts)]
    for path in left:
        path.unlink(missing_ok=True)
    log.info("%d painted masks were removed, that nothing names any more", len(left))
    return len(left)


def _kept() -> Iterator[bytes]:
    """The records in files of kept latents."""
    for path in latents_dir().glob("*.safetensors"):
        with suppress(OSError, HalftoneError):
            yield read_header(path).metadata.get(RECORD, "").encode()
