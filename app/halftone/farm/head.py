"""The head of the farm: gives leases to nodes, takes results, and alone makes files. It knows nothing of Ray."""

import asyncio
import contextlib
import logging
import sqlite3
import time
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import msgspec

from halftone.contract.error_codes import ErrorCode
from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.facts import PictureFacts
from halftone.contract.messages import AnyEvent, Generate, JobEnded, JobStarted, PictureReady
from halftone.contract.wire import WireError, event_reader
from halftone.contract.wording import Words
from halftone.farm.copying import pieces
from halftone.farm.ledger import Kind, Ledger
from halftone.farm.placing import place, settle
from halftone.farm.prints import ModelPrint
from halftone.farm.states import Failed, Lost
from halftone.farm.talk import NodeFacts, NodeGoneError, NodePort, OtherVersionError, Task, Told
from halftone.farm.turns import LEASE_PICTURES, lease_size
from halftone.gallery.made import list_made

LEASE_SECONDS: Final = 60.0
"""A node that was not heard for so long loses its leases."""
_LOOK_SECONDS: Final = 0.5
_TAKE_SECONDS: Final = 1.0
_SOON_SECONDS: Final = 0.1
"""Instead, right after a question."""
_RENEW_SHARE: Final = 1 / 12
"""Of a lease's time, after which it is renewed."""
_AGAIN_SECONDS: Final = 20.0
"""After so long a card is asked again about a kind of jobs: other programs may have left its memory, or need it now."""
_COPY_SECONDS: Final = 600.0
"""After so long models that could not be copied to a node are sent again."""
_ASKED: Final = 8
"""Kinds in a question: the first lease must not wait until all models of a large library were hashed."""
_AHEAD: Final = 1
"""Jobs that a card still has when it gets the next lease, so that it never waits."""
_DEADLY: Final[frozenset[ErrorCode]] = frozenset({"worker-lost", "worker-given-up", "device-lost"})
"""Errors of a job that ended its worker."""
_OF_THE_NODE: Final[frozenset[ErrorCode]] = frozenset(
    {"worker-start", "disk-full", "output-failed", "output-read-only", "output-folder-missing", "farm-model", "farm-memory"}
)
"""Errors that say nothing about the job: another node may well do it."""

_UNREADABLE: Final = (msgspec.MsgspecError, WireError, ValueError, KeyError)
"""Errors about what a node said: they concern this node alone."""

log = logging.getLogger(__name__)


class Weighed(NamedTuple):
    """What a card said of a kind of jobs: an error, or None where it can run them; and when."""

    error: ErrorFacts | None
    at: float


_Answer = tuple[float, dict[str, ErrorFacts | None]]
"""When a question began, and what the card said of each kind."""


class _Attended:
    """A node, and what the head knows of it. running: keys of the jobs that its workers run."""

    def __init__(self, name: str, port: NodePort) -> None:
        self.name = name
        self.port = port
        self.facts = NodeFacts(host="", version="", cards=())
        self.given: dict[tuple[str, int], str] = {}
        """(key, attempt) -> the card."""
        self.running: dict[str, int] = {}
        self.pictures: dict[str, tuple[PictureFacts, bytes]] = {}
        self.weighed: dict[tuple[str, str], Weighed] = {}
        self.asking: dict[str, asyncio.Task[_Answer]] = {}
        """Card -> the question that it has not answered yet: to hash a model may take minutes, in which the node is heard on."""
        self.asked: dict[str, frozenset[str]] = {}
        """Card -> the kinds of that question."""
        self.answers_soon = self.renewed = float("-inf")
        """Until when an answer of a card may come at any moment; when its leases were renewed."""
        self.last: dict[str, str] = {}
        """Card -> the kind of its last lease: its models are there."""
        self.copying: asyncio.Task[ErrorFacts | None] | None = None
        self.copied = ""
        """The kind whose models are being copied, or were last."""
        self.not_copied: dict[str, Weighed] = {}
        """Kind -> why its models could not be copied, and when that was."""


