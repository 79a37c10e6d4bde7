"""Keys of the user's: which are in force, what is kept of them, and who has one already."""

import pytest

from halftone.session.shortcuts import chosen, in_force, user_of

USUAL = {"save": ("Ctrl+S",), "fit": ("Space", "0"), "open": ()}


@pytest.mark.parametrize(
    ("kept", "wanted"),
    [
        ({}, USUAL),
        ({"save": "F2"}, {**USUAL, "save": ("F2",)}),
        ({"save": ""}, {**USUAL, "save": ()}),
        ({"fit": "A, B", "gone": "F3"}, {**USUAL, "fit": ("A", "B")}),
    ],
)
def test_keys_in_force(kept: dict[str, str], wanted: dict[str, tuple[str, ...]]) -> None:
    assert in_force(USUAL, kept) == wanted


def test_usual_keys_are_not_kept() -> None:
    kept = chosen(USUAL, {}, "save", "F2")
    assert kept == {"save": "F2"}
    assert chosen(USUAL, kept, "open", "F3") == {"save": "F2", "open": "F3"}
    assert chosen(USUAL, kept, "save", "Ctrl+S") == {}
    assert chosen(USUAL, {"fit": "A"}, "fit", "Space, 0") == {}


def test_who_has_a_key() -> None:
    assert user_of("0", "save", USUAL) == "fit"
    assert user_of("Ctrl+S", "save", USUAL) is None
    assert user_of("", "save", USUAL) is None
    assert user_of("F9", "save", USUAL) is None
