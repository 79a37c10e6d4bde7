"""The model in the worker's memory: brought there while nothing else is to be done, given back when the user asks."""

from collections.abc import Callable

from halftone.contract.facts import ModelFacts
from halftone.contract.messages import AnyCommand, Load, Unload
from halftone.session.events import Warming
from halftone.session.ports import Clock, Delay, WorkerLink
from halftone.session.state import AppState
from halftone.session.store import Store

_QUIET_SECONDS = 1.0
"""Idle time before a model is loaded early: a user who browses the list, or starts at once, does not wait."""


def worth_loading(state: AppState, model: ModelFacts | None) -> bool:
    """Whether the worker has nothing to do, the device is known and measured, and the model is not there but would fit."""
    device = state.device
    if model is None or device is None or state.self_test is None or state.worker != "ready" or state.jobs or state.warming:
        return False
    if state.loaded is not None and (state.loaded.id, state.loaded_device) == (model.id, device.id):
        return False
    return device.memory_total is None or model.size_bytes < device.memory_total


class ModelMemory:
    """Each selection is loaded once: what the user freed, or what could not be loaded, waits for its next picture."""

    def __init__(
        self, store: Store, link: WorkerLink, clock: Clock, *, early: bool, send: Callable[[AnyCommand, str], object]
    ) -> None:
        """early: load before a job asks for it; send: sends a command to the worker of another card, by its id."""
        self._store = store
        self._link = link
        self._send = send
        self._asked = ""
        self._quiet = Delay(clock, _QUIET_SECONDS, self._load)
        if early:
            store.subscribe(lambda state: state.selections, lambda _count: self._selected())
            store.subscribe(lambda state: state, lambda _state: self._look())

    def free(self) -> None:
        """Give the memory of every GPU back; the next picture loads the model again. A running job keeps that of its GPU."""
        state = self._store.state
        if state.running is None:
            self._asked = state.settings.last_model
            self._link.send(Unload())
        busy = {job.card for job in state.begun}
        for card in state.cards:
            if card.loaded is not None and card.id not in busy:
                self._send(Unload(), card.id)

    def _selected(self) -> None:
        self._asked = ""
        self._look()

    def _look(self) -> None:
        """Wait for a quiet moment while there is something to load."""
        if self._wanted() is None:
            self._quiet.stop()
        elif not self._quiet.active:
            self._quiet.start()

    def _wanted(self) -> ModelFacts | None:
        state = self._store.state
        model = state.model
        return model if model is not None and model.id != self._asked and worth_loading(state, model) else None

    def _load(self) -> None:
        model, device = self._wanted(), self._store.state.device
        if model is None or device is None:
            return
        self._asked = model.id
        self._store.take(Warming(model=model.name))
        self._link.send(Load(model=model.id, device=device.id, numerics=self._store.state.numerics))
