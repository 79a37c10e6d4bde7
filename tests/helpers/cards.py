"""A session on a machine with two cards."""

from collections.abc import Callable
from typing import Any

import msgspec
from tests.helpers import samples
from tests.helpers.sessions import Desk, NotedLink

from halftone.contract.facts import DeviceFacts
from halftone.contract.messages import AnyEvent, Generate, JobEnded, Ready, SelfTest
from halftone.contract.request import PictureRequest
from halftone.library import records
from halftone.settings.store import Settings

FIRST, SECOND = (
    DeviceFacts(id=f"cuda:{number}", backend="cuda", name=f"Card {number}", memory_total=size * 2**30)
    for number, size in enumerate((8, 24))
)


REPORT = msgspec.structs.replace(samples.self_test_report(), auto="float16")


class CardLink(NotedLink):
    """A worker on a machine with two cards and a processor."""

    def __init__(self, second: DeviceFacts = SECOND) -> None:
        super().__init__()
        self.stopped = self.dies = False
        self._devices = (FIRST, second, samples.CPU)

    @property
    def hopeless(self) -> bool:
        return self.dies

    def start(self) -> None:
        self.say(Ready(version="0.1.0", protocol=1, pid=1, devices=self._devices))

    def stop(self) -> None:
        self.stopped = True

    def last(self, kind: type[Any] = Generate) -> Any:
        return next(command for command in reversed(self.sent) if isinstance(command, kind))

    def ends(self, outcome: Any = "done", **more: Any) -> None:
        command = next(command for command in reversed(self.sent) if isinstance(command, Generate | SelfTest))
        self.say(JobEnded(job=command.job, outcome=outcome, **more))


class TwoCards(Desk):
    """A session on the first card; `other` is the link to the worker of the second, once there is one."""

    def __init__(
        self,
        *,
        measured: tuple[DeviceFacts, ...] = (FIRST, SECOND),
        second: DeviceFacts = SECOND,
        on: bool = True,
        **options: Any,
    ) -> None:
        for device in measured:
            records.save_selftest(msgspec.structs.replace(REPORT, device=device))
        self.others: list[CardLink] = []

        def make_link(hear: Callable[[AnyEvent, bytes], object]) -> CardLink:
            link = CardLink(second)
            link.hear = hear
            self.others.append(link)
            return link

        self.own = CardLink(second)
        super().__init__(Settings(first_run_done=True, all_cards=on), link=self.own, make_link=make_link, **options)

    @property
    def other(self) -> CardLink:
        return self.others[-1]

    def ask(self, count: int = 1, **fields: Any) -> list[str]:
        request = PictureRequest(prompt="a", model=self.model.id, **fields)
        names = [self.session.queue.generate(request) for _ in range(count)]
        self.settle()
        return names

    def at(self) -> dict[str, str]:
        """Running jobs, with the card of each."""
        return {job.id: job.card for job in self.session.state.begun}
