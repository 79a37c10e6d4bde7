"""What this desktop can do for the settings, asked once."""

from functools import cache

from halftone.gui.shell.desktop import note_problem, taskbar_problem
from halftone.health.planning.usable_settings import Abilities
from halftone.settings.picture_files import has_jpeg_xl


@cache
def abilities() -> Abilities:
    return Abilities(no_notes=note_problem(), no_taskbar=taskbar_problem(), jpeg_xl=has_jpeg_xl())
