"""How much of a prompt a model reads, counted with the model's own tokenizer; no torch."""

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from halftone.contract.facts import ModelFacts
from halftone.library.clip_words import clip_tokenizer
from halftone.library.single import SINGLES

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Counter = Callable[[str], int]

_SPECIAL: Final = 2
"""Start and end marks, which take two places of the reading length."""


def reading_length(model: ModelFacts) -> int:
    """Tokens of the user's own words that the model reads."""
    return model.prompt_tokens - _SPECIAL


def make_counter(model: ModelFacts) -> Counter | None:
    """Counts the tokens of a prompt, without the start and end marks; None where the model's tokenizer is not at hand."""
    tokenizer = _own_tokenizer(model)
    return None if tokenizer is None else lambda prompt: len(tokenizer.encode(prompt, add_special_tokens=False).ids)


def cut_prompt(model: ModelFacts, prompt: str) -> tuple[int, str] | None:
    """(tokens of the prompt, the part of it that is read) of a prompt that is too long; None if all of it is read, and where the
    model's tokenizer is not at hand.
    """
    tokenizer = _own_tokenizer(model)
    if tokenizer is None:
        return None
    found, room = tokenizer.encode(prompt, add_special_tokens=False), reading_length(model)
    if len(found.ids) <= room:
        return None
    return len(found.ids), prompt[: found.offsets[room - 1][1]]


def _own_tokenizer(model: ModelFacts) -> "Tokenizer | None":
    if model.format == "single-file":
        return clip_tokenizer() if model.family in SINGLES else None
    file = Path(model.path) / "tokenizer" / "tokenizer.json"
    if not file.is_file():
        return None
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
