"""The words and the embeddings of a text in ComfyUI's syntax; after comfy/sd1_clip.py, SDTokenizer.tokenize_with_weights.

`embedding:name` counts at the beginning, after a space or at the start of a line, up to the next space; commas at its end are
words. There the name is a file's, perhaps with its ending and folders before it. One that does not exist is left out.
"""

import re
from collections.abc import Iterator
from typing import Final

_MARK: Final = "embedding:"
_NAMED: Final = re.compile(rf"(?:[ \n]|\A){_MARK}\s*(\S+)")
_ENDING: Final = re.compile(r"\.(?:safetensors|pt|bin)\Z", re.IGNORECASE)


def comfy_pieces(text: str) -> Iterator[str]:
    """The text cut around its embeddings, each of which is a piece that begins with their mark."""
    place, before = 0, ""
    for match in _NAMED.finditer(text):
        yield from _words(before, text[place : match.start()], first=place == 0)
        name = match[1].rstrip(",")
        yield _MARK + name
        place, before = match.end(), match[1].removeprefix(name)
    yield from _words(before, text[place:], first=place == 0)


def _words(commas: str, words: str, *, first: bool) -> Iterator[str]:
    """What stands before the next embedding: after one, its spaces are single ones."""
    words = words if first else " ".join(words.split())
    if found := f"{commas} {words}" if commas else words:
        yield found


def embedding_in(piece: str) -> str | None:
    """The name in a piece: of a file without its ending and its folders. None for words."""
    if not piece.startswith(_MARK):
        return None
    return _ENDING.sub("", piece.removeprefix(_MARK).strip().replace("\\", "/").rsplit("/", 1)[-1]) or None


def named_embeddings(text: str) -> tuple[str, ...]:
    """The names of a text's embeddings, in order."""
    return tuple(name for piece in comfy_pieces(text) if (name := embedding_in(piece)) is not None)
