"""Templates filled so that Chinese reads right at the seams: a blank beside Latin letters and digits, none beside Chinese."""

from collections.abc import Mapping, Sequence
from string import Formatter
from types import MappingProxyType
from typing import Final

_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})


class Verbatim(str):
    """A name, a path or a word of the user's, in no language: the blanks that a template holds beside it stay."""

    __slots__ = ()


def fill(template: str, values: Sequence[object] = (), named: Mapping[str, object] = _NOTHING) -> str:
    """Fill a template as `str.format` does, and put the blanks right between its Chinese characters and what is filled in. In a
    template without Chinese characters, and beside what is `Verbatim` or a path, they stay as they are.

    Raises IndexError and KeyError, as `format`.
    """
    formatter, parts = Formatter(), list[str]()
    for literal, field, spec, conversion in formatter.parse(template):
        parts.append(literal)
        if field is not None:
            value, _ = formatter.get_field(field, values, named)
            shown = formatter.convert_field(value, conversion) if conversion else value
            text = format(shown, formatter.vformat(spec or "", values, named))
            parts.append(Verbatim(text) if isinstance(value, Verbatim) or _is_path(text) else text)
    if not any(map(_is_han, template)):
        return "".join(parts)
    said, kept = "", False
    for part in filter(None, parts):
        own = isinstance(part, Verbatim)
        said = _joined(said, part, kept=own or kept)
        kept = own
    return said


def _is_path(text: str) -> bool:
    return "/" in text or "\\" in text


def _joined(before: str, after: str, *, kept: bool) -> str:
    """The two, one behind the other, with as many blanks between them as Chinese wants; kept: those that are there stay."""
    if not before:
        return after
    if _is_han(before[-1]) != _is_han(after[0]) and (_is_latin(before[-1]) or _is_latin(after[0])):
        return f"{before} {after}"
    if kept:
        return before + after
    if before[-1] == " " and _is_han(before[-2:-1]) and _is_han(after[0]):
        return before[:-1] + after
    if after[0] == " " and _is_han(before[-1]) and _is_han(after[1:2]):
        return before + after[1:]
    return before + after


def _is_han(letter: str) -> bool:
    return "\u4e00" <= letter <= "\u9fff"


def _is_latin(letter: str) -> bool:
    return letter.isascii() and letter.isalnum()
