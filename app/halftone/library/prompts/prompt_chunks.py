"""A prompt in the chunks that a CLIP text encoder reads, cut as in A1111; no torch."""

from collections.abc import Callable, Container, Sequence
from typing import Final, NamedTuple

from halftone.library.prompts.prompt_syntax import Sections

COMMA: Final = ",</w>"
"""The comma in CLIP's vocabulary, the best place for a cut."""
_BACK: Final = 20
"""Tokens that are searched back for a comma."""


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
    which nothing is cut. Raises ValueError for chunks without a token.
    """
    if room < 1:  # nothing would ever be taken off the front
        raise ValueError(f"a chunk of {room} tokens")
    pieces: list[list[tuple[int, float]]] = []
    for section in sections:
        tokens = [(token, part.weight) for part in section for token in encode(part.text)]
        while len(tokens) > room:
            wanted = _cut(tokens, comma, room)
            cut = next((place for place in range(wanted, 0, -1) if tokens[place][0] not in inner), wanted)
            pieces.append(tokens[:cut])
            tokens = tokens[cut:]
        pieces.append(tokens)
    if len(pieces) > 1 and not pieces[-1]:
        pieces.pop()
    return tuple(Chunk(tuple(token for token, _ in piece), tuple(weight for _, weight in piece)) for piece in pieces)


def _cut(tokens: list[tuple[int, float]], comma: int | None, room: int) -> int:
    """Tokens of the first chunk: all that fit, or up to the last comma if that is near."""
    if tokens[room][0] == comma:
        return room
    near = range(room - 1, max(room - _BACK, 0) - 1, -1)
    return next((place + 1 for place in near if tokens[place][0] == comma), room)


def used(chunks: Sequence[Chunk], room: int) -> int:
    """Tokens of a prompt: all places of a chunk before another count."""
    return room * (len(chunks) - 1) + len(chunks[-1].ids)
