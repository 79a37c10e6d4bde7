"""A farm in one process, without Ray: real nodes with real worker processes, and a head."""

import asyncio
import json
import threading
from collections.abc import AsyncGenerator, Callable, Generator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

import msgspec
from msgspec.structs import replace

from halftone import __version__
from halftone.contract.errors import ErrorFacts
from halftone.farm.copying import Piece
from halftone.farm.head import Head
from halftone.farm.jobs import read_jobs
from halftone.farm.ledger import Ledger, head_mark
from halftone.farm.node import Node
from halftone.farm.talk import NodeFacts, NodeGoneError, NodePort, Task, Told, read_facts
from halftone.settings.folders import claimed
from halftone.settings.store import Settings

PATIENCE_SECONDS = 240.0


def lines(folder: Path, count: int, **fields: object) -> Path:
    """A file with so many jobs, each a picture of its own."""
    small = {"width": 64, "height": 64, "steps": 1, "numerics": {"precision": "float32"}}
    path = folder / "jobs.jsonl"
    rows = [
        {"key": f"j{n:02}", "prompt": "a red sun", "seed": n, "output": str(folder / f"j{n:02}.png"), **small, **fields}
        for n in range(count)
    ]
    path.write_text("".join(f"{json.dumps(row)}\n" for row in rows), encoding="utf-8")
    return path


def submit(ledger: Ledger, path: Path, user: str = "ann") -> tuple[str, ...]:
    return ledger.submit(read_jobs(path, user, Settings(), ledger))


class Cuttable:
    """A node that can be cut off, and paused. told: what came of it."""

    def __init__(self, node: Node) -> None:
        self.node = node
        self.cut = False
        self.leaves = False
        """Whether it is cut because its user wants that."""
        self.flowing = asyncio.Event()
        self.flowing.set()
        self.told: list[Told] = []
        self.pauses = False
        """Whether it is silent from its first lease on, until it flows again."""
        self.garbles = False
        """Whether its next word is no message."""
        self.version = __version__
        self.spoils: Callable[[Piece], Piece] = lambda piece: piece
        """What becomes of a piece of a model on its way."""
        self.questions = 0
        """How often a card was asked what fits it."""

    async def describe(self) -> NodeFacts:
        facts = msgspec.to_builtins(await self.node.describe()) | {"version": self.version}
        if self.version != __version__:
            facts["cards"] = "of another shape"
        return read_facts(msgspec.msgpack.encode(facts))

    async def weigh(self, card: str, tasks: tuple[Task, ...]) -> tuple[ErrorFacts | None, ...]:
        self.questions += 1
        return await self.node.weigh(card, tasks)

    async def receive(self, piece: Piece) -> ErrorFacts | None:
        arrived = self.spoils(piece)
        if self.cut:
            raise NodeGoneError(left=self.leaves)
        return await self.node.receive(arrived)

    async def begin(self, card: str, tasks: tuple[Task, ...]) -> None:
        if self.cut:
            raise NodeGoneError(left=self.leaves)
        if self.pauses:
            self.flowing.clear()
        await self.node.begin(card, tasks)

    async def take(self, seconds: float) -> tuple[Told, ...]:
        told = await self.node.take(seconds)
        await self.flowing.wait()
        if self.cut:
            raise NodeGoneError(left=self.leaves)
        self.told += told
        if told and self.garbles:
            self.garbles = False
            return (replace(told[0], frame=b"\xff" * 16),)
        return told

    def __getattr__(self, name: str) -> object:
        if self.cut:
            raise NodeGoneError(left=self.leaves)
        return getattr(self.node, name)


@asynccontextmanager
async def nodes(
    count: int, *options: str, copies: Path | None = None, kind: type[Node] = Node
) -> AsyncGenerator[dict[str, Cuttable]]:
    """So many nodes on this machine. copies: where each has a folder for models that it is sent."""

    def made_at(name: str) -> Node:
        return kind(*options, copies=None if copies is None else copies / name)

    made = {name: Cuttable(made_at(name)) for name in (f"node {number}" for number in range(count))}
    try:
        yield made
    finally:
        for one in made.values():
            await one.node.close()


def head(ledger: Ledger, there: Mapping[str, Cuttable], **options: float | bool) -> Head:
    async def known() -> Mapping[str, NodePort]:
        return {name: one for name, one in there.items() if not one.cut}  # pyright: ignore[reportReturnType] - by __getattr__

    return Head(ledger, known, **options)  # pyright: ignore[reportArgumentType]


async def until_over(made: Head, seconds: float = PATIENCE_SECONDS) -> None:
    await asyncio.wait_for(made.run(until_over=True), seconds)


async def until(right: Callable[[], object], working: asyncio.Task[None]) -> None:
    """Wait until something is so; what ends the head before is raised."""
    async with asyncio.timeout(PATIENCE_SECONDS):
        while not right():
            if working.done():
                working.result()
                assert right(), "the head ended before"
                return
            await asyncio.sleep(0.02)


@contextmanager
def running_head(*options: str, count: int = 1) -> Generator[None]:
    """A head of this user with nodes on a thread of its own, while the test does other things. options: of the workers."""
    ready, over = threading.Event(), threading.Event()
    failures = list[BaseException]()

    async def serve() -> None:
        with Ledger() as ledger:
            async with nodes(count, *options) as there:
                made = head(ledger, there)
                work = asyncio.create_task(made.run())
                ready.set()
                while not over.is_set() and not work.done():
                    await asyncio.sleep(0.02)
                made.stopping.set()
                await work

    def run() -> None:
        try:
            asyncio.run(serve())
        except BaseException as error:  # noqa: BLE001 - the test's own thread fails with it
            failures.append(error)
        finally:
            ready.set()

    with claimed(head_mark()) as free:
        assert free
        thread = threading.Thread(target=run, name="head")
        thread.start()
        try:
            ready.wait(PATIENCE_SECONDS)
            yield
        finally:
            over.set()
            thread.join(PATIENCE_SECONDS)
    assert not failures, failures
