"""Prompts in A1111's syntax: weights, BREAK, words that change over the steps. Pure text in, pure text out.

`(word)` weighs 1.1, `(word:1.3)` 1.3, `[word]` 1/1.1, nested ones multiply; a backslash makes a bracket a letter.
`[from:to:when]` and `[a|b]` change with the step. A bracket without its partner is text, for the sake of smileys; in A1111 it
weighs all that follows. Brackets around nothing are an empty prompt, as in A1111. `AND`, which weighs whole prompts against each
other there, is a word.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final, NamedTuple

from halftone.contract.wording import Words

UP: Final = 1.1
"""What a pair of round brackets multiplies by."""
MOST: Final = 10.0
"""Larger weights count as this: encoders give only noise beyond it."""
_HUGE: Final = 1e6
_DEEPEST: Final = 64
"""A bracket further inside is text."""
_NUMBER: Final = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)"
_SIGNS: Final = "()[]:|\\"
"""What a backslash makes a letter."""
_PIECE: Final = re.compile(r"\\[()\[\]:|\\]|[()\[\]]|(?:[^\\()\[\]]|\\(?![()\[\]:|\\]))+")
_MARK: Final = re.compile(r"\\[()\[\]:|\\]|[()\[\]:|]|(?:[^\\()\[\]:|]|\\(?![()\[\]:|\\]))+")
_WEIGHT: Final = re.compile(rf":\s*({_NUMBER})\s*\Z")
_WHEN: Final = re.compile(rf"\s*{_NUMBER}(?:[eE][+-]?\d+)?\s*")
_BREAK: Final = re.compile(r"(?:(?<!\s)\s+|\b)BREAK\b\s*")
"""Begins where the spaces do, so that a long run of them is scanned once."""
_AND: Final = re.compile(r"\bAND\b")
_HYPERNET: Final = re.compile(r"<hypernet:[^<>]+>")
_SMILEY: Final = re.compile(r"[:;=]['^o-]?\Z")
_BESIDE: Final = 20
"""Letters that are shown beside a bracket."""
_PARTNER: Final = {")": "(", "]": "["}


class Part(NamedTuple):
    """Words of one weight, which lies between -MOST and MOST."""

    text: str
    weight: float


Sections = tuple[tuple[Part, ...], ...]
"""The parts between one BREAK and the next."""


# --- weights -------------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def parse(text: str) -> Sections:
    """The parts of a prompt, without the brackets. Text without such signs is one part of weight 1, unchanged."""
    pieces: list[str] = _PIECE.findall(text)
    pairs = _pairs(pieces)
    factors = {start: _factor(pieces, start, end) for start, end in pairs.items()}
    ends = {end: start for start, end in pairs.items()}
    sections: list[list[Part]] = [[]]
    running = [1.0]
    for index, piece in enumerate(pieces):
        if index in factors:
            running.append(max(-_HUGE, min(_HUGE, running[-1] * factors[index])))
        elif index in ends:
            running.pop()
        elif len(piece) == 2 and piece[0] == "\\" and piece[1] in _SIGNS:
            _add(sections[-1], piece[1], running[-1])
        else:
            first, *others = _BREAK.split(piece)
            _add(sections[-1], first, running[-1])
            for other in others:
                sections.append([])
                _add(sections[-1], other, running[-1])
    return tuple(map(tuple, sections))


def _pairs(pieces: list[str]) -> dict[int, int]:
    """Index of an opening bracket -> that of its partner."""
    found: dict[int, int] = {}
    opened: list[int] = []
    for index, piece in enumerate(pieces):
        if piece in ("(", "["):
            opened.append(index)
        elif piece in _PARTNER and any(pieces[start] == _PARTNER[piece] for start in opened[-_DEEPEST:]):
            while pieces[opened[-1]] != _PARTNER[piece]:
                opened.pop()
            found[opened.pop()] = index
    return found


def _factor(pieces: list[str], start: int, end: int) -> float:
    """The factor of a pair; a weight in it is removed from the text."""
    if pieces[start] == "[":
        return 1 / UP
    weight = _WEIGHT.search(pieces[end - 1]) if end - 1 > start else None
    if weight is None:
        return UP
    pieces[end - 1] = pieces[end - 1][: weight.start()]
    return max(-_HUGE, min(_HUGE, float(weight[1])))


def _add(parts: list[Part], text: str, weight: float) -> None:
    weight = max(-MOST, min(MOST, weight))
    if parts and parts[-1].weight == weight:
        parts[-1] = Part(parts[-1].text + text, weight)
    elif text:
        parts.append(Part(text, weight))


# --- words that change over the steps --------------------------------------------------------------------


class _Swap(NamedTuple):
    """`[before:after:when]`; when: a share of the steps, or a number of steps."""

    before: "_Row"
    after: "_Row"
    when: float
    share: bool


class _Turn(NamedTuple):
    """`[a|b]`: one word after the other, step by step."""

    words: tuple["_Row", ...]


_Row = tuple["str | _Swap | _Turn", ...]


@dataclass
class _Frame:
    """An open bracket and its contents so far: rows, and the signs between them."""

    bracket: str
    rows: list[list[str | _Swap | _Turn]] = field(default_factory=lambda: [[]])
    signs: list[str] = field(default_factory=list[str])

    def put(self, *pieces: str | _Swap | _Turn) -> None:
        self.rows[-1].extend(pieces)

    def closed(self, bracket: str) -> list[str | _Swap | _Turn]:
        """The meaning of the whole; bracket: "" where its partner is missing."""
        rows = [tuple(row) for row in self.rows]
        whole = self.bracket == "[" and bracket
        if whole and set(self.signs) == {"|"}:
            return [_Turn(tuple(rows))]
        when = rows[-1][0] if len(rows) in (2, 3) and len(rows[-1]) == 1 and "|" not in self.signs else None
        if whole and isinstance(when, str) and _WHEN.fullmatch(when):
            return [_Swap(rows[0] if len(rows) == 3 else (), rows[-2], float(when), "." in when)]
        found: list[str | _Swap | _Turn] = [self.bracket]
        for row, sign in zip(self.rows, [*self.signs, bracket], strict=True):
            found += [*row, sign]
        return found


@lru_cache(maxsize=64)
def _read(text: str) -> _Row:
    """The parts of a prompt that change with the step, and those that do not."""
    frames = [_Frame("")]
    for sign in _MARK.findall(text):
        if sign in ("(", "[") and len(frames) <= _DEEPEST:
            frames.append(_Frame(sign))
        elif sign in (":", "|") and frames[-1].bracket == "[":
            frames[-1].signs.append(sign)
            frames[-1].rows.append([])
        elif sign in _PARTNER and any(frame.bracket == _PARTNER[sign] for frame in frames):
            while frames[-1].bracket != _PARTNER[sign]:
                _close(frames, "")
            _close(frames, sign)
        else:
            frames[-1].put(sign)
    while len(frames) > 1:
        _close(frames, "")
    return tuple(frames[0].rows[0])


def _close(frames: list[_Frame], bracket: str) -> None:
    frame = frames.pop()
    frames[-1].put(*frame.closed(bracket))


def _at(row: _Row, step: int, steps: int) -> Iterator[str]:
    for piece in row:
        if isinstance(piece, str):
            yield piece
        elif isinstance(piece, _Turn):
            yield from _at(piece.words[(step - 1) % len(piece.words)], step, steps)
        else:
            last = max(0, min(steps, piece.when * steps if piece.share else piece.when))
            yield from _at(piece.before if step <= int(last) else piece.after, step, steps)


@lru_cache(maxsize=64)
def changes(text: str) -> bool:
    """Whether a prompt changes over the steps."""
    return any(not isinstance(piece, str) for piece in _read(text))


def at_step(text: str, step: int, steps: int) -> str:
    """The prompt of a step, counted from 1, with its weights."""
    return "".join(_at(_read(text), step, steps)) if changes(text) else text


# --- what it comes to ------------------------------------------------------------------------------------


def is_plain(text: str) -> bool:
    """Whether a prompt holds nothing but words."""
    return not changes(text) and parse(text) == (((Part(text, 1.0),) if text else ()),)


def is_weighted(text: str) -> bool:
    """Whether some words count more or less than others."""
    return any(part.weight != 1 for section in parse(text) for part in section)


def plain(text: str) -> str:
    """The words alone, at the first step: for a model whose text encoder takes no weights."""
    if is_plain(text):
        return text
    return " ".join("".join(part.text for part in section) for section in parse(at_step(text, 1, 1000)) if section)


def notes(texts: tuple[str, ...], *, weights: bool) -> tuple[Words, ...]:
    """A sentence for each sign without effect here. weights: whether the model's text encoder takes them."""
    found: list[Words] = []
    if not weights and any(is_weighted(at_step(text, 1, 1000)) for text in texts):
        found.append(Words("This text encoder has no prompt weights; brackets are ignored."))
    if not weights and any(map(changes, texts)):
        found.append(
            Words("This model reads one prompt for all steps: of what changes with the step it reads what stands first.")
        )
    if left := next((left for text in texts for left in _left_open(text)), None):
        found.append(Words("Unmatched bracket read as text: “{0}”.", (left,)))
    if any(map(_AND.search, texts)):
        found.append(Words("AND is read as a word; composable prompts are not supported."))
    if named := next((tag for text in texts for tag in _HYPERNET.findall(text)), None):
        found.append(Words("Hypernetworks are not supported. Read as text: “{0}”. Remove it from the prompt.", (named,)))
    return tuple(found)


def _left_open(text: str) -> Iterator[str]:
    """Brackets without a partner, each with the words beside it; a smiley is none."""
    pieces: list[str] = _PIECE.findall(text)
    pairs = _pairs(pieces)
    matched = {*pairs, *pairs.values()}
    for index, piece in enumerate(pieces):
        before = pieces[index - 1] if index else ""
        if piece not in ("(", ")", "[", "]") or index in matched or _SMILEY.search(before):
            continue
        after = pieces[index + 1] if index + 1 < len(pieces) else ""
        after = "" if after in _SIGNS else after
        before = "" if before in _SIGNS else before
        yield piece + after[:_BESIDE].rstrip() if piece in ("(", "[") else before[-_BESIDE:].lstrip() + piece
