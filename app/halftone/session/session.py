"""The use cases, joined. Commands go from a page to a use case to the worker; events from the worker to the state, the use cases
and whoever subscribed.
"""

import logging
from collections.abc import Callable
from pathlib import Path

from halftone.contract.facts import CheckReport, SelfTestReport
from halftone.contract.messages import AnyEvent, Generate, JobEnded, PictureReady, Quit, Ready, Repair, SelfTest, WorkerLost
from halftone.contract.vocabulary import POCKET
from halftone.session.cards import Cards, LinkMaker
from halftone.session.checks import Checks
from halftone.session.devices import DeviceChoice, IdleMeasuring
from halftone.session.events import Noted, Starting
from halftone.session.job_queue import JobQueue
from halftone.session.models.conversion import Converter
from halftone.session.models.fragile import FragileMaker
from halftone.session.models.health_reader import HealthReader
from halftone.session.models.known_files import EmbeddingList, KnownFiles, LoraList
from halftone.session.models.library import ModelLibrary
from halftone.session.models.many_checks import ManyChecks
from halftone.session.models.model_list import ModelList
from halftone.session.models.model_memory import ModelMemory
from halftone.session.models.small_files import SmallFiles
from halftone.session.pictures.drafting import Drafting
from halftone.session.pictures.estimates import Estimates
from halftone.session.pictures.fixing import Fixing
from halftone.session.pictures.gallery import Gallery
from halftone.session.pictures.picture_list import PictureList
from halftone.session.pictures.presets import PresetBook
from halftone.session.pictures.sheets import SheetMaker
from halftone.session.ports import Delay, Ports, WorkerLink
from halftone.session.queue_keeper import QueueKeeper, with_drafts
from halftone.session.state import AppState, Ended
from halftone.session.store import Store
from halftone.session.training import Training, TrainingMemory, TrainingPictures
from halftone.session.updates import Updates
from halftone.session.writing import RecordWriter, SettingsKeeper
from halftone.settings.folders import clear_leftovers
from halftone.settings.slots import Slot
from halftone.settings.store import Settings

_LEAVE_SECONDS = 2.0
_LOOK_SECONDS = 0.02
_START_SECONDS = 90.0
"""How long a worker may take until it is ready before the user is asked. A slow disk may need most of a minute for torch."""

_log = logging.getLogger(__name__)


