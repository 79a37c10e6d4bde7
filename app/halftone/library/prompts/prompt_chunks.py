"""A prompt in the lengths that a CLIP text encoder reads at once, as A1111 cuts it; no torch."""

from collections.abc import Callable, Container, Sequence
from typing import Final, NamedTuple

from halftone.library.prompts.prompt_syntax import Sections

COMMA: Final = ",</w>"
"""The comma in CLIP's vocabulary, where a prompt is rather cut than between two words."""
_BACK: Final = 20
"""Tokens that are looked back for a comma."""


class Chunk(NamedTuple):
    """Tokens without start and end marks, and the weight of each."""

    ids: tuple[int, ...]
    weights: tuple[float, ...]


def split_prompt(
    sections: Sections,
    encode: Callable[[str], Sequence[int]],
    comma: int | None,
    room: int,
    inner: Container[int] = (),
) -> tuple[Chunk, ...]:
    """One chunk at least. encode: text -> tokens without marks; comma: its token; room: tokens of a chunk; inner: tokens before
    which nothing is cut, of which no more follow each other than there is room. Raises ValueError for chunks without a token.
    """
    if room < 1:  # nothing would ever be taken off the front
        raise ValueError(f"a chunk of {room} tokens")
    chunks: list[Chunk] = []
    for section in sections:
        tokens = [(token, part.weight) for part in section for token in encode(part.text)]
        while len(tokens) > room:
            wanted = _cut(tokens, comma, room)
            cut = next((place for place in range(wanted, 0, -1) if tokens[place][0] not in inner), wanted)
            chunks.append(_chunk(tokens[:cut]))
            tokens = tokens[cut:]
        chunks.append(_chunk(tokens))
    if len(chunks) > 1 and not chunks[-1].ids:
        chunks.pop()
    return tuple(chunks)


def _cut(tokens: list[tuple[int, float]], comma: int | None, room: int) -> int:
    """How many tokens the first chunk takes: all it has room for, or up to the last comma if that is near."""
    if tokens[room][0] == comma:
        return room
    near = range(room - 1, max(room - _BACK, 0) - 1, -1)
    return next((place + 1 for place in near if tokens[place][0] == comma), room)


def _chunk(tokens: list[tuple[int, float]]) -> Chunk:
    return Chunk(tuple(token for token, _ in tokens), tuple(weight for _, weight in tokens))


def used(chunks: Sequence[Chunk], room: int) -> int:
    """Tokens that a prompt takes up: all places of a chunk that is followed by another."""
    return room * (len(chunks) - 1) + len(chunks[-1].ids)
