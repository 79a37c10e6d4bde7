"""Tidies at the start: half-written files of killed processes are removed, and only the owner may read ours."""

import logging
import os
from pathlib import Path

from halftone.settings import places
from halftone.settings.atomic import clear_named, clear_parts
from halftone.settings.private import close_to_others

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
    for place in own:
        for inside, _, names in os.walk(place):
            clear_named(Path(inside), names)
