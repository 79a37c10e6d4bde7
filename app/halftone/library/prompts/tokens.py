"""How much of a prompt a model reads, counted with the model's own tokenizer; no torch."""

import os
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from halftone.contract.facts import ModelFacts
from halftone.library.add_ons.inversions import inner, places, with_words
from halftone.library.families.known_families import reads_in_chunks
from halftone.library.families.single_files import SINGLES
from halftone.library.files.small_files import needed
from halftone.library.prompts.clip_vocabulary import clip_tokenizer
from halftone.library.prompts.prompt_chunks import COMMA, split_prompt, used
from halftone.library.prompts.prompt_syntax import at_step, changes, parse, plain

if TYPE_CHECKING:
    from tokenizers import Tokenizer

Counter = Callable[[str, Mapping[str, int]], int]
"""Of a prompt, in which names stand for so many learned vectors."""

_SPECIAL: Final = 2
"""Start and end marks, which take two places of the reading length."""
_STEPS: Final = 20
"""Of a picture, as long as it is not known how many there will be."""


def reading_length(model: ModelFacts) -> int:
    """Tokens of the user's own words that the model reads."""
    return model.prompt_tokens - _SPECIAL


def room_for(model: ModelFacts, tokens: int) -> int:
    """Tokens that the model reads of a prompt with so many: where it reads in chunks, all of them and the rest of the last."""
    room = reading_length(model)
    return max(-(-tokens // room), 1) * room if reads_in_chunks(model.family) else room


def make_counter(model: ModelFacts) -> Counter | None:
    """Counts the tokens of a prompt, without the start and end marks; None where the model's tokenizer is not at hand.

    Places that a BREAK leaves empty count, and of a prompt that changes with the step its longest form.
    """
    tokenizer = _own_tokenizer(model)
    return None if tokenizer is None else partial(_count, model, tokenizer)


def make_plain_counter(model: ModelFacts) -> Callable[[str], int] | None:
    """As `make_counter`, of a text that is no prompt: all its signs are read as they stand."""
    tokenizer = _own_tokenizer(model)
    return None if tokenizer is None else lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def _count(model: ModelFacts, tokenizer: "Tokenizer", prompt: str, words: Mapping[str, int]) -> int:
    def tokens(text: str) -> list[int]:
        return tokenizer.encode(text, add_special_tokens=False).ids

    if not reads_in_chunks(model.family):
        return len(tokens(plain(prompt)))
    forms = {at_step(prompt, step, _STEPS) for step in range(1, _STEPS + 1)} if changes(prompt) else {prompt}
    room, comma, learned = reading_length(model), tokenizer.token_to_id(COMMA), places(words)
    encode, together = with_words(tokens, learned), inner(learned)
    return max(used(split_prompt(parse(form), encode, comma, room, together), room) for form in forms)


def cut_prompt(model: ModelFacts, prompt: str) -> tuple[int, str] | None:
    """(tokens of the prompt, the part of it that is read) of a prompt that is too long; None if all of it is read, and where the
    model's tokenizer is not at hand.
    """
    tokenizer = None if reads_in_chunks(model.family) else _own_tokenizer(model)
    if tokenizer is None:
        return None
    prompt = plain(prompt)
    found, room = tokenizer.encode(prompt, add_special_tokens=False), reading_length(model)
    if len(found.ids) <= room:
        return None
    return len(found.ids), prompt[: found.offsets[room - 1][1]]


def _own_tokenizer(model: ModelFacts) -> "Tokenizer | None":
    if model.format == "single-file":
        if reads_in_chunks(model.family):
            return clip_tokenizer() if model.family in SINGLES else None
        file = next((one.place for one in needed(model)), Path())  # where T5 reads a prompt, it reads all of it
    else:
        file = Path(model.path) / "tokenizer" / "tokenizer.json"
    if not os.path.isfile(file):
        return None
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
