"""Prompts that are drawn for each picture, in the syntax of dynamic prompts. Pure text in, pure text out, but for the files of
the wildcards.

`{a|b|c}` is one of them, `{3::a|b}` three times as often a, `{2$$a|b|c}` two of them, `{1-3$$ and $$a|b|c}` one to three, joined
by " and ". `__name__` is a line of name.txt in one of the folders, `__dir/name__` of one further inside, `__dir/*__` of all
there. Empty lines and those that begin with # are skipped, and a line may have the same syntax. `\\{` is a bracket. All is drawn
from the picture's seed. Variables (`${x=...}`), samplers by name (`{@a|b}`, `{~a|b}`) and Jinja are not followed.
"""

import logging
import os
import random
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import cached_property, lru_cache, partial
from pathlib import Path
from typing import Final, NamedTuple

from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words, either
from halftone.settings.disk import system_words
from halftone.settings.regular_files import read_text

log = logging.getLogger(__name__)

_DEEPEST: Final = 20
"""Wildcards inside wildcards."""
_MOST: Final = 10_000
"""Draws for one prompt."""
_MOST_WEIGHED: Final = 10_000_000
"""Weighed options for one prompt: all of some thousands, or a few of very many."""
LONGEST: Final = 200_000
"""Letters of the longest prompt."""
_NEAR: Final = 3
_NAME: Final = r"__((?:(?!__)[\w\-./*])+)__"
_TOKEN: Final = re.compile(rf"\\[{{}}|]|(?<!\$)\$\{{[^{{}}]*\}}|{_NAME}|[{{}}|]|[^\\{{}}|_$]+|.", re.DOTALL)
_COUNT: Final = re.compile(r"\s*(\d*)(-?)(\d*)\s*\$\$")
_WEIGHT: Final = re.compile(r"\s*(\d+(?:\.\d+)?|\.\d+)::")
_BY_NAME: Final = re.compile(r"\{\s*[@~]|__[@~]")
_VARIABLE: Final = re.compile(r"(?<!\$)\$\{")
_JINJA: Final = re.compile(r"\{%|\{#")


class Wild(NamedTuple):
    """`__name__`."""

    name: str


class Choice(NamedTuple):
    """`{least-most$$joined by$$option|option}`; the options with their weights."""

    options: tuple[tuple[float, "Row"], ...]
    least: int = 1
    most: int | None = 1
    """None: as many as there are."""
    between: str = ", "


Row = tuple[str | Wild | Choice, ...]
Lines = Callable[[str], tuple[tuple[float, Row], ...]]
"""Name of a wildcard -> its lines, each with its weight. Raises wildcard-missing."""


# --- reading -------------------------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def parse(text: str) -> Row:
    """The drawn parts of a text, and the others. A bracket without its partner is text."""
    tokens = list(_TOKEN.finditer(text))
    ends = _partners([token[0] for token in tokens])
    return _row(tokens, 0, len(tokens), ends)


def _partners(tokens: Sequence[str]) -> dict[int, int]:
    opened: list[int] = []
    found: dict[int, int] = {}
    for index, token in enumerate(tokens):
        if token == "{":
            opened.append(index)
        elif token == "}" and opened:
            found[opened.pop()] = index
    return _reachable(found)


def _reachable(pairs: dict[int, int]) -> dict[int, int]:
    """Those that are not too deep inside each other."""
    depth: list[int] = []
    kept: dict[int, int] = {}
    for start in sorted(pairs):
        while depth and depth[-1] < start:
            depth.pop()
        if len(depth) < _DEEPEST:
            kept[start] = pairs[start]
            depth.append(pairs[start])
    return kept


def _row(tokens: Sequence[re.Match[str]], start: int, end: int, ends: Mapping[int, int]) -> Row:
    row: list[str | Wild | Choice] = []
    index = start
    while index < end:
        token = tokens[index]
        if index in ends:
            row.append(_choice(tokens, index + 1, ends[index], ends))
            index = ends[index]
        elif token[1] is not None:
            row.append(Wild(token[1]))
        else:
            _add(row, token[0][1] if len(token[0]) == 2 and token[0][0] == "\\" else token[0])
        index += 1
    return tuple(row)


def _add(row: list[str | Wild | Choice], text: str) -> None:
    if row and isinstance(row[-1], str):
        row[-1] += text
    else:
        row.append(text)


