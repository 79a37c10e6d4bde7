"""The model library: every file in the watched folders, from the index at once, kept up to date by a process of its own."""

import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Final, NamedTuple, TypeVar

import msgspec

from halftone.contract.vocabulary import POCKET
from halftone.library.index.entries import Entry
from halftone.library.index.facts import Hashes, Install, Mark, MarkChange, Weights
from halftone.library.index.marks import Marks, marks_of
from halftone.library.index.programs import programs_around
from halftone.library.index.store import Index, Stamped
from halftone.library.index.walk import is_inside, with_beside
from halftone.session.events import Replaced
from halftone.session.models.index_messages import Hashing, Progress, Scan, Weighing, messages
from halftone.session.models.watched import Library, Watched, roots_of
from halftone.session.ports import Delay, Finished, Ports
from halftone.session.store import Store
from halftone.session.writing import tell_not_written
from halftone.settings.databases import database_words

_WHILE_SCANNING: Final = 3.0
"""Seconds between two readings of the index while a long scan runs."""
_TRIES: Final = 3
"""Readings of the index that may fail in a row before the user hears of it."""
_STEADY_SECONDS: Final = 60.0
"""A process that watched for so long may be started again when it ends."""
_QUIET_SECONDS: Final = 5.0
"""Time without a job before files are hashed."""

T = TypeVar("T")
_log = logging.getLogger(__name__)


class _Read(NamedTuple):
    """What was read of the index: path -> (stamp, entry), and the rest of the slice."""

    stamped: dict[bytes, Stamped]
    entries: tuple[Entry, ...]
    hashes: Mapping[str, Hashes]
    weights: Mapping[str, Weights]
    marks: Mapping[str, Mark]


