"""The training of this session: its pictures and memory before it begins, then run, paused, answered and followed."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

import msgspec

from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.facts import MemoryFacts, ModelFacts
from halftone.contract.messages import AnyEvent, Decide, Hold, TestPicture, Train, TrainCaught, TrainHeld
from halftone.contract.training import Caught, TrainChoice, TrainConfig, TrainPicture
from halftone.contract.vocabulary import DType
from halftone.health.training.training_memory import TrainingForecast, training_forecast
from halftone.health.training.training_record import RunRecord
from halftone.library.training_data.training_pictures import read_pictures, reading_of, shapes_for
from halftone.library.training_data.training_runs import BrokenRun, unfinished
from halftone.session.events import Replaced
from halftone.session.job_ids import new_job_id
from halftone.session.job_queue import JobQueue
from halftone.session.ports import Clock, Delay, Executor, WorkerLink
from halftone.session.state import Ended, Job, Preparation, Shown, TrainingRun
from halftone.session.store import Store

_SAVING_SECONDS: Final = 30.0
"""The time that a closing program waits for a save."""


def kept_training(draft: TrainConfig | None) -> str:
    """The draft for the next start, as JSON."""
    return "" if draft is None else msgspec.json.encode(draft).decode()


def restored_training(text: str) -> TrainConfig | None:
    """The draft of the last close, None where there is none that can be read."""
    try:
        return msgspec.json.decode(text, type=TrainConfig)
    except msgspec.DecodeError:
        return None


class Training:
    def __init__(self, store: Store, queue: JobQueue, link: WorkerLink, clock: Clock) -> None:
        self._store = store
        self._queue = queue
        self._link = link
        self._clock = clock
        self._next: TrainConfig | None = None
        self._afterwards: Callable[[], object] | None = None
        self._limit = Delay(clock, _SAVING_SECONDS, self._finished)
        if (left := restored_training(store.state.settings.train)) is not None:
            self.put(left)

    def put(self, draft: TrainConfig) -> None:
        """Draft the next training. A learning rate that is no number yet waits."""
        if not math.isnan(draft.learning_rate):
            self._store.take(Replaced(part=draft))

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


_DEPENDS = ("model", "size", "shapes", "rank", "batch", "optimizer", "checkpointing", "precision")
"""Fields of TrainConfig that the memory depends on."""


class TrainingMemory:
    """How much memory the training in the form would need, computed off this thread."""

    def __init__(self, store: Store, executor: Executor) -> None:
        self._store = store
        self._executor = executor
        self._key: tuple[object, ...] | None = None

    def look(self, config: TrainConfig, model: ModelFacts | None, auto: DType, backend: str, memory: MemoryFacts | None) -> None:
        """auto: the type that the device computes best in."""
        if model is None:
            return
        free = None if memory is None else _rounded(memory.total - memory.others)
        key = (*(getattr(config, name) for name in _DEPENDS), model.fingerprint, auto, backend, free)
        if key == self._key:
            return
        self._key = key
        dtype: DType = auto if config.precision == "auto" else config.precision
        narrow = None if auto == "float32" else auto
        self._executor.run(
            lambda: training_forecast(config, model, dtype, on_cpu=backend == "cpu", free=free, narrow=narrow),
            lambda found: self._known(key, found),
            lambda _error: self._known(key, None),
        )

    def _known(self, key: tuple[object, ...], found: TrainingForecast | None) -> None:
        if key == self._key:
            self._store.take(Replaced(part=replace(self._store.state.preparation, forecast=found)))


def _rounded(free: int) -> int:
    """Round to ten megabytes, never below zero: what others use changes all the time."""
    return max(0, round(free / 1e7)) * 10_000_000


_QUIET_SECONDS = 0.3
"""Who types a size, or looks through folders, is not waited on."""
Key = tuple[str, int, int, str]


class TrainingPictures:
    """The folder of pictures, read in the background before a training begins, and runs that were broken off."""

    def __init__(self, store: Store, executor: Executor, clock: Clock) -> None:
        self._store = store
        self._executor = executor
        self._key: Key | None = None
        self._wanted: tuple[TrainConfig, ModelFacts] | None = None
        self._not_now: set[str] = set()
        self._quiet = Delay(clock, _QUIET_SECONDS, self._read)

    @property
    def _known(self) -> Preparation:
        return self._store.state.preparation

    def look(self, config: TrainConfig, model: ModelFacts | None) -> None:
        """Read the pictures of a training, unless they were read as they are wanted; all of them, those left out too."""
        if model is None or not config.pictures:
            return
        key = (config.pictures, config.size, config.shapes, model.id)
        if key != self._key:
            self._key, self._wanted = key, (msgspec.structs.replace(config, left_out=()), model)
            self._learn(replace(self._known, busy=True, pictures=None, error=None))
            self._quiet.start()

    def again(self) -> None:
        """Read them again: the folder may have changed."""
        if not self._known.busy:
            self._read()

    def look_for_broken(self, output: str) -> None:
        """Runs in the folder of LoRAs that can be gone on from."""
        self._executor.run(lambda: unfinished(output), self._found)

    def forget_broken(self, folder: str) -> None:
        """Offer this one no more, as long as the program runs; it stays among the earlier ones."""
        self._not_now.add(folder)
        self._found(self._known.earlier)

    def _found(self, found: tuple[BrokenRun, ...]) -> None:
        broken = tuple(run for run in found if not run.kept and run.folder not in self._not_now)
        self._learn(replace(self._known, broken=broken, earlier=found))

    def _read(self) -> None:
        if self._wanted is None:
            return
        key, (config, model) = self._key, self._wanted
        self._learn(replace(self._known, busy=True, pictures=None, error=None))
        self._executor.run(
            lambda: read_pictures(config, shapes_for(config, model), reading_of(model)),
            lambda found: self._answer(key, found, None),
            lambda error: self._answer(key, None, _facts(error)),
        )

    def _answer(self, key: Key | None, found: tuple[TrainPicture, ...] | None, error: ErrorFacts | None) -> None:
        if key == self._key:
            self._learn(replace(self._known, busy=False, pictures=found, error=error))

    def _learn(self, known: Preparation) -> None:
        self._store.take(Replaced(part=known))


def _facts(error: Exception) -> ErrorFacts:
    if isinstance(error, HalftoneError):
        return error.as_facts()
    return ErrorFacts(code="internal", facts={"detail": str(error), "log": ""})
