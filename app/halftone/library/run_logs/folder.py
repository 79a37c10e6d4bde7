"""A run: all of it in a folder, or one file, each file with its reader."""

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Final, NamedTuple

from halftone.contract.errors import JobCancelled
from halftone.contract.wording import Words
from halftone.library.run_logs.bulk import read_text
from halftone.library.run_logs.checkpoints import Checkpoint, is_checkpoint, is_pickle, read_checkpoints
from halftone.library.run_logs.events import is_events, read_events
from halftone.library.run_logs.lines import is_text
from halftone.library.run_logs.own_state import is_own_state, read_own_state
from halftone.library.run_logs.series import Collector, Happening, Note, Setting, Track
from halftone.library.run_logs.settings import is_settings, read_settings
from halftone.library.run_logs.tables import is_table, read_table, read_trainer_state
from halftone.library.run_logs.trackers import is_database, is_metric, is_parameter, read_database, read_metric, read_parameter
from halftone.library.run_logs.trainer import Trainer, marks_in, trainer_of
from halftone.library.run_logs.wandb_file import is_wandb, read_wandb
from halftone.settings.disk import system_words

_MOST: Final = 5_000
"""Files that are read of one run."""
_TEXTS: Final = frozenset((".log", ".txt", ".out", ".err", ".jsonl", ".ndjson", ".json", ""))
_READERS: Final[tuple[tuple[Callable[[Path], bool], Callable[[Path, Collector], object]], ...]] = (
    (is_events, read_events), (is_table, read_table), (is_wandb, read_wandb), (is_database, read_database),
    (is_parameter, read_parameter), (is_metric, read_metric), (is_own_state, read_own_state),
)  # fmt: skip
_NO_FOLDER: Final = frozenset(("node_modules", "__pycache__", "site-packages"))


class Run(NamedTuple):
    """logs: files with findings; files: how many were read; pickles: not opened; trainer: the program, None: unknown."""

    tracks: tuple[Track, ...] = ()
    happenings: tuple[Happening, ...] = ()
    settings: tuple[Setting, ...] = ()
    checkpoints: tuple[Checkpoint, ...] = ()
    notes: tuple[Note, ...] = ()
    logs: tuple[str, ...] = ()
    pickles: tuple[str, ...] = ()
    files: int = 0
    trainer: Trainer | None = None

    @property
    def silent(self) -> bool:
        """Whether nothing tells how the run went."""
        return not (self.tracks or self.happenings or any(not one.problem for one in self.checkpoints))


def read_run(
    place: Path,
    cancelled: Callable[[], bool] = lambda: False,
    progress: Callable[[str, float, int], None] = lambda _name, _done, _total: None,
) -> Run:
    """Logs, settings and checkpoints of a folder, or of one file. progress: called with a name, how many files are done, with the
    share of the present one, and how many there are.

    Raises JobCancelled; OSError if the folder itself cannot be read.
    """
    files, more = _files(place)
    read: list[Collector] = []

    def report(name: str, done: int, share: float) -> None:
        if cancelled():
            raise JobCancelled
        progress(name, done + min(share, 0.999), len(files))

    for done, (name, path) in enumerate(files):
        if not (is_checkpoint(path) or is_pickle(path)):
            progress(name, done, len(files))
            on_way = partial(report, name, done)
            read.append(_read(name, path, on_way, alone=os.path.isfile(place)))
    points = [(name, path) for name, path in files if is_checkpoint(path)]
    checkpoints, spoken = read_checkpoints(points, cancelled, lambda done, total: progress("", done, total))
    kept = [setting for one in read for setting in one.settings]
    # the run's own files before its text; accelerate's defaults last
    kept.sort(key=lambda one: (one.file.endswith((".yaml", ".yml")), not one.file.endswith((".toml", ".json"))))
    notes = [note for one in read for note in one.notes]
    names = (*(name for name, _ in files), *(tag for one in read for tag in one.tracks))
    marks = set().union(*(one.marks for one in read), marks_in("\n".join(names)))
    return Run(
        tracks=tuple(track for one in read for track in one.tracks.values()),
        happenings=tuple(happening for one in read for happening in one.happenings),
        settings=(*kept, *spoken),
        checkpoints=tuple(checkpoints),
        notes=(*notes, *([Note("too-many", place.name, Words("{0}", (str(_MOST),)))] if more else [])),
        logs=tuple(one.file for one in read if one.tracks or one.happenings),
        pickles=tuple(name for name, path in files if is_pickle(path)),
        files=len(files),
        trainer=trainer_of((*marks, *(["sd-scripts"] if spoken else []))),
    )


def _files(place: Path) -> tuple[list[tuple[str, Path]], bool]:
    """(name from the folder on, path) of at most _MOST files, and whether there are more, without hidden folders."""
    if os.path.isfile(place):
        return [(place.name, place)], False
    found: list[tuple[str, Path]] = []
    for path in _walk(place):
        if len(found) == _MOST:
            return found, True
        found.append((path.relative_to(place).as_posix(), path))
    return found, False


def _walk(place: Path) -> Iterator[Path]:
    os.listdir(place)  # an error of the folder itself is reported, one of a folder inside it is not
    for folder, inside, names in os.walk(place):
        inside[:] = sorted(name for name in inside if not name.startswith(".") and name not in _NO_FOLDER)
        yield from (path for name in sorted(names) if os.path.isfile(path := Path(folder, name)))


def _read(name: str, path: Path, on_way: Callable[[float], None], *, alone: bool) -> Collector:
    """alone: the user named the file, so that its ending does not count."""
    into = Collector(name, on_way)
    try:
        if (read := next((read for fits, read in _READERS if fits(path)), None)) is not None:
            read(path, into)
        elif path.suffix == ".json" and read_trainer_state(path, into):
            pass
        elif is_settings(path) and not alone:
            read_settings(path, into)
        elif (alone or path.suffix.lower() in _TEXTS) and is_text(path):
            read_text(path, into)
    except OSError as error:
        into.note("unreadable", system_words(error))
    return into
