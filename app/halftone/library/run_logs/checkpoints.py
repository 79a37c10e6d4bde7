"""Checkpoints of a run: their tensors that are not finite. Only safetensors are read; a pickle is never opened."""

import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.library.files.header import read_header
from halftone.library.files.scan import TensorScan, scan_files
from halftone.library.run_logs.series import Setting
from halftone.library.run_logs.settings import known_settings
from halftone.settings.disk import system_words

PICKLES: Final = frozenset((".pt", ".pth", ".ckpt", ".bin", ".pkl", ".pickle"))
_STEP: Final = (
    re.compile(r"(?:global_?step|step|iter)[-_=]?0*(\d{1,15})(?!\d)", re.IGNORECASE),
    re.compile(r"checkpoint[-_]0*(\d{1,15})(?!\d)", re.IGNORECASE),
)
_NO_RUN: Final = re.compile(r"optimizer|random_states|^state\.safetensors$", re.IGNORECASE)
_CACHE: Final = re.compile(r"(?:^|[_-])cache$", re.IGNORECASE)
"""Folders of cached latents and text embeddings."""


class Kind(NamedTuple):
    """Tensors of one dtype, and how many of them hold a bad number."""

    tensors: int
    bad: int


class Checkpoint(NamedTuple):
    """One file. step: None where neither its name nor its header tells; problem: why it could not be read. bad: tensors with bad
    numbers, in the file's order; kinds: by dtype as stored ("F16").
    """

    file: str
    step: int | None
    kinds: Mapping[str, Kind]
    bad: tuple[TensorScan, ...] = ()
    problem: ErrorFacts | None = None


def is_checkpoint(path: Path) -> bool:
    cached = any(_CACHE.search(part) for part in path.parts[:-1])
    return path.suffix.lower() == ".safetensors" and not _NO_RUN.search(path.name) and not cached


def is_pickle(path: Path) -> bool:
    return path.suffix.lower() in PICKLES


def step_in_name(name: str) -> int | None:
    """ "checkpoint-500/model.safetensors" -> 500; the last part with a number counts."""
    for part in reversed(name.split("/")):
        for pattern in _STEP:
            if found := pattern.search(part):
                return int(found.group(1))
    return None


def read_checkpoints(
    files: Sequence[tuple[str, Path]], cancelled: Callable[[], bool], progress: Callable[[int, int], None]
) -> tuple[list[Checkpoint], list[Setting]]:
    """All (name, path), read in full, by their steps or else times; and their headers' settings. Raises JobCancelled."""
    found: list[Checkpoint] = []
    settings: list[Setting] = []
    for done, (name, path) in enumerate(sorted(files, key=_age)):
        progress(done, len(files))
        try:
            metadata = read_header(path).metadata
            scans = scan_files([("", path)], cancelled)
        except (HalftoneError, OSError) as error:
            if isinstance(error, OSError):
                error = HalftoneError("model-load-failed", path=name, detail=system_words(error))
            problem = error.as_facts()
            found.append(Checkpoint(name, step_in_name(name), {}, problem=problem))
            continue
        settings += known_settings(metadata.items(), name)
        bad = tuple(scan for scan in scans if scan.nonfinite)
        tensors, broken = (Counter(scan.dtype for scan in some) for some in (scans, bad))
        kinds = {dtype: Kind(count, broken[dtype]) for dtype, count in tensors.items()}
        found.append(Checkpoint(name, _step(name, metadata), kinds, bad))
    stepped = all(one.step is not None for one in found)
    return (sorted(found, key=lambda one: one.step or 0) if stepped else found), settings


def _age(entry: tuple[str, Path]) -> tuple[float, str]:
    try:
        return entry[1].stat().st_mtime, entry[0]
    except OSError:
        return 0.0, entry[0]


def _step(name: str, metadata: Mapping[str, str]) -> int | None:
    written = metadata.get("ss_steps", "")
    return int(written) if written.isascii() and written.isdigit() and len(written) < 16 else step_in_name(name)
