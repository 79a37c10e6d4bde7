"""A node of the farm: a worker process for each card, behind the client that the window uses. Files go back as bytes."""

import asyncio
import contextlib
import hashlib
import logging
import platform
import shutil
import tempfile
from collections import deque
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from halftone import __version__
from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.facts import CheckReport, DeviceFacts, MemoryFacts
from halftone.contract.messages import (
    AnyEvent,
    Cancel,
    Examine,
    FindingMade,
    Generate,
    JobEnded,
    JobStarted,
    MemoryChanged,
    PictureReady,
    PlanChanged,
    Ready,
    Refused,
)
from halftone.contract.wire import pack
from halftone.farm.copying import Piece, Receiver, copies_folder
from halftone.farm.fitting import free_bytes, misfit
from halftone.farm.prints import Listing, ModelPrint, OwnModels, own_folders, with_paths
from halftone.farm.talk import Card, NodeFacts, Task, Told
from halftone.session.workers.headless import LoopLink
from halftone.settings.store import load

_PASSED_ON: Final = (JobStarted, FindingMade, PlanChanged, PictureReady, JobEnded)
_READY_SECONDS: Final = 300.0
"""How long a first worker may take to say which devices there are."""

log = logging.getLogger(__name__)


class _CardWorker:
    """A card, its worker, and what the worker has to do."""

    def __init__(self, link: LoopLink, device: DeviceFacts | None = None) -> None:
        self.link = link
        self.device = device
        self.memory: MemoryFacts | None = None
        self.broken: ErrorFacts | None = None
        self.listing: Listing | None = None


