"""How many tokens a tokenizer gives its text encoder: never more than that has places for."""

from typing import Any, Final

from torch import nn
from transformers import PreTrainedTokenizerBase

_ENDLESS: Final = 100_000
"""Tokens from which a length means that there is no limit; the hub writes 10^30."""
_POSITIONS: Final = ("position_embedding", "position_embeddings")


def settle_lengths(pipe: Any, usual: int) -> None:
    """Shorten what tokenizers read to what their text encoders can, all CLIPs alike: pipelines lay their tokens side by side.
    usual: tokens of the family, where there is no limit.
    """
    joined: list[PreTrainedTokenizerBase] = []
    for name, tokenizer in pipe.components.items():
        if isinstance(tokenizer, PreTrainedTokenizerBase):
            encoder = pipe.components.get(name.replace("tokenizer", "text_encoder"))
            joined += [tokenizer] if type(encoder).__name__.startswith("CLIPText") else []
            places = _places(encoder)
            limit = places or (usual if tokenizer.model_max_length > _ENDLESS else _ENDLESS)
            tokenizer.model_max_length = int(min(tokenizer.model_max_length, limit))
    for tokenizer in joined:
        tokenizer.model_max_length = min(one.model_max_length for one in joined)


def _places(encoder: Any) -> int | None:
    """Rows of a text encoder's table of positions; None where it has none, as T5."""
    named = encoder.named_modules() if isinstance(encoder, nn.Module) else ()
    tables = (module for name, module in named if name.endswith(_POSITIONS) and isinstance(module, nn.Embedding))
    return next((table.num_embeddings for table in tables), None)
