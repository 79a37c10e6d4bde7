"""Talking to a real worker process in tests."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar

from tests.helpers.popen import WorkerProcess
from tests.helpers.scripted import ENGINE, AnyAction, environment

from halftone.contract.messages import AnyEvent, Generate, JobEnded, Ready
from halftone.contract.request import PictureRequest

PATIENCE_SECONDS = 30.0
"""No test waits that long when all is well; a busy machine may."""

Kind = TypeVar("Kind", bound=AnyEvent)


class Worker(WorkerProcess):
    """A worker that remembers what it said. patience: seconds between two words of it that a test waits for."""

    def __init__(
        self,
        *options: str,
        environment: Mapping[str, str] | None = None,
        grace: float = PATIENCE_SECONDS,
        patience: float = PATIENCE_SECONDS,
    ) -> None:
        super().__init__(*options, environment=environment, grace=grace)
        self._patience = patience
        self.told: list[AnyEvent] = []
        self.blobs: dict[int, bytes] = {}

    def until(self, kind: type[Kind], right: Callable[[Kind], bool] = lambda _: True) -> Kind:
        """Listen up to the first such event. Fails when none comes."""
        while (received := self.next_event(self._patience)) is not None:
            event, blob = received
            self.told.append(event)
            self.blobs[event.seq] = blob
            if isinstance(event, kind) and right(event):
                return event
        names = [type(event).__name__ for event in self.told]
        raise AssertionError(f"no such {kind.__name__} after {names}, lastly {self.told[-1:]}")

    def ready(self) -> Ready:
        return self.until(Ready)

    def end(self, job: str) -> JobEnded:
        return self.until(JobEnded, lambda event: event.job == job)

    def of(self, job: str) -> list[AnyEvent]:
        return [event for event in self.told if event.job == job]


def scripted(script: Mapping[str, Sequence[AnyAction]] | None = None, *options: str, grace: float = PATIENCE_SECONDS) -> Worker:
    """A worker whose engine plays the script; enter it to start it."""
    return Worker("--engine", ENGINE, *options, environment=environment(script or {}), grace=grace)


def paint(job: str, **request: str | int | float) -> Generate:
    """A job that makes a picture."""
    return Generate(job=job, request=PictureRequest(**{"prompt": "a red sun", **request}))  # pyright: ignore[reportArgumentType]
