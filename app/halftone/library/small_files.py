"""Small files that no model in one file holds and Halftone does not carry (the words of T5's tokenizer): which a model needs,
where they are published, and whether they are here. Nothing is fetched.
"""

from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.library.families import FLUX, SD3
from halftone.settings.disk import size_text
from halftone.settings.places import small_files_dir


class SmallFile(msgspec.Struct, frozen=True, kw_only=True):
    """repository, path: where it lies on the hub; size: bytes there, as published; folder: its own in Halftone's data."""

    repository: str
    path: str
    size: int
    folder: str

    @property
    def place(self) -> Path:
        """Where it is kept here."""
        return small_files_dir() / self.folder / Path(self.path).name


T5: Final = SmallFile(repository="google-t5/t5-base", path="tokenizer.json", size=1_389_353, folder="t5")
"""The same for every T5 of 32 128 words, as T5-XXL. The repositories of FLUX.1 and Stable Diffusion 3.5 hold it too, but only for
those who agreed to their terms.
"""
_NEEDED: Final[dict[str, dict[str, SmallFile]]] = {FLUX.name: {"tokenizer_2": T5}, SD3.name: {"tokenizer_3": T5}}
"""Family -> component -> its file."""


def needed(facts: ModelFacts) -> tuple[SmallFile, ...]:
    """Small files that a run of a whole model in one file reads."""
    own = _NEEDED.get(facts.family, {}) if facts.format == "single-file" and facts.pipeline else {}
    return tuple(dict.fromkeys(own[name] for name in facts.components if name in own))


def lacking(facts: ModelFacts) -> tuple[SmallFile, ...]:
    """Those of them that are not here."""
    return tuple(file for file in needed(facts) if not file.place.is_file())


def check_here(facts: ModelFacts) -> None:
    """Raise HalftoneError model-needs-files where some are not here; the folder for them is made."""
    if files := lacking(facts):
        with suppress(OSError):
            files[0].place.parent.mkdir(exist_ok=True)
        told = ", ".join(f"{file.repository}/{file.path} ({size_text(file.size)})" for file in files)
        raise HalftoneError("model-needs-files", path=facts.path, files=told, folder=str(files[0].place.parent))
