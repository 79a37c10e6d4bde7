"""Sentences as a message and typed values. They become text only at the reader, in the reader's language.

The message is the English template, as in gettext, and the key of catalogues. A string value is a name, a path or a word of the
user's: it is made harmless and never translated.
"""

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from gettext import NullTranslations
from string import Formatter
from types import MappingProxyType
from typing import Final, Literal, Union, cast

import msgspec

from halftone.contract.echoes import harmless

ENGLISH: Final = NullTranslations()
"""The catalogue that changes nothing: messages are English."""
_NOTHING: Final[Mapping[str, object]] = MappingProxyType({})
NARROW: Final = "\u202f"
MINUS: Final = "\u2212"

About = Literal["", "run", "first-step", "guidance"]
"""How a job ran, or which setting had no effect; the time of the step that compiled."""
Value = Union["Words", str, int, float, tuple[Union["Words", str], ...]]
"""A placeholder's value; a tuple is a list, joined by the comma of the language."""


class Words(msgspec.Struct, frozen=True, omit_defaults=True):
    """A message with numbered placeholders, and its values. one: the message for a first value of exactly 1, "" where the count
    does not matter. about: the sentence's subject, for picking it.
    """

    template: str
    values: tuple[Value, ...] = ()
    one: str = ""
    about: About = ""

    def text(self, catalogue: NullTranslations = ENGLISH) -> str:
        """The sentence in the language of the catalogue."""
        found = look_up(self.template, self.one, self.values, catalogue)
        return fill(found, [_shown(value, catalogue) for value in self.values]) if self.values else found

    def __str__(self) -> str:
        return self.text()


def look_up(template: str, one: str, values: Sequence[object], catalogue: NullTranslations) -> str:
    """Look a template up: `one`, where there is one, is its singular for a first value of exactly 1."""
    if not one:
        return catalogue.gettext(template)
    return catalogue.ngettext(one, template, values[0] if isinstance(values[0], int) else 2)


class Verbatim(str):
    """A name, a path or a word of the user's: the template's blanks beside it stay."""

    __slots__ = ()


def fill(template: str, values: Sequence[object] = (), named: Mapping[str, object] = _NOTHING) -> str:
    """Fill a template as `str.format` does, and correct the blanks between its Chinese characters and the values. Without Chinese
    characters, and beside `Verbatim` and paths, they stay. Raises IndexError and KeyError, as `format`.
    """
    if not any(map(_is_han, template)):
        return template.format(*values) if named is _NOTHING else template.format_map(named)
    formatter, parts = Formatter(), list[tuple[_Part, str]]()
    for literal, field, spec, conversion in formatter.parse(template):
        parts.append(("literal", literal))
        if field is not None:
            value, _ = formatter.get_field(field, values, named)
            shown = formatter.convert_field(value, conversion) if conversion else value
            text = format(shown, formatter.vformat(spec or "", values, named))
            parts.append(("name" if isinstance(value, Verbatim) or "/" in text or "\\" in text else "word", text))
    sentence, left = "", cast("_Part", "literal")
    for right, text in parts:
        if text:
            sentence = _joined(sentence, text, left, right)
            left = right
    return sentence


_Part = Literal["literal", "word", "name"]
"""The origin of a part of a sentence: its template, or a value."""


def _joined(before: str, after: str, left: _Part, right: _Part) -> str:
    """Join the two with Chinese spacing. Only the template's blanks are removed, and none beside a name."""
    if not before:
        return after
    if _is_han(before[-1]) != _is_han(after[0]) and (_is_latin(before[-1]) or _is_latin(after[0])):
        return f"{before} {after}"
    if "name" in (left, right):
        return before + after
    if left == "literal" and before[-1] == " " and _is_han(before[-2:-1]) and _is_han(after[0]):
        return before[:-1] + after
    if right == "literal" and after[0] == " " and _is_han(before[-1]) and _is_han(after[1:2]):
        return before + after[1:]
    return before + after


def _is_han(letter: str) -> bool:
    return "\u4e00" <= letter <= "\u9fff"


def _is_latin(letter: str) -> bool:
    return letter.isascii() and letter.isalnum()


