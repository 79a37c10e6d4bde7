"""Two cards in one machine: a real worker for each, and the queue of one session between them."""

import asyncio
import os
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import msgspec
import psutil
import pytest
from PIL import Image
from tests.accelerator import card
from tests.helpers import samples

from halftone.contract.messages import AnyEvent, PictureReady, Ready
from halftone.contract.request import PictureRequest
from halftone.contract.vocabulary import POCKET
from halftone.library import records
from halftone.session.ports import Ports
from halftone.session.session import Session
from halftone.session.state import Ended
from halftone.session.workers.headless import LoopClock, LoopCommands, LoopExecutor, LoopLink
from halftone.settings.store import Settings

_ENGINE = ("--engine", "tests.accelerator.in_worker:engine")
_SEEDS = range(10)


class Machine:
    """A session on the cards in software. cards: how many pictures came from each; ended: all jobs."""

    def __init__(self, loop: asyncio.AbstractEventLoop, folder: Path, *, all_cards: bool) -> None:
        self._loop = loop
        self._executor, self._commands = LoopExecutor(loop), LoopCommands(loop)
        self.links: list[LoopLink] = []
        self.ended: list[Ended] = []
        self.cards: Counter[str] = Counter()
        own = self._link()
        self.session = Session(
            own,
            Ports(self._executor, LoopClock(loop), self._commands),
            Settings(first_run_done=True, all_cards=all_cards, pictures_folder=str(folder)),
            heard=self._heard,
            ended=self.ended.append,
            make_link=self._make_link,
        )
        own.arrived = self._measured
        self._folder = folder
        self.session.start()

    def _link(self) -> LoopLink:
        self.links.append(LoopLink(self._loop, *_ENGINE))
        return self.links[-1]

    def _make_link(self, hear: Callable[[AnyEvent, bytes], object]) -> LoopLink:
        link = self._link()
        link.arrived = hear
        return link

    def _measured(self, event: AnyEvent, blob: bytes) -> None:
        """To measure a card in software takes long, and says nothing."""
        for device in event.devices if isinstance(event, Ready) else ():
            records.save_selftest(msgspec.structs.replace(samples.self_test_report(), device=device))
        self.session.arrived(event, blob)

    def _heard(self, event: AnyEvent, _blob: bytes) -> None:
        if isinstance(event, PictureReady):
            job = self.session.state.job(event.job or "")
            assert job is not None
            self.cards[job.card] += 1

    async def until(self, right: Callable[[], bool], seconds: float = 240) -> None:
        async with asyncio.timeout(seconds):
            while not right():
                await asyncio.sleep(0.05)

    async def queue(self) -> None:
        await self.until(lambda: self.session.state.device is not None and POCKET in self.session.state.models.models)
        for seed in _SEEDS:
            output = str(self._folder / f"{seed}.png")
            self.session.queue.generate(
                PictureRequest(prompt="a circle", model=POCKET, width=64, height=64, steps=3, seed=seed, output=output)
            )
        if not self.session.state.settings.all_cards:
            return
        await self.until(lambda: any(one.worker != "off" for one in self.session.state.cards))
        self.session.queue.hold()  # one card would make all of them before the other is there
        await self.until(lambda: all(one.worker == "ready" for one in self.session.state.cards))
        self.session.queue.release()

    async def close(self) -> None:
        self.session.stop()
        for link in self.links:
            await link.closed()
        await self._commands.closed()
        self._executor.close()


async def _make(folder: Path, *, all_cards: bool) -> Machine:
    """With all cards, the worker of the second is killed after its first picture."""
    machine = Machine(asyncio.get_running_loop(), folder, all_cards=all_cards)
    try:
        await machine.queue()
        if all_cards:
            await machine.until(lambda: machine.cards["card:1"] > 0)
            workers = [one for one in psutil.Process().children() if "halftone.worker" in one.cmdline()]
            assert len(workers) == 2
            os.kill(max(workers, key=lambda one: one.create_time()).pid, signal.SIGKILL)
        await machine.until(lambda: not machine.session.state.jobs)
    finally:
        await machine.close()
    return machine


def _pixels(folder: Path) -> list[bytes]:
    return [Image.open(folder / f"{seed}.png").tobytes() for seed in _SEEDS]


@pytest.mark.skipif(bool(card.missing()), reason=card.missing())
@pytest.mark.timeout(900)  # it may have to be compiled
def test_two_cards_make_what_one_makes_and_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join((str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", ""))))
    folders = {name: tmp_path / name for name in ("one", "two")}
    for folder in folders.values():
        folder.mkdir()
    one = asyncio.run(_make(folders["one"], all_cards=False))
    assert one.cards == {"": len(_SEEDS)}
    two = asyncio.run(_make(folders["two"], all_cards=True))
    assert two.cards["card:1"] > 0
    assert two.cards[""] > 0
    assert [job.outcome for job in two.ended].count("done") == len(_SEEDS)
    assert _pixels(folders["one"]) == _pixels(folders["two"])
    assert not [one for one in psutil.Process().children() if "halftone.worker" in one.cmdline()]
