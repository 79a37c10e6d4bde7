"""Prompts as they are shown. The text that is encoded keeps every comma, as in A1111."""

import re
from typing import Final

_EMPTY_PLACES: Final = re.compile(r"\s*,(?:\s*,)+")


def shown_prompt(prompt: str) -> str:
    """Return a prompt without the empty places between its commas that LoRA tags leave when they are taken out."""
    return _EMPTY_PLACES.sub(",", prompt).strip(" \t\n,")
