"""Small files that a model lacks: fetched by a process of its own when the user says so, or copied from a file of the user's."""

import logging
import sys
from contextlib import suppress
from typing import Final

import msgspec
from PySide6.QtCore import QObject, QProcess, Signal

from halftone.client.command import worker_environment
from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.gui.background import Background
from halftone.gui.control.model_list import ModelList
from halftone.gui.process import to_qt
from halftone.library.files.fetching import hub
from halftone.library.files.small_files import SmallFile, lacking, take

_END_MS: Final = 3000

_log = logging.getLogger(__name__)


class _Said(msgspec.Struct):
    """What the process prints when it fails."""

    error: ErrorFacts


class _Came(msgspec.Struct):
    """What it prints while a file comes, a line each. done, total: bytes."""

    done: int
    total: int


class SmallFiles(QObject):
    """`changed`: another model lacks some, or it went on; `coming`: more of a file came. model: the one that lacks some and was
    wanted, None without one; error: why the last try to get them failed; came: (bytes, of how many) of what is being fetched,
    None where nothing came yet.
    """

    changed = Signal()
    coming = Signal()

    def __init__(self, models: ModelList, background: Background, parent: QObject) -> None:
        super().__init__(parent)
        self.model: ModelFacts | None = None
        self.error: ErrorFacts | None = None
        self.came: tuple[int, int] | None = None
        self._printed = b""
        self._models = models
        self._background = background
        self._process: QProcess | None = None
        models.lacking.connect(self.ask)
        models.changed.connect(self._look)
        models.selected.connect(self._moved_on)

    @property
    def files(self) -> tuple[SmallFile, ...]:
        """What the model lacks now."""
        return lacking(self.model) if self.model is not None else ()

    @property
    def fetching(self) -> bool:
        return self._process is not None

    def ask(self, model: ModelFacts) -> None:
        """Say what this model lacks; nothing is fetched."""
        self._show(model)

    def close(self) -> None:
        """Not now: the model stays as it is."""
        self.cancel()
        self._show(None)

    def _look(self) -> None:
        """The model in use may lack some since it was used."""
        model = self._models.in_use_lacking
        if model is not None and self.model is None:
            self._show(model)

    def _moved_on(self) -> None:
        """Another model is in use: what the last one lacked is no matter now."""
        if not self.fetching:
            self._show(None)

    def _show(self, model: ModelFacts | None, error: ErrorFacts | None = None) -> None:
        self.model, self.error = model, error
        self.changed.emit()

    # --- from the hub -----------------------------------------------------------------------------------------------

    def fetch(self) -> None:
        """Fetch what the model lacks, then use it. One at a time."""
        if self.model is None or self.fetching:
            return
        process = QProcess(self)
        process.setProcessEnvironment(to_qt(worker_environment()))
        process.finished.connect(lambda code, _status: self._ended(process, code))
        process.errorOccurred.connect(lambda _error: self._ended(process, -1))
        process.readyReadStandardError.connect(lambda: self._read(process))
        self._process, self.came, self._printed = process, None, b""
        process.start(sys.executable, ["-P", "-m", "halftone", "fetch", self.model.path, "--yes", "--json", "--progress"])
        self._show(self.model)

    def _read(self, process: QProcess) -> None:
        """The last whole line of what it printed tells how much came."""
        if process is not self._process:
            return
        self._printed += bytes(process.readAllStandardError().data())
        for line in reversed(self._printed.splitlines(keepends=True)):
            if line.endswith(b"\n"):
                with suppress(msgspec.MsgspecError):
                    found = msgspec.json.decode(line, type=_Came)
                    self.came = found.done, found.total
                    self.coming.emit()
                return

    def cancel(self) -> None:
        """End the process, if there is one; nothing of what came so far is kept."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            self._show(self.model)

    def stop(self) -> None:
        """As `cancel`, and wait until it is gone: the window is about to close."""
        self.cancel()
        for process in self.findChildren(QProcess):
            process.waitForFinished(_END_MS)

    def _ended(self, process: QProcess, code: int) -> None:
        process.deleteLater()
        if process is not self._process:
            return  # it was cancelled
        self._read(process)
        self._process = None
        if code == 0:
            self._take_up()
            return
        said = self._printed.decode("utf-8", "replace").strip()
        _log.info("small files could not be fetched: %s", said)
        self._show(self.model, self._why(bytes(process.readAllStandardOutput().data()), code))

    def _why(self, said: bytes, code: int) -> ErrorFacts:
        try:
            return msgspec.json.decode(said, type=_Said).error
        except msgspec.MsgspecError:
            file = self.files[0] if self.files else None
            source = f"{hub()}/{file.repository}" if file is not None else hub()
            name = file.path if file is not None else ""
            return ErrorFacts(code="fetch-failed", facts={"file": name, "source": source, "detail": f"it ended with code {code}"})

    # --- of the user's own ------------------------------------------------------------------------------------------

    def take(self, path: str) -> None:
        """Copy a file that the user has to where the model looks for it, then use the model."""
        files = self.files
        if files:
            self._background.run(lambda: take(files[0], path), lambda _place: self._take_up(), self._refused)

    def _refused(self, error: Exception) -> None:
        if not isinstance(error, HalftoneError):
            raise error
        self._show(self.model, error.as_facts())

    def _take_up(self) -> None:
        model = self.model
        if model is None:
            return
        if self.files:  # there are more
            self._show(model)
            return
        self._show(None)
        self._models.complete(model)
