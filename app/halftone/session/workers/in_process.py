"""A worker in this process: it computes one command at a time, and what came of it is returned or raised."""

from collections.abc import Callable
from functools import cache, cached_property
from typing import TypeVar

from halftone.contract.engine import Engine
from halftone.contract.errors import HalftoneError, JobCancelled
from halftone.contract.facts import DeviceFacts
from halftone.contract.messages import AnyCommand, AnyEvent, Hello, JobCommand, JobEnded, Ready, Refused
from halftone.contract.wording import Words
from halftone.worker.engines import engine_maker
from halftone.worker.runner import JobRunner

_Report = TypeVar("_Report")


class LocalWorker:
    """Makes the engine when a command first needs it. engine: what makes it, None for the real one; loading: is called before."""

    def __init__(
        self, log_path: Words | str, engine: Callable[[], Engine] | None = None, loading: Callable[[], object] = lambda: None
    ) -> None:
        self._log_path = log_path
        self._runner: JobRunner | None = None
        make = engine or engine_maker()

        @cache
        def engine_once() -> Engine:
            loading()
            return make()

        self._engine = engine_once

    @cached_property
    def devices(self) -> tuple[DeviceFacts, ...]:
        """What there is to compute on, the preferred one first. Raises HalftoneError."""
        answer = self._carry_out(Hello(), lambda _event, _blob: None)
        return answer.devices if isinstance(answer, Ready) else ()

    def report(self, command: JobCommand, kind: type[_Report], hear: Callable[[AnyEvent, bytes], object]) -> _Report:
        """Run a job. hear: gets its events with their blobs. Raises what it failed with as HalftoneError, or JobCancelled."""
        answer = self._carry_out(command, hear)
        if not isinstance(answer, JobEnded) or answer.outcome == "cancelled":
            raise JobCancelled
        if not isinstance(answer.report, kind):
            raise TypeError(f"the job ended with {type(answer.report).__name__}")
        return answer.report

    def submit(self, command: AnyCommand) -> None:
        """Pass a command to the job that runs: from an event, a signal handler or another thread."""
        if self._runner is not None:
            self._runner.submit(command)

    def _carry_out(self, command: Hello | JobCommand, hear: Callable[[AnyEvent, bytes], object]) -> Ready | JobEnded | None:
        answers: list[Ready | Refused | JobEnded] = []

        def take(event: AnyEvent, blob: bytes) -> None:
            if isinstance(event, Ready | Refused | JobEnded):
                answers.append(event)
            hear(event, blob)

        self._runner = JobRunner(self._engine, take, log_path=self._log_path)
        self._runner.submit(command)
        self._runner.run_until_idle()
        answer = answers[-1] if answers else None
        if isinstance(answer, Refused | JobEnded) and answer.error is not None:
            raise HalftoneError(answer.error.code, answer.error.details, **answer.error.facts)
        return None if isinstance(answer, Refused) else answer