def _choice(tokens: Sequence[re.Match[str]], start: int, end: int, ends: Mapping[int, int]) -> Choice:
    rows: list[Row] = []
    begin = index = start
    while index < end:
        if index in ends:
            index = ends[index]
        elif tokens[index][0] == "|":
            rows.append(_row(tokens, begin, index, ends))
            begin = index + 1
        index += 1
    rows.append(_row(tokens, begin, end, ends))
    least, most, between, rows[0] = _counted(rows[0])
    return Choice(tuple(map(weighed, rows)), least, most, between)


def _counted(row: Row) -> tuple[int, int | None, str, Row]:
    """(least, most, separator, the first option) of `2$$a`, `1-3$$a`, `2-$$a`, `-3$$a` or `2$$ and $$a`."""
    first = row[0] if row and isinstance(row[0], str) else ""
    found = _COUNT.match(first)
    if found is None or not (found[1] or found[3]):
        return 1, 1, ", ", row
    least = int(found[1][:6] or 0)
    most = (int(found[3][:6]) if found[3] else None) if found[2] else least
    rest = first[found.end() :]
    between, joined, after = rest.partition("$$")
    rest, between = (after, between) if joined else (rest, ", ")
    return least, most, between, (rest, *row[1:]) if rest else row[1:]


def weighed(row: Row) -> tuple[float, Row]:
    """`3::a` -> (3, a); what names no weight has 1."""
    found = _WEIGHT.match(row[0]) if row and isinstance(row[0], str) else None
    if found is None:
        return 1.0, row
    assert isinstance(row[0], str)
    rest = row[0][found.end() :]
    return min(float(found[1]), 1e6), (rest, *row[1:]) if rest else row[1:]


def is_drawn(text: str) -> bool:
    """Whether a prompt may differ from its written form."""
    return parse(text) != ((text,) if text else ())


# --- files ---------------------------------------------------------------------------------------------------


class Book:
    """The wildcards of some folders; of one name, the first folder's."""

    def __init__(self, folders: Sequence[str]) -> None:
        self._folders = folders

    @cached_property
    def names(self) -> dict[str, Path]:
        """Name, with / between folders -> its file."""
        found: dict[str, Path] = {}
        for folder in map(Path, self._folders):
            for path in sorted(_texts_below(folder)):
                found.setdefault(path.relative_to(folder).with_suffix("").as_posix(), path)
        return found

    def lines(self, name: str) -> tuple[tuple[float, Row], ...]:
        """Raises wildcard-missing, with near names, and words-unreadable."""
        wanted = name.casefold()
        paths = [path for known, path in self.names.items() if fnmatchcase(known.casefold(), wanted)]
        found = tuple(line for path in paths for line in _lines(path, _changed_at(path)))
        if not found:
            raise self._missing(name, paths)
        return found

    def _missing(self, name: str, paths: Sequence[Path]) -> HalftoneError:
        known = sorted(self.names)
        near = get_close_matches(name.casefold(), [one.casefold() for one in known], n=_NEAR, cutoff=0.5)
        near = [one for one in known if one.casefold() in near or one.casefold().endswith("/" + name.casefold())][:_NEAR]
        if paths:
            return HalftoneError("wildcard-empty", name=name, path=str(paths[0]))
        if not known:
            return HalftoneError("wildcard-none", name=name)
        return HalftoneError("wildcard-missing", name=name, near=either(*(near or known[:_NEAR])))


def _texts_below(folder: Path) -> Iterator[Path]:
    """Unreadable folders are left out and logged."""
    for inside, folders, names in os.walk(folder, onerror=partial(log.info, "left out of the wildcards: %s")):
        yield from (Path(inside, name) for name in (*folders, *names) if name.endswith(".txt"))


@lru_cache(maxsize=256)
def _lines(path: Path, _changed: int) -> tuple[tuple[float, Row], ...]:
    """Of one file."""
    texts = (line.strip() for line in read_words(path).splitlines())
    return tuple(weighed(parse(text)) for text in texts if text and not text.startswith("#"))


def _changed_at(path: Path) -> int:
    """0 for an unreadable file: reading it raises the error."""
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0


def read_words(path: Path) -> str:
    """The text of a file that a user wrote. Raises words-unreadable."""
    try:
        return read_text(path)
    except OSError as error:
        raise HalftoneError("words-unreadable", path=str(path), detail=system_words(error)) from error
    except UnicodeDecodeError as error:
        raise HalftoneError("words-unreadable", str(error), path=str(path), detail=Words("it is no text in UTF-8")) from error


# --- drawing -------------------------------------------------------------------------------------------------