class Session:
    """One run of the program with a worker of its own. `arrived` is to be called with each event of the worker."""

    def __init__(
        self,
        link: WorkerLink,
        ports: Ports,
        settings: Settings,
        *,
        early: bool = False,
        heard: Callable[[AnyEvent, bytes], object] = lambda _event, _blob: None,
        ended: Callable[[Ended], object] = lambda _ended: None,
        slot: Slot | None = None,
        read_only: bool = False,
        make_link: LinkMaker | None = None,
    ) -> None:
        """early: load the selected model as soon as there is nothing else to do, and watch the model folders;
        heard: gets each event once the state knows it; ended: is called with each job that ended, once the use cases know it;
        slot: where the queue and the drafts are kept; read_only: leave the file of the settings as it is; make_link: makes the
        link to the worker of another card, None to use only one.
        """
        executor, self._clock, self._commands = ports
        commands = self._commands
        self._early = early
        self._executor = executor
        self._link = link
        self._heard = heard
        self._job_ended = ended
        self._unfinished: set[Path] = set()
        self.store = store = Store(AppState(settings=settings), self._clock.now)
        self.settings = SettingsKeeper(store, executor, self._clock, read_only=read_only)
        if slot is not None:
            self.settings.update(with_drafts(settings, slot.drafts()))
        self.cards = Cards(store, executor, link, make_link, self._heard_of_job)
        self.queue = JobQueue(store, self.cards)
        self.devices = DeviceChoice(store, self.queue)
        self.library = ModelLibrary(store, ports)
        self.models = ModelList(store, executor)
        self.small_files = SmallFiles(store, self.models, executor, commands)
        self.drafting = Drafting(store)
        self.presets = PresetBook(store, executor, self.models.select)
        self.files = KnownFiles(store, executor)
        self.embeddings = EmbeddingList(store, executor)
        self.loras = LoraList(store, executor)
        self.checks = Checks(store, self.queue, RecordWriter(store, self.queue, executor))
        self.healths = HealthReader(store, executor)
        self.many_checks = ManyChecks(store, self.checks, executor)
        self.estimates = Estimates(store, executor, self.checks)
        self.history = PictureList(store, executor)
        self.fixing = Fixing(store, self.queue, self.checks, executor)
        self.gallery = Gallery(store, executor, self._clock)
        self.kept = QueueKeeper(store, self.queue, executor, self._clock, slot, self.arrived)
        self.sheets = SheetMaker(store, executor)
        self._stopped = False
        self._late = Delay(self._clock, _START_SECONDS, lambda: store.take(Noted(kind="worker-late")))
        store.subscribe(lambda state: state.worker == "starting", lambda on: None if on else self._late.stop())
        self.fragile = FragileMaker(store, self.models, commands)
        self.converter = Converter(store, commands)
        self.updates = Updates(store, commands)
        self.training = Training(store, self.queue, link, self._clock)
        self.training_pictures = TrainingPictures(store, executor, self._clock)
        self.training_memory = TrainingMemory(store, executor)
        self.memory = ModelMemory(store, link, self._clock, early=early, send=self.cards.send)
        self._idle = IdleMeasuring(store, self.queue, self.devices, self._clock)

    @property
    def state(self) -> AppState:
        return self.store.state

    # --- life -------------------------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the worker and read the models."""
        self._await_worker()
        self._link.start()
        if self._early:
            self.library.start()
        self.models.refresh()
        self.kept.begin()
        self.updates.begin()

    def restart(self) -> None:
        """Start the worker again after it was given up, or while it does not get ready; the queue continues."""
        if self.state.worker == "ready":
            return  # the button of an old message
        self._await_worker()
        self._link.restart()

    def _await_worker(self) -> None:
        self.store.take(Starting())
        self._late.start()

    def finish(self) -> None:
        """Let the queue come to its end: go on when paused, and queue nothing more by itself."""
        self.queue.stop_repeating()
        self.queue.pause(False)

    def leave(self, then: Callable[[], object], *, keep_queue: bool = False) -> None:
        """Ask the worker to leave, after a training has saved what it learnt, with a little time for it; `then` is called when
        it is gone or the time is over. keep_queue: the next start offers what waits and what runs; else it is dropped.
        """
        self._stopped = True
        if keep_queue:
            self.kept.freeze()
        self.queue.stop_repeating()
        self.queue.clear_waiting()
        self.training.finish(lambda: self._quit(then))

    def _quit(self, then: Callable[[], object]) -> None:
        self._link.send(Quit())
        self.cards.quit()
        deadline = self._clock.now() + _LEAVE_SECONDS

        def look() -> None:
            if (self._link.gone and self.cards.gone) or self._clock.now() >= deadline:
                then()
            else:
                self._clock.later(_LOOK_SECONDS, look)

        self._clock.later(_LOOK_SECONDS, look)

    def stop(self) -> None:
        """End the worker: the program is about to end. What a killed worker left of a copy goes too."""
        self._late.stop()
        self.gallery.stop()
        self._executor.finish_in_order()
        saved = self.settings.finish()
        self.library.stop()
        self.kept.finish(stopped=self._stopped, saved=saved)
        self.small_files.cancel()
        self.updates.stop()
        self._unfinished |= {*self.fragile.stop(), *self.converter.stop()}
        self._commands.finish()  # once all are killed: one after another would be as slow as their sum
        self._link.stop()
        self.cards.stop()
        for folder in self._unfinished:
            clear_leftovers(folder)

    # --- events -----------------------------------------------------------------------------------------------------

    def arrived(self, event: AnyEvent, blob: bytes) -> None:
        """The worker of the device in use reports."""
        if event.job is not None:
            self._heard_of_job(event, blob, self._link)
            return
        if isinstance(event, Ready):
            _log.info("worker %s, protocol %s, %s devices", event.version, event.protocol, len(event.devices))
        self.store.take(event)
        self._heard(event, blob)
        match event:
            case Ready():
                self.devices.worker_ready()
            case WorkerLost():
                self._clock.later(0, self._worker_lost)
            case _:
                pass
        self.queue.pump()

    def _heard_of_job(self, event: AnyEvent, blob: bytes, link: WorkerLink) -> None:
        """A worker reports about its job."""
        self.store.take(event)
        self.training.hear(event, blob)
        self.history.hear(event, blob)
        self._heard(event, blob)
        match event:
            case PictureReady():
                self.queue.upscale_made(event.job, event.facts)
            case JobEnded():
                self._ended(event)
                self._continue(event, link)
            case _:
                pass
        self.queue.pump()

    def _ended(self, event: JobEnded) -> None:
        ended = self.state.ended
        if ended is None or ended.job.id != event.job:
            return
        if isinstance(ended.job.command, Repair) and ended.outcome != "done":
            self._unfinished.add(Path(ended.job.command.output).parent)
        if isinstance(ended.job.command, Generate) and ended.outcome == "done":
            self.library.used(ended.job.command.request.models)
        if isinstance(ended.job.command, SelfTest):
            self._idle.ended(ended)
        if isinstance(ended.report, SelfTestReport):
            self.devices.measured(ended.report)
            self.cards.measured(ended.report)
            self._check_pocket_once()
        if isinstance(ended.report, CheckReport):
            self.checks.checked(ended, awaited=self.queue.awaited(ended.job.id))
        if ended.error is not None and ended.error.code == "model-needs-files":
            self.models.refresh()  # it had them when it was chosen
        self.queue.tell(ended)
        self._job_ended(ended)
        self.queue.repeat(ended)

    def _continue(self, event: JobEnded, link: WorkerLink) -> None:
        """The worker of a job died, and the job goes on with the next one."""
        job = self.state.job(event.job) if event.job is not None else None
        if job is not None and job.id == event.job and not job.running:
            if not link.hopeless:
                self.store.take(Noted(kind="went-on", facts=(job.title,), error=event.error))
            self.kept.worker_died(job)

    def _check_pocket_once(self) -> None:
        """Check the demo model on the first run, so that its badge is real."""
        pocket = self.state.models.models.get(POCKET)
        if not self.state.settings.first_run_done and pocket is not None and self.checks.report(pocket) is None:
            self.checks.check(pocket)

    def _worker_lost(self) -> None:
        if self.state.worker != "lost":
            return
        if self._link.hopeless:
            self.store.take(Noted(kind="worker-lost", facts=(self.state.log,)))
        elif not self._link.gone:
            self._await_worker()
