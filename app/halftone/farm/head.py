"""The head of the farm: gives leases to nodes, takes results, and alone makes files. It knows nothing of Ray."""

import asyncio
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

import msgspec

from halftone import __version__
from halftone.contract.error_codes import ErrorCode
from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import PictureFacts
from halftone.contract.messages import AnyEvent, Generate, JobEnded, JobStarted, PictureReady
from halftone.contract.wire import event_reader
from halftone.farm.ledger import Kind, Ledger
from halftone.farm.placing import place, settle
from halftone.farm.states import Failed, Lost
from halftone.farm.talk import NodeFacts, NodeGoneError, NodePort, Task, Told
from halftone.farm.turns import LEASE_PICTURES, lease_size
from halftone.gallery.made import list_made

LEASE_SECONDS: Final = 60.0
"""A node that was not heard for so long loses its leases."""
_LOOK_SECONDS: Final = 0.5
_TAKE_SECONDS: Final = 1.0
_AGAIN_SECONDS: Final = 20.0
"""After so long a job that did not fit a card is weighed again: other programs may have left it."""
_AHEAD: Final = 1
"""Jobs that a card still has when it gets the next lease, so that it never waits."""
_DEADLY: Final[frozenset[ErrorCode]] = frozenset({"worker-lost", "worker-given-up", "device-lost"})
"""Errors of a job that ended its worker."""
_OF_THE_NODE: Final[frozenset[ErrorCode]] = frozenset(
    {"worker-start", "disk-full", "output-failed", "output-read-only", "output-folder-missing", "farm-model", "farm-memory"}
)
"""Errors that say nothing about the job: another node may well do it."""

log = logging.getLogger(__name__)


class Weighed(NamedTuple):
    """What a card said of a kind of jobs: an error, or None where it can run them; and when."""

    error: ErrorFacts | None
    at: float


class _Attended:
    """A node, and what the head knows of it. running: keys of the jobs that its workers run."""

    def __init__(self, name: str, port: NodePort) -> None:
        self.name = name
        self.port = port
        self.given: dict[tuple[str, int], str] = {}
        """(key, attempt) -> the card."""
        self.running: dict[str, int] = {}
        self.pictures: dict[str, tuple[PictureFacts, bytes]] = {}
        self.weighed: dict[tuple[str, str], Weighed] = {}
        self.asking: dict[str, asyncio.Task[None]] = {}
        """Card -> the question that it has not answered yet: to hash a model may take minutes, in which the node is heard on."""
        self.last: dict[str, str] = {}
        """Card -> the kind of its last lease: its models are there."""


