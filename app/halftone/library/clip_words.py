"""The words of CLIP's tokenizer, which every file of Stable Diffusion takes for granted and none holds.

Source of the merges: OpenAI's CLIP (MIT licence, see `resources/configs/README.md`), https://arxiv.org/abs/2103.00020.
"""

import gzip
from functools import cache

from halftone.settings.places import resources

START, END = "<|startoftext|>", "<|endoftext|>"


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
