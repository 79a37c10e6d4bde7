"""The training of this session: begun, paused, answered and followed; the queue runs it like any other job."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QObject, QTimer, Signal

from halftone.contract.messages import AnyEvent, Decide, Hold, TestPicture, Train, TrainCaught, TrainHeld
from halftone.contract.training import Caught, TrainChoice, TrainConfig
from halftone.gui.control.job_queue import JobQueue, new_job_id
from halftone.gui.process import Link
from halftone.health.training.training_record import RunRecord
from halftone.session.state import Ended, Job
from halftone.session.store import Store

_SAVING_MS: Final = 30_000
"""So long a window that closes waits for what is saved."""


@dataclass(frozen=True)
class Shown:
    """A test picture with its thumbnail as PNG."""

    picture: TestPicture
    thumbnail: bytes


class Training(QObject):
    """`changed`: something of it is new. `record` is of the newest training, `end` how it ended; both None before the first."""

    changed = Signal()

    def __init__(self, holder: Store, queue: JobQueue, link: Link, parent: QObject) -> None:
        super().__init__(parent)
        self._holder = holder
        self._queue = queue
        self._link = link
        self._id = ""
        self.draft = ""
        """What stands in the setup, as `TrainForm.kept` gives it."""
        self.record: RunRecord | None = None
        self.end: Ended | None = None
        self.shown: list[Shown] = []
        self.open: list[Caught] = []
        """What was stopped and not looked at yet, the newest last."""
        self.heard: dict[tuple[int, str], float] = {}
        """When each was told, by step and name, in seconds of the monotonic clock."""
        self._next: TrainConfig | None = None
        self._resumed: str | None = None
        """Folder of the run that this one goes on with."""
        self.pausing = False
        """Whether it was told to pause; the step at hand is not over yet."""
        self.answered = False
        """Whether the question at hand was answered; the worker has yet to go on."""

    # --- the job ----------------------------------------------------------------------------------------------------

    @property
    def job(self) -> Job | None:
        """It, while it waits or runs."""
        return self._holder.state.job(self._id) if self._id else None

    @property
    def running(self) -> bool:
        job = self.job
        return job is not None and job.running

    @property
    def preparing(self) -> bool:
        """Whether it runs and its first step is yet to come."""
        return self.running and self.record is not None and self.record.begins is None

    @property
    def refused(self) -> bool:
        """Whether it ended before its first step was begun."""
        return self.end is not None and self.record is not None and self.record.begins is None

    @property
    def stopping(self) -> bool:
        """Whether it was told to stop."""
        job = self.job
        return job is not None and bool(job.stopping)

    @property
    def asking(self) -> bool:
        """Whether it waits for an answer to what its guard found."""
        return self.record is not None and self.record.asks is not None and not self.answered

    @property
    def folder(self) -> str:
        """Of the run, "" before its first step."""
        return self.record.folder if self.record is not None else ""

    def start(self, config: TrainConfig, resume: str | None = None) -> None:
        """Queue a training. resume: the folder of a run that was broken off."""
        if self.job is not None:
            return
        self._id, self._resumed = new_job_id(), resume
        self.record, self.end, self.shown, self.open = RunRecord(config), None, [], []
        self.answered = self.pausing = False
        self._queue.submit(Train(job=self._id, config=config, resume=resume), config.name, then=self._ended)
        self.changed.emit()

    def begin_again(self, config: TrainConfig) -> None:
        """Give up what runs, without keeping it, and begin with these settings."""
        if self.running:
            self._next = config
            self._queue.give_way(self._id)
        else:
            self.start(config)

    def go_on(self) -> None:
        """Take a training up again that ended before its last step: from what was saved, else from the start."""
        if self.record is not None:
            self.start(self.record.config, self.folder if self.record.saved is not None else self._resumed)

    def withdraw(self) -> None:
        """Take a waiting training out of the queue; a running one is kept as it is."""
        if self.running:
            self.keep()
        elif self._id:
            self._queue.cancel(self._id)

    def hold(self, on: bool) -> None:
        """Pause after this step, with everything in memory, or go on."""
        if self.running:
            self.pausing = on
            self._link.send(Hold(job=self._id, on=on))
            self.changed.emit()

    def keep(self) -> None:
        """Stop after this step and save what there is."""
        if self.running and not self.stopping:
            self._queue.keep(self._id)

    def decide(self, choice: TrainChoice, picture: str = "") -> None:
        """Answer what the guard told or asked."""
        if self.running:
            self._link.send(Decide(job=self._id, choice=choice, picture=picture))
            self.answered = self.record is not None and self.record.asks is not None
            self.changed.emit()

    def save_in(self, folder: str) -> None:
        """From now on, save in another folder."""
        if self.running:
            self._link.send(Decide(job=self._id, choice="save-in", folder=folder))

    def dismiss(self, caught: Caught) -> None:
        """It was looked at."""
        if caught in self.open:
            self.open.remove(caught)
            self.changed.emit()

    def look_at(self, caught: Caught) -> None:
        """Bring what was stopped before to the front once more."""
        self.open = [*(one for one in self.open if one != caught), caught]
        self.changed.emit()

    def finish(self, then: Callable[[], object]) -> None:
        """Stop and keep, where one runs; `then` is called when it is saved, or the time for that is over."""
        if not self.running:
            then()
            return
        limit = QTimer(self)
        limit.setSingleShot(True)

        def ended() -> None:
            if self.running and limit.isActive():
                return
            self.changed.disconnect(ended)
            limit.stop()
            limit.timeout.disconnect(ended)
            then()

        limit.timeout.connect(ended)
        limit.start(_SAVING_MS)
        self.changed.connect(ended)
        self.keep()

    # --- what the worker says ---------------------------------------------------------------------------------------

    def hear(self, event: AnyEvent, blob: bytes) -> None:
        """Follow the events of the job."""
        if self.record is None or event.job != self._id or not self.record.take(event, blob):
            return
        if isinstance(event, TrainHeld):
            self.pausing = False
        elif isinstance(event, TestPicture) and event.path:
            self.shown.append(Shown(event, blob))
        elif isinstance(event, TrainCaught):
            self.answered = False
            self._caught(event.caught)
        if self.record.asks is None:
            self.answered = False
        self.changed.emit()

    def _caught(self, caught: Caught) -> None:
        self.heard[caught.step, caught.name] = time.monotonic()
        if caught.did != "warned":
            self.open.append(caught)

    def _ended(self, ended: Ended) -> None:
        if self.record is not None:
            self.record.asks, self.record.held = None, False
        self.end = ended
        self.changed.emit()
        wanted, self._next = self._next, None
        if wanted is not None:
            self.start(wanted)
