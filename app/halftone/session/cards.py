"""The other cards of the machine: each has a worker process of its own, which takes jobs of the queue that fit its memory.

The worker of the device in use keeps all that belongs to one place: checks, trainings, the model that is loaded early. Pictures
and upscales go to whichever card is free. A card's worker starts when a job first wants it, and its self-test comes before any
picture.
"""

import logging
from collections.abc import Callable, Iterator
from dataclasses import replace

import msgspec

from halftone.contract.facts import DeviceFacts, MemoryFacts, SelfTestReport
from halftone.contract.messages import (
    AnyCommand,
    AnyEvent,
    Generate,
    MemoryChanged,
    ModelChanged,
    Quit,
    Ready,
    Refused,
    SelfTest,
    Upscale,
    WorkerLost,
)
from halftone.contract.request import PictureRequest
from halftone.contract.vocabulary import DType
from halftone.gallery.timed import names_of
from halftone.health.forecasts.picture_memory import Next, forecast, memory_key
from halftone.health.planning.placement import Seat, place
from halftone.health.precision import resolve_precision
from halftone.library import records
from halftone.library.families.networks import known_networks
from halftone.session import events
from halftone.session.job_ids import new_job_id
from halftone.session.ports import Executor, WorkerLink
from halftone.session.state import AppState, Card, Job
from halftone.session.store import Store

LinkMaker = Callable[[Callable[[AnyEvent, bytes], object]], WorkerLink]
"""Makes the link to one more worker; its events go to what is given."""

_FitKey = tuple[bytes, str, DType, int]
"""What the forecast of a picture follows from: the request and the model, the device, the dtype, and what others have there."""
_COARSE = 2**30
"""Bytes that others may take or give back on a card before a forecast is made anew."""

_log = logging.getLogger(__name__)


def chosen(state: AppState) -> tuple[DeviceFacts, ...]:
    """The other cards that may take jobs: those of the same kind as the device in use, if the setting is on."""
    device = state.device
    if device is None or device.backend == "cpu" or not state.settings.all_cards:
        return ()
    return tuple(one for one in state.devices if one.backend == device.backend and one.id != device.id)


