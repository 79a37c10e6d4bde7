"""What the window writes: its settings, and the records that the worker reads. In order, and off the UI thread."""

import logging
from collections.abc import Callable

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Numerics
from halftone.contract.vocabulary import Precision
from halftone.gui.background import Background
from halftone.gui.control.job_queue import JobQueue
from halftone.session.events import Noted
from halftone.session.store import Store
from halftone.settings import store
from halftone.settings.store import Settings

_WRITE_MS = 300

_log = logging.getLogger(__name__)


def tell_not_written(holder: Store, error: Exception) -> None:
    """A full or read-only disk is logged and told, and the window goes on."""
    _log.error("Could not write: %s", error)
    facts = error.as_facts() if isinstance(error, HalftoneError) else None
    holder.take(Noted(kind="not-written", facts=(str(error),), error=facts))


class RecordWriter(QObject):
    """Writes what the worker may read; no job is sent before it is on disk."""

    def __init__(self, holder: Store, queue: JobQueue, background: Background, parent: QObject) -> None:
        super().__init__(parent)
        self._holder = holder
        self._queue = queue
        self._background = background

    def write(self, work: Callable[[], object]) -> None:
        self._queue.hold()
        self._background.run_in_order(work, lambda _done: self._queue.release(), self._failed)

    def _failed(self, error: Exception) -> None:
        tell_not_written(self._holder, error)
        self._queue.release()


class SettingsKeeper(QObject):
    """The settings in force. Changes hold at once and are written soon."""

    changed = Signal()
    numerics_changed = Signal()

    def __init__(self, settings: Settings, holder: Store, background: Background, parent: QObject) -> None:
        super().__init__(parent)
        self.settings = settings
        self.once: Precision | None = None
        """The precision chosen on Create, which holds until another is chosen there and is never written."""
        self._holder = holder
        self._background = background
        self._writer = QTimer(self)
        self._writer.setSingleShot(True)
        self._writer.setInterval(_WRITE_MS)
        self._writer.timeout.connect(self._write)

    @property
    def numerics(self) -> Numerics:
        """As they hold for the next picture: those of the settings, with the precision chosen on Create."""
        if self.once is None:
            return self.settings.numerics
        return msgspec.structs.replace(self.settings.numerics, precision=self.once)

    def choose_precision(self, precision: Precision | None) -> None:
        """For the next pictures only, and never written; None: as the settings say."""
        if precision != self.once:
            self.once = precision
            self.numerics_changed.emit()

    def update(self, settings: Settings) -> None:
        """Take new settings at once and write them."""
        before = self.settings
        if settings == before:
            return
        self.settings = settings
        self._writer.start()
        self.changed.emit()
        if settings.numerics != before.numerics:
            self.numerics_changed.emit()

    def finish(self) -> None:
        """Write now what was not written yet."""
        if not self._writer.isActive():
            return
        self._writer.stop()
        try:
            store.save(self.settings)
        except (OSError, HalftoneError) as error:
            tell_not_written(self._holder, error)

    def _write(self) -> None:
        settings = self.settings
        self._background.run_in_order(
            lambda: store.save(settings), lambda _done: None, lambda error: tell_not_written(self._holder, error)
        )
