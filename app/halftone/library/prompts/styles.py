"""Styles in A1111's form: a CSV of name, prompt and negative_prompt, each put around or behind the user's words."""

import csv
import io
import os
from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final, NamedTuple

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Style
from halftone.contract.wording import Words, either
from halftone.library.prompts.wildcards import LONGEST, read_words
from halftone.settings.atomic import write_atomically
from halftone.settings.places import data_dir

PLACE: Final = "{prompt}"
"""The place of the user's words; without it they come first."""
_COLUMNS: Final = ("name", "prompt", "negative_prompt")
_OLD_PROMPT: Final = "text"
"""The column's former name in A1111."""
_NEAR: Final = 3


class StyleBook(NamedTuple):
    """broken: numbers, from 1, of lines that are no styles."""

    styles: tuple[Style, ...]
    broken: tuple[int, ...] = ()


def own_file() -> Path:
    """Styles that are saved here."""
    return data_dir() / "styles.csv"


def read_styles(path: Path) -> StyleBook:
    """Of two with one name the last counts, as in A1111. Raises styles-missing, styles-not-one, words-unreadable."""
    if not os.path.isfile(path):
        raise HalftoneError("styles-missing", path=str(path))
    reader = csv.reader(io.StringIO(read_words(path), newline=""))
    try:
        head = [name.strip().casefold() for name in next(reader, [])]
        prompt = "prompt" if "prompt" in head else _OLD_PROMPT
        if "name" not in head or prompt not in head:
            raise HalftoneError("styles-not-one", path=str(path), columns=",".join(_COLUMNS))
        found, broken = dict[str, Style](), list[int]()
        places = [head.index(name) if name in head else -1 for name in ("name", prompt, "negative_prompt")]
        while True:
            before = reader.line_num
            if (row := next(reader, None)) is None:
                return StyleBook(tuple(found.values()), tuple(broken))
            if not any(cell.strip() for cell in row):
                continue
            name, words, negative = (row[place].strip() if 0 <= place < len(row) else "" for place in places)
            if not name or len(row) > len(head) or len(row) <= places[1]:
                broken.append(before + 1)
            elif words or negative:  # else a line that parts the list
                found[name] = Style(name=name, prompt=words, negative=negative)
    except csv.Error as error:
        raise HalftoneError("styles-not-one", str(error), path=str(path), columns=",".join(_COLUMNS)) from error


def known_styles(chosen: str | None) -> StyleBook:
    """The user's file, then the styles saved here. Raises as `read_styles`, for the user's file."""
    book = read_styles(Path(chosen)) if chosen else StyleBook(())
    own = read_styles(own_file()).styles if os.path.isfile(own_file()) else ()
    both = {style.name: style for style in (*own, *book.styles)}
    order = dict.fromkeys(style.name for style in (*book.styles, *own))
    return StyleBook(tuple(both[name] for name in order), book.broken)


def styles_named(names: Sequence[str], book: StyleBook) -> tuple[Style, ...]:
    """In the order of the names. Raises style-unknown, with near ones."""
    known = {style.name: style for style in book.styles}
    folded = {name.casefold(): style for name, style in known.items()}
    found: list[Style] = []
    for name in names:
        style = known.get(name) or folded.get(name.casefold())
        if style is None:
            near = get_close_matches(name, list(known), n=_NEAR, cutoff=0.5) or list(known)[:_NEAR]
            raise HalftoneError("style-unknown", name=name, known=either(*near) if near else Words("a file with styles"))
        found.append(style)
    return tuple(found)


def save_style(style: Style) -> None:
    """Put a style into our own file, over one of its name. Raises HalftoneError as `read_styles`, and OSError."""
    path = own_file()
    before = read_styles(path).styles if os.path.isfile(path) else ()
    written = io.StringIO(newline="")
    writer = csv.writer(written, lineterminator="\n")
    writer.writerow(_COLUMNS)
    kept = [one for one in before if one.name != style.name]
    writer.writerows((one.name, one.prompt, one.negative) for one in (*kept, style))
    write_atomically(path, written.getvalue().encode())


def styled(prompt: str, negative: str, styles: Sequence[Style]) -> tuple[str, str]:
    """The prompts with all styles, one after the other. Raises style-too-long."""
    for style in styles:
        prompt, negative = _joined(prompt, style.prompt, style.name), _joined(negative, style.negative, style.name)
    return prompt, negative


def _joined(words: str, style: str, name: str) -> str:
    """Put the style around the words as A1111 does, within LONGEST: styles that repeat the prompt double it again and again."""
    places = style.count(PLACE)
    if places and len(style) + places * (len(words) - len(PLACE)) > max(LONGEST, len(words)):
        raise HalftoneError("style-too-long", name=name, most=LONGEST)
    if places:
        return style.replace(PLACE, words)
    return ", ".join(part for part in (words.strip(), style.strip()) if part)
