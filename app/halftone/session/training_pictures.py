"""The folder of pictures, read in the background before a training begins, and runs that were broken off."""

from dataclasses import replace

import msgspec

from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.training import TrainConfig, TrainPicture
from halftone.library.training_data.training_pictures import read_pictures, reading_of, shapes_for
from halftone.library.training_data.training_runs import BrokenRun, unfinished
from halftone.session.events import Replaced
from halftone.session.ports import Clock, Delay, Executor
from halftone.session.state import Preparation
from halftone.session.store import Store

_QUIET_SECONDS = 0.3
"""Who types a size, or looks through folders, is not waited on."""
Key = tuple[str, int, int, str]


class TrainingPictures:
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
        """Read them anew: the folder may have changed."""
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