class ModelLibrary:
    """Does nothing before `start`. Folders come from the settings, and only there they are added and removed."""

    def __init__(self, store: Store, ports: Ports) -> None:
        self._store = store
        self._executor, self._clock, self._commands = ports
        self._roots: tuple[str, ...] = ()
        self._stamped: dict[bytes, Stamped] = {}
        self._started = False
        self._reading = self._again = False
        self._failures = 0
        self._scanned = False
        self._began = 0.0
        self._restarted = False
        self._ends = 0
        """Starts and ends of the process that watches."""
        self._kill: Callable[[], object] | None = None
        self._kill_hashing: Callable[[], object] | None = None
        self._hashed: object = None
        self._kill_search: Callable[[], object] | None = None
        self._kill_scan: Callable[[], object] | None = None
        self._waiting: list[Callable[[bool], object]] = []
        """What is called after the next scan."""
        self._kill_weighing: Callable[[], object] | None = None
        self._to_weigh: list[str] = []
        self._leaving: set[str] = set()
        self._gone: frozenset[str] = frozenset()
        """Files that were moved to the bin: the index may still have them."""
        self._marked: dict[str, Mark] = {}
        """Marks that a reading of the index may not have seen yet."""
        self._unwritten = 0
        self._reads_marks = False
        """Whether the present reading began after all marks were written."""
        self._later = Delay(self._clock, _WHILE_SCANNING, self._read)
        self._quiet = Delay(self._clock, _QUIET_SECONDS, self._hash)
        store.subscribe(lambda state: state.settings, lambda _settings: self._follow())
        store.subscribe(lambda state: bool(state.jobs), lambda _busy: self._give_way())

    @property
    def state(self) -> Library:
        return self._store.state.library

    # --- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Show what the index knows, bring it up to date, and look for folders of other programs unless the user was asked."""
        self._started = True
        self._watch(roots_of(self._store.state.settings))
        if not self._store.state.settings.library_asked:
            self._kill_search = self._commands.start("index", "--find", "--json", ended=self._found)

    def stop(self) -> None:
        """Kill the processes: the program is about to end."""
        self._started = False
        self._later.stop()
        self._quiet.stop()
        for kill in (self._kill, self._kill_hashing, self._kill_search, self._kill_scan, self._kill_weighing):
            if kill is not None:
                kill()
        self._kill = self._kill_hashing = self._kill_search = self._kill_scan = self._kill_weighing = None

    def _follow(self) -> None:
        """Other folders may be set now."""
        if self._started and (roots := roots_of(self._store.state.settings)) != self._roots:
            self._watch(roots)

    def _watch(self, roots: tuple[str, ...]) -> None:
        """Show what is known of these folders, and scan them in a process of its own."""
        if self._kill is not None:
            self._kill()
            self._kill = None
        before = {one.root: one for one in self.state.watched}
        if removed := set(self._roots) - set(roots):
            self._executor.run_in_order(lambda: _forget(removed), lambda _done: None, _not_forgotten)
        self._roots, self._scanned, self._restarted, self._failures = roots, False, False, 0
        watched = tuple(replace(before.get(root, Watched(root=root)), scanning=(0, 0)) for root in roots)
        self._show(watched=watched, watching=bool(roots), watch_ended=False, failed=None)
        self._read()
        if roots:
            self._start_process()

    def _start_process(self) -> None:
        """Start the process that scans and watches the folders."""
        heard, self._began = _Lines(), self._clock.now()
        self._ends += 1
        number = self._ends
        kill = self._commands.start(
            "index", "--watch", "--", *self._roots, ended=self._ended, heard=lambda printed: self._heard(heard.new(printed))
        )
        if number == self._ends:  # a start that fails at once has already made way for the next
            self._kill = kill

    def _show(self, **parts: object) -> None:
        self._store.take(Replaced(part=replace(self.state, **parts)))

    # --- what the process says --------------------------------------------------------------------------------------

    def _heard(self, printed: bytes) -> None:
        for message in messages(printed):
            match message:
                case Progress() if message.root < len(self._roots):
                    self._show(
                        watched=tuple(
                            replace(one, scanning=(message.done, message.of)) if number == message.root else one
                            for number, one in enumerate(self.state.watched)
                        )
                    )
                    if not self._later.active:
                        self._later.start()
                case Scan() if len(message.roots) == len(self._roots):
                    self._show(
                        watched=tuple(
                            Watched(root=root, files=one.files, offline=one.offline, closed=one.closed)
                            for root, one in zip(self._roots, message.roots, strict=True)
                        )
                    )
                    self._scanned = True
                    self._later.stop()
                    self._read()
                case _:
                    pass

    def _ended(self, end: Finished) -> None:
        """It should watch for ever, so something went wrong: start it again once, then leave that to `rescan`."""
        self._kill = None
        self._ends += 1
        _log.warning("The model folders are no longer watched: %s", end.errors.decode("utf-8", "replace").strip()[-500:])
        if not self._restarted or self._clock.now() - self._began >= _STEADY_SECONDS:
            self._restarted = True
            self._start_process()
            return
        stopped = tuple(replace(one, scanning=None) for one in self.state.watched)
        self._show(watched=stopped, watching=False, watch_ended=True)

    # --- what the index knows ---------------------------------------------------------------------------------------

    def _read(self) -> None:
        """Read the index off this thread; one reading at a time."""
        if self._reading:
            self._again = True
            return
        self._reading, self._again = True, False
        self._reads_marks = not self._unwritten
        roots, known, before, gone = self._roots, self._stamped, self.state, self._gone
        self._executor.run(lambda: _read(roots, known, before, gone), partial(self._known, roots), self._failed)

    def _known(self, roots: tuple[str, ...], read: _Read) -> None:
        self._reading, self._failures = False, 0
        if roots == self._roots:
            self._stamped = read.stamped
            if self._reads_marks:
                self._marked = {}
            now = self.state
            self._show(
                entries=read.entries,
                hashes=read.hashes,
                weights=read.weights,
                marks={**read.marks, **self._marked},
                read=True,
                failed=None,
                changes=now.changes + (now.read and now.entries is not read.entries),
            )
            self._give_way()
        if self._again:
            self._read()

    def _failed(self, error: Exception) -> None:
        """Try again soon, as another program may hold the index. Where that does not help, the user hears why."""
        self._reading, self._failures = False, self._failures + 1
        if self._failures < _TRIES:
            self._later.start()
            return
        _log.error("The index of models cannot be read: %s", error)
        self._show(failed=database_words(error))

    # --- folders ----------------------------------------------------------------------------------------------------

    def add_folder(self, path: str) -> None:
        """Watch a folder from now on; it stands in the settings. Where it is another program's, offer that program's others."""
        self.add_folders((path,))
        self._executor.run(lambda: programs_around(path), self._offer, _not_looked_at)

    def add_folders(self, paths: Iterable[str]) -> None:
        settings = self._store.state.settings
        folders = tuple(dict.fromkeys((*settings.model_folders, *paths)))
        self._store.take(Replaced(part=msgspec.structs.replace(settings, model_folders=folders)))

    def remove_folder(self, root: str) -> None:
        """No longer watch a folder. Its files and marks stay; add it again to undo this."""
        settings = self._store.state.settings
        kept = {
            name: tuple(folder for folder in getattr(settings, name) if _absolute(folder) != root)
            for name in ("model_folders", "lora_folders", "embedding_folders", "upscaler_folders")
        }
        self._store.take(Replaced(part=msgspec.structs.replace(settings, **kept)))

    def rescan(self) -> None:
        """Read the index and scan all folders now, with a new process."""
        self._watch(roots_of(self._store.state.settings))

    def scan(self, then: Callable[[bool], object]) -> None:
        """Scan all folders once, beside the process that watches. then: gets whether the index is up to date."""
        self._waiting.append(then)
        if self._kill_scan is None:
            self._scan()

    def _scan(self) -> None:
        """Scan for those that wait now; who comes later needs the next scan."""
        waiting, self._waiting = self._waiting, []
        roots = roots_of(self._store.state.settings)
        self._kill_scan = self._commands.start("index", "--", *roots, ended=lambda end: self._scan_ended(waiting, end))

    def _scan_ended(self, waiting: Sequence[Callable[[bool], object]], end: Finished) -> None:
        self._kill_scan = None
        if end.code != 0:
            _log.error("The model folders could not be scanned: %s", end.errors.decode("utf-8", "replace").strip()[-500:])
        self._read()
        for then in waiting:
            then(end.code == 0)
        if self._waiting:
            self._scan()

    # --- folders of other programs ----------------------------------------------------------------------------------

    def _found(self, end: Finished) -> None:
        self._kill_search = None
        try:
            installs = msgspec.json.decode(end.output, type=tuple[Install, ...])
        except msgspec.MsgspecError:
            _log.info("no programs were looked for: %s", end.errors.decode("utf-8", "replace").strip()[-500:])
            return
        if not self._store.state.settings.library_asked:
            self._offer(installs)

    def _offer(self, installs: Iterable[Install]) -> None:
        """Offer the folders of these programs that are not watched, beside what is offered already."""
        offers = {offer.root: offer for offer in self.state.offers}
        for one in installs:
            lacking = tuple(path for path in one.folders if not any(is_inside(path, root) for root in self._roots))
            if lacking:
                offers[one.root] = msgspec.structs.replace(one, folders=lacking)
        self._show(offers=tuple(offers.values()))

    def accept(self, folders: Iterable[str]) -> None:
        """Watch these folders of the programs that were found, and do not ask again."""
        self.decline()
        self.add_folders(folders)

    def decline(self) -> None:
        """Do not ask again about the programs that were found."""
        settings = self._store.state.settings
        self._store.take(Replaced(part=msgspec.structs.replace(settings, library_asked=True)))
        self._show(offers=())

    # --- marks ------------------------------------------------------------------------------------------------------

    def mark(self, path: str, *, favourite: bool | None = None, note: str | None = None) -> None:
        """Keep what the user says about a file. None: as it is."""
        self._mark({path: MarkChange(favourite=favourite, note=note)})

    def used(self, paths: Iterable[str]) -> None:
        """A picture was made with these files just now."""
        change = MarkChange(used=time.time())
        self._mark({path: change for path in paths if path == POCKET or os.path.isabs(path)})

    def _mark(self, changed: dict[str, MarkChange]) -> None:
        if not changed:
            return
        made = {path: change.made_in(self.state.marks.get(path, Mark())) for path, change in changed.items()}
        self._marked |= made
        self._unwritten, self._reads_marks = self._unwritten + 1, False
        self._show(marks={**self.state.marks, **made})
        prints = {entry.path: entry.fingerprint for entry in self.state.entries if entry.path in changed}
        rows = [(path, prints.get(path, ""), made[path], change) for path, change in changed.items()]
        self._executor.run_in_order(lambda: _keep_marks(rows), lambda _done: self._marks_written(), self._marks_failed)

    def _marks_written(self) -> None:
        self._unwritten -= 1

    def _marks_failed(self, error: Exception) -> None:
        self._marks_written()
        tell_not_written(self._store, error)

    # --- files ------------------------------------------------------------------------------------------------------

    def delete(self, paths: Iterable[str], to_bin: Callable[[Iterable[Sequence[str]]], T], then: Callable[[T], object]) -> None:
        """Move files to the system's bin off this thread, with the files that describe them alone.

        to_bin: moves models, each a file and those that describe it; then: gets what it returned.
        """
        leaving = tuple(path for path in paths if path not in self._leaving)
        self._leaving.update(leaving)

        def work() -> tuple[T, frozenset[str]]:
            binned = to_bin(with_beside(path) for path in leaving)
            return binned, frozenset(path for path in leaving if not os.path.lexists(path))

        def done(found: tuple[T, frozenset[str]]) -> None:
            binned, gone = found
            self._leaving.difference_update(leaving)
            self._gone |= gone
            self._show(entries=tuple(entry for entry in self.state.entries if entry.path not in gone))
            then(binned)

        def failed(error: Exception) -> None:
            self._leaving.difference_update(leaving)
            tell_not_written(self._store, error)

        if leaving:
            self._executor.run(work, done, failed)

    # --- hashes -----------------------------------------------------------------------------------------------------

    def _give_way(self) -> None:
        """Hash while nothing else is to be done."""
        if self._store.state.jobs:
            self._quiet.stop()
            if self._kill_hashing is not None:
                self._kill_hashing()
                self._kill_hashing = None
        elif self._wants_hashes and not self._quiet.active:
            self._quiet.start()

    @property
    def _wants_hashes(self) -> bool:
        return self._started and self._scanned and self._kill_hashing is None and self._hashed is not self.state.entries

    def _hash(self) -> None:
        if not self._wants_hashes or self._store.state.jobs:
            return
        entries = self.state.entries
        if all(entry.whole or entry.path in self.state.hashes for entry in entries):
            self._hashed = entries
            return
        heard = _Lines()
        self._kill_hashing = self._commands.start(
            "index",
            "--hash",
            ended=lambda end: self._hashes_ended(entries, end),
            heard=lambda printed: self._heard_hashing(heard.new(printed)),
        )

    def _heard_hashing(self, printed: bytes) -> None:
        if any(isinstance(message, Hashing) for message in messages(printed)) and not self._later.active:
            self._later.start()

    def _hashes_ended(self, entries: Sequence[Entry], end: Finished) -> None:
        self._kill_hashing, self._hashed = None, entries
        if end.code != 0:
            _log.info("hashing ended: %s", end.errors.decode("utf-8", "replace").strip()[-500:])
        self._read()

    # --- weights ----------------------------------------------------------------------------------------------------

    def scan_weights(self, *paths: str) -> None:
        """Look at every weight of these files, one after another; what is found stands in `weights`."""
        self._to_weigh += (path for path in paths if path not in self._to_weigh)
        if self._kill_weighing is None:
            self._weigh()

    def stop_weighing(self) -> None:
        """End the look at weights, and look at none of those that wait."""
        kill, self._kill_weighing = self._kill_weighing, None
        self._to_weigh.clear()
        if kill is not None:
            kill()
            self._show(weighing=None)

    def _weigh(self) -> None:
        if not self._to_weigh:
            self._show(weighing=None)
            return
        path = self._to_weigh.pop(0)
        self._show(weighing=(path, 0, 0))
        heard = _Lines()
        self._kill_weighing = self._commands.start(
            "index",
            "--weights",
            "--",
            path,
            ended=self._weighed,
            heard=lambda printed: self._heard_weighing(path, heard.new(printed)),
        )

    def _heard_weighing(self, path: str, printed: bytes) -> None:
        for message in messages(printed):
            if isinstance(message, Weighing):
                self._show(weighing=(path, message.done, message.of))

    def _weighed(self, end: Finished) -> None:
        self._kill_weighing = None
        if end.code != 0:
            _log.warning("the weights could not be looked at: %s", end.errors.decode("utf-8", "replace").strip()[-500:])
        self._read()
        self._weigh()


