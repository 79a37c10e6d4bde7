"""What the index knows of one file: enough to list, filter and find it. The rest is read when it is used."""

import os
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.request import add_on_name
from halftone.library.families.recognise import Kind, Recognised, folder_name, recognise
from halftone.library.files.folder import INDEX, read_part
from halftone.library.files.gguf_header import read_any
from halftone.library.files.header import Header, refuse_misnamed
from halftone.library.index.descriptions import NOTHING, Description, described
from halftone.library.index.walk import PICKLES, Found
from halftone.library.models import ENDINGS, describe, facts_of, fingerprint_of

Shelf = Literal["Checkpoints", "LoRA", "VAE", "ControlNet", "Embeddings", "Upscalers", "Text encoders", "Other"]
"""Kinds as a list shows them."""

_SHELVES: Final[dict[Kind, Shelf]] = {
    "checkpoint": "Checkpoints",
    "denoiser": "Checkpoints",
    "LoRA": "LoRA",
    "VAE": "VAE",
    "ControlNet": "ControlNet",
    "IP-Adapter": "ControlNet",
    "T2I-Adapter": "ControlNet",
    "embedding": "Embeddings",
    "upscaler": "Upscalers",
    "text encoder": "Text encoders",
    "image encoder": "Text encoders",
}


class PartFile(msgspec.Struct, frozen=True, gc=False):
    """A part of a model whose parts lie in files of their own. dtype: of its weights; size: bytes of the file."""

    component: str
    path: str
    dtype: str
    size: int


def part_files(facts: ModelFacts) -> tuple[PartFile, ...]:
    """The files of such a model, that of the denoiser first; () for any other."""
    if not facts.parts:
        return ()
    own = next((name for name in facts.stored if name not in facts.parts), "transformer")
    files = {own: facts.path} | facts.parts
    return tuple(PartFile(name, file, facts.stored.get(name, ""), os.path.getsize(file)) for name, file in files.items())


class Entry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """One file, or a folder that is one model. size: bytes. base: which model of the family, of a LoRA the one it fits.

    name: the one that Create, the history and saved pictures show.
    gc=False: thousands of them would hold up the window whenever Python collects garbage.
    whole: a folder of diffusers. rank: of a LoRA, the largest. error: why it cannot be read; pickle: it is not even looked into.
    """

    path: str
    name: str
    size: int
    fingerprint: str = ""
    kind: Kind = "unknown"
    family: str = ""
    base: str = ""
    dtype: str = ""
    quantised: str = ""
    whole: bool = False
    pickle: bool = False
    lora: str = ""
    rank: int = 0
    error: ErrorFacts | None = None
    description: Description = NOTHING
    parts: tuple[PartFile, ...] = ()

    @property
    def shelf(self) -> Shelf:
        return _SHELVES.get(self.kind, "Other")

    @property
    def text(self) -> str:
        """What a search looks through."""
        words = (
            self.description.title,
            self.name,
            self.kind,
            self.family,
            self.base,
            *self.description.triggers,
            self.description.notes,
        )
        return "\n".join(words).casefold()


class Read(NamedTuple):
    """facts: of a model, or of a file that is used with one; None where it is neither, or damaged."""

    entry: Entry
    facts: ModelFacts | None = None


def read(found: Found) -> Read:
    """Read a file's header, and what is written beside it. A file that cannot be read keeps its place with the reason."""
    path = Path(found.path)
    try:
        if path.suffix.lower() in PICKLES and os.path.isfile(path):
            refuse_misnamed(path)
            return Read(Entry(path=found.path, name=path.stem, size=found.size, pickle=True, description=_described(found, {})))
        return _folder(found) if os.path.isdir(path) else _file(found)
    except HalftoneError as error:
        facts = error.as_facts()
    except OSError as error:
        facts = HalftoneError("model-load-failed", path=found.path, detail=str(error)).as_facts()
    return Read(Entry(path=found.path, name=folder_name(path) if path.is_dir() else path.stem, size=found.size, error=facts))


def _file(found: Found) -> Read:
    path = Path(found.path)
    header = read_any(path)
    is_what = recognise(header, path.stem)
    facts = facts_of(path, header, is_what) if header.tensors and path.suffix.lower() in ENDINGS else None
    fingerprint = facts.fingerprint if facts is not None else fingerprint_of(path)
    entry = _entry(found, header, add_on_name(found.path), is_what, fingerprint)
    return Read(entry if facts is None else msgspec.structs.replace(entry, parts=part_files(facts)), facts)


def _entry(found: Found, header: Header, name: str, is_what: Recognised, fingerprint: str) -> Entry:
    lora = is_what.lora
    return Entry(
        path=found.path,
        name=name,
        size=found.size,
        fingerprint=fingerprint,
        kind=is_what.kind,
        family=is_what.family,
        base=is_what.base,
        dtype=is_what.dtype,
        quantised=is_what.quantised,
        lora="" if lora is None else lora.kind,
        rank=0 if lora is None else lora.rank[1],
        description=_described(found, header.metadata),
    )


def _folder(found: Found) -> Read:
    """A model of diffusers, or one part: that is recognised by its first file of weights."""
    path = Path(found.path)
    if os.path.isfile(path / INDEX):
        facts = describe(found.path)
        whole = Entry(
            path=found.path,
            name=facts.name,
            size=facts.size_bytes,
            fingerprint=facts.fingerprint,
            kind="checkpoint",
            family=facts.family,
            base=facts.base,
            dtype=facts.stored_dtype,
            whole=True,
        )
        return Read(whole, facts)
    header, name = read_part(path.parent, path.name).files[0][1], folder_name(path)
    entry = _entry(found, header, name, recognise(header, name), fingerprint_of(path))
    return Read(msgspec.structs.replace(entry, whole=True))


def _described(found: Found, metadata: dict[str, str]) -> Description:
    return described(os.path.dirname(found.path), found.beside, metadata)
