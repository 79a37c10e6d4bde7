"""What the program knows of the model files in the watched folders."""

from collections.abc import Mapping
from dataclasses import dataclass, field

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

    offers: programs whose folders the user was not asked about yet. read: whether the index was read. hashing: whether files are
    being hashed now. watching: whether a process keeps the index up to date; changes: how often it found something new, changed
    or gone. weights: by path, what a look at all weights found; weighing: the file that is looked at now, bytes done and
    in all. Two are never compared: that would take long.
    """

    entries: tuple[Entry, ...] = ()
    hashes: Mapping[str, Hashes] = field(default_factory=dict[str, Hashes])
    marks: Mapping[str, Mark] = field(default_factory=dict[str, Mark])
    watched: tuple[Watched, ...] = ()
    offers: tuple[Install, ...] = ()
    read: bool = False
    hashing: bool = False
    watching: bool = False
    changes: int = 0
    weights: Mapping[str, Weights] = field(default_factory=dict[str, Weights])
    weighing: tuple[str, int, int] | None = None


def roots_of(settings: Settings) -> tuple[str, ...]:
    """Every folder that is watched, and files that were opened one by one; the folder of Halftone's own models among them."""
    own = data_dir() / "models"
    folders = (
        *settings.model_folders,
        *settings.lora_folders,
        *settings.embedding_folders,
        *settings.upscaler_folders,
        *((str(own),) if own.is_dir() else ()),
    )
    return outermost([folder for folder in folders if folder and "\0" not in folder])
