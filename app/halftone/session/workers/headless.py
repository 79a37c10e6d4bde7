"""A session without a window: threads, clock, commands and a worker process on asyncio's event loop."""

import asyncio
import contextlib
import logging
import os
import signal
import subprocess
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import IO, Any, Final, TypeVar

from halftone.contract.messages import AnyCommand, AnyEvent, Quit
from halftone.session.ports import Finished, WorkerLink
from halftone.session.workers.process import Launch, WorkerSupervisor, command

T = TypeVar("T")

_THREADS: Final = 4
_CHUNK: Final = 2**16
_LEAVE_SECONDS: Final = 3.0
_WATCH_SECONDS: Final = 0.25

log = logging.getLogger(__name__)


class LoopExecutor:
    """`ports.Executor`: answers come on the loop's thread."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._pool = ThreadPoolExecutor(_THREADS, thread_name_prefix="work")
        self._in_order = ThreadPoolExecutor(1, thread_name_prefix="in-order")
        self._waiting: set[Future[Any]] = set()

    def run(self, work: Callable[[], T], ready: Callable[[T], None], failed: Callable[[Exception], None] | None = None) -> None:
        self._answer(self._pool.submit(work), ready, failed)

    def run_in_order(
        self, work: Callable[[], T], ready: Callable[[T], None], failed: Callable[[Exception], None] | None = None
    ) -> None:
        future = self._in_order.submit(work)
        self._waiting.add(future)
        future.add_done_callback(self._waiting.discard)
        self._answer(future, ready, failed)

    def finish_in_order(self) -> None:
        wait(tuple(self._waiting))

    def close(self) -> None:
        """Let what was begun end; what waits is dropped."""
        for pool in (self._pool, self._in_order):
            pool.shutdown(cancel_futures=True)

    def _answer(self, future: Future[T], ready: Callable[[T], None], failed: Callable[[Exception], None] | None) -> None:
        def done() -> None:
            error = future.exception()
            if error is None:
                ready(future.result())
            elif failed is not None and isinstance(error, Exception):
                failed(error)
            else:
                log.error("Work in the background failed", exc_info=error)

        def over(ended: Future[T]) -> None:
            if not ended.cancelled():
                with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits for the answer
                    self._loop.call_soon_threadsafe(done)

        future.add_done_callback(over)


class LoopClock:
    """`ports.Clock` of an event loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop

    def now(self) -> float:
        return self._loop.time()

    def later(self, seconds: float, call: Callable[[], object]) -> Callable[[], object]:
        return self._loop.call_later(seconds, call).cancel


