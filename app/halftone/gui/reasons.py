"""Reasons that the core gives as finished English sentences (precision, badges, stale checks), in the user's language.

A sentence is recognised by its template, and its parts are put into the translated template.
"""

import re
from functools import cache
from typing import Final

from halftone.gui.i18n import language, listed, tr

TEMPLATES: Final = (
    "Not checked on this device yet.",
    "No cure passed the check: the numbers are bad in every precision.",
    "Passed the check with its cure.",
    "A value passed the limit, or a bad number appeared. A cure is ready.",
    "No value passed the limit, but the smallest room is below 2 bits.",
    "Every layer has at least 2 bits of room.",
    "The model's files changed since the check.",
    "The check was made on another device, {0}.",
    "The driver changed since the check, from {0} to {1}.",
    "PyTorch changed since the check, from {0} to {1}.",
    "The setting “{0}” changed since the check.",
    "FP32: nothing else was measured.",
    "FP32: {0} has not been measured yet.",
    "{0}, as set.",
    "{0}, as set, though the self-test found it {1} on {2}.",
    "{0}: every test passed, and it is {1} × as fast as FP32 ({2}); {3}.",
    "{0}: every test passed, and it is {1} × as fast as FP32 ({2}).",
    "{0}: every test passed, and it is {1} × as fast as FP32; {2}.",
    "{0}: every test passed, and it is {1} × as fast as FP32.",
    "FP32: {0}.",
)
PARTS: Final = (
    "{0} is faulty here",
    "{0} is no faster than FP32 here",
    "{0} is missing here",
    "faulty",
    "slow",
    "missing",
    "none",
)
"""What may stand inside a template, alone or in a list."""


def reason(sentence: str) -> str:
    """The sentence in the language in force; as it stands where its template is not known."""
    if language() == "en":
        return sentence
    return _filled(sentence, TEMPLATES) or tr(sentence)


def recognised(sentence: str) -> bool:
    """True when a template fits."""
    return any(_pattern(template).fullmatch(sentence) for template in TEMPLATES)


def _filled(sentence: str, templates: tuple[str, ...]) -> str:
    for template in templates:
        match = _pattern(template).fullmatch(sentence)
        if match is not None:
            return tr(template, *(_part(value) for value in match.groups())) if match.groups() else tr(template)
    return ""


def _part(value: str) -> str:
    return listed(*(_filled(entry, PARTS) or tr(entry) for entry in value.split(", ")))


@cache
def _pattern(template: str) -> re.Pattern[str]:
    return re.compile("(.+?)".join(re.escape(piece) for piece in re.split(r"\{\d\}", template)))
