"""What is written: the settings, and the records that the worker reads. In order, and off this thread."""

import logging
import sqlite3
from collections.abc import Callable

from halftone.contract.errors import HalftoneError
from halftone.contract.vocabulary import Precision
from halftone.session.events import Noted, PrecisionChosen, Replaced
from halftone.session.job_queue import JobQueue
from halftone.session.ports import Clock, Delay, Executor
from halftone.session.store import Store
from halftone.settings.databases import database_words
from halftone.settings.store import Settings, save

_WRITE_SECONDS = 0.3

_log = logging.getLogger(__name__)


def tell_not_written(store: Store, error: Exception) -> None:
    """Log a full or read-only disk, note it for the user, and go on."""
    _log.error("Could not write: %s", error)
    facts = error.as_facts() if isinstance(error, HalftoneError) else None
    why = database_words(error) if isinstance(error, sqlite3.Error) else None
    store.take(Noted(kind="not-written", facts=(str(error),), error=facts, why=why))


class RecordWriter:
    """Writes what the worker may read; no job is sent before it is on disk."""

    def __init__(self, store: Store, queue: JobQueue, executor: Executor) -> None:
        self._store = store
        self._queue = queue
        self._executor = executor

    def write(self, work: Callable[[], object]) -> None:
        self._queue.hold()
        self._executor.run_in_order(work, lambda _done: self._queue.release(), self._failed)

    def _failed(self, error: Exception) -> None:
        tell_not_written(self._store, error)
        self._queue.release()


class SettingsKeeper:
    """Writes the settings soon after they changed. read_only: never, for they are another program's to write."""

    def __init__(self, store: Store, executor: Executor, clock: Clock, *, read_only: bool = False) -> None:
        self._store = store
        self._executor = executor
        self._read_only = read_only
        self._written = store.state.settings
        """What was last read from the file or written into it."""
        self._writer = Delay(clock, _WRITE_SECONDS, self._write)
        if not read_only:
            store.subscribe(lambda state: state.settings, lambda _settings: self._writer.start())

    def choose_precision(self, precision: Precision | None) -> None:
        """Choose it for the next pictures only; it is never written. None: as the settings say."""
        self._store.take(PrecisionChosen(precision=precision))

    def update(self, settings: Settings) -> None:
        """Use new settings at once and write them soon."""
        self._store.take(Replaced(part=settings))

    def finish(self) -> bool:
        """Write now what was not written yet. Returns whether the file has everything."""
        self._writer.stop()
        settings = self._store.state.settings
        if settings != self._written and not self._read_only:
            try:
                self._save(settings)
            except (OSError, HalftoneError) as error:
                tell_not_written(self._store, error)
        return settings == self._written

    def _write(self) -> None:
        settings = self._store.state.settings
        self._executor.run_in_order(
            lambda: self._save(settings), lambda _done: None, lambda error: tell_not_written(self._store, error)
        )

    def _save(self, settings: Settings) -> None:
        """Write only what changed: another window may have written the rest."""
        save(settings, since=self._written)
        self._written = settings
