"""Work that would make the window wait runs in Qt's thread pool; results come back on the UI thread."""

import logging
from collections import deque
from collections.abc import Callable
from functools import cache
from typing import Any, TypeVar

from PySide6.QtCore import QObject, QRunnable, QThreadPool, Signal, Slot

T = TypeVar("T")
_log = logging.getLogger(__name__)


class _Answer(QObject):
    ready = Signal(object)
    failed = Signal(object)


class _Task(QRunnable):
    def __init__(self, work: Callable[[], object]) -> None:
        super().__init__()
        self.answer = _Answer()
        self._work = work

    def run(self) -> None:
        try:
            result = self._work()
        except Exception as error:  # noqa: BLE001 - handed to the caller's `failed`, which must be told of any kind
            self.answer.failed.emit(error)
        else:
            self.answer.ready.emit(result)


_running: set[_Task] = set()
"""A task must outlive its run, also when its owner is gone by then."""
_left: deque[_Task] = deque(maxlen=256)
"""An answer comes while its thread is still inside the task: freed there, it would take its QObject along on the wrong thread."""


@cache
def _one_by_one() -> QThreadPool:
    pool = QThreadPool()
    pool.setMaxThreadCount(1)
    return pool


class Background(QObject):
    """Runs functions off the UI thread for one owner; answers that arrive after the owner is gone are dropped."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._pending: set[_Task] = set()
        self._pool = QThreadPool.globalInstance()
        self._in_order = _one_by_one()

    def run(self, work: Callable[[], T], ready: Callable[[T], None], failed: Callable[[Exception], None] | None = None) -> None:
        """Call `work` on another thread, then `ready(result)` or `failed(error)` on this one."""
        self._start(self._pool, work, ready, failed)

    def run_in_order(
        self, work: Callable[[], T], ready: Callable[[T], None], failed: Callable[[Exception], None] | None = None
    ) -> None:
        """As `run`, one after another in the order of the calls: for files of which the last word must win."""
        self._start(self._in_order, work, ready, failed)

    def finish_in_order(self) -> None:
        """Wait until what `run_in_order` was given has been done."""
        self._in_order.waitForDone()

    def _start(
        self,
        pool: QThreadPool,
        work: Callable[[], T],
        ready: Callable[[T], None],
        failed: Callable[[Exception], None] | None,
    ) -> None:
        task = _Task(work)
        task.setAutoDelete(False)
        self._pending.add(task)
        _running.add(task)
        receiver = _Receiver(self, task, ready, failed)
        task.answer.ready.connect(receiver.take)
        task.answer.failed.connect(receiver.fail)
        pool.start(task)

    def forget(self, task: _Task) -> None:
        self._pending.discard(task)
        _running.discard(task)
        _left.append(task)

    @property
    def busy(self) -> bool:
        return bool(self._pending)


class _Receiver(QObject):
    """Lives on the UI thread, so that queued signals call it there."""

    def __init__(
        self, owner: Background, task: _Task, ready: Callable[[Any], None], failed: Callable[[Exception], None] | None
    ) -> None:
        super().__init__(owner)
        self._owner = owner
        self._task = task
        self._ready = ready
        self._failed = failed

    @Slot(object)
    def take(self, result: object) -> None:
        self._done()
        self._ready(result)

    @Slot(object)
    def fail(self, error: Exception) -> None:
        self._done()
        if self._failed is None:
            _log.error("Work in the background failed", exc_info=error)
        else:
            self._failed(error)

    def _done(self) -> None:
        self._owner.forget(self._task)
        self.deleteLater()
