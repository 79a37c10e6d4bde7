"""Keeps the queue on the disk, so that nothing of it is lost when the window or the worker is killed."""

import logging
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import PictureFacts
from halftone.contract.messages import AnyEvent, JobEnded, PictureReady
from halftone.gallery.history import Entry, History
from halftone.session.events import Left, Noted, Queued, Repeating
from halftone.session.job_queue import JobQueue
from halftone.session.pictures.draft import kept as kept_draft
from halftone.session.pictures.queue_file import kept_queue, left_of, restored_queue
from halftone.session.ports import Clock, Delay, Executor
from halftone.session.state import AppState, Job, LeftQueue, Sheet, renewed
from halftone.session.store import Store
from halftone.session.training import kept_training
from halftone.session.writing import tell_not_written
from halftone.settings.slots import Slot
from halftone.settings.store import Settings

_DRAFT_SECONDS: Final = 1.0
_LOOK_SECONDS: Final = 0.25
_PATIENCE_SECONDS: Final = 15.0
"""How long the worker of a window that was killed may take to end; it ends itself after ten."""

_log = logging.getLogger(__name__)


def _kept_parts(state: AppState) -> tuple[object, ...]:
    """What the file of the queue follows from; steps and previews are not in it."""
    jobs = tuple((job.id, job.command, job.stopping == "cancel") for job in state.jobs)
    return jobs, state.sheets, state.endless, state.left


@dataclass
class _Pictures:
    """The last picture of each job that was asked about, as the list of pictures knows it. heard: what the window knows."""

    heard: Mapping[str, PictureFacts]
    found: dict[str, Entry] = field(default_factory=dict[str, Entry])
    asked: set[str] = field(default_factory=set[str])

    def last(self, job: str) -> PictureFacts | None:
        self.asked.add(job)
        entry = _last_entry(job)
        known = self.heard.get(job)
        if entry is None or (known is not None and known.index >= entry.facts.index):
            return known
        self.found[job] = entry
        return entry.facts


def _last_entry(job: str) -> Entry | None:
    try:
        with History() as history:
            return history.last_of(job)
    except (OSError, sqlite3.Error) as error:
        _log.warning("It is not known which pictures were made: %s", error)
        return None


