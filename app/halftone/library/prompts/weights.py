"""Weights in the text of a prompt, changed where the cursor stands, as A1111's keys do. Pure text in, pure text out."""

import re
from typing import Final, NamedTuple

STEP: Final = 0.1
_PLACES: Final = 2
_NUMBER: Final = r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)"
_TAG: Final = re.compile(rf"<(?:lora|lyco|hypernet):[^<>:]+(?::({_NUMBER}))?[^<>]*>", re.IGNORECASE)
_WEIGHT: Final = re.compile(rf":\s*({_NUMBER})\s*\Z")
_ENDS: Final = frozenset(" \t\r\n,.;:|()[]{}<>\\")
"""What a word ends at."""
_OPENING: Final = "(["


class Edit(NamedTuple):
    """`text` from `start` to `end` gives way to `new`; afterwards `selected` is selected."""

    start: int
    end: int
    new: str
    selected: tuple[int, int]


def weighted(text: str, start: int, end: int, step: float = STEP) -> Edit | None:
    """Change the weight of the selection, or of what stands under the cursor (start == end); None where that is nothing.

    A cursor inside `(words:1.2)` means all of these words. A bracket appears where there is none, and goes at weight 1.
    """
    if (tag := _tag_at(text, start, end)) is not None:
        return _retagged(tag, start, end, step)
    cursor = start == end
    start, end = _word_at(text, start) if cursor else _trimmed(text, start, end)
    pairs = _pairs(text)
    if _crosses(pairs, start, end):
        return None
    outer = next((pair for pair in pairs if _means(text, pair, start, end, cursor=cursor)), None)
    inner, weight = ((start, end), 1.0) if outer is None else _weight_in(text, outer)
    outer, weight = outer or inner, round(weight + step, _PLACES)
    words = text[slice(*inner)]
    if not words:
        return None
    new = words if weight == 1 else f"({words}:{weight:g})"
    begin = outer[0] + (weight != 1)
    return Edit(*outer, new, (begin, begin + len(words)))


def applied(text: str, edit: Edit) -> str:
    return text[: edit.start] + edit.new + text[edit.end :]


def _tag_at(text: str, start: int, end: int) -> re.Match[str] | None:
    return next((tag for tag in _TAG.finditer(text) if tag.start() <= start and end <= tag.end()), None)


def _retagged(tag: re.Match[str], start: int, end: int, step: float) -> Edit:
    """The tag with another weight; one without a weight has 1."""
    weight = round(float(tag[1] or 1) + step, _PLACES)
    place = tag.span(1) if tag[1] is not None else (tag.end() - 1, tag.end() - 1)
    new = f"{weight:g}" if tag[1] is not None else f":{weight:g}"
    if start >= place[1]:
        start, end = (one + len(new) - (place[1] - place[0]) for one in (start, end))
    elif end > place[0]:
        start = end = place[0]
    return Edit(*place, new, (start, end))


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    """The selection without the spaces at its ends."""
    words = text[start:end]
    if not words.strip():
        return start, start
    return start + len(words) - len(words.lstrip()), end - (len(words) - len(words.rstrip()))


def _word_at(text: str, place: int) -> tuple[int, int]:
    """The word that the cursor touches; inside a weight the words that it weighs."""
    for match in re.finditer(rf":\s*{_NUMBER}\s*(?=\))", text):
        if match.start() < place <= match.end():
            place = match.start()
    start = end = place
    while start and text[start - 1] not in _ENDS:
        start -= 1
    while end < len(text) and text[end] not in _ENDS:
        end += 1
    return start, end


def _means(text: str, pair: tuple[int, int], start: int, end: int, *, cursor: bool) -> bool:
    """Whether a change of these words is one of the weight of a pair of brackets."""
    inner, _ = _weight_in(text, pair)
    weighted = text[pair[0]] == "(" and inner[1] < pair[1] - 1
    around = cursor and weighted and pair[0] <= start and end <= pair[1]
    return around or (start, end) in (inner, pair)


def _weight_in(text: str, pair: tuple[int, int]) -> tuple[tuple[int, int], float]:
    """(where the words of a pair are, their weight)."""
    start, end = pair[0] + 1, pair[1] - 1
    if text[pair[0]] == "[":
        return (start, end), 1 - STEP
    written = _WEIGHT.search(text, start, end)
    return ((start, end), 1 + STEP) if written is None else ((start, written.start()), float(written[1]))


def _crosses(pairs: list[tuple[int, int]], start: int, end: int) -> bool:
    """Whether one bracket of a pair is selected without the other."""
    return any((start <= opening < end) != (start < close <= end) for opening, close in pairs)


def _pairs(text: str) -> list[tuple[int, int]]:
    """From where to where pairs of brackets go, inner ones first. A bracket behind a backslash is a letter."""
    opened: list[int] = []
    found: list[tuple[int, int]] = []
    place = 0
    while place < len(text):
        if text[place] == "\\":
            place += 1
        elif text[place] in _OPENING:
            opened.append(place)
        elif text[place] in ")]" and opened and text[opened[-1]] == {")": "(", "]": "["}[text[place]]:
            found.append((opened.pop(), place + 1))
        place += 1
    return found
