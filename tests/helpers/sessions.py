"""A session without a window: its work waits until the test lets it run, its clock is moved by hand, its worker says what the
test wants.
"""

from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

import msgspec
from tests.helpers import samples

from halftone.contract.facts import CheckReport, ModelFacts
from halftone.contract.messages import AnyCommand, AnyEvent, Examine, JobEnded, Ready
from halftone.contract.vocabulary import DType
from halftone.contract.wording import Words
from halftone.library import records
from halftone.session.ports import Finished, Ports, WorkerLink
from halftone.session.session import Session
from halftone.settings.store import Settings

T = TypeVar("T")


def _done(work: Callable[[], T], ready: Callable[[T], None], failed: Callable[[Exception], None] | None) -> Callable[[], None]:
    """Do the work; returns what gives its answer."""
    try:
        result = work()
    except Exception as error:
        if failed is None:
            raise
        reason = error
        return lambda: failed(reason)
    return lambda: ready(result)


class HeldExecutor:
    """Runs nothing before `settle`."""

    def __init__(self) -> None:
        self._waiting: deque[Callable[[], Callable[[], None]]] = deque()

    def run(self, work: Callable[[], T], ready: Callable[[T], None], failed: Callable[[Exception], None] | None = None) -> None:
        self._waiting.append(lambda: _done(work, ready, failed))

    def run_in_order(
        self, work: Callable[[], T], ready: Callable[[T], None], failed: Callable[[Exception], None] | None = None
    ) -> None:
        self.run(work, ready, failed)

    def settle(self) -> None:
        while self._waiting:
            self._waiting.popleft()()()

    def work(self) -> list[Callable[[], None]]:
        """Do the work that waits now. Returns what gives each answer, for a test to call in any order."""
        return [self._waiting.popleft()() for _ in range(len(self._waiting))]

    finish_in_order = settle


class HandClock:
    def __init__(self) -> None:
        self._time = 0.0
        self._waiting: list[tuple[float, int, Callable[[], object]]] = []
        self._count = 0

    def now(self) -> float:
        return self._time

    def later(self, seconds: float, call: Callable[[], object]) -> Callable[[], object]:
        self._count += 1
        entry = (self._time + seconds, self._count, call)
        self._waiting.append(entry)
        return lambda: self._waiting.remove(entry)

    def pass_by(self, seconds: float) -> None:
        """So much time goes by, and what waited for it is called."""
        end = self._time + seconds
        while (due := min(self._waiting, default=None)) is not None and due[0] <= end:
            self._waiting.remove(due)
            self._time = due[0]
            due[2]()
        self._time = end


class NotedCommands:
    """Starts no process. `started` has what each was started with."""

    def __init__(self) -> None:
        self.started: list[tuple[str, ...]] = []
        self.ended: list[Callable[[Finished], object]] = []
        self.heard: list[Callable[[bytes], object]] = []
        self.killed: list[int] = []
        self.waited: list[int] = []
        """How many were killed before each wait."""

    def start(
        self, *arguments: str, ended: Callable[[Finished], object], heard: Callable[[bytes], object] | None = None
    ) -> Callable[[], object]:
        number = len(self.started)
        self.started.append(arguments)
        self.ended.append(ended)
        self.heard.append(heard or (lambda _printed: None))
        return lambda: self.killed.append(number)

    def finish(self) -> None:
        self.waited.append(len(self.killed))


class NotedLink(WorkerLink):
    """Notes the commands; the test says what comes back. A start brings a worker that is ready."""

    def __init__(self) -> None:
        self.sent: list[AnyCommand] = []
        self.hear: Callable[[AnyEvent, bytes], object] = lambda _event, _blob: None
        self._seq = 0

    def start(self) -> None:
        self.say(Ready(version="0.1.0", protocol=1, pid=1, devices=(samples.CPU,)))

    def send(self, command: AnyCommand) -> None:
        self.sent.append(command)

    def stop(self) -> None:
        return

    def say(self, event: AnyEvent, blob: bytes = b"") -> None:
        self._seq += 1
        self.hear(msgspec.structs.replace(event, seq=self._seq), blob)

    def examined(self, report: CheckReport) -> None:
        """The last command was a check; it ends with this report."""
        command = self.sent[-1]
        assert isinstance(command, Examine)
        self.say(JobEnded(job=command.job, outcome="done", report=report))


class Desk:
    """A session that has started, with what it stands on."""

    def __init__(
        self, settings: Settings | None = None, *, measured: bool = True, link: "NotedLink | None" = None, **options: Any
    ) -> None:
        if measured:
            records.save_selftest(msgspec.structs.replace(samples.self_test_report(), device=samples.CPU))
        self.link, self.clock, self.executor, self.commands = link or NotedLink(), HandClock(), HeldExecutor(), NotedCommands()
        ports = Ports(self.executor, self.clock, self.commands)
        self.session = Session(self.link, ports, settings or Settings(first_run_done=True), **options)
        self.link.hear = self.session.arrived
        self.session.start()
        self.settle()

    def settle(self) -> None:
        """Let all work that waits be done."""
        self.executor.settle()

    @property
    def model(self) -> ModelFacts:
        model = self.session.state.model
        assert model is not None
        return model

    @property
    def precision(self) -> tuple[DType, Words]:
        """What the selected model runs in, and why."""
        return self.session.checks.precision_of(self.model)

    @property
    def kinds(self) -> list[str]:
        """The messages for the user."""
        return [notice.kind for notice in self.session.state.notices]