def listed(*parts: str, catalogue: NullTranslations = ENGLISH) -> str:
    """Join the parts that are not empty by the language's comma."""
    return catalogue.gettext(", ").join(filter(None, parts))


def listed_values(parts: Sequence[Words | str], shown: Callable[[Words | str], str], catalogue: NullTranslations) -> str:
    """Join the values of a list; where all of them are names, the list is `Verbatim`."""
    text = listed(*map(shown, parts), catalogue=catalogue)
    return text if any(isinstance(part, Words) for part in parts) else Verbatim(text)


def mentions(words: Words, values: Collection[Words | str]) -> bool:
    """Whether one of these values is in the sentence."""
    parts = [part for value in words.values for part in (value if isinstance(value, tuple) else (value,))]
    return any(part in values or (isinstance(part, Words) and mentions(part, values)) for part in parts)


def both(*parts: "Words | str") -> "Words | str":
    """ "a, b and c" of at least one part."""
    *first, last = parts
    return Words("{0} and {1}", (tuple(first), last)) if first else last


def either(*parts: "Words | str") -> "Words | str":
    """ "a, b or c" of at least one part."""
    *first, last = parts
    return Words("{0} or {1}", (tuple(first), last)) if first else last


def number(value: float) -> str:
    """65504 -> "65 504" with narrow spaces, 3.4e38 -> "3.4 × 10^38", 0.0312 -> "0.031", -1.7 -> "−1.7"."""
    if math.isnan(value):
        return "not a number"
    sign = MINUS if value < 0 else ""
    size = abs(value)
    if math.isinf(size):
        return f"{sign}infinity"
    if size >= 1e9 or 0 < size < 1e-3:
        mantissa, exponent = f"{size:.1e}".split("e")
        return f"{sign}{mantissa.removesuffix('.0')} × 10^{int(exponent)}".replace("^-", f"^{MINUS}")
    if size >= 100 or size == int(size):
        return sign + f"{size:,.0f}".replace(",", NARROW)
    return f"{sign}{size:.2g}" if size < 10 else f"{sign}{size:.1f}"


def _shown(value: Value, catalogue: NullTranslations) -> str:
    match value:
        case Words():
            return value.text(catalogue)
        case tuple():
            return listed_values(value, lambda part: _shown(part, catalogue), catalogue)
        case str():
            return Verbatim(value if value.isprintable() else harmless(value))
        case _:
            return number(value)


_ONCE_TEXT: Final = frozenset({"reasons", "ran", "reason", "refusal", "size"})
"""Fields that held finished text in files of earlier versions."""


def of_earlier_versions(content: object) -> object:
    """Convert finished text of earlier versions' checks and unfinished pictures to sentences."""
    match content:
        case {"operation": "attention-backend", "size": str(size), **entries} if "backend" not in entries:
            backend = size.partition(",")[0]
            return of_earlier_versions({"operation": "attention-backend", "size": size, "backend": backend, **entries})
        case {"details": {**labels}, **entries}:
            details = {label.lower().replace(" ", "-"): text for label, text in cast("dict[str, object]", labels).items()}
            return {"details": details, **cast("dict[str, object]", of_earlier_versions(entries))}
        case {**entries}:
            return {name: _worded(one) if name in _ONCE_TEXT else of_earlier_versions(one) for name, one in entries.items()}
        case list():
            return list(map(of_earlier_versions, cast("list[object]", content)))
        case _:
            return content


def _worded(value: object) -> object:
    match value:
        case str():
            return {"template": "{0}", "values": [value]}
        case list():
            return list(map(_worded, cast("list[object]", value)))
        case _:
            return value


def spelled_out(content: object) -> object:
    """Plain data (dicts, lists) with English text for every sentence, as in files for people and scripts."""
    match content:
        case Words():
            return content.text()
        case {"template": str(), **others} if others.keys() <= {"values", "one", "about"}:
            return msgspec.convert(content, Words).text()
        case {**entries}:
            return {name: spelled_out(one) for name, one in entries.items()}
        case list() | tuple():
            return list(map(spelled_out, cast("list[object]", content)))
        case _:
            return content