class Head:
    """nodes: those that are there now, by name. lease_seconds, most: of a lease; record: list finished pictures in this user's
    history; again_seconds: after so long a card is asked again whether a kind of jobs fits it;
    copy_again_seconds: after so long models that could not be copied are sent again.
    """

    def __init__(
        self,
        ledger: Ledger,
        nodes: Callable[[], Awaitable[Mapping[str, NodePort]]],
        *,
        lease_seconds: float = LEASE_SECONDS,
        most: int = LEASE_PICTURES,
        record: bool = True,
        again_seconds: float = _AGAIN_SECONDS,
        copy_again_seconds: float = _COPY_SECONDS,
    ) -> None:
        self._ledger = ledger
        self._nodes = nodes
        self._seconds = lease_seconds
        self._most = most
        self._record = record
        self._again = again_seconds
        self._copy_again = copy_again_seconds
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._left: dict[str, float] = {}
        """Node -> when it was given up."""
        self._cards = 0
        self._attended: dict[str, _Attended] = {}
        self._evened = float("-inf")
        """When a job was last taken from a card for another one."""
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
            self._ledger.forget_leases()

    async def _look(self) -> None:
        """Attend nodes that came, and take back what silent ones have."""
        for task in self._tasks.values():
            if task.done() and (error := task.exception()) is not None:
                raise error
        for name, port in (await self._nodes()).items():
            task = self._tasks.get(name)
            if task is None or (task.done() and time.monotonic() - self._left.get(name, 0.0) > self._again):
                self._tasks[name] = asyncio.create_task(self._attend(_Attended(name, port)))
        for job in self._ledger.expire():
            log.info("the lease of %s on %s is over; another node gets it", job.key, job.owner)

    async def _attend(self, node: _Attended) -> None:
        """Work with a node until it is gone, or says what cannot be read."""
        try:
            node.facts = await node.port.describe()
            self._ledger.note_node(node.name, node.facts)
            self._ledger.forget_gone(node.facts.host)
            cards = len(node.facts.cards)
            self._cards += cards
            self._attended[node.name] = node
            try:
                await self._work(node)
            finally:
                self._cards -= cards
                del self._attended[node.name]
                tasks: list[asyncio.Task[Any]] = [*node.asking.values(), *([] if node.copying is None else [node.copying])]
                for task in tasks:
                    task.cancel()
                await asyncio.gather(*tasks, return_exceptions=True)
        except OtherVersionError as other:
            node.facts = other.facts
            self._give_up(node, str(other))
        except NodeGoneError as gone:
            self._lose(node, gone)
        except _UNREADABLE as bad:
            self._ledger.lost(node.name)
            self._give_up(node, f"its answer cannot be used: {bad}")
            with contextlib.suppress(NodeGoneError):  # then it does nothing any more
                await node.port.cancel(tuple(f"{key}@{attempt}" for key, attempt in node.given))

    def _lose(self, node: _Attended, gone: NodeGoneError) -> None:
        """Take back what a node had. What it ran may have ended it, but not where its user took it out of the farm."""
        if gone.left:
            log.info("node %s (%s) left", node.facts.host, node.name)
            self._ledger.lost(node.name)
            self._ledger.forget_node(node.name)
            self._left[node.name] = time.monotonic()
            return
        cause = Words("its node does not answer any more")
        self._ledger.lost(node.name, node.running, ErrorFacts(code="worker-lost", facts={"cause": cause, "log": ""}))
        self._give_up(node, str(gone), logging.INFO)

    def _give_up(self, node: _Attended, why: str, level: int = logging.WARNING) -> None:
        """Give a node no more jobs; it is attended again after a pause."""
        log.log(level, "node %s (%s) is given up: %s", node.facts.host, node.name, why)
        self._ledger.note_gone(node.name, node.facts, why)
        self._left[node.name] = time.monotonic()

    async def _work(self, node: _Attended) -> None:
        while True:
            for card in node.facts.cards:
                if card.broken is None:
                    await self._offer(node, card.device.id)
            told = await node.port.take(_TAKE_SECONDS if time.monotonic() > node.answers_soon else _SOON_SECONDS)
            self._renew(node)
            for one in told:
                self._hear(node, one)
            await self._drop(node)
            if any(task for task in told if task.data is None):
                node.facts = await node.port.describe()
                self._ledger.note_node(node.name, node.facts)

    def _renew(self, node: _Attended) -> None:
        """Note that a node was heard: not each time, as that writes to the disk."""
        now = time.monotonic()
        if now - node.renewed >= self._seconds * _RENEW_SHARE:
            node.renewed = now
            self._ledger.renew(node.name, self._seconds)

    # -- giving ------------------------------------------------------------------------------------------------------------

    async def _offer(self, node: _Attended, card: str) -> None:
        """Give a card that is nearly done its next lease, of a kind that fits it."""
        ahead = sum(1 for other in node.given.values() if other == card)
        if ahead > _AHEAD:
            return
        kinds = self._ledger.open_kinds()
        if not kinds:
            if not ahead:
                self._even_out(node, card)
            return
        self._ask(node, card, kinds)
        self._copy(node, card, kinds)
        fitting = [one.kind for one in kinds if self._fits(node, card, one.kind)]
        fitting.sort(key=lambda kind: kind != node.last.get(card))
        waiting = self._ledger.waiting_of(fitting)
        if ahead and waiting <= self._cards and waiting <= self._idle():
            return  # a card that has nothing does them sooner
        size = lease_size(waiting, self._cards, self._most)
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

    def _idle(self) -> int:
        """How many cards have nothing to do."""
        cards = ((one, card) for one in self._attended.values() for card in one.facts.cards if card.broken is None)
        return sum(1 for one, card in cards if card.device.id not in one.given.values())

    def _even_out(self, node: _Attended, card: str) -> None:
        """Nothing waits, and this card has nothing: let the last job wait again that waits behind another one at a card."""
        now = time.monotonic()
        if now - self._evened < _TAKE_SECONDS:
            return
        self._evened = now
        for other in self._attended.values():
            for (key, attempt), there in reversed(other.given.items()):
                is_behind = key not in other.running and list(other.given.values()).count(there) > 1
                job = self._ledger.job(key) if is_behind else None
                answer = None if job is None else node.weighed.get((card, job.kind))
                if job is not None and (answer is None or answer.error is None):
                    self._ledger.tell(key, Lost(attempt))
                    return

    def _ask(self, node: _Attended, card: str, kinds: tuple[Kind, ...]) -> None:
        """Ask about kinds that the card was not asked about, or not for some time. Raises what came of the last question."""
        asking = node.asking.get(card)
        if asking is not None:
            if not asking.done():
                return
            del node.asking[card]
            self._answered(node, card, asking.result())
        if node.copying is not None:  # it is asked again once they are there
            kinds = tuple(one for one in kinds if one.kind != node.copied)
        old = [one for one in kinds if (card, one.kind) in node.weighed and not self._is_fresh(node.weighed[card, one.kind])]
        new = [one for one in kinds if (card, one.kind) not in node.weighed]
        old.sort(key=lambda one: node.weighed[card, one.kind].at)
        is_fed = any(self._fits(node, card, one.kind) for one in kinds)
        # old ones apart from new ones, whose models may have to be hashed first
        if asked := (new or old if is_fed else old or new)[:_ASKED]:
            node.asked[card] = frozenset(one.kind for one in asked)
            node.asking[card] = asyncio.create_task(self._weigh(node, card, asked))
            node.answers_soon = time.monotonic() + _TAKE_SECONDS  # an idle card need not wait longer for its first lease

    def _is_fresh(self, answer: Weighed) -> bool:
        return time.monotonic() - answer.at < self._again

    def _fits(self, node: _Attended, card: str, kind: str) -> bool:
        """Whether a card said so. An old answer counts only while the card answers another question, which may take minutes."""
        answer = node.weighed.get((card, kind))
        if answer is None or answer.error is not None:
            return False
        return self._is_fresh(answer) or (card in node.asking and kind not in node.asked[card])

    async def _weigh(self, node: _Attended, card: str, asked: list[Kind]) -> _Answer:
        tasks = tuple(Task(key=one.kind, attempt=0, command=one.command, prints=one.prints) for one in asked)
        begun = time.monotonic()
        errors = await node.port.weigh(card, tasks)
        return begun, dict(zip((one.kind for one in asked), errors, strict=True))

    def _answered(self, node: _Attended, card: str, answer: _Answer) -> None:
        begun, errors = answer
        for kind, error in errors.items():
            lacks, failed = error is not None and error.code == "farm-model", node.not_copied.get(kind)
            known = node.weighed.get((card, kind))
            if known is None or known.at <= begun:  # else a job of this kind failed meanwhile
                self._note(node, card, kind, error, failed.error if lacks and failed is not None else error)

    def _note(self, node: _Attended, card: str, kind: str, error: ErrorFacts | None, shown: ErrorFacts | None = None) -> None:
        """Note what a card said of a kind. shown: instead, to the user."""
        node.weighed[card, kind] = Weighed(error, time.monotonic())
        self._ledger.note_refusal(node.name, card, kind, shown or error)

    def _copy(self, node: _Attended, card: str, kinds: tuple[Kind, ...]) -> None:
        """Copy the models of a kind to a node that lacks them, where the user asked for it: one kind at a time."""
        if node.copying is not None:
            if node.copying.done():
                self._copied(node, node.copying)
            elif node.copied not in {one.kind for one in kinds}:
                node.copying.cancel()  # nobody needs them any more
            return
        for one in kinds:
            answer = node.weighed.get((card, one.kind))
            lacks = answer is not None and answer.error is not None and answer.error.code == "farm-model"
            models = [model for model in one.prints if self._ledger.may_copy(model)] if lacks else []
            if models and not self._failed_lately(node, one.kind):
                node.copied, node.copying = one.kind, asyncio.create_task(_send(node.port, models))
                why = Words("the head copies it there")
                self._note(node, card, one.kind, ErrorFacts(code="farm-model", facts={"name": models[0].name, "why": why}))
                return

    def _copied(self, node: _Attended, copying: asyncio.Task[ErrorFacts | None]) -> None:
        """The models are there: all cards of the node are asked again; or they are not, and are sent again much later."""
        node.copying = None
        error = None if copying.cancelled() else copying.result()
        for card, kind in list(node.weighed):
            if kind != node.copied:
                continue
            if error is None:
                del node.weighed[card, kind]
            else:
                self._note(node, card, kind, error)
        node.not_copied.pop(node.copied, None)
        if error is not None:
            node.not_copied[node.copied] = Weighed(error, time.monotonic())

    def _failed_lately(self, node: _Attended, kind: str) -> bool:
        failed = node.not_copied.get(kind)
        return failed is not None and time.monotonic() - failed.at < self._copy_again

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
        events = event_reader().feed(told.frame)
        if not events:
            raise WireError("an unfinished message")
        for event, blob in events:
            self._take(node, told, event, blob)

    def _take(self, node: _Attended, told: Told, event: AnyEvent, blob: bytes) -> None:
        match event:
            case JobStarted():
                node.running[told.key] = told.attempt
            case PictureReady():
                node.pictures[told.key] = (event.facts, blob[: event.thumbnail_size])
            case JobEnded():
                node.running.pop(told.key, None)
                card = node.given.pop((told.key, told.attempt), None)
                self._end(told, event, node.pictures.pop(told.key, None))
                job = self._ledger.job(told.key)
                if card is not None and job is not None and event.error is not None and event.error.code in _OF_THE_NODE:
                    self._note(node, card, job.kind, event.error)
            case _:
                pass

    def _end(self, told: Told, event: JobEnded, picture: tuple[PictureFacts, bytes] | None) -> None:
        if event.outcome == "done" and told.data is not None:
            place(self._ledger, told.key, told.attempt, told.data, lambda path: self._list(told.key, path, picture))
            return
        error = event.error
        if event.outcome == "done":
            error = ErrorFacts(code="farm-no-file", facts={"name": told.key})
        if error is None:
            self._ledger.tell(told.key, Lost(told.attempt))
        elif error.code in _OF_THE_NODE:
            self._ledger.tell(told.key, Lost(told.attempt, by_node=True, error=error))
        elif error.code in _DEADLY:
            self._ledger.tell(told.key, Lost(told.attempt, died=True, error=error))
        else:
            self._ledger.tell(told.key, Failed(told.attempt, error))

    def _list(self, key: str, path: Path, picture: tuple[PictureFacts, bytes] | None) -> None:
        """Put a picture into the history, as if it had been made here; a window that sees the job done finds it there."""
        command = self._ledger.command(key)
        if picture is None or not self._record or not isinstance(command, Generate):
            return
        facts, thumbnail = picture
        try:
            list_made(command.request, msgspec.structs.replace(facts, path=str(path)), thumbnail)
        except (OSError, sqlite3.Error) as error:
            log.warning("The history could not be kept: %s", error)


async def _send(port: NodePort, models: list[ModelPrint]) -> ErrorFacts | None:
    """Send to a node what it lacks of these; why that failed."""
    for model in models:
        if not await port.lacks(model):
            continue
        try:
            async for piece in pieces(model):
                if (error := await port.receive(piece)) is not None:
                    return error
        except HalftoneError as error:
            return error.as_facts()
    return None
