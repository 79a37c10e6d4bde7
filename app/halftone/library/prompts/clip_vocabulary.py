"""The words of CLIP's tokenizer, which every file of Stable Diffusion takes for granted and none holds.

Source of the merges: OpenAI's CLIP (MIT licence, see `resources/configs/README.md`), https://arxiv.org/abs/2103.00020.
"""

import gzip
from functools import cache
from typing import TYPE_CHECKING

from halftone.settings.places import resources

if TYPE_CHECKING:
    from tokenizers import Tokenizer

START, END = "<|startoftext|>", "<|endoftext|>"
_WORDS = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|\p{L}+|\p{N}|[^\s\p{L}\p{N}]+"
"""What is cut up by itself: marks, English endings, runs of letters, single digits, runs of anything else."""


@cache
def merges() -> tuple[tuple[str, str], ...]:
    """Pairs of pieces that become one, the most frequent first."""
    text = gzip.decompress((resources() / "configs" / "clip_merges.txt.gz").read_bytes()).decode()
    return tuple((first, second) for first, second in (line.split() for line in text.splitlines()))


@cache
def vocabulary() -> dict[str, int]:
    """Piece of text -> number: every byte, every byte at the end of a word, every merge, the two marks."""
    letters = _letters()
    pieces = [*letters, *(f"{letter}</w>" for letter in letters), *("".join(pair) for pair in merges()), START, END]
    return {piece: number for number, piece in enumerate(pieces)}


def _letters() -> list[str]:
    """A visible character for each byte, in the order of byte-level encoding: printable ones as they are, then the others."""
    printable = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    return [*map(chr, printable), *(chr(256 + index) for index in range(256 - len(printable)))]


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
