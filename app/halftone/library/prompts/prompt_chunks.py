"""A prompt in the chunks that a CLIP text encoder reads, cut as in A1111; no torch."""

from collections.abc import Callable, Container, Sequence
from typing import Final, NamedTuple

from halftone.library.prompts.comfyui_words import comfy_pieces
from halftone.library.prompts.prompt_syntax import Part, Rules, Sections, Syntax, parse

COMMA: Final = ",</w>"
"""The comma in CLIP's vocabulary, the best place for a cut."""
_LONG: Final = 8
"""So many tokens of one weight are cut where a chunk ends; fewer go to the next chunk together."""
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
            straddled = tokens[room][0] in inner
            wanted = room if straddled else _cut(tokens, comma, room)
            cut = next((place for place in range(wanted, 0, -1) if tokens[place][0] not in inner), wanted)
            pieces.append(tokens[:cut])
            tokens = tokens[cut:]
        pieces.append(tokens)
    if len(pieces) > 1 and not pieces[-1]:
        pieces.pop()
    return tuple(Chunk(tuple(token for token, _ in piece), tuple(weight for _, weight in piece)) for piece in pieces)


def split_text(
    text: str,
    rules: Rules,
    encode: Callable[[str], Sequence[int]],
    comma: int | None,
    room: int,
    inner: Container[int] = (),
) -> tuple[Chunk, ...]:
    """The chunks of a prompt by the rules of a syntax; the rest as in `split_prompt`."""
    sections = parse(text, rules)
    if rules.syntax is Syntax.COMFYUI:
        return _split_as_comfy(sections[0], encode, room)
    return split_prompt(sections, encode, comma, room, inner)


def _split_as_comfy(parts: Sequence[Part], encode: Callable[[str], Sequence[int]], room: int) -> tuple[Chunk, ...]:
    """The chunks of ComfyUI (comfy/sd1_clip.py, tokenize_with_weights): words of one weight stay together if they are few."""
    chunks: list[list[tuple[int, float]]] = [[]]
    for text, weight in ((text, part.weight) for part in parts for text in comfy_pieces(part.text)):
        tokens = [(token, weight) for token in encode(text)]
        long = len(tokens) >= _LONG
        while len(tokens) > room - len(chunks[-1]):
            fitting = room - len(chunks[-1]) if long else 0
            chunks[-1] += tokens[:fitting]
            chunks.append([])
            tokens = tokens[fitting:]
        chunks[-1] += tokens
    return tuple(Chunk(tuple(token for token, _ in chunk), tuple(weight for _, weight in chunk)) for chunk in chunks)


def _cut(tokens: list[tuple[int, float]], comma: int | None, room: int) -> int:
    """Tokens of the first chunk: all that fit, or up to the last comma if that is near."""
    if tokens[room][0] == comma:
        return room
    near = range(room - 1, max(room - _BACK, 0) - 1, -1)
    return next((place + 1 for place in near if tokens[place][0] == comma), room)


def used(chunks: Sequence[Chunk], room: int) -> int:
    """Tokens of a prompt: all places of a chunk before another count."""
    return room * (len(chunks) - 1) + len(chunks[-1].ids)
