"""What the core gives as finished English (reasons, refusals, details of errors), in the user's language.

A sentence is recognised by its template, and its parts are put into the translated template.
"""

import re
from functools import cache

from halftone.gui.i18n import catalogue, language, listed, tr
from halftone.gui.reason_templates import FRAGMENTS, LISTS, MISSING, PARTS, TEMPLATES
from halftone.settings.disk import system_words

"""What may stand inside a reason too: layers, components, cures; a file's name may read like one of these."""


def reason(sentence: str) -> str:
    """The sentence in the language in force; as it stands where its template is not known."""
    if language() == "en":
        return sentence
    return _filled(sentence, TEMPLATES, (*PARTS, *LISTS)) or tr(sentence)


def fragment(words: str) -> str:
    """A fact of an error in the language in force; names, paths and what a library says stay as they are."""
    if language() == "en":
        return words
    found = _filled(words, FRAGMENTS, PARTS)
    if found:
        return found
    listing = [_filled(entry, MISSING, ()) for entry in words.split(", ")]
    if any(listing):
        return listed(*(said or entry for said, entry in zip(listing, words.split(", "), strict=True)))
    first, between, last = words.rpartition(" or ")
    return (
        tr("{0} or {1}", first, last) if between and "." not in first and len(first.split()) == first.count(", ") + 1 else words
    )


def problem(error: Exception) -> str:
    """What the system says of a file that could not be read or written, in the language in force."""
    return system_words(error).text(catalogue()) if isinstance(error, OSError) else fragment(str(error))


def recognised(sentence: str) -> bool:
    """True when a template fits."""
    return any(_pattern(template).fullmatch(sentence) for template in (*TEMPLATES, *FRAGMENTS))


def _filled(sentence: str, templates: tuple[str, ...], parts: tuple[str, ...]) -> str:
    for template in templates:
        match = _pattern(template).fullmatch(sentence)
        if match is not None:
            return tr(template, *(_part(value, parts) for value in match.groups())) if match.groups() else tr(template)
    return ""


def _part(value: str, parts: tuple[str, ...]) -> str:
    return listed(*(_filled(entry, parts, parts) or tr(entry) for entry in value.split(", ")))


@cache
def _pattern(template: str) -> re.Pattern[str]:
    return re.compile("(.+?)".join(re.escape(piece) for piece in re.split(r"\{\d\}", template)))
