"""The gallery: lists, searches, marks and describes pictures, Halftone's own and those in watched folders, off this thread."""

import logging
import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.gallery.catalogue import Catalogue, shown_of
from halftone.gallery.facts import FAVOURITE, Query
from halftone.gallery.history import History, is_gone
from halftone.gallery.watched import Listed, list_watched, read_shown, thumbnail_of
from halftone.library.index.watching import FOLDERS, Stamps, is_due
from halftone.metadata.picture import ALLOWED
from halftone.metadata.picture_settings import said_by
from halftone.metadata.reading import Parameters
from halftone.session.events import Replaced
from halftone.session.pictures.gallery_state import DESCRIBED, Count, Detail, GalleryState, Rows, Scan
from halftone.session.pictures.picture_list import made_of
from halftone.session.ports import Clock, Delay, Executor
from halftone.session.store import Store
from halftone.session.writing import tell_not_written
from halftone.settings.databases import database_words
from halftone.settings.places import log_dir

_FOLLOWED: Final = 2000
"""Pictures of the history that are listed before what is shown is read again."""
_FIRST: Final = 400
"""Pictures that are shown before the rest is read."""
_SCAN_SECONDS: Final = 0.5
"""Between two looks at how far a scan is, and between two looks for changes in the watched folders."""
_ANEW_SECONDS: Final = 10.0
"""After a scan that failed, until the next."""
_MANY: Final = 10_000
"""Pictures that are read anew at once. For each so many more, a reading waits for half a second since the last."""

_log = logging.getLogger(__name__)


class Known(NamedTuple):
    """All that can be asked for, and how many pictures there are."""

    total: int
    models: tuple[Count, ...]
    loras: tuple[Count, ...]
    collections: tuple[Count, ...]
    favourites: int


class Small(NamedTuple):
    """A small picture: a PNG in memory, empty where there is none; gone: the file itself is missing."""

    image: bytes
    path: str
    gone: bool


def thumbnails(numbers: Sequence[int], *, images: bool = True) -> dict[int, Small]:
    """Number -> a small picture. Those of watched folders are made when they are first seen, and kept. images: False leaves them
    out, for a caller that reads the files. Runs on another thread.
    """
    with Catalogue() as catalogue:
        paths = catalogue.paths(numbers)
        known = catalogue.thumbnails(numbers) if images else {}
        found: dict[int, Small] = {}
        for number, path in paths.items():
            gone = is_gone(Path(path))
            image = known.get(number, b"")
            if images and not image and not gone and (image := _made_small(path)):
                catalogue.keep_thumbnail(number, image)
            found[number] = Small(image, path, gone)
        return found


def paths_of(numbers: Sequence[int]) -> list[str]:
    """The files of these pictures, in their order. Runs on another thread."""
    with Catalogue() as catalogue:
        known = {number: path for part in _parts(numbers) for number, path in catalogue.paths(part).items()}
    return [known[number] for number in numbers if number in known]


def _parts(numbers: Sequence[int]) -> Iterable[Sequence[int]]:
    """SQLite takes only so many values at once."""
    return (numbers[first : first + 500] for first in range(0, len(numbers), 500))


def _made_small(path: str) -> bytes:
    try:
        return thumbnail_of(path)
    except (HalftoneError, OSError, ValueError) as error:
        _log.info("no thumbnail of %s: %s", path, error)
        return b""


def _rows(query: Query, most: int = -1) -> Rows:
    with Catalogue() as catalogue:
        found = catalogue.columns(query, most)
    return Rows(*found, whole=len(found.ids) != most)


def _known() -> Known:
    with Catalogue() as catalogue:
        lists = catalogue.models(), catalogue.loras(), catalogue.collections()
        models, loras, collections = map(tuple, lists)
        return Known(catalogue.count(), models, loras, collections, catalogue.marked())


def _list_made() -> int:
    """List some of the history's new pictures; how many there were."""
    with History() as history, Catalogue() as catalogue:
        return catalogue.follow(history, _FOLLOWED)


def describe(numbers: Sequence[int]) -> tuple[Detail, ...]:
    """What is known of these pictures, in their order. Runs on another thread."""
    with Catalogue() as catalogue, History() as history:
        paths = catalogue.paths(numbers)
        listed = ((number, paths[number]) for number in numbers if number in paths)
        return tuple(_detail(catalogue, history, number, path) for number, path in listed)


def _detail(catalogue: Catalogue, history: History, number: int, path: str) -> Detail:
    marks, gone = catalogue.marks_of(path), is_gone(Path(path))
    size, made_at = catalogue.facts(number)
    moment = datetime.fromtimestamp(made_at, UTC)
    entry = history.find(path)
    if entry is not None:
        made = made_of(entry)
        return Detail(id=number, path=path, made_at=made.made_at, made=made, size=size, gone=gone, marks=marks)
    said, silent = (None, None) if gone else _said(path)
    return Detail(id=number, path=path, made_at=moment, said=said, silent=silent, size=size, gone=gone, marks=marks)


