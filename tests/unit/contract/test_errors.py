"""Each error says what happened and what to do, in whole sentences, from its facts."""

import string

import pytest

from halftone.contract.error_codes import ERROR_CODES, ErrorCode
from halftone.contract.error_sentences import WORDS
from halftone.contract.errors import ErrorFacts, HalftoneError, remedy, say, sentence


def facts_named(text: str) -> set[str]:
    return {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}


def test_each_code_has_words_and_no_words_lack_a_code() -> None:
    assert set(WORDS) == set(ERROR_CODES)


@pytest.mark.parametrize("code", ERROR_CODES)
def test_sentence_and_remedy_are_whole_sentences(code: ErrorCode) -> None:
    for text in WORDS[code]:
        assert text[0].isupper() or text[0] == "{"
        assert text.endswith(".")
        assert "  " not in text


@pytest.mark.parametrize("code", ERROR_CODES)
def test_facts_are_filled_in(code: ErrorCode) -> None:
    names = facts_named("".join(WORDS[code]))
    error = ErrorFacts(code=code, facts={name: f"<{name}>" for name in names})
    told = say(error)
    assert all(f"<{name}>" in told for name in names)
    assert not set("{}") & set(told)


@pytest.mark.parametrize("code", ERROR_CODES)
def test_a_missing_fact_shows_and_does_not_fail(code: ErrorCode) -> None:
    told = say(ErrorFacts(code=code))
    assert all(f"({name})" in told for name in facts_named("".join(WORDS[code])))


def test_an_exception_carries_its_code_and_facts() -> None:
    error = HalftoneError("size-not-multiple", "from the test", name="width", value=100, multiple=8, below=96, above=104)
    facts = error.as_facts()
    assert facts.details == "from the test"
    assert sentence(facts) == "width is 100, which is not a multiple of 8."
    assert remedy(facts) == "Use 96 or 104."
    assert str(error) == "width is 100, which is not a multiple of 8. Use 96 or 104."


def test_a_range_is_said_once() -> None:
    told = say(ErrorFacts(code="value-out-of-range", facts={"name": "Steps", "value": 0, "low": 1, "high": 1000}))
    assert told == "Steps cannot be 0. Choose a value from 1 to 1000."
