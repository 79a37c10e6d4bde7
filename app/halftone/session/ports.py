"""What the use cases need of whoever runs them: another thread, a clock, Halftone's commands and a worker."""

from collections.abc import Callable
from typing import NamedTuple, Protocol, TypeVar

from halftone.contract.messages import AnyCommand

T = TypeVar("T")


class Executor(Protocol):
    """Calls `work` off this thread, then `ready(result)` or `failed(error)` on it."""

    def run(
        self, work: Callable[[], T], ready: Callable[[T], None], failed: Callable[[Exception], None] | None = None
    ) -> None: ...

    def run_in_order(
        self, work: Callable[[], T], ready: Callable[[T], None], failed: Callable[[Exception], None] | None = None
    ) -> None:
        """Run one after another in the order of the calls: for files of which the last word must win."""
        ...

    def finish_in_order(self) -> None:
        """Wait until all `work` of `run_in_order` is done."""
        ...


class Clock(Protocol):
    def now(self) -> float:
        """Seconds of a monotonic clock."""
        ...

    def later(self, seconds: float, call: Callable[[], object]) -> Callable[[], object]:
        """Call once the events at hand are done and the time is over. Returns what cancels it before that."""
        ...


class Finished(NamedTuple):
    """How a process ended. code: -1 where it could not be started."""

    code: int
    output: bytes
    errors: bytes


class Commands(Protocol):
    """Runs `halftone …` in processes of their own."""

    def start(
        self, *arguments: str, ended: Callable[[Finished], object], heard: Callable[[bytes], object] | None = None
    ) -> Callable[[], object]:
        """Start one. heard: gets all of stderr so far. Returns what kills it; `ended` is not called then."""
        ...

    def finish(self) -> None:
        """Wait until what was killed is gone."""
        ...


class WorkerLink:
    """What the session needs of a worker, wherever it runs."""

    def start(self) -> None:
        raise NotImplementedError

    def restart(self) -> None:
        """Try again after workers were given up. A worker that is not ready yet is replaced; one that is ready stays."""
        raise NotImplementedError

    def send(self, command: AnyCommand) -> None:
        raise NotImplementedError

    def stop(self) -> None:
        raise NotImplementedError

    @property
    def gone(self) -> bool:
        """True when no worker process is there."""
        return True

    @property
    def hopeless(self) -> bool:
        """True when the worker died again and again, and is not started any more."""
        return False


class Ports(NamedTuple):
    executor: Executor
    clock: Clock
    commands: Commands


class Delay:
    """Calls once, so many seconds after `start`, unless it is stopped or started again before."""

    def __init__(self, clock: Clock, seconds: float, call: Callable[[], object]) -> None:
        self._clock = clock
        self._seconds = seconds
        self._call = call
        self._cancel: Callable[[], object] | None = None

    @property
    def active(self) -> bool:
        return self._cancel is not None

    def start(self) -> None:
        self.stop()
        self._cancel = self._clock.later(self._seconds, self._over)

    def stop(self) -> None:
        cancel, self._cancel = self._cancel, None
        if cancel is not None:
            cancel()

    def _over(self) -> None:
        self._cancel = None
        self._call()