def _said(path: str) -> tuple[Parameters | None, ErrorFacts | None]:
    try:
        return said_by(Path(path)), None
    except HalftoneError as error:
        return None, error.as_facts()
    except Exception as error:  # noqa: BLE001 - whatever one picture fails of, the others are described
        _log.warning("the settings of %s cannot be read", path, exc_info=True)
        return None, ErrorFacts(code="internal", facts={"detail": f"{type(error).__name__}: {error}", "log": str(log_dir())})


class Gallery:
    """`open` begins; nothing is read before. What the store holds is `GalleryState`."""

    def __init__(self, store: Store, executor: Executor, clock: Clock) -> None:
        self._store, self._executor = store, executor
        self._open = self._stopped = False
        self._owner: object = None
        self._stale = False
        self._clock, self._read_at = clock, 0.0
        self._wake: Callable[[], object] | None = None
        self._following = self._follow_again = False
        self._scanning = self._scan_again = False
        self._turn = self._chosen = 0
        self._done: int | None = None
        self._look_at_scan = Delay(clock, _SCAN_SECONDS, self._show_scan)
        self._seen = Stamps((), *FOLDERS)
        self._growing: tuple[str, ...] = ()
        self._look_for_changes = Delay(clock, _SCAN_SECONDS, self._watch)
        self._scan_anew = Delay(clock, _ANEW_SECONDS, self._scan)
        self._once_listed: list[Callable[[], object]] = []
        store.subscribe(lambda state: (state.history.newest, state.history.latest), lambda _new: self._follow())
        store.subscribe(lambda state: state.settings.gallery_folders, lambda _folders: self._scan())

    @property
    def state(self) -> GalleryState:
        return self._store.state.gallery

    def _show(self, **changes: Any) -> None:
        self._store.take(Replaced(part=replace(self.state, **changes)))

    # --- the list ---------------------------------------------------------------------------------------------------

    def open(self, owner: object = None) -> None:
        """Show what is listed, then what came since, and look through the watched folders. owner: what shows it."""
        self._open, self._owner = True, owner
        if not self.state.read or self._stale:
            self._read()
        self._follow()
        self._scan()

    def hide(self, owner: object = None) -> None:
        """Read nothing until it is opened again, unless another owner opened it since."""
        if owner is self._owner:
            self._open = False
            self._stop_watching()

    def stop(self) -> None:
        """The program ends."""
        self._stopped = True
        self._stop_watching()

    def _stop_watching(self) -> None:
        self._look_for_changes.stop()
        self._scan_anew.stop()

    def show(self, query: Query) -> None:
        """List what a query finds."""
        if query != self.state.query:
            self._show(query=query)
            self._list(_FIRST)

    def _list(self, most: int) -> None:
        """Read the rows of the query; those in sight first, where there are more."""
        self._turn += 1
        turn, query = self._turn, self.state.query

        def take(rows: Rows) -> None:
            if turn != self._turn:
                return
            self._show(rows=rows, read=True, error=None)
            if not rows.whole:
                self._list(-1)
                return
            waiting, self._once_listed = self._once_listed, []
            for call in waiting:
                call()

        self._executor.run(lambda: _rows(query, most), take, self._failed)

    def _read(self, *then: Callable[[], object]) -> None:
        """Read the list anew, with all that can be asked for, while it is shown. then: called once the list is whole, also where
        a later reading replaces this one.
        """
        self._stop_waiting()
        self._stale = not self._open
        if self._stale:
            return
        self._read_at = self._clock.now()
        self._once_listed += then
        self._list(-1 if self.state.read else _FIRST)
        self._executor.run(_known, lambda known: self._show(**known._asdict()), self._failed)

    def _read_soon(self) -> None:
        """Read the list anew, the more seldom the longer it is."""
        wait = self._read_at + self.state.total // _MANY * _SCAN_SECONDS - self._clock.now()
        if wait <= 0:
            self._read()
        elif self._wake is None:
            self._wake = self._clock.later(wait, self._waited)

    def _waited(self) -> None:
        self._wake = None
        if not self._stopped:
            self._read()

    def _stop_waiting(self) -> None:
        wake, self._wake = self._wake, None
        if wake is not None:
            wake()

    def _follow(self) -> None:
        """List what the history got."""
        if not self._open or self._stopped:
            return
        if self._following:
            self._follow_again = True
            return
        self._following, self._follow_again = True, False
        self._executor.run(_list_made, self._followed, self._not_followed)

    def _not_followed(self, error: Exception) -> None:
        self._failed(error)
        self._followed(0)

    def _followed(self, count: int) -> None:
        self._following = False
        if count:
            self._read_soon()
        if count >= _FOLLOWED or self._follow_again:
            self._follow()

    def _scan(self) -> None:
        """Bring the list up to date with the watched folders."""
        if not self._open or self._stopped:
            return
        if self._scanning:
            self._scan_again = True
            return
        self._stop_watching()
        self._scanning, self._scan_again, self._done = True, False, None
        folders = self._store.state.settings.gallery_folders

        def work() -> tuple[Listed, Stamps, bool]:
            with Catalogue() as catalogue:
                listed = list_watched(catalogue, folders, lambda: self._stopped, self._progress)
                seen = Stamps(tuple(listed.places), *FOLDERS, self._clock.now, listed.places.values())
                return listed, seen, catalogue.changed

        def over() -> None:
            self._scanning = False
            self._look_at_scan.stop()
            self._show(scan=None)

        def ready(found: tuple[Listed, Stamps, bool]) -> None:
            over()
            listed, self._seen, changed = found
            self._growing = listed.growing
            if changed or self._stale:
                self._read()
            self._scan_later(self._look_for_changes)

        def failed(error: Exception) -> None:
            over()
            self._failed(error)
            self._scan_later(self._scan_anew)

        if folders:
            if not self.state.total:
                self._show(scan=Scan())
            self._look_at_scan.start()
        self._executor.run(work, ready, failed)

    def _scan_later(self, delay: Delay) -> None:
        """Scan at once where that was asked for meanwhile."""
        if self._scan_again:
            self._scan()
        elif self._open and not self._stopped and self._store.state.settings.gallery_folders:
            delay.start()

    def _watch(self) -> None:
        """Scan again once a picture came or went, or is whole. Nobody waits: folders on a network may answer late."""
        seen, growing = self._seen, self._growing

        def ready(due: bool) -> None:
            if seen is not self._seen or self._scanning or not self._open or self._stopped:
                return
            if due:
                self._scan()
            else:
                self._look_for_changes.start()

        self._executor.run(lambda: is_due((seen,), growing), ready)

    def _progress(self, done: int) -> None:
        """Note how many were read. Runs on the other thread."""
        self._done = done

    def _show_scan(self) -> None:
        if self._scanning and not self._stopped:
            scan = Scan(self._done)
            if scan != self.state.scan:
                self._show(scan=scan)
                if scan.done is not None:
                    self._read_soon()
            self._look_at_scan.start()

    def _failed(self, error: Exception) -> None:
        """Another program holds the list, or its folder is gone: what is shown stays."""
        _log.warning("the gallery cannot be read: %s", error)
        self._stale = True
        self._show(error=database_words(error))

    # --- what is selected -------------------------------------------------------------------------------------------

    def select(self, numbers: Sequence[int]) -> None:
        """These are selected, in the order of the list."""
        selected = tuple(numbers)
        if selected != self.state.selected:
            kept = tuple(one for one in self.state.details if one.id in set(selected)) if len(selected) <= DESCRIBED else ()
            self._show(selected=selected, details=kept)
            self.look()

    def look(self) -> None:
        """Read what is known of the selected ones."""
        selected = self.state.selected
        self._chosen += 1
        turn = self._chosen
        if 0 < len(selected) <= DESCRIBED:
            self._executor.run(
                lambda: describe(selected),
                lambda found: self._show(details=found) if turn == self._chosen else None,
                self._failed,
            )

    def with_paths(self, numbers: Sequence[int], then: Callable[[list[str]], None]) -> None:
        """Call `then` with the files of these pictures."""
        self._executor.run(lambda: paths_of(numbers), then, self._failed)

    def with_files(self, numbers: Sequence[int], then: Callable[[list[str]], None]) -> None:
        """Call `then` with the files of these pictures that are not missing."""
        self._executor.run(lambda: [path for path in paths_of(numbers) if not is_gone(Path(path))], then, self._failed)

    # --- changes ----------------------------------------------------------------------------------------------------

    def mark(self, numbers: Sequence[int], name: str = FAVOURITE, *, on: bool = True) -> None:
        """Put pictures among the favourites or into a collection, or take them out."""

        def work() -> None:
            paths = paths_of(numbers)
            with Catalogue() as catalogue:
                catalogue.mark(paths, name, on=on)

        self._change(work)

    def removed(self, paths: Sequence[str]) -> None:
        """These files were moved to the bin, or are to be listed no more."""

        def work() -> None:
            with Catalogue() as catalogue:
                catalogue.drop(paths)

        self._change(work)

    def restored(self, paths: Sequence[str]) -> None:
        """List files that came back from the bin, and select them while the gallery is open; only pictures and videos count."""
        shown = [path for path in paths if path.lower().endswith(ALLOWED)]

        def work() -> list[int]:
            with Catalogue() as catalogue, History() as history:
                entries = {path: history.find(path) for path in shown}
                catalogue.add(
                    read_shown(path, os.stat(path)) if entry is None else shown_of(entry) for path, entry in entries.items()
                )
                return catalogue.numbers(shown)

        def ready(numbers: list[int]) -> None:
            self._read(lambda: self._select_again(numbers))

        self._executor.run_in_order(work, ready, partial(tell_not_written, self._store))

    def _select_again(self, numbers: Sequence[int]) -> None:
        back = set(numbers)
        if chosen := [number for number in self.state.rows.ids if number in back]:
            self.select(chosen)

    def _change(self, work: Callable[[], None]) -> None:
        """Write, in the order of the calls."""
        self._executor.run_in_order(work, lambda _done: self._changed(), partial(tell_not_written, self._store))

    def _changed(self) -> None:
        self._read(self.look)
