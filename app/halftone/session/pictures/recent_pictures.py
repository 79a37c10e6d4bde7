"""Pictures of the history, and a picture that was just made put into it."""

import logging
import sqlite3

from msgspec.structs import replace

from halftone.contract.facts import PictureFacts
from halftone.contract.request import PictureRequest, UpscaleRequest
from halftone.gallery.history import Entry, History
from halftone.gallery.made import list_made
from halftone.settings.disk import system_words
from halftone.settings.store import load, save

_log = logging.getLogger(__name__)


def recent(limit: int = 200) -> list[Entry]:
    """The latest pictures, the newest first; none where the history cannot be read."""
    try:
        with History() as history:
            return history.recent(limit)
    except (OSError, sqlite3.Error) as error:
        _log.info("the history cannot be read: %s", error)
        return []


def remember(request: PictureRequest | UpscaleRequest, facts: PictureFacts, thumbnail: bytes) -> list[str]:
    """Put a saved picture into the history, and its model into the settings. Returns why that could not be done: no reason to
    lose the picture.
    """
    why: list[str] = []
    try:
        saved = load()
        if isinstance(request, PictureRequest) and saved.last_model != request.model:
            save(replace(saved, last_model=request.model))
    except OSError as error:
        why.append(f"settings: {system_words(error)}")
    try:
        list_made(request, facts, thumbnail)
    except (OSError, sqlite3.Error) as error:
        why.append(str(error))
    return why