class _Lines:
    """Gets all that was printed so far, again and again, and gives the whole lines that are new."""

    def __init__(self) -> None:
        self._read = 0

    def new(self, printed: bytes) -> bytes:
        end = printed.rfind(b"\n") + 1
        fresh, self._read = printed[self._read : end], max(end, self._read)
        return fresh


def _read(roots: Sequence[str], known: Mapping[bytes, Stamped], before: Library, gone: frozenset[str]) -> _Read:
    """Read what is new. before: what is shown; the answer has the same entries where they did not change. gone: files that are
    left out while they are not there, as no scan may have seen that they went.
    """
    with Index() as index:
        stamped, hashes, weights = index.stamped(roots, known), index.hashes(), index.weights()
    every = (entry for _, entry in stamped.values())
    entries = tuple(entry for entry in every if entry.path not in gone or os.path.lexists(entry.path))
    entries = before.entries if _same(before.entries, entries) else entries
    try:
        with Marks() as marks:
            kept = marks_of(entries, marks.all())
    except (sqlite3.Error, OSError) as error:
        _log.error("The marks of models cannot be read: %s", error)
        kept = before.marks
    return _Read(stamped, entries, hashes, weights, kept)


def _forget(roots: Iterable[str]) -> None:
    with Index() as index:
        index.forget(roots)


def _not_forgotten(error: Exception) -> None:
    """What the index knows of folders that are not watched is not shown: it does no harm."""
    _log.info("The index of models still has folders that were removed: %s", error)


def _not_looked_at(error: Exception) -> None:
    """The folder itself is watched all the same."""
    _log.info("A folder that was added could not be looked at for other folders: %s", error)


def _keep_marks(rows: Sequence[tuple[str, str, Mark, MarkChange]]) -> None:
    with Marks() as marks:
        marks.keep(rows)


def _same(one: Sequence[Entry], other: Sequence[Entry]) -> bool:
    return len(one) == len(other) and all(a is b for a, b in zip(one, other, strict=True))


def _absolute(folder: str) -> str:
    return os.path.abspath(os.path.expanduser(folder))
