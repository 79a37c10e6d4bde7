"""A worker in this process: it runs one job at a time, and what came of it is returned or raised."""

from collections.abc import Callable
from functools import cached_property
from typing import TypeVar

from halftone.contract.engine import Engine
from halftone.contract.errors import HalftoneError, JobCancelled
from halftone.contract.facts import DeviceFacts
from halftone.contract.messages import AnyCommand, AnyEvent, JobCommand, JobEnded
from halftone.contract.wording import Words
from halftone.worker.engines import engine_maker
from halftone.worker.runner import JobRunner

_Report = TypeVar("_Report")


class LocalWorker:
    """Runs jobs here. engine: makes the engine when it is first needed, None for the real one; loading: is called before that."""

    def __init__(self, log_path: Words | str, engine: Callable[[], Engine] | None, loading: Callable[[], object]) -> None:
        self._log_path = log_path
        self._maker = engine or engine_maker()
        self._loading = loading
        self._runner: JobRunner | None = None

    @cached_property
    def _engine(self) -> Engine:
        self._loading()
        return self._maker()

    @cached_property
    def devices(self) -> tuple[DeviceFacts, ...]:
        """What there is to compute on, the preferred one first."""
        return self._engine.devices()

    def report(self, command: JobCommand, kind: type[_Report], hear: Callable[[AnyEvent, bytes], object]) -> _Report:
        """Run a job. hear: gets its events with their blobs. Raises what it failed with as HalftoneError, or JobCancelled."""
        ended: list[JobEnded] = []

        def take(event: AnyEvent, blob: bytes) -> None:
            if isinstance(event, JobEnded):
                ended.append(event)
            hear(event, blob)

        self._runner = JobRunner(lambda: self._engine, take, log_path=self._log_path)
        self.submit(command)
        self._runner.run_until_idle()
        (end,) = ended
        if end.error is not None:
            raise HalftoneError(end.error.code, end.error.details, **end.error.facts)
        if end.outcome == "cancelled":
            raise JobCancelled
        if not isinstance(end.report, kind):
            raise TypeError(f"the job ended with {type(end.report).__name__}")
        return end.report

    def submit(self, command: AnyCommand) -> None:
        """Pass a command to the job that runs: from an event, a signal handler or another thread."""
        if self._runner is not None:
            self._runner.submit(command)
