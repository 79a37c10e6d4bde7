"""Text from outside is shown without what a terminal obeys, and no longer than is useful."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halftone.contract.echoes import MOST, MOST_OF_LIST, echo, harmless
from halftone.contract.errors import ErrorFacts, say

HOSTILE = ("\x1b[2J", "\x1b]0;owned\x07", "\x9b31m", "\u202egnp.exe", "\u2066a\u2069", "a\rb", "\0", "\x7f", "\u2028", "\udcff")


@pytest.mark.parametrize("text", HOSTILE)
def test_control_characters_and_marks_of_direction_are_replaced(text: str) -> None:
    assert len(harmless(text)) == len(text)
    assert harmless(text).isprintable()
    assert "\ufffd" in harmless(text)


def test_words_of_all_languages_and_our_own_spaces_stay() -> None:
    for text in ("日の出", "עברית", "a\u202fb 3\u00a0GB", "👩\u200d🎨", "a\nb\tc", "é"):
        assert harmless(text) == text


@given(st.text(max_size=700))
def test_an_echo_is_one_printable_line_of_a_bounded_length(text: str) -> None:
    shown = echo(text)
    assert len(shown) <= MOST
    assert shown.replace("\u00a0", " ").replace("\u202f", " ").isprintable()


def test_of_a_long_echo_the_beginning_and_the_end_are_shown() -> None:
    shown = echo("/home/" + "a" * 9000 + "/sun.png")
    assert len(shown) == MOST
    assert shown.startswith("/home/a")
    assert shown.endswith("a/sun.png")
    assert "…" in shown


def test_an_error_shows_what_was_typed_harmless_and_short() -> None:
    said = say(ErrorFacts(code="model-missing", facts={"path": "/\x1b[2J\n" + "a" * 100_000}))
    assert "\x1b" not in said
    assert "\n" not in said
    assert len(said) < MOST + 200
    listed = say(ErrorFacts(code="style-unknown", facts={"name": "x", "known": "a, " * 9000}))
    assert len(listed) < MOST_OF_LIST + 400
