"""Finds model files below a folder: one entry a file, a diffusers folder or a folder of one part. Nothing is opened."""

import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from halftone.library.files.folder import INDEX
from halftone.library.files.hub import revisions

ENDINGS: Final = (".safetensors", ".sft", ".gguf", ".ckpt", ".pt", ".pth", ".bin")
PICKLES: Final = (".ckpt", ".pt", ".pth", ".bin")
_BESIDE: Final = (".json", ".info", ".txt", ".png", ".jpg", ".jpeg", ".webp", ".gif")
_KINDS: Final[dict[str, str]] = {**dict.fromkeys(ENDINGS, "model"), **dict.fromkeys(_BESIDE, "beside")}
_SECOND: Final = frozenset({"preview", "cm-info", "civitai", "metadata", "swarm"})
_STAMP: Final = 2**63 - 1
_KIND: Final = 0o170000
"""The bits of a file's mode that say whether it is a regular one."""
_PART: Final = "diffusion_pytorch_model"
_BY_NUMBER: Final = os.scandir in os.supports_fd
"""Whether a folder can be listed by the number that it is open under."""
SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "blobs", "refs"})
"""Folders of programs, and of a hub cache those that hold the same files under other names."""
_SNAPSHOTS: Final = f"{os.sep}snapshots{os.sep}"
"""In the path of a hub cache's folders: their files are links to blobs, which revisions share."""
_RUN: Final = "run.json"
_STATE: Final = "state.safetensors"
_CACHE: Final = "cache"
"""In the folder of a training: its request, the state that it resumes from, and what it computed of its pictures."""

_Seen = tuple[str, str, int, int]
"""A model file in a folder: its stem, its name, its size, and what changes when it is rewritten."""


class Found(NamedTuple):
    """A file, or a folder that counts as one. size: bytes; stamp: changes when it or a file beside it is rewritten; 63 bits.

    beside: names of the files in its folder that describe it, "model.preview.png" for "model.safetensors".
    """

    path: str
    size: int
    stamp: int
    beside: tuple[str, ...] = ()


class Walk:
    """Walks through folders. After `files`, `folders` names all that were walked, `closed` those that could not be read.

    roots: all folders that are to be walked. A link is followed once, and only where it leads to none of what is walked anyway,
    nor around it: loops end.
    """

    def __init__(self, roots: Iterable[str]) -> None:
        self.closed: list[str] = []
        self.folders: list[str] = []
        self._walked = {os.path.realpath(root) for root in roots}
        self._blobs: set[str] = set()

    def files(self, root: str) -> Iterator[Found]:
        """All below one of the roots, or the one file that it is."""
        if os.path.isfile(root):
            found, _, _ = self._folder(os.path.dirname(root))
            yield from (one for one in found if one.path == root)
            return
        waiting = [root]
        while waiting:
            found, folders, links = self._folder(waiting.pop())
            yield from found
            waiting += folders
            waiting += filter(self._is_new, links)

    def _is_new(self, link: str) -> bool:
        """Whether a link leads elsewhere, for the first time."""
        real = os.path.realpath(link)
        if any(is_inside(real, known) or is_inside(known, real) for known in self._walked):
            return False
        self._walked.add(real)
        return True

    def _is_new_blob(self, path: str) -> bool:
        """Whether a file of a hub cache is none that another revision has shown: both are links to one blob."""
        real = os.path.realpath(path)
        if real == path:
            return True
        known = real in self._blobs
        self._blobs.add(real)
        return not known

    def _folder(self, folder: str) -> tuple[list[Found], list[str], list[str]]:
        """(files right in a folder, folders to walk, links to folders)."""
        self.folders.append(folder)
        try:
            if not _BY_NUMBER:
                return self._read(folder, folder)
            number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                return self._read(folder, number)
            finally:
                os.close(number)
        except OSError:
            self.closed.append(folder)
            return [], [], []

    def _read(self, folder: str, place: str | int) -> tuple[list[Found], list[str], list[str]]:
        """place: the folder, or the number that it is open under: then its files are found in it, not from the root on."""
        folders: list[str] = []
        links: list[str] = []
        models: list[_Seen] = []
        beside: dict[str, list[tuple[str, int]]] = {}
        start = os.path.join(folder, "")
        kind_of = _KINDS.get
        with os.scandir(place) as entries:
            for entry in entries:  # a rescan spends its time here
                name = entry.name
                try:
                    if entry.is_dir():
                        if name[0] != "." and name.lower() not in SKIPPED:
                            (links if _is_link(entry) else folders).append(start + name)
                        continue
                    dot = name.rfind(".")
                    ending = name[dot:]
                    kind = kind_of(ending) or kind_of(ending.lower())
                    if kind is None:
                        continue
                    facts = entry.stat()
                except OSError:  # gone since the folder was listed, or a link that leads nowhere, or around
                    continue
                size = facts.st_size
                if kind == "model":
                    if facts.st_mode & _KIND == stat.S_IFREG:
                        models.append((name[:dot], name, size, facts.st_mtime_ns * 31 + size))
                else:
                    stem = stem_of(name)
                    if stem in beside:
                        beside[stem].append((name, facts.st_mtime_ns * 31 + size))
                    else:
                        beside[stem] = [(name, facts.st_mtime_ns * 31 + size)]
        if any(name == _RUN for name, _ in beside.get(stem_of(_RUN), ())):
            models = [one for one in models if one[1] != _STATE]
            folders = [inner for inner in folders if inner != start + _CACHE]
        near_config = {name for stem in ("config", stem_of(INDEX)) for name, _ in beside.get(stem, ())}
        is_whole = INDEX in near_config
        is_part = "config.json" in near_config and any(
            stem.startswith(_PART) and name.endswith(".safetensors") for stem, name, *_ in models
        )
        if is_whole or is_part:
            names = (*(name for _, name, *_ in models), *(name for near in beside.values() for name, _ in near))
            found = _whole(folder, [start + name for name in names], folders if is_whole else [])
            self.folders += folders if is_whole else ()
            return ([found], [], []) if is_whole else ([found], folders, links)
        if _SNAPSHOTS in start:
            models = [one for one in models if self._is_new_blob(start + one[1])]
        return _models(start, models, beside), folders, links


