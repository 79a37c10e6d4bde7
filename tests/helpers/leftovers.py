"""Threads and child processes that a test left behind."""

import os
import select
import signal
import threading
import time
from pathlib import Path

_PATIENCE_SECONDS = 5.0
_LASTING_THREADS = ("TMonitor",)
"""Classes of threads that a library keeps for the life of the process: tqdm's monitor."""
_LASTING_PROCESSES = ("resource_tracker",)


class Leftovers:
    """Looks at what is there when it is made, and says what came on top of that."""

    def __init__(self) -> None:
        self._threads = set(threading.enumerate())
        self._children = children()

    def after(self) -> list[str]:
        """One sentence for each thing left, after some patience. Child processes are killed, so that they spoil no later test."""
        end = time.monotonic() + _PATIENCE_SECONDS
        return [*self._left_threads(end), *self._left_children(end)]

    def _left_threads(self, end: float) -> list[str]:
        fresh = [thread for thread in threading.enumerate() if thread not in self._threads and _counts(thread)]
        for thread in fresh:
            thread.join(max(0.0, end - time.monotonic()))
        return [f"the thread {thread.name}" for thread in fresh if thread.is_alive()]

    def _left_children(self, end: float) -> list[str]:
        fresh = {pid: name for pid, name in children().items() if pid not in self._children}
        return [f"the process {pid} ({name})" for pid, name in fresh.items() if not _gone(pid, max(0.0, end - time.monotonic()))]


def children() -> dict[int, str]:
    """Child processes of this one: number -> command line. Empty where the system does not list them (only Linux does)."""
    found: dict[int, str] = {}
    for task in Path("/proc/self/task").glob("*/children"):
        for pid in _text(task).split():
            name = _text(Path("/proc") / pid / "cmdline").replace("\0", " ").strip() or "ended, but nobody waited for it"
            if not any(lasting in name for lasting in _LASTING_PROCESSES):
                found[int(pid)] = name
    return found


def ends(pid: int, seconds: float) -> bool:
    """Wait until the process has ended, whoever's child it is; False if it still runs after `seconds`. Linux only."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)


def _gone(pid: int, seconds: float) -> bool:
    """True when a child ends by itself and is waited for by whoever started it."""
    if not ends(pid, seconds):
        os.kill(pid, signal.SIGKILL)
        return False
    return pid not in children()


def _counts(thread: threading.Thread) -> bool:
    return not isinstance(thread, threading._DummyThread) and type(thread).__name__ not in _LASTING_THREADS


def _text(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:  # it ended between the listing and the reading
        return ""
