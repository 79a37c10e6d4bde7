"""Makes text from outside harmless to show: names of files, metadata and users' words."""

import re
from typing import Final

MOST: Final = 300
"""Characters of one echo in an error's sentence; longer ones lose their middle."""
MOST_OF_LIST: Final = 800
"""Characters of an echo that lists several things."""

_HARMFUL: Final = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)
"""Control characters, which terminals obey (ECMA-48), and marks that turn the direction of what follows (UAX #9)."""
_SPACES: Final = "\N{NO-BREAK SPACE}\N{NARROW NO-BREAK SPACE}"
"""Spaces between a number and its unit."""


def harmless(text: str) -> str:
    """The text with a replacement character for each control character and mark of direction; line breaks and tabs stay."""
    return _HARMFUL.sub("\N{REPLACEMENT CHARACTER}", text)


def echo(text: str, most: int = MOST) -> str:
    """One harmless line of at most `most` characters; of a longer text the beginning and the end."""
    if len(text) > most:
        half = (most - 1) // 2
        text = f"{text[: most - 1 - half]}…{text[len(text) - half :]}"
    signs = ((letter, letter.isprintable() or letter in _SPACES) for letter in text)
    return "".join(letter if shown else " " if letter.isspace() else "\N{REPLACEMENT CHARACTER}" for letter, shown in signs)
