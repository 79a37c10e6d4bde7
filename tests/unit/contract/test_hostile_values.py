"""Every error and every message, in both languages, with values that a template or a catalogue could mistake for its own."""

import re
from gettext import NullTranslations
from typing import Final

import pytest
from tests.gui import words
from tests.helpers.wording import CHINESE

from halftone.contract.echoes import MOST, echo, harmless
from halftone.contract.error_sentences import WORDS
from halftone.contract.errors import ErrorFacts, remedy, sentence
from halftone.contract.wording import ENGLISH, Words

HOSTILE: Final = (
    "slow",
    "Prompt",
    "{0}",
    "{",
    "}}",
    "%s",
    "{name}",
    "我的模型",
    " 我的 模型 ",
    "שלום",
    "\u202eexe.gnp",
    "two\nlines",
    "\x1b[31mred",
    "long " * 400,
)
LANGUAGES: Final = {"English": ENGLISH, "Chinese": CHINESE}
_PLACES: Final = re.compile(r"(?<!\{)\{(\w+)\}")


@pytest.mark.parametrize("value", HOSTILE, ids=ascii)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_value_stays_as_it_is_in_every_message(language: str, value: str) -> None:
    catalogue, shown = LANGUAGES[language], harmless(value)
    changed = [template for template in words.messages() if not _holds(template, "", value, shown, catalogue)]
    changed += [many for one, many in words.plurals() if not _holds(many, one, value, shown, catalogue)]
    assert changed == []


def _holds(template: str, one: str, value: str, shown: str, catalogue: NullTranslations) -> bool:
    places = list(map(int, _PLACES.findall(template)))
    count = max(places, default=-1) + 1
    alone = Words(template, (value,) * count, one=one).text(catalogue) if count else ""
    listed = Words(template, ((value, value),) * count, one=one).text(catalogue) if count else ""
    return alone.count(shown) >= len(places) and listed.count(shown) >= 2 * len(places)


@pytest.mark.parametrize("value", HOSTILE, ids=ascii)
@pytest.mark.parametrize("language", LANGUAGES)
def test_a_fact_stays_as_it_is_in_every_error(language: str, value: str) -> None:
    catalogue, shown = LANGUAGES[language], echo(value, MOST)
    for code, templates in WORDS.items():
        for template, render in zip(templates, (sentence, remedy), strict=True):
            places = _PLACES.findall(template)
            text = render(ErrorFacts(code=code, facts=dict.fromkeys(places, value)), catalogue)
            if len(value) <= MOST:
                assert text.count(shown) >= len(places), (code, text)
            listed = render(ErrorFacts(code=code, facts=dict.fromkeys(places, (value, value))), catalogue)
            assert not places or listed.count(shown[:100]) >= 2 * len(places), (code, listed)
