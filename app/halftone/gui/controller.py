"""The one object between the pages and everything else. Its parts do the work; here they are joined, and events go round.

Commands go page -> controller -> part -> link; events come link -> state -> parts -> pages.
"""

import logging
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Literal

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from halftone.contract.errors import ErrorFacts
from halftone.contract.facts import CheckReport, ModelFacts, SelfTestReport
from halftone.contract.messages import AnyEvent, JobEnded, Quit, Ready, Repair, SelfTest, WorkerLost
from halftone.contract.request import ALONE, Extras, Numerics
from halftone.contract.vocabulary import DType, Precision
from halftone.contract.wording import Words
from halftone.gui.background import Background
from halftone.gui.control.checks import Checks
from halftone.gui.control.devices import DeviceChoice
from halftone.gui.control.drafting import Drafting
from halftone.gui.control.embedding_list import KnownWords
from halftone.gui.control.fragile import FragileMaker
from halftone.gui.control.idle_measuring import IdleMeasuring
from halftone.gui.control.job_queue import JobQueue
from halftone.gui.control.known_files import KnownFiles
from halftone.gui.control.memory import ModelMemory
from halftone.gui.control.model_list import ModelList
from halftone.gui.control.small_files import SmallFiles
from halftone.gui.control.training import Training
from halftone.gui.control.writing import RecordWriter, SettingsKeeper
from halftone.gui.process import Link
from halftone.session.draft import EMPTY, extras
from halftone.session.events import Noted, Starting
from halftone.session.state import AppState
from halftone.session.store import Store
from halftone.settings import store
from halftone.settings.folders import clear_leftovers
from halftone.settings.store import Settings

PageName = Literal["create", "health", "train", "device", "settings"]

_LEAVE_SECONDS = 2.0
_LOOK_MS = 20

_log = logging.getLogger(__name__)