class QueueKeeper:
    """Writes the queue before a job of it is sent. Without a slot nothing is written, but a worker that dies costs no picture."""

    def __init__(
        self,
        store: Store,
        queue: JobQueue,
        executor: Executor,
        clock: Clock,
        slot: Slot | None,
        arrived: Callable[[AnyEvent, bytes], object],
    ) -> None:
        """arrived: gets a picture that the worker saved but could not report, and the end of a job that lacked nothing else."""
        self._store = store
        self._queue = queue
        self._executor = executor
        self._clock = clock
        self._slot = slot
        self._arrived = arrived
        self._written: frozenset[str] = frozenset()
        self._over: frozenset[str] = frozenset()
        self._unwritten: AppState | None = None
        self._reading = self._writing = self._frozen = False
        self._drafts = Delay(clock, _DRAFT_SECONDS, self._write_drafts)
        if slot is not None:
            store.subscribe(_kept_parts, lambda _parts: self._write())
            store.subscribe(lambda state: (state.draft, state.training_draft), lambda _drafts: self._draft_changed())
        else:
            store.subscribe(lambda state: frozenset(job.id for job in state.jobs), self._forget_others)

    # --- a worker died ----------------------------------------------------------------------------------------------

    def worker_died(self, job: Job) -> None:
        """Continue a job at the picture at which its worker died."""
        pictures = _Pictures({job.id: job.pictures[-1]} if job.pictures else {})
        self._queue.hold()

        def over(left: Job | Sheet | None) -> None:
            if (entry := pictures.found.get(job.id)) is not None:
                small, left = entry.thumbnail, replace(left, deaths=0) if isinstance(left, Job) else left
                self._arrived(PictureReady(job=job.id, facts=entry.facts, thumbnail_size=len(small)), small)
            if isinstance(left, Job) and left.grid == job.grid:
                self._queue.go_on(job, left)
            else:
                self._arrived(JobEnded(job=job.id, outcome="done"), b"")
            self._queue.release()

        def work() -> Job | Sheet | None:
            left = left_of(job, pictures.last)
            return renewed(left, left.command) if isinstance(left, Job) and left.id == job.id else left

        def failed(error: Exception) -> None:
            _log.error("It is not known what is left of %s", job.id, exc_info=error)
            self._store.take(Noted(kind="made-again", facts=(job.title or job.kind, str(error))))
            over(renewed(job, job.command))

        self._executor.run_in_order(work, over, failed)

    # --- the window was killed --------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Read what the window before left here, once its worker is gone."""
        if self._slot is not None:
            self._reading = True
            self._look(self._slot, self._clock.now() + _PATIENCE_SECONDS)

    def _look(self, slot: Slot, end: float) -> None:
        def looked(waits: bool) -> None:
            if waits and self._clock.now() < end:
                self._clock.later(_LOOK_SECONDS, lambda: self._look(slot, end))
            else:
                self._restore(slot)

        self._executor.run(lambda: bool(slot.queue()) and slot.has_workers, looked, self._not_restored)

    def _restore(self, slot: Slot) -> None:
        pictures = _Pictures({})
        self._executor.run_in_order(
            lambda: restored_queue(slot.queue(), pictures.last),
            lambda found: self._restored(*found, pictures),
            self._not_restored,
        )

    def _not_restored(self, error: Exception) -> None:
        _log.error("The queue of the window before cannot be restored", exc_info=error)
        self._reading = False
        self._store.take(Noted(kind="queue-unread", facts=(str(error),)))
        if self._store.state.jobs:
            self._write()

    def _restored(self, left: LeftQueue, sheets: tuple[Sheet, ...], pictures: _Pictures) -> None:
        self._reading = False
        self._written |= pictures.asked
        self._store.take(Left(queue=left, sheets=sheets))
        if left.pictures:
            self._store.take(Noted(kind="queue-left", facts=(str(left.pictures),)))
        self._write()

    def go_on(self) -> None:
        """Put what the window before left into the queue, before what is in it."""
        left = self._store.state.left
        self._store.take(Left(queue=LeftQueue()))
        if left.endless is not None and self._store.state.endless is None:
            self._store.take(Repeating(endless=left.endless))
        for job in reversed(left.jobs):
            self._store.take(Queued(job=job, first=True))
        if left.endless is not None and not any(job.endless for job in self._store.state.jobs):
            self._queue.generate(left.endless.request, endless=True, upscaler=left.endless.upscaler)
        self._queue.pump()

    def discard(self) -> None:
        """Forget it. The pictures that were made stay."""
        self._store.take(Left(queue=LeftQueue()))

    # --- writing ----------------------------------------------------------------------------------------------------

    def freeze(self) -> None:
        """Write no later change of the queue: what waits now is offered at the next start."""
        self._frozen = True

    def _write(self) -> None:
        """Write the queue, or the newest one once the write that runs now is over."""
        if self._slot is None or self._reading or self._frozen:
            return
        state = self._store.state
        now = frozenset(job.id for job in (*state.left.jobs, *state.jobs))
        self._over |= self._written - now
        self._written = now
        self._unwritten = state
        if not self._writing:
            self._write_newest(self._slot, state)

    def _write_newest(self, slot: Slot, state: AppState) -> None:
        over, self._over, self._unwritten, self._writing = self._over, frozenset(), None, True
        self._queue.hold()

        def work() -> None:
            slot.keep_queue(kept_queue(state))
            if over:
                _forget(over)

        def ended() -> None:
            self._writing = False
            if self._unwritten is not None:
                self._write_newest(slot, self._unwritten)
            self._queue.release()

        def failed(error: Exception) -> None:
            tell_not_written(self._store, error)
            ended()

        self._executor.run_in_order(work, lambda _done: ended(), failed)

    def _forget_others(self, now: frozenset[str]) -> None:
        """Forget the jobs that are over, where no queue is written."""
        over, self._written = self._written - now, now
        if over:
            self._executor.run_in_order(lambda: _forget(over), lambda _done: None)

    def _draft_changed(self) -> None:
        if not self._drafts.active:
            self._drafts.start()

    def _write_drafts(self) -> None:
        slot, state = self._slot, self._store.state
        if slot is None:
            return
        data = drafts_data(state)
        self._executor.run_in_order(
            lambda: slot.keep_drafts(data), lambda _done: None, lambda error: tell_not_written(self._store, error)
        )

    def finish(self, *, stopped: bool, saved: bool) -> None:
        """The window closes in order. stopped: the user wants none of the jobs any more; saved: the settings have the drafts."""
        self._drafts.stop()
        if self._slot is None:
            return
        try:
            if saved:
                self._slot.drop_drafts()
            else:
                self._slot.keep_drafts(drafts_data(self._store.state))
            if stopped and not (self._reading or self._frozen):
                self._unwritten = replace(self._store.state, jobs=(), endless=None)
            if (state := self._unwritten) is not None:
                self._unwritten = None
                self._slot.keep_queue(kept_queue(state))
        except OSError as error:
            _log.warning("The queue and the drafts stay as they were: %s", error)
        self._slot.close()


def drafts_data(state: AppState) -> bytes:
    """The drafts of Create and Train, as the settings have them after an orderly end."""
    train = kept_training(state.training_draft) or state.settings.train
    return msgspec.json.encode({"form": kept_draft(state.draft), "train": train})


def with_drafts(settings: Settings, data: bytes) -> Settings:
    """The settings with the drafts of a window that was killed; unchanged without any."""
    try:
        found = msgspec.json.decode(data, type=dict[str, str])
    except msgspec.MsgspecError:
        return settings
    return msgspec.structs.replace(settings, form=found.get("form", settings.form), train=found.get("train", settings.train))


def _forget(jobs: frozenset[str]) -> None:
    try:
        with History() as history:
            history.forget_jobs(jobs)
    except (OSError, sqlite3.Error, HalftoneError) as error:
        _log.info("notes on finished jobs stay: %s", error)
