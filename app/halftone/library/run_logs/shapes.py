"""The shape of a line of a log: its constant parts, and the places of the numbers in it.

A log repeats few lines a million times, with other numbers. Once a line is understood, a regular expression reads all of its kind
at once. Everything but numbers, gaps and the gauge of a bar must stay the same, so that no name can mean anything else.
"""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, Final, Literal, NamedTuple

from halftone.library.run_logs.series import Quantity

Span = tuple[int, int]
Kind = Literal["own", "bar", "under"]
"""The origin of a line's step: itself, a bar in it, or a bar above it."""

_NUMBER: Final = r"[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?|[+-]?(?:nan|NaN|inf|Infinity)(?:\.0)?"
_WHOLE: Final = r"\d{1,15}"
_LOOSE: Final = re.compile(
    r"(?P<gauge>(?<=%\|)[^|]{0,400}(?=\|))|(?P<speed>it/s|s/it)|(?P<number>(?<![A-Za-z_\d])[+-]?(?:\d+(?:[.,:]\d+)*(?:e[+-]?\d+)?|\?))"
    r"|(?P<gap> +)"
)
_FREE: Final = {
    "gauge": r"[^|\r\n]{0,400}",
    "speed": "(?:it/s|s/it)",
    "number": r"[+-]?(?:\d++(?:[.,:]\d++)*+(?:e[+-]?\d++)?|\?)",
}
_LONGEST: Final = 2_000
"""Letters of a line that is learnt."""
_TOKEN: Final = re.compile(r'"(?:[^"\\]|\\.)*"(\s*:)?|(-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?|NaN|-?Infinity)|(true|false|null)')


class Value(NamedTuple):
    """A number and its place. doubled: it is the logarithm to base 2."""

    tag: str
    quantity: Quantity
    span: Span
    doubled: bool = False


class Seen(NamedTuple):
    """An understood line. total: of a bar; epoch: place of its epoch's number; of_epoch: a bar that begins anew in each; fixed:
    constant parts; of_loss: a bar with a loss, and so the training's.
    """

    text: str
    kind: Kind
    step: Span | None
    values: tuple[Value, ...]
    total: int = 0
    epoch: Span | None = None
    of_epoch: bool = False
    wall: Span | None = None
    fixed: tuple[Span, ...] = ()
    of_loss: bool = False


class Shape(NamedTuple):
    """pattern: with a group for each of `roles`, in their order: "step", "epoch", "wall", or the place of a value."""

    pattern: str
    roles: tuple[str | int, ...]
    seen: Seen


def shape_of(seen: Seen) -> Shape | None:
    """None for a line that cannot stand for others."""
    if len(seen.text) > _LONGEST:
        return None
    kept: list[tuple[Span, str | int]] = [(value.span, at) for at, value in enumerate(seen.values)]
    kept += [(span, role) for span, role in ((seen.step, "step"), (seen.epoch, "epoch"), (seen.wall, "wall")) if span]
    kept.sort(key=lambda one: one[0])
    if not kept or any(one[0][1] > other[0][0] for one, other in pairwise(kept)):
        return None
    pattern, place = "", 0
    for (start, end), role in kept:
        pattern += _literal(seen, place, start)
        pattern += f"({_WHOLE})" if role in {"step", "epoch"} else f"({_NUMBER})"
        place = end
    pattern += _literal(seen, place, len(seen.text))
    return Shape(pattern, tuple(role for _, role in kept), seen)


def _literal(seen: Seen, start: int, end: int) -> str:
    """The text between two kept numbers, loose where other lines may differ."""
    found = ""
    place = start
    for loose in _LOOSE.finditer(seen.text, start, end):
        if any(loose.start() < last and first < loose.end() for first, last in seen.fixed):
            continue
        found += re.escape(seen.text[place : loose.start()])
        found += _gap(seen.text, loose) if loose.lastgroup == "gap" else _FREE[loose.lastgroup or ""]
        place = loose.end()
    return found + re.escape(seen.text[place:end])


def _gap(text: str, found: re.Match[str]) -> str:
    """Numbers are filled up with blanks; between two of them one must stay."""
    before, after = text[found.start() - 1 : found.start()], text[found.end() : found.end() + 1]
    return " ++" if before.isalnum() and after.isalnum() else " *+"


def json_spans(text: str, content: Any) -> dict[str, Span]:
    """Places of an object's plain numbers, by their names joined with "/"; none where that is not certain."""
    tokens = [found for found in _TOKEN.finditer(text) if found.group(1) is None]
    leaves = list(_leaves(content, ""))
    if len(tokens) != len(leaves):
        return {}
    return {name: found.span(2) for name, found in zip(leaves, tokens, strict=True) if name and found.group(2)}


def _leaves(content: Any, before: str) -> Iterator[str]:
    """The name of every value that is no object, in order; "" for those in a list."""
    if isinstance(content, dict):
        for key, value in content.items():
            yield from _leaves(value, f"{before}/{key}" if before else str(key))
    elif isinstance(content, list):
        for value in content:
            yield from ("" for _ in _leaves(value, "x"))
    else:
        yield before


def keys_in(text: str) -> tuple[Span, ...]:
    return tuple(found.span() for found in _TOKEN.finditer(text) if found.group(1))


def together(shapes: Sequence[Shape]) -> "re.Pattern[str]":
    """One expression for a whole text: groups of all shapes, then any other line, then how it ends."""
    known = "|".join(shape.pattern for shape in shapes)
    return re.compile(rf"(?:{known}|([^\r\n]*+))(\r\n?|\n)")