class Controller(QObject):
    """`changed` follows every step of the state but for those of the draft (see `drafting`); `worker_event` passes on what the
    worker says, with its blob, afterwards.
    """

    changed = Signal()
    worker_event = Signal(object, object)
    job_ended = Signal(object)
    noticed = Signal(object)
    settings_changed = Signal()
    models_changed = Signal()
    model_selected = Signal()
    badges_changed = Signal()
    page_requested = Signal(str)
    guide_requested = Signal()
    """The chapter of the page that is shown."""

    def __init__(
        self, link: Link, settings: Settings | None = None, parent: QObject | None = None, *, early: bool = False
    ) -> None:
        """early: load the selected model as soon as there is nothing else to do."""
        super().__init__(parent)
        self.background = Background(self)
        self._link = link
        self._unfinished: set[Path] = set()
        self._holder = Store()
        self._keeper = SettingsKeeper(store.load() if settings is None else settings, self._holder, self.background, self)
        self._queue = JobQueue(self._holder, link, self)
        writer = RecordWriter(self._holder, self._queue, self.background, self)
        self._devices = DeviceChoice(self._holder, self._queue, self._keeper, self)
        self._idle = IdleMeasuring(self._holder, self._queue, self._devices, self)
        self.model_list = ModelList(self._holder, self._keeper, self.background, self)
        self.small_files = SmallFiles(self.model_list, self.background, self)
        self.drafting = Drafting(self._holder, self._keeper, self.model_list, self)
        self.files = KnownFiles(self._keeper, self.background)
        self.words = KnownWords(self._holder, self._keeper, self.model_list, self.background, self)
        self._checks = Checks(self._holder, self._queue, self._keeper, writer, self._devices, self.extras_of, self)
        self._fragile = FragileMaker(self._holder, self.model_list, self)
        self._memory = ModelMemory(self._holder, self._keeper, self.model_list, link, early=early, parent=self)
        self.training = Training(self._holder, self._queue, link, self)
        self._offer()
        self._connect()

    def _offer(self) -> None:
        """What pages call, and the part that does it."""
        self.take = self._holder.take
        self.submit = self._queue.submit
        self.generate = self._queue.generate
        self.upscale = self._queue.upscale
        self.retry = self._queue.retry
        self.recover = self._queue.recover
        self.requeue = self._queue.requeue
        self.cancel = self._queue.cancel
        self.keep = self._queue.keep
        self.remove_with_undo = self._queue.remove_with_undo
        self.clear_waiting = self._queue.clear_waiting
        self.move = self._queue.move
        self.pause = self._queue.pause
        self.measure = self._devices.measure
        self.use_device = self._devices.use
        self.refresh_models = self.model_list.refresh
        self.select_model = self.model_list.select
        self.forget_model = self.model_list.forget
        self.make_fragile = self._fragile.make
        self.free_memory = self._memory.free
        self.report = self._checks.report
        self.precision_of = self._checks.precision_of
        self.badge = self._checks.badge
        self.checked_in = self._checks.checked_in
        self.check = self._checks.check
        self.fix_model = self._checks.fix
        self.apply_cure = self._checks.apply
        self.undo_cure = self._checks.undo
        self.repair = self._checks.repair
        self.update_settings = self._keeper.update
        self.choose_precision = self._keeper.choose_precision

    def _connect(self) -> None:
        self._holder.on_notice(self.noticed.emit)
        self._holder.subscribe(lambda state: replace(state, draft=EMPTY), lambda _state: self.changed.emit())
        self._keeper.changed.connect(self.settings_changed)
        self.model_list.changed.connect(self.models_changed)
        self.model_list.selected.connect(self.model_selected)
        for source in (self._keeper.numerics_changed, self._devices.changed, self._checks.changed, self.model_list.changed):
            source.connect(self.badges_changed)
        self.drafting.extras_changed.connect(self.badges_changed)
        self._checks.unclear.connect(lambda: self.go("health"))
        self._link.arrived.connect(self._arrived)

    # --- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the worker and read the models; called after the first paint."""
        self._link.start()
        self.refresh_models()

    def restart(self) -> None:
        """Start the worker again after it was given up; what waits goes on."""
        self.take(Starting())
        self._link.restart()

    def finish(self) -> None:
        """Let the queue come to its end: go on when paused, and queue nothing more by itself."""
        self._queue.stop_repeating()
        self.pause(False)

    def leave(self, then: Callable[[], object]) -> None:
        """Ask the worker to leave, after a training has saved what it learnt, with a little time for it; `then` is called when
        it is gone or the time is over.
        """
        self._queue.stop_repeating()
        self.clear_waiting()
        self.training.finish(lambda: self._quit(then))

    def _quit(self, then: Callable[[], object]) -> None:
        self._link.send(Quit())
        deadline = time.monotonic() + _LEAVE_SECONDS
        watch = QTimer(self)
        watch.setInterval(_LOOK_MS)

        def look() -> None:
            if self._link.gone or time.monotonic() >= deadline:
                watch.stop()
                then()

        watch.timeout.connect(look)
        watch.start()

    def stop(self) -> None:
        """End the worker; the window is about to close. What a killed worker left of a copy goes too."""
        self.background.finish_in_order()
        self._keeper.finish()
        self._fragile.stop()
        self.small_files.stop()
        self._link.stop()
        for folder in self._unfinished:
            clear_leftovers(folder)

    # --- events -----------------------------------------------------------------------------------------------------

    def _arrived(self, event: AnyEvent, blob: bytes) -> None:
        if isinstance(event, Ready):
            _log.info("worker %s, protocol %s, %s devices", event.version, event.protocol, len(event.devices))
        self.take(event)
        self.training.hear(event, blob)
        self.worker_event.emit(event, blob)
        match event:
            case Ready():
                self._devices.worker_ready()
            case WorkerLost():
                self.later(self._tell_if_hopeless)
            case JobEnded():
                self._ended(event)
            case _:
                pass
        self._queue.pump()

    def _ended(self, event: JobEnded) -> None:
        ended = self.state.ended
        if ended is None or ended.job.id != event.job:
            return
        if isinstance(ended.job.command, Repair) and ended.outcome != "done":
            self._unfinished.add(Path(ended.job.command.output).parent)
        if isinstance(ended.job.command, SelfTest):
            self._idle.ended(ended)
        if isinstance(ended.report, SelfTestReport):
            self._devices.measured(ended.report)
            self._check_pocket_once()
        if isinstance(ended.report, CheckReport):
            self._checks.checked(ended, awaited=self._queue.awaited(ended.job.id))
        if ended.error is not None and ended.error.code == "model-needs-files":
            self.refresh_models()  # it had them when it was chosen
        self._queue.tell(ended)
        self.job_ended.emit(ended)
        self._queue.repeat(ended)

    def _check_pocket_once(self) -> None:
        """At the first run the demo model is checked with the device, so that its badge is real."""
        pocket = self.model_list.pocket
        if not self.settings.first_run_done and pocket is not None and self.report(pocket) is None:
            self.check(pocket)

    def _tell_if_hopeless(self) -> None:
        if self._link.hopeless and self.state.worker != "refused":
            self.take(Noted(kind="worker-lost", facts=(self.state.log,)))

    # --- what is known ----------------------------------------------------------------------------------------------

    @property
    def state(self) -> AppState:
        return self._holder.state

    @property
    def settings(self) -> Settings:
        return self._keeper.settings

    @property
    def numerics(self) -> Numerics:
        """As they hold for the next picture."""
        return self._keeper.numerics

    @property
    def extras(self) -> Extras:
        """What the next pictures use beside the model's own parts."""
        return extras(self.state.draft)

    def extras_of(self, model: ModelFacts) -> Extras:
        """What a model is checked and judged with: what is chosen belongs to the selected one."""
        return self.extras if model.id == self.settings.last_model else ALONE

    @property
    def once(self) -> Precision | None:
        """The precision chosen on Create, None: as the settings say."""
        return self._keeper.once

    @property
    def precision(self) -> tuple[DType, Words]:
        """The dtype that the next picture runs in, and why."""
        return self._checks.precision_of(self.model)

    @property
    def device_precision(self) -> tuple[DType, Words]:
        """The dtype that the device runs in where no model says otherwise, and why."""
        return self._devices.precision

    @property
    def model(self) -> ModelFacts | None:
        """Facts of the selected model, None while they are being read or when its file is missing."""
        return self.model_list.current

    @property
    def model_error(self) -> ErrorFacts | None:
        """Why the selected model cannot be used, None when it can."""
        return self.model_list.error

    @property
    def models(self) -> tuple[ModelFacts, ...]:
        """Pocket first, then what was used before."""
        return self.model_list.all

    # --- settings and pages -----------------------------------------------------------------------------------------

    def update_numerics(self, numerics: Numerics) -> None:
        self.update_settings(msgspec.structs.replace(self.settings, numerics=numerics))

    def go(self, page: PageName | Literal["numerics"]) -> None:
        """Show a page."""
        self.page_requested.emit(page)

    def later(self, call: Callable[[], object]) -> None:
        """Call once the events at hand are done."""
        QTimer.singleShot(0, self, call)
