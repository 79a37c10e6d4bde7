"""The model in the worker's memory: brought there while nothing else is to be done, given back when the user asks."""

from PySide6.QtCore import QObject, QTimer

from halftone.contract.facts import ModelFacts
from halftone.contract.messages import Load, Unload
from halftone.gui.control.model_list import ModelList
from halftone.gui.control.writing import SettingsKeeper
from halftone.gui.process import Link
from halftone.session.events import Warming
from halftone.session.state import AppState
from halftone.session.store import Store

_QUIET_MS = 1000
"""So long nothing else must come up before a model is loaded: who looks through the list, or starts at once, waits for none."""


def worth_loading(state: AppState, model: ModelFacts | None) -> bool:
    """Whether the worker has nothing to do, the device is known and measured, and the model is not there but would fit."""
    device = state.device
    if model is None or device is None or state.self_test is None or state.worker != "ready" or state.jobs or state.warming:
        return False
    if state.loaded is not None and (state.loaded.id, state.loaded_device) == (model.id, device.id):
        return False
    return device.memory_total is None or model.size_bytes < device.memory_total


class ModelMemory(QObject):
    """Each selection is loaded once: what the user freed, or what could not be loaded, waits for its next picture."""

    def __init__(
        self, holder: Store, keeper: SettingsKeeper, models: ModelList, link: Link, *, early: bool, parent: QObject
    ) -> None:
        """early: load before a job asks for it."""
        super().__init__(parent)
        self._holder = holder
        self._keeper = keeper
        self._models = models
        self._link = link
        self._asked = ""
        self._quiet = QTimer(self)
        self._quiet.setSingleShot(True)
        self._quiet.setInterval(_QUIET_MS)
        self._quiet.timeout.connect(self._load)
        if early:
            models.selected.connect(self._selected)
            holder.subscribe(lambda state: state, lambda _state: self._look())
            models.changed.connect(self._look)

    def free(self) -> None:
        """Give the memory back; the next picture loads the model again. A running job keeps it."""
        state = self._holder.state
        if state.running is not None:
            return
        self._asked = self._keeper.settings.last_model
        self._link.send(Unload())

    def _selected(self) -> None:
        self._asked = ""
        self._look()

    def _look(self) -> None:
        """Wait for a quiet moment while there is something to load."""
        if self._wanted() is None:
            self._quiet.stop()
        elif not self._quiet.isActive():
            self._quiet.start()

    def _wanted(self) -> ModelFacts | None:
        model = self._models.current
        return model if model is not None and model.id != self._asked and worth_loading(self._holder.state, model) else None

    def _load(self) -> None:
        model, device = self._wanted(), self._holder.state.device
        if model is None or device is None:
            return
        self._asked = model.id
        self._holder.take(Warming(model=model.name))
        self._link.send(Load(model=model.id, device=device.id, numerics=self._keeper.numerics))
