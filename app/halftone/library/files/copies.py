"""Repaired copies of models: where one may be written, and its marks. The original is never touched."""

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.vocabulary import Layout
from halftone.contract.wording import Words
from halftone.library.families.single_files import SINGLES
from halftone.library.files.header import Header
from halftone.settings.disk import need_room, no_folder

REPAIRED: Final = "rescaled so that float16 does not overflow"
"""Mark in the metadata of a repaired copy's rescaled weight files."""
_REPAIRED_EARLIER: Final = "rescaled exactly so that float16 does not overflow"
"""The mark that earlier versions wrote."""
SUFFIX: Final = ".safetensors"
MERGED: Final = "LoRAs merged"
"""Mark of files into which only LoRAs were merged."""


class _Change(msgspec.Struct):
    change: str = ""
    exponents: dict[str, int] = msgspec.field(default_factory=dict[str, int])


def is_repaired(headers: Iterable[Header]) -> bool:
    """Whether one of the files says in its own metadata that Halftone rescaled it."""
    return any(_change(header.metadata.get("halftone")).change in (REPAIRED, _REPAIRED_EARLIER) for header in headers)


def exponents_in(header: Header) -> dict[str, int]:
    """Tensors of a file (or some rows) that Halftone multiplied by 2**k: tensor -> k."""
    return _change(header.metadata.get("halftone")).exponents


def _change(note: str | None) -> _Change:
    """What was done to a file by its note; nothing if there is none that can be read."""
    try:
        return msgspec.json.decode(note or "", type=_Change)
    except (msgspec.MsgspecError, RecursionError):
        return _Change()


def layout_of(facts: ModelFacts) -> Layout:
    return "file" if facts.format == "single-file" else "folder"


def can_be_written(facts: ModelFacts, layout: Layout) -> bool:
    """Whether a copy can have this layout."""
    return layout == layout_of(facts) or (facts.family in SINGLES and SINGLES[facts.family].written)


def check_copy(facts: ModelFacts, output: str, layout: Layout | None = None) -> Path:
    """The path of the copy: a new or empty folder, or a new file. layout: None for the model's own.

    Raises HalftoneError repair-several-files, no-one-file, output-exists, output-folder-missing, output-not-folder,
    output-read-only, output-failed or disk-full.
    """
    if facts.parts:
        raise HalftoneError("repair-several-files", model=facts.name)
    is_file = (layout or layout_of(facts)) == "file"
    if is_file and not can_be_written(facts, "file"):
        raise HalftoneError("no-one-file", family=facts.family, detail=Words("there is no such file of this family"))
    path = Path(output).expanduser().absolute()
    folder = path.parent
    if not os.path.isdir(folder):
        raise no_folder(folder)
    if is_file and path.suffix.lower() != SUFFIX:
        path = path.with_name(f"{path.name}{SUFFIX}")
    if os.path.lexists(path) and (is_file or not os.path.isdir(path) or any(path.iterdir())):
        raise HalftoneError("output-exists", path=str(path))
    if path.resolve().is_relative_to(Path(facts.path).resolve()):
        raise HalftoneError("output-failed", path=str(path), detail=Words("it lies inside the model's own folder"))
    if not os.access(folder, os.W_OK | os.X_OK):
        raise HalftoneError("output-read-only", folder=str(folder))
    need_room(path, folder, facts.size_bytes)
    return path
