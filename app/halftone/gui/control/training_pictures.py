"""The folder of pictures, read in the background before a training begins, and runs that were broken off."""

import msgspec
from PySide6.QtCore import QObject, QTimer, Signal

from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.training import TrainConfig, TrainPicture
from halftone.gui.background import Background
from halftone.library.training_data.training_pictures import read_pictures, reading_of, shapes_for
from halftone.library.training_data.training_runs import BrokenRun, unfinished

_QUIET_MS = 300
"""Who types a size, or looks through folders, is not waited on."""
Key = tuple[str, int, int, str]


class PictureCheck(QObject):
    """`changed`: something else is known of the folder that was asked about last."""

    changed = Signal()

    def __init__(self, background: Background, parent: QObject) -> None:
        super().__init__(parent)
        self._background = background
        self._key: Key | None = None
        self._wanted: tuple[TrainConfig, ModelFacts] | None = None
        self.pictures: tuple[TrainPicture, ...] | None = None
        self.error: ErrorFacts | None = None
        self.broken: tuple[BrokenRun, ...] = ()
        """Runs that nobody stopped, as far as they are still to be offered."""
        self.earlier: tuple[BrokenRun, ...] = ()
        """All that can be gone on with, the newest first."""
        self._not_now: set[str] = set()
        self._quiet = QTimer(self)
        self._quiet.setSingleShot(True)
        self._quiet.setInterval(_QUIET_MS)
        self._quiet.timeout.connect(self._read)

    @property
    def busy(self) -> bool:
        """Whether an answer is to come."""
        return self._key is not None and self.pictures is None and self.error is None

    def look(self, config: TrainConfig, model: ModelFacts | None) -> None:
        """Read the pictures of a training, unless they were read as they are wanted; all of them, those left out too."""
        if model is None or not config.pictures:
            return
        key = (config.pictures, config.size, config.shapes, model.id)
        if key != self._key:
            self._key, self._wanted = key, (msgspec.structs.replace(config, left_out=()), model)
            self.pictures, self.error = None, None
            self._quiet.start()

    def again(self) -> None:
        """Read them anew: the folder may have changed."""
        if self._wanted is not None and not self.busy:
            self.pictures, self.error = None, None
            self._read()

    def look_for_broken(self, output: str) -> None:
        """Runs in the folder of LoRAs that can be gone on from."""
        self._background.run(lambda: unfinished(output), self._found, receiver=self)

    def forget_broken(self, folder: str) -> None:
        """Offer this one no more, as long as the program runs; it stays among the earlier ones."""
        self._not_now.add(folder)
        self._found(self.earlier)

    def _found(self, found: tuple[BrokenRun, ...]) -> None:
        broken = tuple(run for run in found if not run.kept and run.folder not in self._not_now)
        if (found, broken) != (self.earlier, self.broken):
            self.earlier, self.broken = found, broken
            self.changed.emit()

    def _read(self) -> None:
        if self._wanted is None:
            return
        key, (config, model) = self._key, self._wanted
        self._background.run(
            lambda: read_pictures(config, shapes_for(config, model), reading_of(model)),
            lambda found: self._known(key, found, None),
            lambda error: self._known(key, None, _facts(error)),
            receiver=self,
        )
        self.changed.emit()

    def _known(self, key: Key | None, found: tuple[TrainPicture, ...] | None, error: ErrorFacts | None) -> None:
        if key == self._key:
            self.pictures, self.error = found, error
            self.changed.emit()


def _facts(error: Exception) -> ErrorFacts:
    if isinstance(error, HalftoneError):
        return error.as_facts()
    return ErrorFacts(code="internal", facts={"detail": str(error), "log": ""})
