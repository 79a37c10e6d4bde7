"""The fragile twin of the demo model: made on demand, by a process of its own, whose command is `write_twin`."""

import logging
import os
from collections.abc import Callable
from pathlib import Path

from halftone.contract.vocabulary import POCKET
from halftone.library.files.copies import check_copy
from halftone.library.models import describe
from halftone.session.events import Making, Noted
from halftone.session.models.model_list import ModelList
from halftone.session.models.watched import own_models
from halftone.session.ports import Commands, Finished
from halftone.session.store import Store
from halftone.worker.engines import loaded

_log = logging.getLogger(__name__)


def write_twin(output: str) -> Path:
    """Write it into a new folder, in this process, which loads torch. Raises HalftoneError as `check_copy`, model-load-failed."""
    pocket = describe(POCKET)
    folder = check_copy(pocket, output)
    for library in ("DIFFUSERS_VERBOSITY", "TRANSFORMERS_VERBOSITY"):
        os.environ.setdefault(library, "error")
    return loaded("halftone.engine.checks.fragile:make_fragile")(Path(pocket.path), folder)


class FragileMaker:
    """One at a time; the model is used as soon as it is there."""

    def __init__(self, store: Store, models: ModelList, commands: Commands) -> None:
        self._store = store
        self._models = models
        self._commands = commands
        self._kill: Callable[[], object] | None = None

    def make(self) -> None:
        """Write it into the data folder, unless it is there, and use it."""
        if self._store.state.making:
            return
        folder = Path(own_models(), "pocket-fragile")
        if os.path.isdir(folder):
            self._use(str(folder))
            return
        try:
            folder.parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._store.take(Noted(kind="fragile-failed", facts=(str(error),)))
            return
        self._store.take(Making(on=True))
        self._store.take(Noted(kind="fragile-begun"))
        self._kill = self._commands.start(
            "demo", "fragile", "--output", str(folder), ended=lambda end: self._made(end, str(folder))
        )

    def _use(self, folder: str) -> None:
        self._models.select(folder)
        self._store.take(Noted(kind="fragile-made"))

    def stop(self) -> set[Path]:
        """Kill the process, if there is one. Returns the folder in which it leaves a half-written model."""
        kill, self._kill = self._kill, None
        if kill is None:
            return set()
        kill()
        return {Path(own_models())}

    def _made(self, end: Finished, folder: str) -> None:
        self._kill = None
        self._store.take(Making(on=False))
        if end.code == 0:
            self._use(folder)
        else:
            error = end.errors.decode("utf-8", "replace").strip()
            _log.error("The fragile demo model could not be made: %s", error)
            self._store.take(Noted(kind="fragile-failed", facts=(error.rpartition("\n")[2],)))
