"""Work that would make the window wait runs in Qt's thread pool; results come back on the UI thread. And Qt's clock."""

import itertools
import logging
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, TypeVar

import shiboken6
from PySide6.QtCore import QObject, Qt, QThreadPool, QTimer, Signal, Slot

T = TypeVar("T")
_log = logging.getLogger(__name__)


@dataclass
class _Task:
    """What is to be done, for whom, and what came of it. Other threads know it by its number only: whatever it holds, a widget
    caught in a closure or in a traceback, ends on the UI thread."""

    owner: "Background"
    work: Callable[[], object]
    ready: Callable[[Any], None]
    failed: Callable[[Exception], None] | None
    result: object = None
    error: Exception | None = None
    receiver: QObject | None = None

    @property
    def wanted(self) -> bool:
        """Whether those who would take the answer are still there."""
        return shiboken6.isValid(self.owner) and (self.receiver is None or shiboken6.isValid(self.receiver))


_tasks: dict[int, _Task] = {}
_numbers = itertools.count()


class _Post(QObject):
    """Brings numbers of finished tasks to the UI thread. One for the whole program, so no thread speaks to one that is gone."""

    done = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.done.connect(self.deliver, Qt.ConnectionType.QueuedConnection)

    @Slot(int)
    def deliver(self, number: int) -> None:
        task = _tasks.pop(number, None)
        if task is None or not task.wanted:  # None: it was forgotten by `end`
            return
        if task.error is None:
            task.ready(task.result)
        elif task.failed is not None:
            task.failed(task.error)
        else:
            _log.error("Work in the background failed", exc_info=task.error)


@cache
def _post() -> _Post:
    return _Post()


def _shared() -> QThreadPool:
    return QThreadPool.globalInstance()


@cache
def _one_by_one() -> QThreadPool:
    pool = QThreadPool()
    pool.setMaxThreadCount(1)
    return pool


class Background(QObject):
    """Runs functions off the UI thread for one owner; answers that arrive after the owner is gone are dropped."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._pool = _shared()
        self._in_order = _one_by_one()
        _post()  # made on this thread

    def run(
        self,
        work: Callable[[], T],
        ready: Callable[[T], None],
        failed: Callable[[Exception], None] | None = None,
        *,
        receiver: QObject | None = None,
    ) -> None:
        """Call `work` on another thread, then `ready(result)` or `failed(error)` on this one.

        receiver: a page or a part of one that the answer is for; it may go before the owner, and the answer is dropped then.
        """
        self._start(self._pool, _Task(self, work, ready, failed, receiver=receiver))

    def run_in_order(
        self, work: Callable[[], T], ready: Callable[[T], None], failed: Callable[[Exception], None] | None = None
    ) -> None:
        """Run calls one after another, for files where the last write must win."""
        self._start(self._in_order, _Task(self, work, ready, failed))

    def finish_in_order(self) -> None:
        """Wait until what `run_in_order` was given has been done."""
        self._in_order.waitForDone()

    def _start(self, pool: QThreadPool, task: _Task) -> None:
        number = next(_numbers)
        _tasks[number] = task
        pool.start(partial(_run, number))

    @property
    def busy(self) -> bool:
        return any(task.owner is self for task in _tasks.values())


def end(seconds: float) -> bool:
    """Wait until all work is done, and forget its answers. Returns False where some still runs after so many seconds.

    The interpreter must not end before: a thread that ends later crashes the program.
    """
    until = time.monotonic() + seconds
    done = [pool.waitForDone(max(0, round((until - time.monotonic()) * 1000))) for pool in (_one_by_one(), _shared())]
    if all(done):
        _tasks.clear()
    return all(done)


class QtClock(QObject):
    """Times on the UI thread; what waits is dropped with its parent."""

    def now(self) -> float:
        return time.monotonic()

    def later(self, seconds: float, call: Callable[[], object]) -> Callable[[], object]:
        timer = QTimer(self)
        timer.setSingleShot(True)

        def over() -> None:
            timer.deleteLater()
            call()

        def cancel() -> None:
            if shiboken6.isValid(timer):
                timer.stop()
                timer.deleteLater()

        timer.timeout.connect(over)
        timer.start(round(seconds * 1000))
        return cancel


def _run(number: int) -> None:
    """Run on a thread of the pool, and drop the task before its end is reported."""
    _carry_out(number)
    _post().done.emit(number)


def _carry_out(number: int) -> None:
    task = _tasks[number]
    try:
        task.result = task.work()
    except Exception as error:  # noqa: BLE001 - handed to the caller's `failed`, whatever its kind
        task.error = error
