"""The Chinese catalogue as tests read it, and whether a sentence can be said in Chinese."""

from collections import Counter
from functools import cache
from gettext import NullTranslations

import polib

from halftone.contract.wording import Words
from halftone.settings.translations import catalogue_file, catalogue_of

CHINESE: NullTranslations = catalogue_of("zh_CN")


@cache
def entries() -> list[polib.POEntry]:
    """Every entry of the file, read so that one that stands twice is an error."""
    found = list(polib.pofile(str(catalogue_file("zh_CN")), encoding="utf-8"))
    times = Counter((entry.msgid, entry.msgctxt) for entry in found)  # polib's own check compares each with all before it
    assert not (twice := [message for message, count in times.items() if count > 1]), f"stands twice: {twice}"
    return found


@cache
def chinese() -> dict[str, str]:
    """English -> Chinese, of a sentence that counts under its singular and its plural."""
    found: dict[str, str] = {}
    for entry in entries():
        if entry.msgid_plural:
            found |= dict.fromkeys((entry.msgid, entry.msgid_plural), entry.msgstr_plural[0])
    return found | {entry.msgid: entry.msgstr for entry in entries() if not entry.msgid_plural and not entry.msgctxt}


@cache
def keys() -> frozenset[tuple[str, str]]:
    """What the entries are found by: a message and "", or a singular and its plural."""
    return frozenset((entry.msgid, entry.msgid_plural) for entry in entries() if not entry.msgctxt)


def translated(words: object) -> bool:
    """Whether it is a message, and it and all messages among its values have a Chinese text."""
    if not isinstance(words, Words):
        return False
    inside = [part for value in words.values for part in (value if isinstance(value, tuple) else (value,))]
    known = ((words.one, words.template) if words.one else (words.template, "")) in keys()
    says_nothing = not words.template.strip("{0123456789}:, ")
    return (known or says_nothing) and all(translated(part) for part in inside if isinstance(part, Words))