class _Tasks:
    """Keeps the tasks of an owner until they end."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._tasks: set[asyncio.Task[None]] = set()

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def ended(self) -> None:
        while self._tasks:
            await asyncio.wait(tuple(self._tasks))


class LoopCommands:
    """`ports.Commands`: runs `halftone …` in processes of their own."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._tasks = _Tasks(loop)
        self._processes: set[asyncio.subprocess.Process] = set()

    def start(
        self, *arguments: str, ended: Callable[[Finished], object], heard: Callable[[bytes], object] | None = None
    ) -> Callable[[], object]:
        killed = asyncio.Event()
        self._tasks.start(self._run(command(*arguments), ended, heard, killed))
        return killed.set

    async def _run(
        self,
        launch: Launch,
        ended: Callable[[Finished], object],
        heard: Callable[[bytes], object] | None,
        killed: asyncio.Event,
    ) -> None:
        try:
            process = await _started(launch, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        except OSError as error:
            ended(Finished(-1, b"", str(error).encode()))
            return
        self._processes.add(process)
        errors = bytearray()

        async def read_errors() -> None:
            assert process.stderr is not None
            while data := await process.stderr.read(_CHUNK):
                errors.extend(data)
                if heard is not None and not killed.is_set():
                    heard(bytes(errors))

        async def kill_when_asked() -> None:
            await killed.wait()
            _kill(process)

        killer = asyncio.ensure_future(kill_when_asked())
        assert process.stdout is not None
        output, _, code = await asyncio.gather(process.stdout.read(), read_errors(), process.wait())
        killer.cancel()
        self._processes.discard(process)
        if not killed.is_set():
            ended(Finished(code, output, bytes(errors)))

    def finish(self) -> None:
        for process in self._processes:
            _kill(process)

    async def closed(self) -> None:
        """Wait until all processes are gone."""
        self.finish()
        await self._tasks.ended()


class LoopLink(WorkerLink):
    """One worker process at a time; a lost one is started again. arrived: gets events and blobs; options: of the worker."""

    def __init__(
        self, loop: asyncio.AbstractEventLoop, *options: str, arrived: Callable[[AnyEvent, bytes], object] | None = None
    ) -> None:
        self.arrived: Callable[[AnyEvent, bytes], object] = arrived or (lambda _event, _blob: None)
        self._loop = loop
        self._worker = WorkerSupervisor(*options)
        self._protocol = self._worker.protocol
        self._process: asyncio.subprocess.Process | None = None
        self._running = False
        self._stopping = False
        self._watching = False
        self._tasks = _Tasks(loop)

    @property
    def gone(self) -> bool:
        return not self._running

    @property
    def hopeless(self) -> bool:
        return not self._running and not self._protocol.may_restart

    def start(self) -> None:
        if self._running:
            return
        self._running, self._stopping = True, False
        self._tasks.start(self._run())

    def restart(self) -> None:
        self._protocol.forgive()
        if not self._running:
            self.start()
        elif self._protocol.ready is None and self._process is not None:
            _kill(self._process)  # its end starts the next

    def send(self, command: AnyCommand) -> None:
        """Send a command; while no worker runs, a job waits for the next one."""
        self._write(self._protocol.command(command))
        if self._protocol.deadline is not None and not self._watching:
            self._watching = True
            self._loop.call_later(_WATCH_SECONDS, self._watch)

    def stop(self) -> None:
        """Ask the worker to leave, kill it if it does not, and stay down: `closed` waits for it."""
        self._stopping = True
        if self._process is None:
            return
        busy = bool(self._protocol.open_jobs)
        self.send(Quit())
        if self._process.stdin is not None:
            self._process.stdin.close()
        self._loop.call_later(0 if busy else _LEAVE_SECONDS, _kill, self._process)

    async def closed(self) -> None:
        """Wait until the worker process is gone."""
        await self._tasks.ended()

    # --- inside -----------------------------------------------------------------------------------------------------

    def _write(self, data: bytes) -> None:
        if self._process is not None and self._process.stdin is not None and data:
            self._process.stdin.write(data)

    async def _run(self) -> None:
        while True:
            code, signal_name, details = await self._live()
            self._process = None
            owed = self._worker.ended(code, signal_name, details)
            again = self._protocol.may_restart and not self._stopping
            self._running = again
            for event in owed:
                self.arrived(event, b"")
            if not again:
                return

    async def _live(self) -> tuple[int | None, str | None, str]:
        """Run one worker to its end: its exit code or its signal, and why it could not be started."""
        launch = self._worker.launch()
        try:
            with open(os.devnull if launch.log is None else launch.log, "ab") as errors:
                process = await _started(launch, stdin=subprocess.PIPE, stderr=errors)
        except OSError as error:
            return None, None, str(error)
        self._process = process
        self._write(self._protocol.start())
        if self._stopping:
            self.stop()
        assert process.stdout is not None
        while data := await process.stdout.read(_CHUNK):
            for event, blob in self._protocol.feed(data):
                self.arrived(event, blob)
            if self._protocol.broken is not None:
                _kill(process)
        code = await process.wait()
        return (code, None, "") if code >= 0 else (None, _signal_name(-code), "")

    def _watch(self) -> None:
        """Kill a worker that does not stop in time."""
        self._watching = self._protocol.deadline is not None
        if not self._watching:
            return
        if self._process is not None and self._protocol.overdue():
            log.warning("the worker did not stop in time; killing it")
            _kill(self._process)
        self._loop.call_later(_WATCH_SECONDS, self._watch)


async def _started(launch: Launch, *, stdin: int, stderr: "int | IO[bytes]") -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        launch.program,
        *launch.arguments,
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=launch.environment,
        start_new_session=True,
    )


def _kill(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.kill()


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
