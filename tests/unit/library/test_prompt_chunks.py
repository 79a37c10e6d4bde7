"""Where a long prompt is cut into what a text encoder reads at once."""

from hypothesis import given
from hypothesis import strategies as st

from halftone.library.prompts.prompt_chunks import Chunk, split_prompt, used
from halftone.library.prompts.prompt_syntax import parse

COMMA = ord(",")
ROOM = 75


def chunks(text: str) -> tuple[Chunk, ...]:
    """One token a letter."""
    return split_prompt(parse(text), lambda part: [ord(letter) for letter in part], COMMA, ROOM)


def lengths(text: str) -> list[int]:
    return [len(chunk.ids) for chunk in chunks(text)]


def test_what_fits_is_one_chunk() -> None:
    assert lengths("") == [0]
    assert lengths("a" * 75) == [75]
    assert lengths("a" * 76) == [75, 1]
    assert lengths("a" * 151) == [75, 75, 1]


def test_a_break_begins_a_new_chunk() -> None:
    assert lengths("aaa BREAK bb") == [3, 2]
    assert lengths("BREAK bb") == [0, 2]
    assert lengths("aa BREAK") == [2]
    assert lengths("a" * 75 + " BREAK bb") == [75, 2]


def test_a_near_comma_is_rather_cut_at() -> None:
    assert lengths("a" * 60 + "," + "b" * 30) == [61, 30]
    assert lengths("a" * 55 + "," + "b" * 30) == [56, 30], "twenty tokens back at the most"
    assert lengths("a" * 54 + "," + "b" * 30) == [75, 10]
    assert lengths("a" * 75 + "," + "b" * 3) == [75, 4], "the comma itself is the first that has no room"
    assert lengths("a" * 74 + "," + "b" * 3) == [75, 3]


def test_every_token_keeps_its_weight() -> None:
    first, second = chunks("a" * 74 + "(bb:1.5)")
    assert first.weights[-2:] == (1.0, 1.5)
    assert second == Chunk((ord("b"),), (1.5,))


def test_places_of_full_chunks_are_used_up() -> None:
    assert used(chunks("aaa"), ROOM) == 3
    assert used(chunks("aaa BREAK bb"), ROOM) == 77
    assert used(chunks(""), ROOM) == 0


@given(st.text(st.sampled_from("ab,()"), max_size=400))
def test_nothing_is_lost_and_nothing_too_long(text: str) -> None:
    found = chunks(text)
    words = "".join(part.text for section in parse(text) for part in section)
    assert "".join(chr(token) for chunk in found for token in chunk.ids) == words
    assert all(len(chunk.ids) <= ROOM and len(chunk.ids) == len(chunk.weights) for chunk in found)
