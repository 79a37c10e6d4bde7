"""How much of a model's reading length a prompt takes, counted with the model's own tokenizer; no torch."""

from collections.abc import Callable
from pathlib import Path
from typing import Final

from halftone.contract.facts import ModelFacts

Counter = Callable[[str], int]

_SPECIAL: Final = 2
"""Start and end marks, which take two places of the reading length."""


def reading_length(model: ModelFacts) -> int:
    """Tokens of the user's own words that the model reads."""
    return model.prompt_tokens - _SPECIAL


def make_counter(model: ModelFacts) -> Counter | None:
    """Counts the tokens of a prompt, without the start and end marks; None where the model's tokenizer is not at hand."""
    own = Path(model.path) / "tokenizer" / "tokenizer.json"
    return _own_counter(own) if model.format == "diffusers" and own.is_file() else None


def _own_counter(file: Path) -> Counter:
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return lambda prompt: len(tokenizer.encode(prompt, add_special_tokens=False).ids)
