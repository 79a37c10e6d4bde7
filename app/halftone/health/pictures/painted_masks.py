"""Masks that were painted in the window lie in a folder of ours: those that nothing names any more go."""

import logging
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from halftone.contract.errors import HalftoneError
from halftone.gallery.history import History
from halftone.health.pictures.unfinished_pictures import RECORD
from halftone.library.files.header import read_header
from halftone.settings.places import latents_dir, masks_dir

log = logging.getLogger(__name__)

DAYS: Final = 30
"""So long a mask stays in any case: another window may have it in its form or its queue."""
_OURS: Final = re.compile(r"[0-9a-f]{16}\.png")
"""How they are named, by what they hold: whatever else lies there is not touched."""


def forget_painted_masks(form: str) -> int:
    """Remove old masks that no picture of the history, no kept latents and no form name; how many. form: as it is kept for the
    next start. Raises sqlite3.Error where the history cannot be asked; then nothing goes.
    """
    oldest = time.time() - DAYS * 86_400
    old = [path for path in masks_dir().iterdir() if _OURS.fullmatch(path.name) and path.stat().st_mtime < oldest]
    if not old:
        return 0
    with History() as history:
        texts = [form.encode(), *history.requests(), *_kept()]
    left = [path for path in old if not any(path.name.encode() in text for text in texts)]
    for path in left:
        path.unlink(missing_ok=True)
    log.info("%d painted masks were removed, that nothing names any more", len(left))
    return len(left)


def _kept() -> Iterator[bytes]:
    """What the files of kept latents say of their requests."""
    for path in latents_dir().glob("*.safetensors"):
        text = _record(path)
        if text:
            yield text.encode()


def _record(path: Path) -> str:
    try:
        return read_header(path).metadata.get(RECORD, "")
    except (OSError, HalftoneError):
        return ""
