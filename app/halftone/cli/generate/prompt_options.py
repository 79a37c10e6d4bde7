"""The options of `generate` that are about its words and its seeds: styles, wildcards, variations."""

import inspect
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from halftone.contract.errors import HalftoneError
from halftone.contract.limits import RANDOM_SEED
from halftone.contract.parameters import BY_FIELD
from halftone.contract.wording import Words
from halftone.library.prompts.styles import known_styles, styles_named
from halftone.settings.disk import no_folder
from halftone.settings.store import Settings

_PANEL: Final = "What to make"
_SIZE: Final = re.compile(r"(\d{1,6})\s*[x×]\s*(\d{1,6})", re.IGNORECASE)
_OPTIONS: Final[tuple[tuple[str, Any, tuple[str, ...], str | None, str], ...]] = (
    ("style", list[str], ("--style",), "NAME", "A prompt style from a styles.csv; may be repeated."),
    ("styles", str, ("--styles",), "FILE", "The styles.csv. Default: the one in your settings, and your saved styles."),
    ("wildcards", list[str], ("--wildcards",), "FOLDER", "A folder with name.txt for __name__; may be repeated."),
    ("draws", bool, ("--draw/--no-draw",), None, "Expand {a|b} and __name__ in prompts, chosen by the seed."),
    ("seed_size", str, ("--seed-resize-from",), "WxH", "Use the noise of a picture of this size."),
)
"""Name, type, flags, metavar, help."""


def word_parameters() -> list[inspect.Parameter]:
    own = [
        (
            name,
            Annotated[kind | None, typer.Option(*flags, metavar=metavar, help=said, rich_help_panel=_PANEL, show_default=False)],
        )
        for name, kind, flags, metavar, said in _OPTIONS
    ]
    own += [
        (name, Annotated[BY_FIELD[name].kind | None, option(name, _PANEL)]) for name in ("variation_seed", "variation_strength")
    ]
    return [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind) for name, kind in own]


def option(field: str, panel: str | None = None, metavar: str | None = None) -> Any:
    """Return the option of a parameter, with its flags and its help."""
    one = BY_FIELD[field]
    said = f"{one.help} Default: 1." if field == "batch" else one.help
    return typer.Option(*one.flags, metavar=metavar, help=said, rich_help_panel=panel, show_default=False)


def asked_words(options: Mapping[str, Any], saved: Settings) -> dict[str, Any]:
    """Fields of the request. Raises style*, words-unreadable, output-folder-missing, setting-bad-value."""
    folders = tuple(str(Path(folder).expanduser().absolute()) for folder in options.get("wildcards", ()))
    for folder in folders:
        if not os.path.isdir(folder):
            raise no_folder(Path(folder))
    asked: dict[str, Any] = {name: options[name] for name in ("draws", "variation_strength") if name in options}
    asked["wildcards"] = tuple(dict.fromkeys((*folders, *saved.wildcard_folders)))
    asked["variation_seed"] = seed_of(options.get("variation_seed"))
    if "style" in options:
        asked["styles"] = styles_named(options["style"], known_styles(options.get("styles") or saved.styles_file or None))
    elif "styles" in options:
        raise HalftoneError(
            "setting-bad-value", name="--styles", value=Words("given alone"), allowed=Words("--style NAME as well")
        )
    if "seed_size" in options:
        asked["seed_size"] = _size(options["seed_size"])
    return asked


def seed_of(seed: int | None) -> int | None:
    """None for a random one, which users of other programs write as -1."""
    return None if seed == RANDOM_SEED else seed


def _size(text: str) -> tuple[int, int]:
    found = _SIZE.fullmatch(text.strip())
    if found is None:
        raise HalftoneError(
            "setting-bad-value", name="--seed-resize-from", value=text, allowed=Words("WIDTHxHEIGHT, for instance 512x768")
        )
    return int(found[1]), int(found[2])
