"""Prompts composed of several with AND, each with a weight at its end: `a cat AND a dog:0.5`. Pure text in, pure text out.

As in A1111 (modules/prompt_parser.py, get_multicond_prompt_list), after https://arxiv.org/abs/2206.01714. AND cuts wherever it
stands, inside brackets too. In A1111's syntax a weight at the end counts for a prompt without AND as well; in ComfyUI's AND is a
word.
"""

import re
from functools import lru_cache
from typing import Final

from halftone.library.prompts.prompt_syntax import AND, OWN, Part, Rules, Syntax, at_step, bounded, changes, merged, parse

_TRAILING: Final = re.compile(r"(?<!\s)\s*:\s*([-+]?(?:\d+\.?|\d*\.\d+))\s*\Z")
"""The weight of a whole prompt. Begins where the spaces do, so that a long run of them is scanned once."""
_STEPS: Final = 20


@lru_cache(maxsize=64)
def composed(text: str, rules: Rules = OWN) -> tuple[Part, ...]:
    """The prompts that guide together, one at least, with their weights."""
    pieces = [text] if rules.syntax is Syntax.COMFYUI else AND.split(text)
    if len(pieces) == 1 and rules.syntax is not Syntax.A1111:
        return (Part(text, 1.0),)
    return tuple(_weighed(piece, rules) for piece in pieces)


def is_composed(text: str, rules: Rules = OWN) -> bool:
    """Whether its guidance is not that of one prompt of weight 1."""
    parts = composed(text, rules)
    return len(parts) > 1 or any(part.weight != 1 for part in parts)


def is_read_otherwise(text: str, rules: Rules) -> bool:
    """Whether rules give a prompt other words or weights than Halftone's at some step; A1111 counts steps in another way."""
    if rules.syntax is Syntax.A1111 and any(changes(prompt.text, rules) for prompt in composed(text, rules)):
        return True
    return any(_rounded(text, step, rules) != _rounded(text, step, OWN) for step in range(1, _STEPS + 1))


def _rounded(text: str, step: int, rules: Rules) -> list[tuple[float, list[list[Part]]]]:
    """What is read at a step, without what rounding and cuts between equal weights add."""
    return [
        (prompt.weight, [_simplified(section) for section in parse(at_step(prompt.text, step, _STEPS, rules), rules)])
        for prompt in composed(text, rules)
    ]


def _simplified(section: tuple[Part, ...]) -> list[Part]:
    return merged([Part(part.text, round(part.weight, 6)) for part in section if part.text])


def _weighed(text: str, rules: Rules) -> Part:
    found = _TRAILING.search(text)
    if found is None:
        return Part(text.rstrip(), 1.0)
    return Part(text[: found.start()], bounded(float(found[1]), rules))
