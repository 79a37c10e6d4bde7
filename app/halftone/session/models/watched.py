"""The state of the model library: the watched folders and the files in them."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field

from halftone.contract.wording import Words
from halftone.library.index.entries import Entry
from halftone.library.index.facts import Hashes, Install, Mark, Weights
from halftone.library.index.walk import outermost
from halftone.settings.places import data_dir
from halftone.settings.store import Settings


@dataclass(frozen=True, kw_only=True)
class Watched:
    """One watched folder. files: in it; scanning: (read, of how many new or changed ones) while it is scanned.

    offline: it is not there now, and its files stay listed; closed: folders in it that cannot be read.
    """

    root: str
    files: int = 0
    scanning: tuple[int, int] | None = None
    offline: bool = False
    closed: tuple[str, ...] = ()


@dataclass(frozen=True, kw_only=True, eq=False)
class Library:
    """entries: every file that was found, in the order of the folders; hashes and marks: by path.

    offers: programs whose folders the user was not asked about yet. read: whether the index was read; failed: why it cannot be.
    watching: whether a process keeps the index up to date; watch_ended: it ended, and again after a restart. changes: how often
    it found something new, changed or gone. weights: by path, what a look at all weights found; weighing: the file that is
    looked at now, bytes done and in all; converting: the same of the pickle that is converted now. Two are never compared: that
    would take long.
    """

    entries: tuple[Entry, ...] = ()
    hashes: Mapping[str, Hashes] = field(default_factory=dict[str, Hashes])
    marks: Mapping[str, Mark] = field(default_factory=dict[str, Mark])
    watched: tuple[Watched, ...] = ()
    offers: tuple[Install, ...] = ()
    read: bool = False
    failed: Words | None = None
    watching: bool = False
    watch_ended: bool = False
    changes: int = 0
    weights: Mapping[str, Weights] = field(default_factory=dict[str, Weights])
    weighing: tuple[str, int, int] | None = None
    converting: tuple[str, int, int] | None = None


def reading(library: Library) -> tuple[int, int] | None:
    """(files read, of how many) while new files are read; (0, 0) until their number is known, None while nothing new is read."""
    scans = [one.scanning for one in library.watched if one.scanning is not None]
    if any(most for _, most in scans):
        return sum(done for done, _ in scans), sum(most for _, most in scans)
    first = bool(scans) and not (library.read and library.entries)
    return (0, 0) if first and library.failed is None else None


def own_models() -> str:
    """The folder of models that Halftone makes itself. It is watched, but no folder of the user's."""
    return str(data_dir() / "models")


def users_folders(library: Library) -> tuple[Watched, ...]:
    """The watched folders that the user chose."""
    own = own_models()
    return tuple(one for one in library.watched if one.root != own)


def roots_of(settings: Settings) -> tuple[str, ...]:
    """Every folder that is watched, and files that were opened one by one; the folder of Halftone's own models among them."""
    own = own_models()
    folders = (
        *settings.model_folders,
        *settings.lora_folders,
        *settings.embedding_folders,
        *settings.upscaler_folders,
        *((own,) if os.path.isdir(own) else ()),
    )
    return outermost([folder for folder in folders if folder and "\0" not in folder])
