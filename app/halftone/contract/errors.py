"""Errors are built from facts; the sentence and the remedy of each code stand in one table and are composed at the edge."""

from collections.abc import Mapping
from gettext import NullTranslations
from typing import Final

import msgspec

from halftone.contract.echoes import MOST, MOST_OF_LIST, echo
from halftone.contract.error_codes import ErrorCode
from halftone.contract.error_sentences import WORDS
from halftone.contract.wording import ENGLISH, Verbatim, Words, fill, listed_values

Fact = str | int | float | Words | tuple[Words | str, ...]
"""A tuple is a list."""


class ErrorFacts(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An error on the wire. details: for Copy details and the log, never shown first."""

    code: ErrorCode
    facts: dict[str, Fact] = msgspec.field(default_factory=dict)
    details: str = ""


class HalftoneError(Exception):
    """Raised inside; carries a code and its facts. `str()` gives sentence and remedy."""

    def __init__(self, code: ErrorCode, /, details: str = "", **facts: Fact) -> None:
        self.code: ErrorCode = code
        self.facts = facts
        self.details = details
        super().__init__(say(self.as_facts()))

    def as_facts(self) -> ErrorFacts:
        return ErrorFacts(code=self.code, facts=dict(self.facts), details=self.details)


class JobCancelled(Exception):  # noqa: N818 - it is no error: the user asked for it
    """The user cancelled; the runner turns it into JobEnded(cancelled)."""


class _Known(dict[str, str | int | float]):
    """Leaves a missing fact visible instead of failing inside an error path."""

    def __missing__(self, key: str) -> str:
        return f"({key})"


_LISTS: Final = frozenset({"allowed", "command", "detail", "fetch", "files", "folders", "found", "known", "missing", "near"})
"""Facts that may list several things, or hold a command."""


def filled(template: str, facts: Mapping[str, Fact], catalogue: NullTranslations = ENGLISH) -> str:
    """Fill a translated template with facts, each made harmless and of a bounded length."""
    return fill(template, named=_Known({name: _shown(name, fact, catalogue) for name, fact in facts.items()}))


def _shown(name: str, fact: Fact, catalogue: NullTranslations) -> str | int | float:
    most = MOST_OF_LIST if name in _LISTS else MOST
    match fact:
        case str():
            return Verbatim(echo(fact, most))
        case Words():
            return echo(fact.text(catalogue), MOST_OF_LIST)
        case tuple():
            text = listed_values(fact, lambda one: str(_shown(name, one, catalogue)), catalogue)
            return type(text)(echo(text, MOST_OF_LIST))
        case _:
            return fact


def sentence(error: ErrorFacts, catalogue: NullTranslations = ENGLISH) -> str:
    """What happened, in one sentence."""
    return filled(catalogue.gettext(WORDS[error.code][0]), error.facts, catalogue)


def remedy(error: ErrorFacts, catalogue: NullTranslations = ENGLISH) -> str:
    """What the user can do in the window; the command line has its own words where these name a part of that."""
    return filled(catalogue.gettext(WORDS[error.code][1]), error.facts, catalogue)


def say(error: ErrorFacts) -> str:
    return f"{sentence(error)} {remedy(error)}"