def _is_link(entry: os.DirEntry[str]) -> bool:
    """A junction of Windows is one, too."""
    junction = getattr(entry, "is_junction", None)  # since Python 3.12
    return entry.is_symlink() or (junction is not None and junction())


def _models(start: str, models: list[_Seen], beside: dict[str, list[tuple[str, int]]]) -> list[Found]:
    """start: of every path; beside: by stem, names with what changes when the file is rewritten."""
    all_found: list[Found] = []
    near, make = beside.get, partial(tuple.__new__, Found)  # half the time of Found's own
    for stem, name, size, changes in models:
        stamp, names = changes, ()
        if found := near(stem):
            if len(found) > 1:
                found.sort()
            names = tuple([near_name for near_name, _ in found])
            for number, (_, other) in enumerate(found, 2):
                stamp += number * other
        all_found.append(make((start + name, size, stamp & _STAMP, names)))
    return all_found


def stem_of(name: str) -> str:
    """What a model and the files that describe it have in common: "a" for "a.safetensors", "a.preview.png", "a.cm-info.json"."""
    stem, _, _ = name.rpartition(".")
    first, _, second = stem.rpartition(".")
    return first if first and second in _SECOND else stem


def with_beside(path: str) -> tuple[str, ...]:
    """A file and those that describe it alone: none of them where another model has the same name but for its ending."""
    folder, name = os.path.split(path)
    if os.path.isdir(path):
        return (path,)
    stem = name[: name.rfind(".")]
    names = [other for other in _names(folder) if other != name]
    if any(_KINDS.get(other[other.rfind(".") :].lower()) == "model" and other[: other.rfind(".")] == stem for other in names):
        return (path,)
    beside = (other for other in names if _KINDS.get(other[other.rfind(".") :].lower()) == "beside" and stem_of(other) == stem)
    return (path, *(os.path.join(folder, other) for other in sorted(beside)))


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except OSError:
        return []


def _whole(folder: str, files: list[str], folders: list[str]) -> Found:
    """A folder whose files are one model; those in its own folders count, not what is below these."""
    below = [path for inner in folders for path in _listed(inner)]
    stats = [(path, facts) for path in (*files, *below) if (facts := _stat(path)) is not None]
    size = sum(facts.st_size for path, facts in stats if path.lower().endswith(ENDINGS))
    stamps = revisions(folder) + sorted(f"{path}\0{facts.st_mtime_ns}\0{facts.st_size}" for path, facts in stats)
    return Found(folder, size, int.from_bytes(hashlib.sha256(os.fsencode("\n".join(stamps))).digest()[:8]) & _STAMP)


def _listed(folder: str) -> list[str]:
    return [os.path.join(folder, name) for name in _names(folder)]


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except OSError:
        return None


def is_inside(path: str, folder: str) -> bool:
    """Whether a path is the folder, or lies below it."""
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def outermost(folders: Sequence[str]) -> tuple[str, ...]:
    """Absolute folders, each once, without those that lie in another."""
    places = dict.fromkeys(os.path.abspath(os.path.expanduser(folder)) for folder in folders)
    return tuple(place for place in places if not any(place != other and is_inside(place, other) for other in places))
