"""Finds settings by any words of theirs: title, sentence, choices, flags, names in A1111."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from halftone.settings.declared import ALIASES, DECLARED, Setting


class Entry(NamedTuple):
    """page and field: where the row is. title: in English. others: further texts that name or explain it."""

    page: str
    field: str
    title: str
    others: tuple[str, ...] = ()


def declared_entries() -> tuple[Entry, ...]:
    return tuple(Entry(one.page, one.field, one.title, _others(one)) for one in DECLARED)


def find(text: str, entries: Iterable[Entry], speak: Callable[[str], Iterable[str]]) -> tuple[Entry, ...]:
    """Entries with every word of the text somewhere; those with all in the title come first. speak: a text in each language that
    is searched.
    """
    words = text.casefold().split()
    ranked: list[tuple[int, Entry]] = []
    for entry in entries if words else ():
        title = " ".join(speak(entry.title)).casefold()
        whole = " ".join((title, *(said for other in entry.others for said in speak(other)))).casefold()
        if all(word in whole for word in words):
            ranked.append((sum(word not in title for word in words), entry))
    return tuple(entry for _, entry in sorted(ranked, key=lambda one: one[0]))


def _others(setting: Setting) -> tuple[str, ...]:
    choices = (words for choice in setting.choices for words in (choice.label, choice.sentence))
    aliases = (alias.flag for alias in ALIASES if alias.field == setting.field)
    said = (setting.sentence, setting.tooltip, setting.section)
    parts = (*said, setting.a1111, setting.synonyms, setting.name, *setting.flags, *aliases, *choices)
    return tuple(filter(None, parts))
