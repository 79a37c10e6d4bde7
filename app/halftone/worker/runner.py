"""One job at a time: commands in, events out, exactly one JobEnded for each job.

`submit` may be called from any thread, also while a job runs; `run` and `run_until_idle` belong to the thread that computes.
"""

import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final, cast

import msgspec

from halftone import __version__
from halftone.contract.engine import Emit, Engine
from halftone.contract.errors import ErrorFacts, HalftoneError, JobCancelled
from halftone.contract.facts import MemoryFacts
from halftone.contract.messages import (
    PROTOCOL,
    AnyCommand,
    AnyEvent,
    Cancel,
    Decide,
    Examine,
    Generate,
    Hello,
    Hold,
    JobCommand,
    JobEnded,
    JobStarted,
    Keep,
    Load,
    MemoryChanged,
    ModelChanged,
    PreviewReady,
    Quit,
    Ready,
    Refused,
    Repair,
    Report,
    SelfTest,
    Train,
    Unload,
    Upscale,
    WorkerLost,
)
from halftone.contract.wording import Words
from halftone.health.faults import forget_frames, is_device_lost
from halftone.worker.control import JobControl
from halftone.worker.failures import error_facts

Send = Callable[[AnyEvent, bytes], None]
WorkCommand = Hello | Load | Unload | JobCommand

MEMORY_SECONDS: Final = 1.0
"""Shortest time between two MemoryChanged during a job."""

log = logging.getLogger(__name__)


class _Job:
    """The job that runs now. `ended` is read and set under the sending lock only."""

    def __init__(self, command: JobCommand) -> None:
        self.id = command.job
        self.control = JobControl()
        self.ended = False


_THE_LOG: Final = Words("the log")


