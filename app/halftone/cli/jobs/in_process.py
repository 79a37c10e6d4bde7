"""Runs one job in this process: events to a listener, Ctrl+C to the job, its report back."""

import contextlib
import io
import signal
import sys
from collections.abc import Callable, Generator
from functools import cache
from types import FrameType
from typing import Final, TypeVar

from halftone.cli.jobs.engine_and_log import JOB, Tools, kept_log, kept_stdout
from halftone.cli.jobs.stop_signal import StoppedBySignal
from halftone.cli.terminal.control_characters import say
from halftone.cli.terminal.progress import picture_after, picture_count, picture_words
from halftone.contract.errors import JobCancelled
from halftone.contract.facts import DeviceFacts
from halftone.contract.messages import (
    AnyEvent,
    Cancel,
    Decide,
    Generate,
    JobCommand,
    Keep,
    PictureReady,
    Repair,
    StepDone,
    Train,
    TrainCaught,
    TrainSaved,
    Upscale,
)
from halftone.settings.store import load
from halftone.settings.tidying import tidy_places

Listener = Callable[[AnyEvent, bytes], None]
_Report = TypeVar("_Report")
_CLOSED: Final = getattr(signal, "SIGHUP", None)
_ENDING: Final = tuple(getattr(signal, name) for name in ("SIGTERM", "SIGHUP", "SIGBREAK") if hasattr(signal, name))


def run_job(
    tools: Tools, command: JobCommand, kind: type[_Report], listen: Listener, *, stop: type[Cancel] | type[Keep] = Cancel
) -> _Report:
    """The report of the job. stop: what Ctrl+C asks for. Raises what it failed with as HalftoneError, or JobCancelled."""
    worker, told = tools.worker, _Told(command)

    def hear(event: AnyEvent, blob: bytes) -> None:
        told.hear(event)
        listen(event, blob)
        if isinstance(event, TrainCaught) and event.asks:
            worker.submit(Decide(job=JOB, choice="stop"))  # nobody can be asked here: what was learnt is kept

    tidy_once()
    with kept_log(), kept_stdout(), _stoppable(lambda: worker.submit(stop(job=JOB)), told):
        try:
            return worker.report(command, kind, hear)
        except (JobCancelled, KeyboardInterrupt):
            raise told.ending() from None


def list_devices(tools: Tools) -> tuple[DeviceFacts, ...]:
    """What there is to compute on, the preferred one first. Raises HalftoneError."""
    with kept_log(), kept_stdout():
        return tools.worker.devices


@cache
def tidy_once() -> None:
    """Tidy Halftone's folders before the first job of this process."""
    tidy_places(load().pictures_folder)


class _Told:
    """What a job has said so far, for the words of its being cancelled."""

    def __init__(self, command: JobCommand) -> None:
        self._command = command
        self._step: StepDone | None = None
        self._kept = 0
        self._picture = 1
        self.signal: int | None = None
        """Which of the system's signals asked the job to stop, None where it was Ctrl+C."""

    def hear(self, event: AnyEvent) -> None:
        self._picture = picture_after(self._picture, event)
        if isinstance(event, StepDone):
            self._step = event
        elif isinstance(event, PictureReady):
            self._step = None
            self._kept += bool(event.facts.path or event.facts.latents)
        elif isinstance(event, TrainSaved):
            self._kept += 1

    def stopping(self) -> str:
        """A check and a repair have no steps to end."""
        return "Stopping after this step." if isinstance(self._command, Generate | Train) else "Stopping."

    def ending(self) -> JobCancelled:
        """The exception of a job that was stopped."""
        return JobCancelled(self.cancelled()) if self.signal is None else StoppedBySignal(self.cancelled(), self.signal)

    def cancelled(self) -> str:
        """Only what is true: a check keeps nothing, and of a copy nothing is left before it is whole."""
        if isinstance(self._command, Repair):
            return "Cancelled. No partial copy is left."
        if not isinstance(self._command, Generate | Train | Upscale):
            return "Cancelled."
        places = [picture_words(self._picture, picture_count(self._command))]
        places += [f"step {self._step.step} of {self._step.steps}"] if self._step is not None else []
        at = ", ".join(filter(None, places))
        said = f"Cancelled at {at}" if at else "Cancelled"
        return f"{said}. What was finished before is kept." if self._kept else f"{said}, nothing kept."


class _Nowhere(io.StringIO):
    """Takes words and keeps none."""

    def write(self, text: str, /) -> int:
        return len(text)


@contextlib.contextmanager
def _stoppable(stop: Callable[[], object], told: _Told) -> Generator[None]:
    """The first Ctrl+C stops the job after its step, a second one leaves at once. So does a signal to end, or a terminal that is
    closed, but these may come more than once.
    """

    def interrupt(_signal: int, _frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        say(f"\n{told.stopping()} Press Ctrl+C again to quit at once.", err=True)
        stop()

    def end(number: int, _frame: FrameType | None) -> None:
        if number == _CLOSED:  # a terminal that is gone takes no words
            sys.stdout = sys.stderr = _Nowhere()
        with contextlib.suppress(OSError):
            say(f"\n{told.stopping()}", err=True)
        told.signal = number
        stop()

    before = {signal.SIGINT: signal.signal(signal.SIGINT, interrupt)}
    wanted = [number for number in _ENDING if signal.getsignal(number) is signal.SIG_DFL]  # nohup has one ignored
    before |= {number: signal.signal(number, end) for number in wanted}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
