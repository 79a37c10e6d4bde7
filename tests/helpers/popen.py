"""A worker over `subprocess`, for tests of the real process; the window has its own transport over the same protocol."""

import contextlib
import io
import logging
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import IO, Final, Self, cast

from halftone.client.command import worker_command, worker_environment
from halftone.client.logs import last_lines, worker_log
from halftone.client.protocol import GRACE_SECONDS, WorkerProtocol
from halftone.contract.messages import AnyCommand, AnyEvent, Quit

Received = tuple[AnyEvent, bytes]

_CHUNK: Final = 1 << 16
_LEAVE_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


def _log_file() -> Path:
    path = worker_log()
    assert path is not None
    return path


class WorkerProcess:
    """One worker at a time. Use it from one thread; a helper thread only reads.

    options: of the worker, such as `--engine`; environment: base of the worker's environment, this process' own if not given;
    grace: seconds that a cancelled job may take to end before the worker is killed.
    """

    def __init__(self, *options: str, environment: Mapping[str, str] | None = None, grace: float = GRACE_SECONDS) -> None:
        self.protocol = WorkerProtocol(grace=grace)
        self._options = options
        self._environment = environment
        self._log = _log_file()
        self._process: subprocess.Popen[bytes] | None = None
        self._reader: threading.Thread | None = None
        self._arrived: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self._events: deque[Received] = deque()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """Of the present worker, None while there is none."""
        return None if self._process is None else self._process.pid

    def start(self) -> None:
        """Start a worker and send it what waits. Raises OSError when no process can be made."""
        if self._process is not None:
            return
        self._log = _log_file()
        with self._log.open("ab") as stderr:
            self._process = subprocess.Popen(
                worker_command(self._log, *self._options),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=worker_environment(self._environment),
                creationflags=getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )
        self._arrived = queue.SimpleQueue()
        self._reader = threading.Thread(
            target=_read_all, args=(self._process.stdout, self._arrived.put), name="halftone-worker-events", daemon=True
        )
        self._reader.start()
        self._write(self.protocol.start())

    def send(self, command: AnyCommand) -> None:
        """Send a command; while no worker runs, a job waits for the next `start`."""
        self._write(self.protocol.command(command))

    def next_event(self, timeout: float) -> Received | None:
        """The next event, None after `timeout` seconds without one or when no worker runs. Kills a worker that is overdue."""
        end = time.monotonic() + timeout
        while not self._events and self._process is not None:
            if self.protocol.overdue():
                self._process.kill()
            data = self._wait_for_bytes(end)
            if data is not None:
                self._take(data)
            elif time.monotonic() >= end:
                break
        return self._events.popleft() if self._events else None

    def events(self, timeout: float) -> Iterator[Received]:
        """Events until none comes for `timeout` seconds."""
        while (received := self.next_event(timeout)) is not None:
            yield received

    def kill(self) -> None:
        """End the worker at once; the events that are owed follow from `next_event`."""
        if self._process is not None:
            self._process.kill()

    def restart(self) -> None:
        """Kill the worker if there is one, then start another, which gets the jobs that had not begun."""
        self.kill()
        while self._process is not None:
            self._take(self._arrived.get())
        self.start()

    def close(self) -> None:
        """Ask the worker to leave; kill it if it does not. Nothing of it is left behind."""
        process = self._process
        if process is None:
            return
        self.send(Quit())
        self._close_stdin(process)
        self._exit_code(process)
        while self._process is not None:
            self._take(self._arrived.get())

    # -- inside ------------------------------------------------------------------------------------------------------------

    def _wait_for_bytes(self, end: float) -> bytes | None:
        """Bytes that arrived (empty: the worker closed its end), None when `end` or the deadline of the protocol came first."""
        deadline = self.protocol.deadline
        until = end if deadline is None else min(end, deadline)
        with contextlib.suppress(queue.Empty):
            return self._arrived.get(timeout=max(0.0, until - time.monotonic()) + 0.001)
        return None

    def _take(self, data: bytes) -> None:
        if data:
            self._events.extend(self.protocol.feed(data))
        else:
            self._bury()

    def _bury(self) -> None:
        """The worker closed its end: wait for it, and ask the protocol what is owed."""
        process, reader = self._process, self._reader
        if process is None or reader is None:
            return
        code = self._exit_code(process)
        reader.join()
        self._close_stdin(process)
        self._process = None
        owed = self.protocol.died(code if code >= 0 else None, _signal_name(code), str(self._log), last_lines(self._log))
        self._events.extend((event, b"") for event in owed)

    def _write(self, data: bytes) -> None:
        process = self._process
        if process is None or process.stdin is None or not data:
            return
        try:
            process.stdin.write(data)
            process.stdin.flush()
        except (BrokenPipeError, OSError, ValueError):
            log.info("the worker does not take commands any more")  # its end of the other pipe tells the rest

    @staticmethod
    def _exit_code(process: subprocess.Popen[bytes]) -> int:
        """Wait for a process that has no more to say or was asked to leave; kill one that lingers."""
        try:
            return process.wait(_LEAVE_SECONDS)
        except subprocess.TimeoutExpired:
            log.info("the worker did not leave; killing it")
            process.kill()
            return process.wait()

    @staticmethod
    def _close_stdin(process: subprocess.Popen[bytes]) -> None:
        if process.stdin is not None:
            with contextlib.suppress(OSError):
                process.stdin.close()


def _read_all(stream: IO[bytes], put: Callable[[bytes], None]) -> None:
    """Everything that arrives, then empty bytes."""
    with cast("io.BufferedReader", stream) as pipe:
        while data := pipe.read1(_CHUNK):
            put(data)
    put(b"")


def _signal_name(code: int) -> str | None:
    if code >= 0 or sys.platform == "win32":
        return None
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"
