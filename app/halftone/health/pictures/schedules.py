"""Knows by its name whether a schedule lets the learning rate fall."""

import re
from typing import Final

_FALLING: Final = re.compile(
    r"cosine|linear(?!_?warm)|polynomial|cyclic|one_?cycle|inverse_sqrt|exponential|piecewise|multi_?step|^step", re.IGNORECASE
)


def is_falling(name: str) -> bool:
    """Whether a schedule of this name, as settings, a class or a function call it, lets the rate fall on the way."""
    return bool(_FALLING.search(name))