class Cards:
    def __init__(
        self, store: Store, executor: Executor, link: WorkerLink, make_link: LinkMaker | None, arrived: Callable[..., object]
    ) -> None:
        """link: that of the device in use; make_link: None where there is only this one; arrived: gets each event about a job of
        another card, its blob, and the link that it came through.
        """
        self._store = store
        self._executor = executor
        self._link = link
        self._make_link = make_link
        self._arrived = arrived
        self._links: dict[str, WorkerLink] = {}
        self._known: dict[str, Card] = {}
        """Cards with a worker, also those that take no further jobs."""
        self._leaving: list[WorkerLink] = []
        """Links of workers that were asked to leave and may not be gone yet."""
        self._fits: dict[_FitKey, bool | None] = {}
        self._self_tests: dict[str, SelfTestReport | None] = {}
        """Of devices, by id; read once."""
        self._tried: set[str] = set()
        """Cards whose self-test was queued: what ended it, a crash or the user, would end it again."""
        self.changed: Callable[[], object] = lambda: None
        """Called when a card may take a job that it could not take before."""
        if make_link is not None:
            store.subscribe(chosen, self._choose)

    # --- for the queue ----------------------------------------------------------------------------------------------

    def next(self) -> Job | None:
        """The next job to send, with the card that it goes to; None where none may start now."""
        state = self._store.state
        waiting = [job for job in state.jobs if not (job.running or job.held or job.leaving)]
        found = place(waiting, list(self._seats()), self._may, _model)
        if found is None:
            self._wake(waiting)
            return None
        job, seat = found
        return replace(job, card=seat.card)

    def send(self, command: AnyCommand, card: str) -> None:
        """Send a command to the worker of a card."""
        self.link(card).send(command)

    def link(self, card: str) -> WorkerLink:
        """The link to the worker of a card, "" for that of the device in use."""
        return self._links.get(card, self._link)

    # --- life -------------------------------------------------------------------------------------------------------

    def measured(self, report: SelfTestReport) -> None:
        """A self-test ended."""
        self._self_tests[report.device.id] = report
        if (card := self._store.state.card(report.device.id)) is not None:
            self._change(card, measured=True)

    def quit(self) -> None:
        """Ask all workers of other cards to leave."""
        for link in self._links.values():
            link.send(Quit())

    @property
    def gone(self) -> bool:
        """Whether none of them is there."""
        return all(link.gone for link in (*self._links.values(), *self._leaving))

    def stop(self) -> None:
        for link in (*self._links.values(), *self._leaving):
            link.stop()

    def _choose(self, devices: tuple[DeviceFacts, ...]) -> None:
        """Let these take jobs; a worker of another ends once its job has."""
        cards = (self._known.get(one.id) or Card(device=one, measured=self._self_test(one) is not None) for one in devices)
        self._tried.clear()
        self._store.take(events.CardsChosen(cards=tuple(cards)))
        self._let_go()
        self.changed()

    def _let_go(self) -> None:
        """Ask the workers of cards that take no jobs any more, and have none, to leave; nothing waits for them. What was only for
        such a card leaves the queue.
        """
        state = self._store.state
        for job in state.jobs:
            if job.card and not job.running and ((card := state.card(job.card)) is None or card.worker == "lost"):
                self._store.take(events.Removed(job=job.id))
        self._leaving = [link for link in self._leaving if not link.gone]
        busy = {job.card for job in state.begun}
        for name in [name for name in self._links if state.card(name) is None and name not in busy]:
            self._known.pop(name, None)
            self._leaving.append(self._links.pop(name))
            self._leaving[-1].send(Quit())

    # --- what is free -----------------------------------------------------------------------------------------------

    def _seats(self) -> Iterator[Seat]:
        state = self._store.state
        if state.worker == "ready" and state.running is None:
            device, loaded = state.device, state.loaded
            here = device is not None and loaded is not None and state.loaded_device == device.id
            yield Seat("", loaded.id if loaded and here else "", _free(device, state.memory) if device else None)
        busy = {job.card for job in state.begun}
        for card in state.cards:
            if card.worker == "ready" and card.id not in busy:
                yield Seat(card.id, "" if card.loaded is None else card.loaded.id, _free(card.device, card.memory))

    def _may(self, job: Job, seat: Seat) -> bool:
        """Whether a job may start on a card now. One that lacks memory on the device in use waits for a card that has it."""
        state = self._store.state
        if job.card:
            return seat.card == job.card
        if not seat.card:
            fits = self._fits_here(job)
            return fits is True or (fits is False and all(self._takes(job, card) is False for card in state.cards))
        card = state.card(seat.card)
        return card is not None and card.measured and self._takes(job, card) is True

    def _takes(self, job: Job, card: Card) -> bool | None:
        """Whether a card may compute this job at all: one that can, that fits, and that was not meant for a device by name. None
        while that is computed.
        """
        state, command = self._store.state, job.command
        if card.worker == "lost" or not isinstance(command, Generate | Upscale) or state.device is None:
            return False
        if command.request.device not in names_of(state.device, state.devices):
            return False
        if isinstance(command, Upscale):
            return True
        known = command.request.model in state.models.models
        return self._fit(command.request, card.device, card.memory) if known else False

    def _fits_here(self, job: Job) -> bool | None:
        """Whether a job fits the device in use; what no other card could take always does."""
        state = self._store.state
        if not isinstance(job.command, Generate) or state.device is None or not state.cards:
            return True
        if job.command.request.model not in state.models.models:
            return True
        return self._fit(job.command.request, state.device, state.memory)

    def _fit(self, request: PictureRequest, device: DeviceFacts, memory: MemoryFacts | None) -> bool | None:
        """Whether a picture of a known model fits a card, by forecast; None while that is computed."""
        model = self._store.state.models.models[request.model]
        others = 0 if memory is None else memory.others
        dtype = self._dtype(request, device)
        key = memory_key(request, model) + model.fingerprint.encode(), device.id, dtype, others // _COARSE
        if key not in self._fits:
            self._fits[key] = None

            def failed(error: Exception) -> None:
                _log.warning("It is not known whether a picture fits %s: %s", device.name, error)
                self._found(key, True)  # its worker says what it lacks

            self._executor.run(
                lambda: _forecast(Next(request, model, dtype, device.backend), device, others),
                lambda fits: self._found(key, fits),
                failed,
            )
        return self._fits[key]

    def _dtype(self, request: PictureRequest, device: DeviceFacts) -> DType:
        """The dtype that a picture would run in on a device. One that is not measured yet is taken for one like that in use: FP32
        would be too large for many, and it would never be measured.
        """
        in_use = self._store.state.device
        report = self._self_test(device) or (None if in_use is None else self._self_test(in_use))
        return resolve_precision(request.numerics.precision, report, device)[0]

    def _self_test(self, device: DeviceFacts) -> SelfTestReport | None:
        if device.id not in self._self_tests:
            self._self_tests[device.id] = records.load_selftest(device)
        return self._self_tests[device.id]

    def _found(self, key: _FitKey, fits: bool) -> None:
        self._fits[key] = fits
        self.changed()

    # --- workers ----------------------------------------------------------------------------------------------------

    def _wake(self, waiting: list[Job]) -> None:
        """Start the worker of a card that a waiting job could use, and measure a card before its first picture."""
        state = self._store.state
        if state.worker != "ready":
            return
        for card in state.cards:
            unmeasured = card.worker == "ready" and not card.measured and card.id not in self._tried
            if (unmeasured or card.worker == "off") and any(not job.card and self._takes(job, card) is True for job in waiting):
                (self._measure if unmeasured else self._start)(card)
                return

    def _start(self, card: Card) -> None:
        assert self._make_link is not None
        link = self._make_link(lambda event, blob: self._hear(card.id, event, blob))
        self._links[card.id] = link
        self._change(card, worker="starting")
        link.start()

    def _measure(self, card: Card) -> None:
        self._tried.add(card.id)
        name = new_job_id()
        job = Job(id=name, command=SelfTest(job=name, device=card.id), title=card.device.name, card=card.id)
        self._store.take(events.Queued(job=job, first=True))
        self.changed()

    def _hear(self, name: str, event: AnyEvent, blob: bytes) -> None:
        card, link = self._known.get(name), self.link(name)
        if event.job is not None:
            self._arrived(event, blob, link)
            self._let_go()
            return
        if card is not None:
            match event:
                case Ready():
                    self._change(card, worker="ready", loaded=None)
                case ModelChanged():
                    self._change(card, loaded=event.model)
                case MemoryChanged():
                    self._change(card, memory=event.memory)
                case Refused() if event.command == "Hello":
                    self._change(card, worker="lost")
                case WorkerLost():
                    self._change(card, worker="lost" if link.hopeless else "starting", loaded=None, memory=None)
                    if link.hopeless:
                        self._store.take(events.Noted(kind="card-lost", facts=(card.device.name, event.log)))
                        self._let_go()
                case _:
                    pass
        self.changed()

    def _change(self, card: Card, **changes: object) -> None:
        card = replace(card, **changes)
        if card.id in self._links:
            self._known[card.id] = card
        self._store.take(events.CardChanged(card=card))


def for_card(command: AnyCommand, card: str) -> AnyCommand:
    """The command as the worker of another card gets it."""
    if not card or not isinstance(command, Generate | Upscale):
        return command
    return msgspec.structs.replace(command, request=msgspec.structs.replace(command.request, device=card))


def _model(job: Job) -> str:
    return job.model or ""


def _free(device: DeviceFacts, memory: MemoryFacts | None) -> int | None:
    return device.memory_total if memory is None else max(0, memory.total - memory.others)


def _forecast(picture: Next, device: DeviceFacts, others: int) -> bool:
    """Whether a picture fits a card on which others have so many bytes; where nothing is known of its networks, whether the
    weights do.
    """
    if device.memory_total is None:
        return True
    memory = MemoryFacts(total=device.memory_total, own=0, others=others)
    found = forecast(known_networks(picture.model, picture.request.extras), picture, memory)
    return picture.model.size_bytes < device.memory_total - others if found is None else found.fit != "no"
