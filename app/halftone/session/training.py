"""The training of this session: begun, paused, answered and followed; the queue runs it like any other job."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from halftone.contract.messages import AnyEvent, Decide, Hold, TestPicture, Train, TrainCaught, TrainHeld
from halftone.contract.training import Caught, TrainChoice, TrainConfig
from halftone.health.training.training_record import RunRecord
from halftone.session.events import Replaced
from halftone.session.job_queue import JobQueue, new_job_id
from halftone.session.ports import Clock, Delay, WorkerLink
from halftone.session.state import Ended, Job, Shown, TrainingRun
from halftone.session.store import Store

_SAVING_SECONDS: Final = 30.0
"""So long a program that ends waits for what is saved."""


class Training:
    def __init__(self, store: Store, queue: JobQueue, link: WorkerLink, clock: Clock) -> None:
        self._store = store
        self._queue = queue
        self._link = link
        self._clock = clock
        self.draft = ""
        """What stands in the setup, as `TrainForm.kept` gives it."""
        self._next: TrainConfig | None = None
        self._afterwards: Callable[[], object] | None = None
        self._limit = Delay(clock, _SAVING_SECONDS, self._finished)

    # --- the job ----------------------------------------------------------------------------------------------------

    @property
    def job(self) -> Job | None:
        """The training, while it waits or runs."""
        return self._store.state.job(self.run.id)

    @property
    def running(self) -> bool:
        job = self.job
        return job is not None and job.running

    @property
    def preparing(self) -> bool:
        """Whether it runs and its first step is yet to come."""
        return self.running and self.run.record is not None and self.run.record.begins is None

    @property
    def stopping(self) -> bool:
        """Whether it stops after this step."""
        job = self.job
        return job is not None and bool(job.stopping)

    @property
    def run(self) -> TrainingRun:
        return self._store.state.training

    def _change(self, **changes: Any) -> None:
        self._store.take(Replaced(part=replace(self.run, **changes)))

    def start(self, config: TrainConfig, resume: str | None = None) -> None:
        """Queue a training. resume: the folder of a run that was broken off."""
        if self.job is not None:
            return
        run = TrainingRun(id=new_job_id(), record=RunRecord(config), resumed=resume)
        self._store.take(Replaced(part=run))
        self._queue.submit(Train(job=run.id, config=config, resume=resume), config.name, then=self._ended)

    def begin_again(self, config: TrainConfig) -> None:
        """Give up what runs, without keeping it, and begin with these settings."""
        if self.running:
            self._next = config
            self._queue.give_way(self.run.id)
        else:
            self.start(config)

    def go_on(self) -> None:
        """Take a training up again that ended before its last step: from what was saved, else from the start."""
        run = self.run
        if run.record is not None:
            self.start(run.record.config, run.folder if run.record.saved is not None else run.resumed)

    def withdraw(self) -> None:
        """Take a waiting training out of the queue; a running one is kept as it is."""
        if self.running:
            self.keep()
        else:
            self._queue.cancel(self.run.id)

    def hold(self, on: bool) -> None:
        """Pause after this step, with everything in memory, or go on."""
        if self.running:
            self._change(pausing=on)
            self._link.send(Hold(job=self.run.id, on=on))

    def keep(self) -> None:
        """Stop after this step and save what there is."""
        if self.running and not self.stopping:
            self._queue.keep(self.run.id)

    def decide(self, choice: TrainChoice, picture: str = "") -> None:
        """Answer what the guard reported or asked."""
        if self.running:
            self._link.send(Decide(job=self.run.id, choice=choice, picture=picture))
            self._change(answered=self.run.record is not None and self.run.record.asks is not None)

    def save_in(self, folder: str) -> None:
        """From now on, save in another folder."""
        if self.running:
            self._link.send(Decide(job=self.run.id, choice="save-in", folder=folder))

    def dismiss(self, caught: Caught) -> None:
        """It was looked at."""
        self._change(open=tuple(one for one in self.run.open if one != caught))

    def look_at(self, caught: Caught) -> None:
        """Bring what was stopped before to the front once more."""
        self._change(open=(*(one for one in self.run.open if one != caught), caught))

    def finish(self, then: Callable[[], object]) -> None:
        """Stop and keep, where one runs; `then` is called when it is saved, or the time for that is over."""
        if not self.running:
            then()
            return
        self._afterwards = then
        self._limit.start()
        self.keep()

    def _finished(self) -> None:
        self._limit.stop()
        then, self._afterwards = self._afterwards, None
        if then is not None:
            then()

    # --- what the worker says ---------------------------------------------------------------------------------------

    def hear(self, event: AnyEvent, blob: bytes) -> None:
        """Follow the events of the job."""
        run = self.run
        if run.record is not None and event.job == run.id and run.record.take(event, blob):
            self._store.take(Replaced(part=followed(run, event, blob, self._clock.now())))

    def _ended(self, ended: Ended) -> None:
        if self.run.record is not None:
            self.run.record.asks, self.run.record.held = None, False
        self._change(end=ended)
        self._finished()
        wanted, self._next = self._next, None
        if wanted is not None:
            self.start(wanted)


def followed(run: TrainingRun, event: AnyEvent, blob: bytes, now: float) -> TrainingRun:
    """The run after an event that its record has taken."""
    run = replace(run, events=run.events + 1)
    match event:
        case TrainHeld():
            run = replace(run, pausing=False)
        case TestPicture(path=path) if path:
            run = replace(run, shown=(*run.shown, Shown(event, blob)))
        case TrainCaught(caught=caught):
            stopped = () if caught.did == "warned" else (caught,)
            heard = {**run.heard, (caught.step, caught.name): now}
            run = replace(run, answered=False, heard=heard, open=(*run.open, *stopped))
        case _:
            pass
    asked = run.record is not None and run.record.asks is not None
    return replace(run, answered=run.answered and asked)
