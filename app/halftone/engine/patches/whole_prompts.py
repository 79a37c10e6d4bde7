"""How T5 reads a prompt: the words alone, or in ComfyUI's syntax with weights and in ComfyUI's length.

There every run of words of one weight becomes tokens by itself, the prompt ends with one mark, and is padded to 77 tokens for
SD 3 and to 256 for FLUX.1; a longer one is read to its end. Source: comfy/text_encoders/sd3_clip.py and flux.py.
"""

from collections.abc import Iterable
from typing import Any, Final

import torch
from transformers import BatchEncoding

from halftone.library.add_ons.inversions import with_words
from halftone.library.prompts.prompt_syntax import Rules, parse, plain

_PADDED: Final = {"tokenizer_3": 77, "tokenizer_2": 256}
"""Where a pipeline has T5's tokenizer -> tokens at least: the third is SD 3's, the second FLUX.1's."""


def t5_tokenizer(pipe: Any) -> str | None:
    """The name of the tokenizer of T5 beside CLIP's; None without one."""
    return next((name for name in _PADDED if "T5" in type(getattr(pipe, name, None)).__name__), None)


class PlainReader:
    """Replaces another tokenizer beside CLIP's and reads the words alone."""

    def __init__(self, tokenizer: Any, rules: Rules) -> None:
        self._tokenizer = tokenizer
        self._rules = rules

    def __call__(self, text: str | list[str], **options: Any) -> Any:
        words = plain(text, self._rules) if isinstance(text, str) else [plain(one, self._rules) for one in text]
        return self._tokenizer(words, **options)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


class WholeReader:
    """Replaces T5's tokenizer and reads a prompt as ComfyUI does. texts: all that it will read, as they are padded alike; empty:
    it reads nothing but padding.
    """

    def __init__(self, name: str, tokenizer: Any, texts: Iterable[str], rules: Rules, *, empty: bool) -> None:
        self._tokenizer = tokenizer
        self._rules = rules
        self._empty = empty
        longest = max((len(self._tokens(text)) + 1 for text in texts), default=0)
        self.length = rules.longest or max(_PADDED[name], longest)
        self.seen: list[tuple[float, ...]] = []
        """Weights of each text that was asked for, in order."""

    def __call__(self, text: str | list[str], *, padding: str = "", **_options: Any) -> BatchEncoding:
        rows = [self._row(one) for one in ([text] if isinstance(text, str) else text)]
        if padding == "max_length":  # else the pipeline looks how long the text is without the cut, which here is as long
            self.seen.append(tuple(weight for _, weight in rows[0]))
        return BatchEncoding({"input_ids": torch.tensor([[token for token, _ in row] for row in rows])})

    def _tokens(self, text: str) -> list[tuple[int, float]]:
        def encode(words: str) -> list[int]:
            return self._tokenizer(words, add_special_tokens=False, truncation=False, verbose=False)["input_ids"]

        read = with_words(encode, {}, self._rules)  # embeddings are CLIP's alone
        return [(token, part.weight) for part in parse(text, self._rules)[0] for token in read(part.text)]

    def _row(self, text: str) -> list[tuple[int, float]]:
        own = self._tokenizer
        row = [*([] if self._empty else self._tokens(text)[: self.length - 1]), (own.eos_token_id, 1.0)]
        return [*row, *[(own.pad_token_id, 1.0)] * (self.length - len(row))]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tokenizer, name)


def scaled(states: torch.Tensor, weights: tuple[float, ...], empty: torch.Tensor) -> torch.Tensor:
    """Scale the distance from the states of an empty prompt: (pictures, tokens, width), in float32."""
    by = torch.tensor(weights, device=states.device)[:, None]
    base = empty.float()
    return torch.where(by == 1, states.float(), (states.float() - base) * by + base)
