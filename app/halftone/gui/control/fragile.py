"""The fragile twin of the demo model: made on demand, by a process of its own."""

import logging
import os
import sys
from pathlib import Path

from PySide6.QtCore import QObject, QProcess

from halftone.client.command import worker_environment
from halftone.gui.control.model_list import ModelList
from halftone.gui.process import to_qt
from halftone.session.events import Making, Noted
from halftone.session.store import Store
from halftone.settings import places
from halftone.settings.folders import clear_leftovers

_END_MS = 3000

_log = logging.getLogger(__name__)


class FragileMaker(QObject):
    """One at a time; the model is used as soon as it is there."""

    def __init__(self, holder: Store, models: ModelList, parent: QObject) -> None:
        super().__init__(parent)
        self._holder = holder
        self._models = models
        self._process: QProcess | None = None

    def make(self) -> None:
        """Write it into the data folder, unless it is there, and use it."""
        if self._process is not None:
            return
        folder = _models_folder() / "pocket-fragile"
        if os.path.isdir(folder):
            self._models.select(str(folder))
            return
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._holder.take(Noted(kind="fragile-failed", facts=(str(error),)))
            return
        self._holder.take(Making(on=True))
        self._holder.take(Noted(kind="fragile-begun"))
        process = QProcess(self)
        process.setProcessEnvironment(to_qt(worker_environment()))
        process.finished.connect(lambda code, _status: self._made(code, str(folder)))
        process.errorOccurred.connect(lambda _error: self._made(-1, str(folder)))
        self._process = process
        process.start(sys.executable, ["-P", "-m", "halftone", "demo", "fragile", "--output", str(folder)])

    def stop(self) -> None:
        """End the process, if there is one."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.waitForFinished(_END_MS)
            clear_leftovers(_models_folder())

    def _made(self, code: int, folder: str) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        self._holder.take(Making(on=False))
        if code == 0:
            self._models.select(folder)
            self._holder.take(Noted(kind="fragile-made"))
        else:
            said = bytes(process.readAllStandardError().data()).decode("utf-8", "replace").strip()
            _log.error("The fragile demo model could not be made: %s", said)
            self._holder.take(Noted(kind="fragile-failed", facts=(said.rpartition("\n")[2],)))
        process.deleteLater()


def _models_folder() -> Path:
    return places.data_dir() / "models"