class _Draw:
    """One prompt's draws. Only `random()` is used, whose numbers stay the same in all Python versions."""

    def __init__(self, lines: Lines, seed: str) -> None:
        self._lines = lines
        self._dice = random.Random(seed)
        self._left = _MOST
        self._weighed = 0

    def row(self, row: Row, within: tuple[str, ...] = ()) -> str:
        parts = [piece if isinstance(piece, str) else self._piece(piece, within) for piece in row]
        text = "".join(parts)
        if len(text) > LONGEST:
            raise HalftoneError("wildcard-endless", name=within[0] if within else "{…}")
        return text

    def _piece(self, piece: Wild | Choice, within: tuple[str, ...]) -> str:
        self._left -= 1
        if isinstance(piece, Wild):
            if self._left < 0 or len(within) >= _DEEPEST:
                raise HalftoneError("wildcard-endless", name=piece.name)
            lines = self._lines(piece.name)
            return self.row(lines[self._index(lines)][1], (*within, piece.name))
        options = piece.options
        if len(options) == 1 and len(options[0][1]) == 1 and isinstance(wild := options[0][1][0], Wild):
            options, within = self._lines(wild.name), (*within, wild.name)
            if len(within) > _DEEPEST:
                raise HalftoneError("wildcard-endless", name=wild.name)
        most = len(options) if piece.most is None else piece.most
        low, high = sorted((min(piece.least, len(options)), min(most, len(options))))
        count = low + int(self._dice.random() * (high - low + 1)) if high > low else low
        return piece.between.join(self.row(row, within) for row in self._some(options, count))

    def _some(self, options: Sequence[tuple[float, Row]], count: int) -> Iterator[Row]:
        """So many of them, none twice."""
        left = list(options)
        for _ in range(count):
            self._weighed += len(left)
            if self._weighed > _MOST_WEIGHED:
                raise HalftoneError("wildcard-endless", name="{…}")
            yield left.pop(self._index(left))[1]

    def _index(self, options: Sequence[tuple[float, Row]]) -> int:
        place = self._dice.random() * sum(weight for weight, _ in options)
        for index, (weight, _) in enumerate(options):
            place -= weight
            if place < 0:
                return index
        return len(options) - 1


def draw(text: str, seed: int, book: Book, which: str = "") -> str:
    """The prompt for a seed. which: another word draws otherwise, the negative prompt for one.

    Raises wildcard-missing, wildcard-none, wildcard-empty, wildcard-endless, words-unreadable.
    """
    return _Draw(book.lines, f"{which} {seed}").row(parse(text)) if is_drawn(text) else text


def check_wildcards(texts: Sequence[str], folders: Sequence[str]) -> None:
    """Raise, as `draw` does, for missing wildcards, named by the texts or by a line of another wildcard."""
    for _ in drawn_from(texts, folders):
        pass


def drawn_from(texts: Sequence[str], folders: Sequence[str]) -> Iterator[str]:
    """Every piece of text that may be drawn, of the texts and of the named lines. Raises as `check_wildcards`."""
    book, seen = Book(folders), set[str]()
    left = [parse(text) for text in texts]
    while left:
        for piece in left.pop():
            if isinstance(piece, str):
                yield piece
            elif isinstance(piece, Choice):
                left += [option for _, option in piece.options]
            elif piece.name not in seen:
                seen.add(piece.name)
                left += [line for _, line in book.lines(piece.name)]


class Span(NamedTuple):
    """A drawn place in a text. start, end: its letters; is_choice: it is in curly brackets."""

    start: int
    end: int
    is_choice: bool


def drawn_spans(text: str) -> tuple[Span, ...]:
    """The drawn places in a text, in order, without those inside of one."""
    tokens = list(_TOKEN.finditer(text))
    ends = _partners([token[0] for token in tokens])
    found: list[Span] = []
    index = 0
    while index < len(tokens):
        end = ends.get(index, index)
        if index in ends or tokens[index][1] is not None:
            found.append(Span(tokens[index].start(), tokens[end].end(), index in ends))
        index = end + 1
    return tuple(found)


def unfollowed(texts: Sequence[str]) -> tuple[Words, ...]:
    """A sentence for each sign of dynamic prompts without effect here."""
    found: list[Words] = []
    if any(map(_VARIABLE.search, texts)):
        found.append(Words("Variables (${…}) are not supported; read as words."))
    if any(map(_BY_NAME.search, texts)):
        found.append(Words("@ and ~ before choices and wildcards are ignored."))
    if any(map(_JINJA.search, texts)):
        found.append(Words("Jinja templates are not supported; read as words."))
    rows = [[token[0] for token in _TOKEN.finditer(text)] for text in texts]
    if any(row.count("{") != row.count("}") or len(_partners(row)) != row.count("{") for row in rows):
        found.append(Words("Unmatched curly bracket read as text."))
    return tuple(found)
