"""Small files that no model in one file holds and Halftone does not carry (the words of T5's tokenizer): which a model needs,
where they come from, whether they are here, and how they are taken from a folder of the user's.

Nothing is fetched here: see `fetching`.
"""

import os
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.library.families import FLUX, SD3
from halftone.settings.atomic import write_atomically
from halftone.settings.disk import need_room, size_text
from halftone.settings.places import small_files_dir


class SmallFile(msgspec.Struct, frozen=True, kw_only=True):
    """repository, path: where it lies on the hub; size: bytes there, as published; folder: its own in Halftone's data."""

    what: str
    repository: str
    path: str
    size: int
    folder: str

    @property
    def place(self) -> Path:
        """Where it is kept here."""
        return small_files_dir() / self.folder / Path(self.path).name


T5: Final = SmallFile(
    what="the words of T5's tokenizer", repository="google-t5/t5-base", path="tokenizer.json", size=1_389_353, folder="t5"
)
"""The same for every T5 of 32 128 words, as T5-XXL. The repositories of FLUX.1 and Stable Diffusion 3.5 hold it too, but only for
those who agreed to their terms.
"""
_NEEDED: Final[dict[str, dict[str, SmallFile]]] = {FLUX.name: {"tokenizer_2": T5}, SD3.name: {"tokenizer_3": T5}}
"""Family -> component -> its file."""
_DEPTH: Final = 5
"""Folders deep that a folder is looked through: to ComfyUI's own tokenizers from above it."""
_MOST: Final = 20_000
"""Entries looked at in all: a whole disk is not searched."""
_LARGEST: Final = 50_000_000
"""Bytes; the largest tokenizers have 35 MB."""
_MARKS: Final = ("<pad>", "</s>", "<unk>")


class _Model(msgspec.Struct):
    type: str = ""
    vocab: list[tuple[str, float]] = []


class _Tokenizer(msgspec.Struct):
    model: _Model


def needed(facts: ModelFacts) -> tuple[SmallFile, ...]:
    """Small files that a run of a whole model in one file reads."""
    own = _NEEDED.get(facts.family, {}) if facts.format == "single-file" and facts.pipeline else {}
    return tuple(dict.fromkeys(own[name] for name in facts.components if name in own))


def lacking(facts: ModelFacts) -> tuple[SmallFile, ...]:
    """Those of them that are not here."""
    return tuple(file for file in needed(facts) if not file.place.is_file())


def check_here(facts: ModelFacts) -> None:
    """Raise HalftoneError model-needs-files where some are not here."""
    if files := lacking(facts):
        told = ", ".join(f"{file.repository}/{file.path} ({size_text(file.size)})" for file in files)
        raise HalftoneError("model-needs-files", path=facts.path, files=told)


def check_file(file: SmallFile, path: Path) -> bytes:
    """What the file holds. Raises HalftoneError small-file-not-one for what is not meant."""
    try:
        if path.stat().st_size > _LARGEST:
            raise _not_one(file, path, "it is too large")
        data = path.read_bytes()
        found = msgspec.json.decode(data, type=_Tokenizer).model
    except OSError as error:
        raise _not_one(file, path, error.strerror or "it cannot be read") from error
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise _not_one(file, path, "it is cut off, or no tokenizer of T5") from error
    if found.type != "Unigram" or not {word for word, _ in found.vocab} >= set(_MARKS):
        raise _not_one(file, path, "it is the tokenizer of another model")
    return data


def _not_one(file: SmallFile, path: Path, detail: str) -> HalftoneError:
    return HalftoneError("small-file-not-one", path=str(path), what=file.what, detail=detail)


def keep(file: SmallFile, data: bytes) -> Path:
    """Write it to its place, whole or not at all. Raises HalftoneError disk-full, output-failed."""
    folder = file.place.parent
    try:
        folder.mkdir(parents=True, exist_ok=True)
        need_room(file.place, folder, len(data))
        write_atomically(file.place, data)
    except OSError as error:
        raise HalftoneError("output-failed", path=str(file.place), detail=error.strerror or "it cannot be written") from error
    return file.place


def take_from(folder: Path, files: Iterable[SmallFile]) -> tuple[Path, ...]:
    """Copy the files from where they lie in a folder, or below it, to their places.

    Raises HalftoneError small-files-not-there with the first that is not there, and as `keep`; then none was copied.
    """
    found = {file: _found(folder, file) for file in files}
    return tuple(keep(file, data) for file, data in found.items())


def _found(folder: Path, file: SmallFile) -> bytes:
    name, why = Path(file.path).name, ""
    if os.path.isdir(folder):
        for path in _named(folder, name, _DEPTH, [_MOST]):
            try:
                return check_file(file, path)
            except HalftoneError as error:
                why = why or str(error.facts["detail"])
    detail = f"the {name} in it is not the one: {why}" if why else f"it has no {name}"
    raise HalftoneError("small-files-not-there", folder=str(folder), what=file.what, detail=detail)


def _named(folder: Path, name: str, depth: int, left: list[int]) -> Iterator[Path]:
    """Files of that name in a folder and below, the nearest first. left: how many entries may still be looked at."""
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except OSError:
        return
    left[0] -= len(entries)
    yield from (Path(entry.path) for entry in entries if entry.name == name and entry.is_file())
    for entry in entries:
        if depth and left[0] > 0 and entry.is_dir() and not entry.name.startswith("."):
            yield from _named(Path(entry.path), name, depth - 1, left)
