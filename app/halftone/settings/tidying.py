"""Tidies at the start: half-written files of killed processes are removed, and only the owner may read ours."""

import logging
import os
import shutil
import time
from pathlib import Path

from halftone.settings import places
from halftone.settings.atomic import clear_named, clear_parts
from halftone.settings.private import close_to_others

_REQUEST_DAYS = 2
"""After so long no request of a script waits for its pictures any more."""

log = logging.getLogger(__name__)


def tidy_places(pictures: str | None) -> None:
    """pictures: the folder of the settings, whose rights stay as they are. Raises nothing: failures are logged."""
    try:
        own = (places.data_dir(), places.cache_dir(), places.log_dir())
        settings, made = places.settings_file(), Path(pictures) if pictures else places.pictures_dir()
    except OSError as error:
        log.info("the folders of Halftone are not tidied: %s", error)
        return
    close_to_others((*own, settings))
    for folder in (settings.parent, made):
        clear_parts(folder)
    _clear_requests(places.cache_dir() / "serve")
    for place in own:
        for inside, _, names in os.walk(place):
            clear_named(Path(inside), names)


def _clear_requests(folder: Path) -> None:
    """Remove the folders of start pictures that a killed program left."""
    oldest = time.time() - _REQUEST_DAYS * 86_400
    try:
        left = [path for path in folder.iterdir() if path.is_dir() and path.stat().st_mtime < oldest]
    except OSError:  # no script has sent any
        return
    for path in left:
        shutil.rmtree(path, ignore_errors=True)
