"""Finds model files below a folder: one entry a file, a diffusers folder or a folder of one part. Nothing is opened."""

import hashlib
import itertools
import operator
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Final, NamedTuple

from halftone.library.files.folder import INDEX

ENDINGS: Final = (".safetensors", ".sft", ".gguf", ".ckpt", ".pt", ".pth", ".bin")
PICKLES: Final = (".ckpt", ".pt", ".pth", ".bin")
_BESIDE: Final = (".json", ".info", ".txt", ".png", ".jpg", ".jpeg", ".webp", ".gif")
_KINDS: Final[dict[str, str]] = {**dict.fromkeys(ENDINGS, "model"), **dict.fromkeys(_BESIDE, "beside")}
_SECOND: Final = frozenset({"preview", "cm-info", "civitai", "metadata", "swarm"})
_STAMP: Final = 2**63 - 1
_KIND: Final = 0o170000
"""The bits of a file's mode that say whether it is a regular one."""
_PART: Final = "diffusion_pytorch_model"
_SKIPPED: Final = frozenset({"__pycache__", "node_modules", "site-packages", "venv", "blobs", "refs"})
"""Folders of programs, and of a hub cache those that hold the same files under other names."""


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

    def _folder(self, folder: str) -> tuple[list[Found], list[str], list[str]]:
        """(files right in a folder, folders to walk, links to folders)."""
        folders: list[str] = []
        links: list[str] = []
        models: list[tuple[str, os.DirEntry[str]]] = []
        beside: dict[str, list[tuple[str, os.DirEntry[str]]]] = {}
        self.folders.append(folder)
        try:
            with os.scandir(folder) as entries:
                for entry in entries:  # a rescan spends its time here
                    name = entry.name
                    try:
                        is_folder = entry.is_dir()
                    except OSError:  # a link that leads nowhere, or around
                        continue
                    if is_folder:
                        if name[0] != "." and name.lower() not in _SKIPPED:
                            (links if _is_link(entry) else folders).append(entry.path)
                        continue
                    dot = name.rfind(".")
                    ending = name[dot:]
                    kind = _KINDS.get(ending) or _KINDS.get(ending.lower())
                    if kind == "model":
                        models.append((name[:dot], entry))
                    elif kind == "beside":
                        stem = stem_of(name)
                        if stem in beside:
                            beside[stem].append((name, entry))
                        else:
                            beside[stem] = [(name, entry)]
        except OSError:
            self.closed.append(folder)
            return [], [], []
        near_config = {name for stem in ("config", stem_of(INDEX)) for name, _ in beside.get(stem, ())}
        is_whole = INDEX in near_config
        is_part = "config.json" in near_config and any(
            stem.startswith(_PART) and entry.name.endswith(".safetensors") for stem, entry in models
        )
        if is_whole or is_part:
            files = [entry.path for _, entry in (*models, *itertools.chain.from_iterable(beside.values()))]
            found = _whole(folder, files, folders if is_whole else [])
            self.folders += folders if is_whole else ()
            return ([found], [], []) if is_whole else ([found], folders, links)
        return _models(models, beside), folders, links


def _is_link(entry: os.DirEntry[str]) -> bool:
    """A junction of Windows is one, too."""
    junction = getattr(entry, "is_junction", None)  # since Python 3.12
    return entry.is_symlink() or (junction is not None and junction())


def _models(models: list[tuple[str, os.DirEntry[str]]], beside: dict[str, list[tuple[str, os.DirEntry[str]]]]) -> list[Found]:
    """models: with their stems; beside: by stem."""
    all_found: list[Found] = []
    near, make = beside.get, partial(tuple.__new__, Found)  # half the time of Found's own
    for stem, entry in models:
        try:
            facts = entry.stat()
            if facts.st_mode & _KIND != stat.S_IFREG:
                continue
            size = facts.st_size
            stamp = facts.st_mtime_ns * 31 + size
            names = ()
            if found := near(stem):
                if len(found) > 1:
                    found.sort(key=_first)
                names = tuple([other for other, _ in found])
                for number, (_, other) in enumerate(found, 2):
                    facts = other.stat()
                    stamp += number * (facts.st_mtime_ns * 31 + facts.st_size)
            all_found.append(make((entry.path, size, stamp & _STAMP, names)))
        except OSError:
            continue
    return all_found


_first: Final = operator.itemgetter(0)


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
    stamps = sorted(f"{path}\0{facts.st_mtime_ns}\0{facts.st_size}" for path, facts in stats)
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
