"""What is needed of the settings file before or without all of it, read with the standard library alone."""

import os
import tomllib
from typing import Any, Final, Literal, NamedTuple, cast

from halftone.settings.places import settings_file
from halftone.settings.regular_files import read_text

ThemeChoice = Literal["system", "dark", "light"]

Motion = Literal["system", "reduced", "full"]

_THEMES: Final = ("system", "dark", "light")


class Glance(NamedTuple):
    """For the first paint: look and place of the window, with defaults for missing and wrong entries."""

    theme: ThemeChoice = "system"
    geometry: str = ""
    """As Qt saved it, base64; "" when the window was never closed."""
    columns: tuple[int, ...] = ()
    """Widths of the three columns of Create in pixels."""
    first_run: bool = True


def glance() -> Glance:
    """Read it from the settings file. Never raises: `store.load` reports the problems."""
    content = _content()
    theme = _entry(content, "appearance", "theme")
    geometry = _entry(_entry(content, "window", "geometry"), "main")
    columns = _entry(_entry(content, "window", "splitters"), "create")
    return Glance(
        theme=theme if theme in _THEMES else "system",
        geometry=geometry if isinstance(geometry, str) else "",
        columns=widths(columns if isinstance(columns, str) else ""),
        first_run=_entry(content, "general", "first_run_done") is not True,
    )


def model_folders() -> tuple[str, ...]:
    """The folders of models that are watched. Never raises."""
    said = _entry(_content(), "folders", "models")
    folders = [said] if isinstance(said, str) else cast("list[object]", said) if isinstance(said, list) else []
    return tuple(os.path.expanduser(str(folder)) for folder in folders)


def _content() -> dict[str, Any]:
    try:
        return tomllib.loads(read_text(settings_file()))
    except (OSError, ValueError, RecursionError):
        return {}


def widths(text: str, count: int = 3) -> tuple[int, ...]:
    """ "336,896,208" -> three widths; () unless there are so many and none is 0."""
    sizes = tuple(int(part) for part in text.split(",") if part.isdecimal())
    return sizes if len(sizes) == count and all(sizes) else ()


def _entry(content: object, *names: str) -> object:
    """The entry of nested tables, None where there is none."""
    for name in names:
        if not isinstance(content, dict):
            return None
        content = cast("dict[str, Any]", content).get(name)
    return content