class JobRunner:
    """Carries out commands in order; Cancel, Keep and Quit act at once.

    engine: or a callable that makes it, called in the computing thread at the first command. send: gets every event with its
    blob, from the computing thread, the submitting one or the one that watches the memory, never from two at once. is_behind:
    True while the reader is slow; only previews are left out then. watch_memory: seconds between looks at the memory while a job
    computes silently; None: only with its events.
    """

    def __init__(
        self,
        engine: Engine | Callable[[], Engine],
        send: Send,
        *,
        log_path: Words | str = _THE_LOG,
        is_behind: Callable[[], bool] = lambda: False,
        clock: Callable[[], float] = time.monotonic,
        watch_memory: float | None = None,
    ) -> None:
        self._maker = engine if callable(engine) else None
        self._made: Engine | None = None if callable(engine) else engine
        self._out = send
        self._log_path = log_path
        self._is_behind = is_behind
        self._clock = clock
        self._watch_seconds = watch_memory
        # Re-entrant, because a signal handler of the command line submits Cancel in the thread that computes.
        self._state = threading.Condition(threading.RLock())
        self._sending = threading.RLock()
        self._waiting: deque[WorkCommand] = deque()
        self._known: set[str] = set()
        self._job: _Job | None = None
        self._leaving = False
        self._seq = 0
        self._telling = threading.RLock()
        self._memory: MemoryFacts | None = None
        self._memory_at = -MEMORY_SECONDS
        self.device_lost = False
        """Set when the device stopped answering: `run` has returned, and only a new process can do the waiting jobs."""

    def submit(self, command: AnyCommand) -> None:
        """File a command. Cancel, Keep, Quit and a Hello in a wrong protocol act at once; the rest waits for its turn."""
        match command:
            case Cancel():
                self._cancel(command.job)
            case Keep():
                self._to_job(command.job, JobControl.ask_to_keep)
            case Quit():
                self._leave()
            case Hello() if command.protocol != PROTOCOL:
                self.refuse(
                    type(command).__name__,
                    ErrorFacts(code="protocol-mismatch", facts={"wanted": command.protocol, "got": PROTOCOL}),
                )
            case Hold():
                self._to_job(command.job, lambda control: control.hold(on=command.on))
            case Decide():
                self._to_job(command.job, lambda control: control.decide(command))
            case Generate() | Examine() | SelfTest() | Repair() | Upscale() | Train():
                self._file_job(command)
            case Hello() | Load() | Unload():
                self._file(command)

    def run(self, between: Callable[[], None] | None = None) -> None:
        """Work until Quit, or until the device is lost. between: done after each command that leaves nothing to do."""
        while (command := self._take(wait=True)) is not None:
            self._carry_out(command)
            if between is not None and not self._waiting:
                between()

    def run_until_idle(self) -> None:
        """Work until nothing waits any more."""
        while (command := self._take(wait=False)) is not None:
            self._carry_out(command)

    def refuse(self, command: str, error: ErrorFacts) -> None:
        """Report that a command, or what should have been one, could not be carried out."""
        self._send(Refused(command=command, error=error))

    # -- filing ------------------------------------------------------------------------------------------------------------

    def _file(self, command: WorkCommand) -> None:
        with self._state:
            self._waiting.append(command)
            self._state.notify()

    def _file_job(self, command: JobCommand) -> None:
        with self._state:
            fresh = command.job not in self._known
            self._known.add(command.job)
            if fresh and not self._leaving:
                self._file(command)
                return
        if fresh:
            self._send(JobEnded(job=command.job, outcome="cancelled"))
        else:
            detail = Words("the job id {0} was used before", (command.job,))
            self.refuse(type(command).__name__, ErrorFacts(code="internal", facts={"detail": detail, "log": self._log_path}))

    def _cancel(self, job: str) -> None:
        with self._state:
            if self._job is not None and self._job.id == job:
                self._job.control.cancel()
                return
            waiting = [command for command in self._waiting if _job_of(command) == job]
            for command in waiting:
                self._waiting.remove(command)
        for _ in waiting:
            self._send(JobEnded(job=job, outcome="cancelled"))

    def _to_job(self, job: str, tell: Callable[[JobControl], None]) -> None:
        """Set a flag of the running job, if it is this one."""
        with self._state:
            if self._job is not None and self._job.id == job:
                tell(self._job.control)

    def _leave(self) -> None:
        with self._state:
            self._leaving = True
            waiting = [job for command in self._waiting if (job := _job_of(command)) is not None]
            self._waiting.clear()
            if self._job is not None:
                self._job.control.cancel()
            self._state.notify()
        for job in waiting:
            self._send(JobEnded(job=job, outcome="cancelled"))

    def _take(self, *, wait: bool) -> WorkCommand | None:
        with self._state:
            while wait and not self._waiting and not self._leaving:
                self._state.wait()
            if self._leaving or self.device_lost or not self._waiting:
                return None
            command = self._waiting.popleft()
            self._job = _Job(command) if isinstance(command, JobCommand) else None
            return command

    # -- carrying out ------------------------------------------------------------------------------------------------------

    def _carry_out(self, command: WorkCommand) -> None:
        job = self._job
        if job is not None:
            self._run_job(cast("JobCommand", command), job)
            return
        try:
            self._answer(command)
        except (Exception, SystemExit) as error:  # noqa: BLE001 - a library may raise anything; it is told and logged
            self.refuse(type(command).__name__, self._facts(error, command))

    def _answer(self, command: WorkCommand) -> None:
        match command:
            case Hello():
                devices = self._engine().devices()
                self._send(Ready(version=__version__, protocol=PROTOCOL, pid=os.getpid(), devices=devices))
            case Load():
                self._load(command)
            case _:
                self._engine().unload()
                self._send(ModelChanged(model=None))
        self._tell_memory(now=True)

    def _load(self, command: Load) -> None:
        started = self._clock()
        told = False

        def emit(event: AnyEvent, blob: bytes = b"") -> None:
            nonlocal told
            told = told or isinstance(event, ModelChanged)
            self._pass_on(event, blob, None)

        model = self._engine().load(command, emit)
        if not told:
            self._send(ModelChanged(model=model, device=command.device, seconds=self._clock() - started))

    def _run_job(self, command: JobCommand, job: _Job) -> None:
        ended = JobEnded(outcome="cancelled")  # what a KeyboardInterrupt leaves, on its way out
        try:
            self._send(JobStarted(kind=type(command).__name__.lower()), job=job)
            with self._memory_watched():
                ended = self._attempt(command, job)
        finally:
            with self._state:
                self._job = None
            self._end(job, ended)
        self._tell_memory(now=True)

    def _attempt(self, command: JobCommand, job: _Job) -> JobEnded:
        def emit(event: AnyEvent, blob: bytes = b"") -> None:
            self._pass_on(event, blob, job)

        try:
            return JobEnded(outcome="done", report=self._compute(command, emit, job.control))
        except JobCancelled:
            return JobEnded(outcome="cancelled")
        except (Exception, SystemExit) as error:  # noqa: BLE001 - exactly one JobEnded, whatever the engine does
            return JobEnded(outcome="failed", error=self._facts(error, command))

    def _compute(self, command: JobCommand, emit: Emit, control: JobControl) -> Report:
        engine = self._engine()
        match command:
            case Generate():
                return engine.generate(command, emit, control)
            case Examine():
                return engine.examine(command, emit, control)
            case SelfTest():
                return engine.self_test(command, emit, control)
            case Repair():
                return engine.repair(command, emit, control)
            case Upscale():
                return engine.upscale(command, emit, control)
            case Train():
                return engine.train(command, emit, control)

    def _engine(self) -> Engine:
        """The engine, made on first use. Raises HalftoneError(worker-start)."""
        if self._made is None and self._maker is not None:
            try:
                self._made = self._maker()
            except (ImportError, OSError) as error:
                log.exception("the engine could not be loaded")
                raise HalftoneError("worker-start", detail=str(error), log=self._log_path) from error
        return cast("Engine", self._made)

    def _facts(self, error: BaseException, command: WorkCommand) -> ErrorFacts:
        facts = error_facts(error, _device_of(command), self._log_path)
        if facts.code in ("internal", "device-lost"):
            log.error("%s failed: %s", type(command).__name__, facts.details or facts.facts)
        else:
            log.info("%s was refused: %s %s %s", type(command).__name__, facts.code, facts.facts, facts.details)
        self.device_lost = self.device_lost or is_device_lost(error)
        forget_frames(error)
        return facts

    # -- sending -----------------------------------------------------------------------------------------------------------

    def _pass_on(self, event: AnyEvent, blob: bytes, job: _Job | None) -> None:
        """An event from the engine."""
        if isinstance(event, JobEnded | Ready | Refused | WorkerLost):
            log.error("the engine sent %s, which is not its to send", type(event).__name__)
            return
        if isinstance(event, PreviewReady) and self._is_behind():
            return
        self._send(event, blob, job=job)
        self._tell_memory()

    def _send(self, event: AnyEvent, blob: bytes = b"", *, job: _Job | None = None) -> None:
        with self._sending:
            if job is not None and job.ended:
                log.error("the engine sent %s after the end of job %s", type(event).__name__, job.id)
                return
            owner = job.id if job is not None else event.job
            numbered = msgspec.structs.replace(event, seq=self._seq, job=owner)
            # Before it goes out: whoever gets it may answer in this very thread.
            self._seq += 1
            if job is not None:
                job.ended = isinstance(event, JobEnded)
            self._out(numbered, blob)

    def _end(self, job: _Job, ended: JobEnded) -> None:
        try:
            self._send(ended, job=job)
        except (TypeError, ValueError, OverflowError) as error:  # a report that no wire can carry
            log.exception("the report of job %s could not be sent", job.id)
            job.ended = False
            self._send(JobEnded(outcome="failed", error=error_facts(error, "", self._log_path)), job=job)

    @contextmanager
    def _memory_watched(self) -> Generator[None]:
        """A long step says nothing of itself, yet it is the one that may fill the memory."""
        if self._watch_seconds is None:
            yield
            return
        over = threading.Event()

        def watch(seconds: float) -> None:
            while not over.wait(seconds):
                self._tell_memory()

        watcher = threading.Thread(target=watch, args=(self._watch_seconds,), name="halftone-memory", daemon=True)
        watcher.start()
        try:
            yield
        finally:
            over.set()
            watcher.join(MEMORY_SECONDS)  # a driver that does not answer holds up no job's end

    def _tell_memory(self, *, now: bool = False) -> None:
        """MemoryChanged if it did change: when `now`, else at most once in MEMORY_SECONDS."""
        if not self._telling.acquire(blocking=now):
            return  # the other thread is at it
        try:
            self._tell_memory_in_turn(now=now)
        finally:
            self._telling.release()

    def _tell_memory_in_turn(self, *, now: bool) -> None:
        moment = self._clock()
        if self._made is None or (not now and moment - self._memory_at < MEMORY_SECONDS):
            return
        self._memory_at = moment
        try:
            memory = self._made.memory()
        except (Exception, SystemExit):
            log.exception("the memory could not be read")
            return
        if memory is not None and memory != self._memory:
            self._memory = memory
            self._send(MemoryChanged(memory=memory))


def _job_of(command: WorkCommand) -> str | None:
    return command.job if isinstance(command, JobCommand) else None


def _device_of(command: WorkCommand) -> str:
    match command:
        case Generate() | Upscale():
            return command.request.device
        case Train():
            return command.config.device
        case Load() | Examine() | SelfTest() | Repair():
            return command.device
        case _:
            return "auto"