class Head:
    """nodes: those that are there now, by a name that never comes back. lease_seconds, most: of a lease; record: list finished
    pictures in this user's history.
    """

    def __init__(
        self,
        ledger: Ledger,
        nodes: Callable[[], Awaitable[Mapping[str, NodePort]]],
        *,
        lease_seconds: float = LEASE_SECONDS,
        most: int = LEASE_PICTURES,
        record: bool = True,
    ) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._seconds = lease_seconds
        self._most = most
        self._record = record
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._known: dict[str, Mapping[str, NodePort]] = {}
        self._cards = 0
        self.stopping = asyncio.Event()

    async def run(self, *, until_over: bool = False) -> None:
        """Work until `stopping`, or until nothing is left to do. Raises what stops the head: a file that cannot be written."""
        settle(self._ledger)
        self._ledger.forget_leases()
        self._ledger.forget_nodes()
        try:
            while not self.stopping.is_set() and not (until_over and self._ledger.is_over()):
                await self._look()
                await asyncio.sleep(_LOOK_SECONDS)
        finally:
            for task in self._tasks.values():
                task.cancel()
            await asyncio.gather(*self._tasks.values(), return_exceptions=True)

    async def _look(self) -> None:
        """Attend nodes that came, and take back what silent ones have."""
        for task in self._tasks.values():
            if task.done() and (error := task.exception()) is not None:
                raise error
        for name, port in (await self._nodes()).items():
            if name not in self._tasks:
                self._tasks[name] = asyncio.create_task(self._attend(_Attended(name, port)))
        for job in self._ledger.expire():
            log.info("the lease of %s on %s is over; another node gets it", job.key, job.owner)

    async def _attend(self, node: _Attended) -> None:
        """Work with a node until it is gone."""
        try:
            facts = await node.port.describe()
            self._ledger.note_node(node.name, facts)
            if facts.version != __version__:
                log.warning("node %s has Halftone %s, the head %s: it gets no jobs", facts.host, facts.version, __version__)
                return
            self._cards += len(facts.cards)
            try:
                await self._work(node, facts)
            finally:
                self._cards -= len(facts.cards)
                for task in node.asking.values():
                    task.cancel()
                await asyncio.gather(*node.asking.values(), return_exceptions=True)
        except NodeGoneError as gone:
            log.info("node %s is gone: %s", node.name, gone)
            error = ErrorFacts(code="worker-lost", facts={"cause": str(gone), "log": ""})
            self._ledger.lost(node.name, node.running, error)
            self._ledger.forget_node(node.name)

    async def _work(self, node: _Attended, facts: NodeFacts) -> None:
        while True:
            for card in facts.cards:
                if card.broken is None:
                    await self._offer(node, card.device.id)
            told = await node.port.take(_TAKE_SECONDS)
            self._ledger.renew(node.name, self._seconds)
            for one in told:
                self._hear(node, one)
            await self._drop(node)
            if any(task for task in told if task.data is None):
                facts = await node.port.describe()
                self._ledger.note_node(node.name, facts)

    # -- giving ------------------------------------------------------------------------------------------------------------

    async def _offer(self, node: _Attended, card: str) -> None:
        """Give a card that is nearly done its next lease, of a kind that fits it."""
        if sum(1 for other in node.given.values() if other == card) > _AHEAD:
            return
        kinds = self._ledger.open_kinds()
        if not kinds:
            return
        self._ask(node, card, kinds)
        known = {one.kind: node.weighed.get((card, one.kind)) for one in kinds}
        fitting = [kind for kind, answer in known.items() if answer is not None and answer.error is None]
        fitting.sort(key=lambda kind: kind != node.last.get(card))
        size = lease_size(self._ledger.waiting_of(fitting), self._cards, self._most)
        lease = self._ledger.lease(node.name, card, fitting, size, self._seconds) if fitting else None
        if lease is None:
            return
        node.last[card] = lease.jobs[0].kind
        prints = next(one.prints for one in kinds if one.kind == lease.jobs[0].kind)
        for job in lease.jobs:
            node.given[job.key, job.attempt] = card
        await node.port.begin(
            card,
            tuple(
                Task(key=job.key, attempt=job.attempt, command=self._ledger.command(job.key), prints=prints) for job in lease.jobs
            ),
        )

    def _ask(self, node: _Attended, card: str, kinds: tuple[Kind, ...]) -> None:
        """Ask about kinds that the card was not asked about, or that did not fit some time ago. Raises what came of the last
        question.
        """
        asking = node.asking.get(card)
        if asking is not None:
            if not asking.done():
                return
            del node.asking[card]
            asking.result()
        now = time.monotonic()

        def is_known(kind: str) -> bool:
            known = node.weighed.get((card, kind))
            return known is not None and (known.error is None or now - known.at < _AGAIN_SECONDS)

        asked = [one for one in kinds if not is_known(one.kind)]
        if asked:
            node.asking[card] = asyncio.create_task(self._weigh(node, card, asked))

    async def _weigh(self, node: _Attended, card: str, asked: list[Kind]) -> None:
        tasks = tuple(Task(key=one.kind, attempt=0, command=one.command, prints=one.prints) for one in asked)
        for one, error in zip(asked, await node.port.weigh(card, tasks), strict=True):
            node.weighed[card, one.kind] = Weighed(error, time.monotonic())
            self._ledger.note_refusal(node.name, card, one.kind, error)

    async def _drop(self, node: _Attended) -> None:
        """Cancel at the node what is no longer its: cancelled by the user, or given to another."""
        held = self._ledger.held(node.name)
        gone = [one for one in node.given if one not in held]
        for one in gone:
            del node.given[one]
        if gone:
            await node.port.cancel(tuple(f"{key}@{attempt}" for key, attempt in gone))

    # -- taking ------------------------------------------------------------------------------------------------------------

    def _hear(self, node: _Attended, told: Told) -> None:
        for event, blob in event_reader().feed(told.frame):
            self._take(node, told, event, blob)

    def _take(self, node: _Attended, told: Told, event: AnyEvent, blob: bytes) -> None:
        match event:
            case JobStarted():
                node.running[told.key] = told.attempt
            case PictureReady():
                node.pictures[told.key] = (event.facts, blob[: event.thumbnail_size])
            case JobEnded():
                node.running.pop(told.key, None)
                node.given.pop((told.key, told.attempt), None)
                self._end(told, event, node.pictures.pop(told.key, None))
            case _:
                pass

    def _end(self, told: Told, event: JobEnded, picture: tuple[PictureFacts, bytes] | None) -> None:
        if event.outcome == "done" and told.data is not None:
            path = place(self._ledger, told.key, told.attempt, told.data)
            if path is not None and picture is not None and self._record:
                self._list(told.key, msgspec.structs.replace(picture[0], path=str(path)), picture[1])
            return
        error = event.error
        if event.outcome == "done":
            error = ErrorFacts(code="farm-no-file", facts={"name": told.key})
        if error is None or error.code in _OF_THE_NODE:
            self._ledger.tell(told.key, Lost(told.attempt))
        elif error.code in _DEADLY:
            self._ledger.tell(told.key, Lost(told.attempt, died=True, error=error))
        else:
            self._ledger.tell(told.key, Failed(told.attempt, error))

    def _list(self, key: str, facts: PictureFacts, thumbnail: bytes) -> None:
        """Put a picture into the history, as if it had been made here."""
        command = self._ledger.command(key)
        try:
            if isinstance(command, Generate):
                list_made(command.request, facts, thumbnail)
        except (OSError, sqlite3.Error) as error:
            log.warning("The history could not be kept: %s", error)
