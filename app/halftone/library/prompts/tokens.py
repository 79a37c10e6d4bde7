"""Counts a prompt's tokens with the model's own tokenizer; no torch.

Single files of Stable Diffusion need CLIP's vocabulary and lack it. Source of its merges: OpenAI's CLIP (MIT licence, see
`resources/configs/README.md`), https://arxiv.org/abs/2103.00020.
"""

import gzip
import os
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from halftone.contract.facts import ModelFacts
from halftone.library.add_ons.inversions import inner, places, with_words
from halftone.library.families.known_families import (
    BY_NAME,
    FLUX,
    HIDREAM,
    T5_XXL,
    reads_brackets,
    reads_in_chunks,
    weighs_words,
)
from halftone.library.families.single_files import SINGLES
from halftone.library.files.small_files import needed
from halftone.library.prompts.composed_prompts import composed
from halftone.library.prompts.prompt_chunks import COMMA, split_text, used
from halftone.library.prompts.prompt_syntax import OWN, Rules, Syntax, at_step, changes, plain
from halftone.settings.places import resources

if TYPE_CHECKING:
    from tokenizers import Tokenizer


class Counter(Protocol):
    def __call__(self, prompt: str, words: Mapping[str, int], rules: Rules = ...) -> int: ...


"""Counts a prompt's tokens, with names of so many learned vectors in it."""

_SPECIAL: Final = 2
"""Start and end marks, which count in the reading length."""
_READER: Final = {FLUX.name: "tokenizer_2", HIDREAM.name: "tokenizer_4"}
"""The tokenizer of the encoder that reads the prompt word by word, where it is not the first: CLIP gives these only a summary."""
_STEPS: Final = 20
"""Of a picture whose number of steps is not known yet."""


def reading_length(model: ModelFacts) -> int:
    """Tokens of the user's own words that the model reads. T5 has no start mark."""
    family = BY_NAME.get(model.family)
    by_t5 = family is not None and family.encoders[-1] == T5_XXL and not reads_in_chunks(model.family)
    return model.prompt_tokens - (1 if by_t5 else _SPECIAL)


def room_for(model: ModelFacts, tokens: int, rules: Rules = OWN) -> int:
    """Tokens that the model reads of a prompt with so many: where it reads in chunks, all of them and the rest of the last."""
    room = reading_length(model)
    if _reads_all(model, rules):
        return max(tokens, room)
    return max(-(-tokens // room), 1) * room if reads_in_chunks(model.family) else room


def make_counter(model: ModelFacts) -> Counter | None:
    """A counter of a prompt's tokens, without the start and end marks; None without the tokenizer of what reads them. Places
    after a BREAK count, and the longest form of a prompt that changes with the step or is composed of several.
    """
    tokenizer = _own_tokenizer(model)
    return None if tokenizer is None else partial(_count, model, tokenizer)


def make_plain_counter(model: ModelFacts) -> Callable[[str], int] | None:
    """`make_counter` for a text that is no prompt: all its signs are read as they are."""
    tokenizer = _own_tokenizer(model)
    return None if tokenizer is None else lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def _count(model: ModelFacts, tokenizer: "Tokenizer", prompt: str, words: Mapping[str, int], rules: Rules = OWN) -> int:
    def tokens(text: str) -> list[int]:
        return tokenizer.encode(text, add_special_tokens=False).ids

    if not reads_in_chunks(model.family):
        return len(tokens(plain(prompt, rules, literal=reads_brackets(model.family))))
    forms = {
        at_step(part.text, step, _STEPS, rules)
        for part in composed(prompt, rules)
        for step in range(1, _STEPS + 1 if changes(part.text, rules) else 2)
    }
    room, comma, learned = reading_length(model), tokenizer.token_to_id(COMMA), places(words)
    encode, together = with_words(tokens, learned, rules), inner(learned)
    chunks = (split_text(form, rules, encode, comma, room, together) for form in forms)
    return max(used(found, room) for found in chunks)


def cut_prompt(model: ModelFacts, prompt: str, rules: Rules = OWN) -> tuple[int, str] | None:
    """(tokens of a prompt, the part that is read) where it is too long; None if it fits, or without the model's tokenizer."""
    tokenizer = None if reads_in_chunks(model.family) or _reads_all(model, rules) else _own_tokenizer(model)
    if tokenizer is None:
        return None
    prompt = plain(prompt, rules, literal=reads_brackets(model.family))
    found, room = tokenizer.encode(prompt, add_special_tokens=False), reading_length(model)
    if len(found.ids) <= room:
        return None
    return len(found.ids), prompt[: found.offsets[room - 1][1]]


def _reads_all(model: ModelFacts, rules: Rules) -> bool:
    """Whether T5 reads a prompt to its end, as in ComfyUI."""
    as_comfyui = rules.syntax is Syntax.COMFYUI and rules.longest is None
    return as_comfyui and not reads_in_chunks(model.family) and weighs_words(model.family, as_comfyui=True)


def _own_tokenizer(model: ModelFacts) -> "Tokenizer | None":
    if model.format == "single-file":
        if reads_in_chunks(model.family):
            return clip_tokenizer() if model.family in SINGLES else None
        file = next((one.place for one in needed(model)), Path())  # where T5 reads a prompt, it reads all of it
    else:
        file = Path(model.path) / _READER.get(model.family, "tokenizer") / "tokenizer.json"
    if not os.path.isfile(file):
        return None
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(str(file))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer


START, END = "<|startoftext|>", "<|endoftext|>"
_WORDS = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"
"""Pieces: marks, English endings, runs of letters, single digits, runs of anything else."""


@cache
def merges() -> tuple[tuple[str, str], ...]:
    """Pairs of pieces that become one, the most frequent first."""
    text = gzip.decompress((resources() / "configs" / "clip_merges.txt.gz").read_bytes()).decode()
    return tuple((first, second) for first, second in (line.split() for line in text.splitlines()))


@cache
def vocabulary() -> dict[str, int]:
    """Piece of text -> number: every byte, every byte at the end of a word, every merge, the two marks."""
    # a visible character for each byte, in the order of byte-level encoding: printable ones as they are, then the others
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    letters = [*map(chr, printable), *(chr(256 + index) for index in range(256 - len(printable)))]
    pieces = [*letters, *(f"{letter}</w>" for letter in letters), *("".join(pair) for pair in merges()), START, END]
    return {piece: number for number, piece in enumerate(pieces)}


@cache
def clip_tokenizer() -> "Tokenizer":
    """Cuts a text as CLIP's own tokenizer does, without its start and end marks."""
    from tokenizers import Regex, Tokenizer, normalizers, pre_tokenizers
    from tokenizers.models import BPE

    tokenizer = Tokenizer(
        BPE(vocabulary(), list(merges()), unk_token=END, end_of_word_suffix="</w>", continuing_subword_prefix="")
    )
    tokenizer.normalizer = normalizers.Sequence(
        [normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()]
    )
    cut = pre_tokenizers.Split(Regex(_WORDS), "removed", invert=True)
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([cut, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tokenizer.add_special_tokens([START, END])
    return tokenizer
