"""The window's side of the protocol as a pure state machine: bytes and commands in, events and bytes out, no input or output.

Its life: `start()` gives the bytes for a fresh worker; `command()` and `feed()` run the talk; when the process ends,
however it ends, `died()` gives the events that were owed; after that `start()` again, for the next worker.

When a worker dies, the job that ran ends `failed` (or `cancelled`, if that was asked for), and the jobs that had not begun are
sent to the next worker in their order: a crash costs one job, never the queue.
"""

import logging
import time
from collections.abc import Callable
from typing import Final

import msgspec

from halftone.contract.errors import ErrorFacts
from halftone.contract.messages import (
    AnyCommand,
    AnyEvent,
    Cancel,
    Examine,
    Generate,
    Hello,
    JobCommand,
    JobEnded,
    JobStarted,
    Quit,
    Ready,
    Refused,
    Repair,
    SelfTest,
    StepDone,
    Train,
    Upscale,
    WorkerLost,
)
from halftone.contract.wire import WireError, event_reader, pack
from halftone.contract.wording import Words
from halftone.settings.streams import log_words

GRACE_SECONDS: Final = 10.0
MAX_FAILED_STARTS: Final = 3
"""So many workers in a row that died before they were ready: there is no point in starting another."""
MAX_QUICK_DEATHS: Final = 4
"""So many workers in a row that lived only a moment and finished nothing: whatever kills them kills the next one too."""
QUICK_SECONDS: Final = 120.0
"""A worker that dies sooner after its start, without a job that came to its end, died quickly."""
_CRASHES: Final = ("SIGSEGV", "SIGABRT", "SIGBUS", "SIGFPE", "SIGILL", "SIGTRAP", "SIGSYS")

log = logging.getLogger(__name__)


class _OpenJob:
    """A job without its JobEnded."""

    def __init__(self, command: JobCommand) -> None:
        self.command = command
        self.started = False
        self.cancelled_at: float | None = None
        self.slowest_step = 0.0