class Node:
    """Use it from the event loop in which it was made. options: of the workers; folders: where models lie beside those of the
    settings; copies: where those that the head sends are kept, None for the usual place.
    """

    def __init__(self, *options: str, folders: tuple[str, ...] = (), copies: Path | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        self._options = ("--unlisted", *options)
        self._scratch = Path(tempfile.mkdtemp(prefix="halftone-node-"))
        self._receiver = Receiver(copies)
        self._models = OwnModels(lambda: (*own_folders(load()), *folders, str(copies or copies_folder())))
        self._workers: dict[str, _CardWorker] = {}
        self._tasks: dict[str, Task] = {}
        self._told: deque[Told] = deque()
        self._news = asyncio.Event()

    # -- what the head asks ------------------------------------------------------------------------------------------------

    async def describe(self) -> NodeFacts:
        """The cards, as the first worker names them: every accelerator, or the processor where there is none."""
        if not self._workers:
            await self._find_cards()
        cards = (
            Card(device=one.device, free=free_bytes(one.device, one.memory), broken=one.broken)
            for one in self._workers.values()
            if one.device is not None
        )
        return NodeFacts(host=platform.node(), version=__version__, cards=tuple(cards))

    async def weigh(self, card: str, tasks: tuple[Task, ...]) -> tuple[ErrorFacts | None, ...]:
        """Whether the card's free memory holds each task, by Halftone's forecast, and whether its models are here."""
        worker = self._workers[card]
        if worker.listing is None or worker.listing.is_old:
            worker.listing = self._models.listing()
        listing = worker.listing
        return await asyncio.to_thread(lambda: tuple(self._misfit(worker, task, listing) for task in tasks))

    async def lacks(self, model: ModelPrint) -> bool:
        try:
            await asyncio.to_thread(self._models.find, model)
        except HalftoneError:
            return True
        return False

    async def receive(self, piece: Piece) -> ErrorFacts | None:
        try:
            if await asyncio.to_thread(self._receiver.take, piece):
                for worker in self._workers.values():
                    worker.listing = None
        except HalftoneError as error:
            return error.as_facts()
        return None

    async def begin(self, card: str, tasks: tuple[Task, ...]) -> None:
        """File tasks with the card's worker, which does them in this order."""
        worker = self._workers[card]
        for task in tasks:
            self._tasks[task.name] = task
            try:
                command = await asyncio.to_thread(self._here, task, card)
            except HalftoneError as error:
                self._tell(task, JobEnded(job=task.name, outcome="failed", error=error.as_facts()))
                continue
            worker.link.send(command)
            worker.link.start()

    async def take(self, seconds: float) -> tuple[Told, ...]:
        if not self._told:
            self._news.clear()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._news.wait(), seconds)
        told = tuple(self._told)
        self._told.clear()
        return told

    async def cancel(self, names: tuple[str, ...]) -> None:
        for name in names:
            if name in self._tasks:
                for worker in self._workers.values():  # only the one that has the job listens
                    worker.link.send(Cancel(job=name))

    async def close(self) -> None:
        """End all workers; no process and no file is left."""
        for worker in self._workers.values():
            worker.link.stop()
        for worker in self._workers.values():
            await worker.link.closed()
        self._receiver.close()
        shutil.rmtree(self._scratch, ignore_errors=True)

    # -- inside ------------------------------------------------------------------------------------------------------------

    async def _find_cards(self) -> None:
        first = self._worker()
        known = self._loop.create_future()

        def hear(event: AnyEvent, blob: bytes) -> None:
            if isinstance(event, Ready) and not known.done():
                known.set_result(event.devices)
            elif isinstance(event, Refused) and not known.done():
                known.set_exception(HalftoneError(event.error.code, event.error.details, **event.error.facts))
            self._hear(first, event, blob)

        first.link.arrived = hear
        first.link.start()
        devices: tuple[DeviceFacts, ...] = await asyncio.wait_for(known, _READY_SECONDS)
        cards = [device for device in devices if device.backend != "cpu"] or list(devices[:1])
        for number, device in enumerate(cards):
            worker = first if number == 0 else self._worker()
            worker.device = device
            self._workers[device.id] = worker

    def _worker(self) -> _CardWorker:
        worker = _CardWorker(LoopLink(self._loop, *self._options))
        worker.link.arrived = lambda event, blob: self._hear(worker, event, blob)
        return worker

    def _misfit(self, worker: _CardWorker, task: Task, listing: Listing) -> ErrorFacts | None:
        assert worker.device is not None
        try:
            command = self._here(task, worker.device.id, listing)
            misfit(command, worker.device, worker.memory)
        except HalftoneError as error:
            return error.as_facts()
        return None

    def _here(self, task: Task, card: str, listing: Listing | None = None) -> Generate | Examine:
        """The command with this node's own paths. Raises HalftoneError farm-model."""
        places = {one.path: self._models.find(one, listing) for one in task.prints}
        command = task.command
        if isinstance(command, Examine):
            return replace(command, job=task.name, model=places.get(command.model, command.model), device=card)
        output = self._output(task, command)
        request = replace(with_paths(command.request, places), device=card, output=str(output), overwrite=True)
        return replace(command, job=task.name, request=request)

    def _output(self, task: Task, command: Generate) -> Path:
        name = hashlib.sha256(task.name.encode()).hexdigest()  # a key may hold any sign, and be longer than a file name
        return self._scratch / f"{name}{Path(command.request.output or '').suffix}"

    def _hear(self, worker: _CardWorker, event: AnyEvent, blob: bytes) -> None:
        if isinstance(event, MemoryChanged):
            worker.memory = event.memory
        task = self._tasks.get(event.job or "")
        if task is None or not isinstance(event, _PASSED_ON):
            return
        if isinstance(event, JobEnded) and event.error is not None and worker.link.hopeless:
            worker.broken = event.error
        self._tell(task, event, blob)

    def _tell(self, task: Task, event: AnyEvent, blob: bytes = b"") -> None:
        data = None
        if isinstance(event, JobEnded):
            del self._tasks[task.name]
            data = self._file_of(task, event)
        self._told.append(Told(key=task.key, attempt=task.attempt, frame=pack(event, blob), data=data))
        self._news.set()

    def _file_of(self, task: Task, event: JobEnded) -> bytes | None:
        """The bytes of the file that an attempt made, which goes; None where there is none."""
        if isinstance(event.report, CheckReport):
            import msgspec

            return msgspec.json.format(msgspec.json.encode(event.report))
        if not isinstance(task.command, Generate):
            return None
        path = self._output(task, task.command)
        try:
            return path.read_bytes() if event.outcome == "done" else None
        except FileNotFoundError:
            return None
        finally:
            path.unlink(missing_ok=True)
