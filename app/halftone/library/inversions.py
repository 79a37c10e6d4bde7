"""Textual inversions, which most programs call embeddings: words that a model learned, each a few vectors of its text encoders.

Recognised from their headers, found in the folders of the settings, named in a prompt by the name of their file.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Final

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.library.header import Header, read_header
from halftone.library.models import PICKLES, model_files
from halftone.library.recognise import recognise
from halftone.library.why import listed_as
from halftone.settings.store import Settings

MOST: Final = 75
"""Vectors: as many as a text encoder of CLIP reads of a prompt at once."""
_BOTH: Final = ("clip_l", "clip_g")
"""Tensors of a file for two encoders, by the encoder."""

Tokens = Callable[[str], Sequence[int]]


class Inversion(msgspec.Struct, frozen=True, kw_only=True):
    """A file of it. base: the family it was made for, "" where nothing tells; tensors: encoder ("clip_l", "clip_g", or "" where
    there is one) -> name in the file; vectors: places that it takes in a prompt.
    """

    path: str
    base: str
    tensors: dict[str, str]
    vectors: int

    @property
    def name(self) -> str:
        return inversion_name(self.path)


def inversion_name(path: str) -> str:
    """What a prompt calls it: its file's name without the ending."""
    return Path(path.replace("\\", "/")).stem


def read_inversion(path: str) -> Inversion:
    """What its header tells. Raises HalftoneError inversion-missing or inversion-not-one."""
    file = Path(path)
    if file.suffix.lower() in PICKLES and file.exists():
        raise _not_one(path, "it is a pickle file, which can run code when it is opened, so Halftone does not open it")
    try:
        header = read_header(file)
    except FileNotFoundError as error:
        raise HalftoneError("inversion-missing", path=path) from error
    except OSError as error:
        raise _not_one(path, error.strerror or "it cannot be read") from error
    found = recognise(header, file.stem)
    if found.kind != "embedding":
        family = listed_as(found)
        raise _not_one(path, "its tensors have no embedding's names" if family == "Unknown" else f"it is a {family}")
    tensors = _tensors(header)
    counts = {_count(tensor.shape) for tensor in header.tensors if tensor.name in tensors.values()}
    if not counts or max(counts) > MOST or min(counts) < 1:
        raise _not_one(path, f"it holds no vectors, or more than {MOST}")
    return Inversion(path=path, base=found.base, tensors=tensors, vectors=max(counts))


def _not_one(path: str, detail: str) -> HalftoneError:
    return HalftoneError("inversion-not-one", path=path, detail=detail)


def _tensors(header: Header) -> dict[str, str]:
    names = [tensor.name for tensor in header.tensors if 0 < len(tensor.shape) <= 2]
    both = {encoder: encoder for encoder in _BOTH if encoder in names}
    return both or ({"": names[0]} if names else {})


def _count(shape: Sequence[int]) -> int:
    return shape[0] if len(shape) == 2 else 1


def check_inversions(paths: Iterable[str]) -> None:
    """Raise HalftoneError for a file that is none: as `read_inversion`."""
    for path in paths:
        read_inversion(path)


# --- in a prompt -----------------------------------------------------------------------------------------


def inversion_folders(settings: Settings) -> tuple[str, ...]:
    """Where they are looked for: their own folders, then those of LoRAs and models."""
    return tuple(dict.fromkeys((*settings.embedding_folders, *settings.lora_folders, *settings.model_folders)))


def named_in(texts: Iterable[str], folders: Iterable[str], family: str, given: Iterable[str] = ()) -> tuple[str, ...]:
    """Files below the folders that the texts name and that were made for the family, or do not tell for which. Only headers of
    files with such a name are read. given: files that were named otherwise, whose names are taken.
    """
    written = "\n".join(texts)
    found = {inversion_name(path).casefold(): path for path in given}
    for path in model_files(folders):
        name = inversion_name(path)
        if name.casefold() not in found and names_any(written, (name,)) and _fits(path, family):
            found[name.casefold()] = path
    return tuple(found.values())


def list_inversions(folders: Iterable[str]) -> tuple[Inversion, ...]:
    """Every one below the folders; of one name the first."""
    found: dict[str, Inversion] = {}
    for path in model_files(folders):
        try:
            one = read_inversion(path)
        except HalftoneError:
            continue
        found.setdefault(one.name.casefold(), one)
    return tuple(found.values())


def _fits(path: str, family: str) -> bool:
    try:
        return read_inversion(path).base in ("", family)
    except HalftoneError:
        return False


@lru_cache(maxsize=256)
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    """Finds the names as whole words, the longest first; ComfyUI writes "embedding:" before them."""
    longest = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))
    return re.compile(rf"(?<![\w-])(?:embedding:)?({longest})(?![\w-])", re.IGNORECASE)


def names_any(text: str, names: Iterable[str]) -> bool:
    """Whether one of them stands in the text."""
    known = tuple(names)
    return bool(known) and _pattern(known).search(text) is not None


def named_of(known: Iterable[Inversion], texts: Iterable[str]) -> tuple[Inversion, ...]:
    """Those that the texts name."""
    written = "\n".join(texts)
    return tuple(one for one in known if names_any(written, (one.name,)))


def places(sizes: Mapping[str, int]) -> dict[str, tuple[int, ...]]:
    """Name -> tokens of its vectors, where the vectors of all stand in this order behind those of the vocabulary: below 0, as
    places of a list are counted from its end.
    """
    start, found = -sum(sizes.values()), dict[str, tuple[int, ...]]()
    for name, size in sizes.items():
        found[name] = tuple(range(start, start + size))
        start += size
    return found


def inner(learned: Mapping[str, Sequence[int]]) -> frozenset[int]:
    """Tokens before which a prompt may not be cut."""
    return frozenset(token for tokens in learned.values() for token in tokens[1:])


def with_words(tokens: Tokens, learned: Mapping[str, Sequence[int]]) -> Tokens:
    """Encodes a text in which names stand for learned vectors. tokens: of a text without such."""
    if not learned:
        return tokens
    own = {name.casefold(): found for name, found in learned.items()}
    pattern = _pattern(tuple(learned))

    def encode(text: str) -> list[int]:
        found: list[int] = []
        for index, piece in enumerate(pattern.split(text)):
            found += own[piece.casefold()] if index % 2 else tokens(piece) if piece.strip() else ()
        return found

    return encode