class WorkerProtocol:
    """One queue of jobs, carried by one worker after another.

    grace: seconds from Cancel until the worker is to be killed; a job whose steps are slow gets the time of two of its steps.
    clock: seconds, rising.
    """

    def __init__(self, *, grace: float = GRACE_SECONDS, clock: Callable[[], float] = time.monotonic) -> None:
        self._grace = grace
        self._clock = clock
        self._reader = event_reader()
        self._jobs: dict[str, _OpenJob] = {}
        self._known: set[str] = set()
        self._running = False
        self._quitting = False
        self._failed_starts = 0
        self._quick_deaths = 0
        self._started_at = 0.0
        self._seq = -1
        self.ready: Ready | None = None
        """What the present worker said of itself, None until it did."""

    # -- what the transport asks -------------------------------------------------------------------------------------------

    @property
    def open_jobs(self) -> tuple[str, ...]:
        """Jobs without their JobEnded, in the order they were sent."""
        return tuple(self._jobs)

    @property
    def running(self) -> str | None:
        """The job that has begun."""
        return next((name for name, job in self._jobs.items() if job.started), None)

    @property
    def broken(self) -> WireError | None:
        """Set when what the worker sends cannot be understood: kill it."""
        return self._reader.error

    @property
    def may_restart(self) -> bool:
        """False after Quit, and when one worker after another died before it was ready, or soon after."""
        return not self._quitting and self._failed_starts < MAX_FAILED_STARTS and self._quick_deaths < MAX_QUICK_DEATHS

    def forgive(self) -> None:
        """Forget the deaths so far: the user wants another try."""
        self._failed_starts = self._quick_deaths = 0

    @property
    def deadline(self) -> float | None:
        """When the worker is to be killed unless a cancelled job ends before, in seconds of the clock."""
        return min((_deadline(job, self._grace) for job in self._jobs.values()), default=None, key=_soonest)

    def overdue(self, now: float | None = None) -> bool:
        """True when the worker must be killed: it did not stop in time after Cancel, or it sends what nobody understands."""
        deadline = self.deadline
        late = deadline is not None and (self._clock() if now is None else now) >= deadline
        return late or self.broken is not None

    # -- the talk ----------------------------------------------------------------------------------------------------------

    def start(self) -> bytes:
        """The first bytes for a fresh worker: Hello, then every job that waits."""
        self._reader = event_reader()
        self._running = True
        self._quitting = False
        self._started_at = self._clock()
        self._seq = -1
        self.ready = None
        frames = [pack(Hello())]
        for name, job in self._jobs.items():
            frames.append(pack(job.command))
            if job.cancelled_at is not None:
                job.cancelled_at = self._clock()
                frames.append(pack(Cancel(job=name)))
        return b"".join(frames)

    def command(self, command: AnyCommand) -> bytes:
        """The bytes to send now; none while no worker runs: a job waits for `start`. ValueError: the job id was used."""
        match command:
            case Generate() | Examine() | SelfTest() | Repair() | Upscale() | Train():
                self._open(command)
            case Cancel():
                self._note_cancel(command.job)
            case Quit():
                self._quitting = True
            case _:
                pass
        return pack(command) if self._running else b""

    def feed(self, data: bytes) -> list[tuple[AnyEvent, bytes]]:
        """The events, with their blobs, that are complete now. What breaks the laws of the protocol is dropped and logged.

        Bytes that cannot be understood set `broken`: the events before them are still given.
        """
        try:
            frames = self._reader.feed(data)
        except WireError as error:
            log.warning("the worker sent what cannot be read: %s", error)
            return []
        return [(event, blob) for event, blob in frames if self._accept(event)]

    def died(self, exit_code: int | None, signal: str | None, log_path: str, details: str = "") -> list[AnyEvent]:
        """The events owed when the process has ended: WorkerLost (not after Quit), then the missing JobEnded.

        signal: its name if one ended the process; details: the end of the log. Call it once for each worker.
        """
        self._count_death()
        hopeless = not self.may_restart
        cause = describe_end(exit_code, signal, self.broken)
        self._running = False
        events: list[AnyEvent] = []
        if not self._quitting:
            events.append(WorkerLost(exit_code=exit_code, signal=signal, log=log_path))
        for name, job in list(self._jobs.items()):
            if job.started or hopeless or job.cancelled_at is not None:
                del self._jobs[name]
                events.append(self._missing_end(name, job, cause, log_path, details))
        return [msgspec.structs.replace(event, seq=self._seq + number) for number, event in enumerate(events, start=1)]

    # -- inside ------------------------------------------------------------------------------------------------------------

    def _count_death(self) -> None:
        """A worker that was killed because a cancelled job did not end says nothing about the next one."""
        self._failed_starts = 0 if self.ready is not None else self._failed_starts + 1
        if self._clock() - self._started_at >= QUICK_SECONDS:
            self._quick_deaths = 0
        elif all(job.cancelled_at is None for job in self._jobs.values()):
            self._quick_deaths += 1

    def _open(self, command: JobCommand) -> None:
        if command.job in self._known:
            raise ValueError(f"the job id {command.job} was used before")
        self._known.add(command.job)
        self._jobs[command.job] = _OpenJob(command)

    def _note_cancel(self, name: str) -> None:
        job = self._jobs.get(name)
        if job is not None and job.cancelled_at is None:
            job.cancelled_at = self._clock()

    def _accept(self, event: AnyEvent) -> bool:
        """Note what the event means; False if it breaks a law."""
        if event.seq <= self._seq:
            log.warning("the worker sent %s number %d after number %d", type(event).__name__, event.seq, self._seq)
            return False
        self._seq = event.seq
        if event.job is not None and event.job not in self._jobs:
            log.warning("the worker sent %s for job %s, which is not open", type(event).__name__, event.job)
            return False
        if isinstance(event, Ready):
            self.ready = event
            self._failed_starts = 0
        elif isinstance(event, Refused) and event.command == "Hello":
            self._failed_starts = MAX_FAILED_STARTS  # the next one would refuse too
        elif event.job is not None:
            self._note_job(event, event.job)
        return True

    def _note_job(self, event: AnyEvent, name: str) -> None:
        job = self._jobs[name]
        match event:
            case JobStarted():
                job.started = True
            case StepDone():
                job.slowest_step = max(job.slowest_step, event.seconds)
            case JobEnded():
                del self._jobs[name]
                if event.outcome == "done":
                    self._quick_deaths = 0
            case _:
                pass

    def _missing_end(self, name: str, job: _OpenJob, cause: Words, log_path: str, details: str) -> JobEnded:
        if job.cancelled_at is not None or self._quitting:
            return JobEnded(job=name, outcome="cancelled")
        if job.started:
            code = "worker-lost" if self.may_restart else "worker-given-up"
            error = ErrorFacts(code=code, facts={"cause": cause, "log": log_words(log_path)}, details=details)
        else:
            error = ErrorFacts(code="worker-start", facts={"detail": cause, "log": log_words(log_path)}, details=details)
        return JobEnded(job=name, outcome="failed", error=error)


def describe_end(exit_code: int | None, signal: str | None, broken: WireError | None = None) -> Words:
    """Why a process ended, in the user's words, to stand in brackets."""
    if broken is not None:
        return Words("its messages could not be read: {0}", (str(broken),))
    if signal == "SIGKILL":
        return Words("the system ended it, often because memory ran out")
    if signal is not None:
        return Words("it crashed with {0}", (signal,)) if signal in _CRASHES else Words("it was ended by {0}", (signal,))
    return Words("it ended without a word") if exit_code is None else Words("it ended with code {0}", (str(exit_code),))


def _deadline(job: _OpenJob, grace: float) -> float | None:
    return None if job.cancelled_at is None else job.cancelled_at + max(grace, 2.0 * job.slowest_step)


def _soonest(deadline: float | None) -> float:
    return float("inf") if deadline is None else deadline
