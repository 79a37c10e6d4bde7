"""Prompts as they are shown: no empty places between commas."""

import pytest

from halftone.library.prompts.shown_prompts import shown_prompt


@pytest.mark.parametrize(
    ("prompt", "shown"),
    [
        ("a sun, sea", "a sun, sea"),
        ("a sun, , sea", "a sun, sea"),
        ("a sun,", "a sun"),
        (", , a sun , , ,sea, ", "a sun,sea"),
        ("(a sun, sea:1.2)", "(a sun, sea:1.2)"),
        ("", ""),
    ],
)
def test_empty_places_are_not_shown(prompt: str, shown: str) -> None:
    assert shown_prompt(prompt) == shown
