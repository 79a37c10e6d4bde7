"""The session in the window: Qt's executor, clock and processes for it, and Qt's signals of what changes in its state."""

from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import ModelFacts
from halftone.contract.request import Extras, Numerics
from halftone.contract.vocabulary import DType, Precision
from halftone.contract.wording import Words
from halftone.gui.background import Background, QtClock
from halftone.gui.process import HalftoneProcesses, Link
from halftone.session.draft import EMPTY
from halftone.session.ports import Ports
from halftone.session.session import Session
from halftone.session.state import AppState
from halftone.settings import store
from halftone.settings.store import Settings

PageName = Literal["create", "health", "train", "device", "settings"]


def _judged(state: AppState) -> tuple[object, ...]:
    """What badges and precisions follow from."""
    return state.numerics, state.device, state.self_test, state.reports, state.models, state.extras


class Controller(QObject):
    """`changed` follows every step of the state but for those of the draft; `worker_event` passes on what the worker says, with
    its blob, afterwards.
    """

    changed = Signal()
    draft_changed = Signal()
    worker_event = Signal(object, object)
    job_ended = Signal(object)
    noticed = Signal(object)
    settings_changed = Signal()
    models_changed = Signal()
    model_selected = Signal()
    transformer_hosted = Signal(str)
    """A file of a transformer alone was chosen, and the model in use now has the other parts."""
    badges_changed = Signal()
    small_files_changed = Signal()
    embeddings_changed = Signal()
    page_requested = Signal(str)
    guide_requested = Signal()
    """The chapter of the page that is shown."""

    def __init__(
        self, link: Link, settings: Settings | None = None, parent: QObject | None = None, *, early: bool = False
    ) -> None:
        """early: load the selected model as soon as there is nothing else to do."""
        super().__init__(parent)
        self.background = Background(self)
        ports = Ports(self.background, QtClock(self), HalftoneProcesses(self))
        known = store.load() if settings is None else settings
        self.session = Session(link, ports, known, early=early, heard=self.worker_event.emit, ended=self.job_ended.emit)
        self._offer()
        self._subscribe()
        link.arrived.connect(self.session.arrived)

    def _offer(self) -> None:
        """What pages call, and the use case that does it."""
        session = self.session
        self.start = session.start
        self.restart = session.restart
        self.finish = session.finish
        self.leave = session.leave
        self.stop = session.stop
        self.training = session.training
        self.small_files = session.small_files
        self.drafting = session.drafting
        self.files = session.files
        self.model_list = session.models
        self.take = session.store.take
        self.submit = session.queue.submit
        self.generate = session.queue.generate
        self.upscale = session.queue.upscale
        self.retry = session.queue.retry
        self.recover = session.queue.recover
        self.requeue = session.queue.requeue
        self.cancel = session.queue.cancel
        self.keep = session.queue.keep
        self.remove_with_undo = session.queue.remove_with_undo
        self.clear_waiting = session.queue.clear_waiting
        self.move = session.queue.move
        self.pause = session.queue.pause
        self.measure = session.devices.measure
        self.use_device = session.devices.use
        self.refresh_models = session.models.refresh
        self.select_model = session.models.select
        self.forget_model = session.models.forget
        self.make_fragile = session.fragile.make
        self.free_memory = session.memory.free
        self.report = session.checks.report
        self.precision_of = session.checks.precision_of
        self.badge = session.checks.badge
        self.checked_in = session.checks.checked_in
        self.check = session.checks.check
        self.fix_model = session.checks.fix
        self.apply_cure = session.checks.apply
        self.undo_cure = session.checks.undo
        self.repair = session.checks.repair
        self.update_settings = session.settings.update
        self.choose_precision = session.settings.choose_precision

    def _subscribe(self) -> None:
        listen = self.session.store.subscribe
        self.session.store.on_notice(self.noticed.emit)
        listen(lambda state: state.draft, lambda _draft: self.draft_changed.emit())
        listen(lambda state: replace(state, draft=EMPTY), lambda _state: self.changed.emit())
        listen(lambda state: state.settings, lambda _settings: self.settings_changed.emit())
        listen(lambda state: state.selections, lambda _count: self.model_selected.emit())
        listen(lambda state: state.hosted, lambda hosted: self.transformer_hosted.emit(hosted[1]))
        listen(lambda state: state.models, lambda _models: self.models_changed.emit())
        listen(_judged, lambda _judged: self.badges_changed.emit())
        listen(lambda state: state.lacking, lambda _lacking: self.small_files_changed.emit())
        listen(lambda state: state.embeddings, lambda _embeddings: self.embeddings_changed.emit())
        listen(lambda state: state.unclear, lambda _count: self.go("health"))

    # --- what is known ----------------------------------------------------------------------------------------------

    @property
    def state(self) -> AppState:
        return self.session.state

    @property
    def settings(self) -> Settings:
        return self.state.settings

    @property
    def numerics(self) -> Numerics:
        """Numerics of the next picture."""
        return self.state.numerics

    @property
    def extras(self) -> Extras:
        """What the next pictures use beside the model's own parts."""
        return self.state.extras

    def extras_of(self, model: ModelFacts) -> Extras:
        """What a model is checked and judged with: what is chosen belongs to the selected one."""
        return self.state.extras_of(model)

    @property
    def once(self) -> Precision | None:
        """The precision chosen on Create, None: as the settings say."""
        return self.state.once

    @property
    def precision(self) -> tuple[DType, Words]:
        """The dtype that the next picture runs in, and why."""
        return self.precision_of(self.model)

    @property
    def device_precision(self) -> tuple[DType, Words]:
        """The dtype that the device runs in where no model says otherwise, and why."""
        return self.state.device_precision

    @property
    def model(self) -> ModelFacts | None:
        """Facts of the selected model, None while they are being read or when its file is missing."""
        return self.state.model

    @property
    def model_error(self) -> ErrorFacts | None:
        """Why the selected model cannot be used, None when it can."""
        return self.state.models.errors.get(self.settings.last_model)

    @property
    def models(self) -> tuple[ModelFacts, ...]:
        """Pocket first, then what was used before."""
        return tuple(self.state.models.models.values())

    # --- settings and pages -----------------------------------------------------------------------------------------

    def update_numerics(self, numerics: Numerics) -> None:
        self.update_settings(msgspec.structs.replace(self.settings, numerics=numerics))

    def go(self, page: PageName | Literal["numerics"]) -> None:
        """Show a page."""
        self.page_requested.emit(page)

    def later(self, call: Callable[[], object]) -> None:
        """Call once the events at hand are done."""
        QTimer.singleShot(0, self, call)
