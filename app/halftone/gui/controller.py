"""The session in the window: Qt's executor, clock and processes for it, and Qt's signals of what changes in its state."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Final, Literal

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import ModelFacts
from halftone.contract.messages import AnyEvent
from halftone.contract.request import Numerics
from halftone.contract.vocabulary import DType
from halftone.contract.wording import Words
from halftone.gui.background import Background, QtClock
from halftone.gui.create.picture.picture_images import read_thumbnails
from halftone.gui.process import HalftoneProcesses, Link
from halftone.gui.shell.pages import PageName
from halftone.gui.views.thumbnails import Thumbnails
from halftone.session.models.healths import Healths
from halftone.session.models.watched import Library
from halftone.session.pictures.draft import EMPTY
from halftone.session.pictures.gallery_state import GalleryState
from halftone.session.pictures.history import PictureHistory
from halftone.session.pictures.memory_estimate import Networks
from halftone.session.ports import Ports
from halftone.session.session import Session
from halftone.session.state import AppState
from halftone.session.update_state import Updating
from halftone.settings import store
from halftone.settings.slots import Slot
from halftone.settings.store import Settings

_OF_ONE_PAGE: Final = {
    "draft": EMPTY,
    "open_rows": frozenset(),
    "history": PictureHistory(),
    "networks": Networks(),
    "gallery": GalleryState(),
    "training_draft": None,
    "library": Library(),
    "healths": Healths(),
    "updating": Updating(),
}
"""What one page follows, each with a signal of its own, and what the Train page alone changes."""


def _judged(state: AppState) -> tuple[object, ...]:
    """What badges and precisions follow from."""
    return state.numerics, state.device, state.self_test, state.reports, state.models, state.extras


def _heard_by(make: Callable[[], Link], hear: Callable[[AnyEvent, bytes], object]) -> Link:
    link = make()
    link.arrived.connect(hear)
    return link


class Controller(QObject):
    """`changed` follows every step of the state but for those that only Create follows; `worker_event` passes on what the worker
    says, with its blob, afterwards.
    """

    changed = Signal()
    draft_changed = Signal()
    history_changed = Signal()
    estimates_changed = Signal()
    gallery_changed = Signal()
    worker_event = Signal(object, object)
    job_ended = Signal(object)
    noticed = Signal(object)
    notices_changed = Signal()
    """A message came or was withdrawn."""
    settings_changed = Signal()
    models_changed = Signal()
    model_selected = Signal()
    transformer_hosted = Signal(str)
    """A file of a transformer alone was chosen, and the model in use now has the other parts."""
    badges_changed = Signal()
    small_files_changed = Signal()
    embeddings_changed = Signal()
    loras_changed = Signal()
    library_changed = Signal()
    updates_changed = Signal()
    healths_changed = Signal()
    page_requested = Signal(str)
    guide_requested = Signal()
    """The chapter of the page that is shown."""

    def __init__(
        self,
        link: Link,
        settings: Settings | None = None,
        parent: QObject | None = None,
        *,
        early: bool = False,
        slot: Slot | None = None,
        more: Callable[[], Link] | None = None,
    ) -> None:
        """early: load the selected model as soon as there is nothing else to do; slot: where the queue is kept; more: makes the
        link to the worker of another card, None to use only one.
        """
        super().__init__(parent)
        self.background = Background(self)
        self.thumbnails = Thumbnails(self.background, read_thumbnails, self)
        ports = Ports(self.background, QtClock(self), HalftoneProcesses(self))
        known = store.load() if settings is None else settings
        self.session = Session(
            link,
            ports,
            known,
            early=early,
            heard=self.worker_event.emit,
            ended=self.job_ended.emit,
            slot=slot,
            make_link=None if more is None else partial(_heard_by, more),
        )
        self.take = self.session.store.take
        self._subscribe()
        link.arrived.connect(self.session.arrived)

    def _subscribe(self) -> None:
        listen = self.session.store.subscribe
        self.session.store.on_notice(self.noticed.emit)
        listen(lambda state: state.notices, lambda _notices: self.notices_changed.emit())
        listen(lambda state: state.draft, lambda _draft: self.draft_changed.emit())
        listen(lambda state: replace(state, **_OF_ONE_PAGE), lambda _state: self.changed.emit())
        listen(lambda state: state.history, lambda _history: self.history_changed.emit())
        listen(lambda state: state.gallery, lambda _gallery: self.gallery_changed.emit())
        listen(lambda state: (state.networks, state.history.timed), lambda _known: self.estimates_changed.emit())
        listen(lambda state: state.settings, lambda _settings: self.settings_changed.emit())
        listen(lambda state: state.selections, lambda _count: self.model_selected.emit())
        listen(lambda state: state.hosted, lambda hosted: self.transformer_hosted.emit(hosted[1]))
        listen(lambda state: state.models, lambda _models: self.models_changed.emit())
        listen(_judged, lambda _judged: self.badges_changed.emit())
        listen(lambda state: state.lacking, lambda _lacking: self.small_files_changed.emit())
        listen(lambda state: state.embeddings, lambda _embeddings: self.embeddings_changed.emit())
        listen(lambda state: state.loras, lambda _loras: self.loras_changed.emit())
        listen(lambda state: state.library, lambda _library: self.library_changed.emit())
        listen(lambda state: state.updating, lambda _updating: self.updates_changed.emit())
        listen(lambda state: state.healths, lambda _healths: self.healths_changed.emit())
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
    def precision(self) -> tuple[DType, Words]:
        """The dtype that the next picture runs in, and why."""
        return self.session.checks.precision_of(self.model)

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
        self.session.settings.update(msgspec.structs.replace(self.settings, numerics=numerics))

    def go(self, page: PageName | Literal["numerics"]) -> None:
        """Show a page."""
        self.page_requested.emit(page)

    def later(self, call: Callable[[], object]) -> None:
        """Call once the events at hand are done."""
        QTimer.singleShot(0, self, call)
