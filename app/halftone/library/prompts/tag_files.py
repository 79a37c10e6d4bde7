"""Tags in the form of A1111's tag completion, a CSV of name, category, count and aliases, looked up by their beginning."""

import csv
import io
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from heapq import nlargest
from itertools import islice
from pathlib import Path
from typing import Final, NamedTuple

from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.library.prompts.wildcards import read_words

_PAST: Final = "\U0010ffff"
"""Sorts behind every letter."""
_SHELF: Final = 5_000
_SPARE: Final = 4
"""Names of one tag that may lie beside each other."""


class Tag(NamedTuple):
    """alias: which of its other names was looked up, "" for its own. uses: how often others used it."""

    name: str
    uses: int
    alias: str = ""


Line = tuple[str, int, tuple[str, ...]]
"""Name, uses and aliases."""


class Tags:
    """Names and aliases, sorted on shelves: sorting all at once would stop the other threads for long. A prompt writes spaces for
    the underscores of a tag.
    """

    def __init__(self, lines: Iterable[Line] = ()) -> None:
        rest = iter(lines)
        self._shelves: list[tuple[list[str], list[Tag]]] = []
        while shelf := list(islice(rest, _SHELF)):
            found = sorted(
                (_folded(key), Tag(name, uses, key if place else ""))
                for name, uses, aliases in shelf
                for place, key in enumerate((name, *aliases))
                if key
            )
            self._shelves.append(([key for key, _ in found], [tag for _, tag in found]))

    def __len__(self) -> int:
        return sum(len(keys) for keys, _ in self._shelves)

    def beginning(self, typed: str, most: int) -> list[Tag]:
        """The most used tags of which a name begins so, each once."""
        folded = _folded(typed)
        near: list[Tag] = []
        for keys, tags in self._shelves:
            near += tags[bisect_left(keys, folded) : bisect_left(keys, folded + _PAST)]
        best = nlargest(_SPARE * most, near, key=lambda tag: tag.uses)
        found: dict[str, Tag] = {}
        for tag in sorted(best, key=lambda tag: (-tag.uses, bool(tag.alias))):
            found.setdefault(tag.name, tag)
        return list(found.values())[:most]


def _folded(words: str) -> str:
    return words.strip().casefold().replace(" ", "_")


def read_tags(path: Path) -> Tags:
    """Raises words-unreadable."""
    text = read_words(path)
    try:
        return Tags(_lines(csv.reader(io.StringIO(text, newline=""))))
    except csv.Error as error:
        detail = Words("it is no CSV of name, category, count and aliases")
        raise HalftoneError("words-unreadable", str(error), path=str(path), detail=detail) from error


def _lines(rows: Iterator[list[str]]) -> Iterator[Line]:
    """A line without a count has 0; a head and empty lines are left out."""
    for row in rows:
        name = row[0].strip() if row else ""
        count = row[2].strip() if len(row) > 2 else ""
        if name and (count.isdecimal() or not count):
            aliases = row[3].split(",") if len(row) > 3 else ()
            yield name, int(count[:12] or 0), tuple(alias.strip() for alias in aliases)


def in_prompt(name: str) -> str:
    """A tag as a prompt writes it: spaces for underscores, and brackets that are letters. Smileys stay."""
    spaced = name.replace("_", " ") if any(letter.isalnum() for letter in name.replace("_", "")) and len(name) > 3 else name
    return "".join(f"\\{letter}" if letter in "()[]" else letter for letter in spaced)
