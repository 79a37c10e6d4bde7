"""Small files that a model lacks: fetched by a process of its own when the user says so, or copied from a file of the user's."""

import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import msgspec

from halftone.contract.errors import ErrorFacts, Fact, HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.library.files.fetching import fetch, hub
from halftone.library.files.small_files import SmallFile, lacking, take
from halftone.library.models import describe
from halftone.session.events import Replaced
from halftone.session.models.model_list import ModelList, missing
from halftone.session.ports import Commands, Executor, Finished
from halftone.session.state import Lacking
from halftone.session.store import Store

_log = logging.getLogger(__name__)


class _Said(msgspec.Struct):
    """What the process prints when it fails."""

    error: ErrorFacts


class _Came(msgspec.Struct):
    """What it prints while a file comes, a line each. done, total: bytes."""

    done: int
    total: int


def lacked_by(model: str) -> tuple[SmallFile, ...]:
    """The small files that a model lacks, by its name. Raises HalftoneError as `describe`."""
    return lacking(describe(model))


def fetch_lacked(model: str, progress: Callable[[int, int], None]) -> Iterator[Path]:
    """Fetch what a model lacks in this process, and give the place of each file once it is there. Raises HalftoneError."""
    return (fetch(file, progress) for file in lacked_by(model))


def source(file: SmallFile) -> str:
    """Where it comes from, as the user sees it."""
    return f"{hub()}/{file.repository}"


class SmallFiles:
    def __init__(self, store: Store, models: ModelList, executor: Executor, commands: Commands) -> None:
        self._store = store
        self._models = models
        self._executor = executor
        self._commands = commands
        self._kill: Callable[[], object] | None = None
        store.subscribe(lambda state: state.selections, lambda _count: self._moved_on())
        store.subscribe(lambda state: state.models, lambda _models: self._look())

    @property
    def _known(self) -> Lacking:
        return self._store.state.lacking

    def ask(self, model: ModelFacts) -> None:
        """Say what this model lacks; nothing is fetched."""
        self._show(model)

    def close(self) -> None:
        """Dismiss the offer; the model stays as it is."""
        self.cancel()
        self._show(None)

    def _look(self) -> None:
        """The model in use may lack some since it was used."""
        model = self._store.state.model_lacking
        if model is not None and self._known.model is None:
            self._show(model)

    def _moved_on(self) -> None:
        """Another model is in use: what the last one lacked is no matter now."""
        if not self._known.fetching:
            self._show(None)

    def _show(self, model: ModelFacts | None, error: ErrorFacts | None = None, *, fetching: bool = False) -> None:
        self._store.take(Replaced(part=missing(model, error, fetching=fetching)))

    # --- from the hub -----------------------------------------------------------------------------------------------

    def fetch(self) -> None:
        """Fetch what the model lacks, then use it. One at a time: that of another model ends."""
        model = self._known.model
        if model is not None and not self._known.fetching:
            self._end_process()
            self._show(model, fetching=True)
            arguments = ("fetch", model.path, "--yes", "--json", "--progress")
            self._kill = self._commands.start(*arguments, ended=partial(self._ended, model), heard=partial(self._heard, model))

    def _is_shown(self, model: ModelFacts) -> bool:
        """Whether what is shown is what this model lacks, and not another one that was chosen while its files came."""
        return self._known.fetching and self._known.model is not None and self._known.model.id == model.id

    def _heard(self, model: ModelFacts, printed: bytes) -> None:
        """The last whole line of what it printed tells how much came."""
        for line in reversed(printed.splitlines(keepends=True)):
            if line.endswith(b"\n") and self._is_shown(model):
                with suppress(msgspec.MsgspecError):
                    found = msgspec.json.decode(line, type=_Came)
                    self._store.take(Replaced(part=replace(self._known, came=(found.done, found.total))))
                return

    def cancel(self) -> None:
        """End the process, if there is one; nothing of what came so far is kept."""
        self._end_process()
        if self._known.fetching:
            self._show(self._known.model)

    def _end_process(self) -> None:
        kill, self._kill = self._kill, None
        if kill is not None:
            kill()

    def _ended(self, model: ModelFacts, end: Finished) -> None:
        self._kill = None
        if end.code != 0:
            _log.info("small files could not be fetched: %s", end.errors.decode("utf-8", "replace").strip())
        if not self._is_shown(model):
            self._models.refresh()
        elif end.code == 0:
            self._take_up()
        else:
            self._show(model, self._why(end))

    def _why(self, end: Finished) -> ErrorFacts:
        try:
            return msgspec.json.decode(end.output, type=_Said).error
        except msgspec.MsgspecError:
            file = next(iter(self._known.files), None)
            name, place = (file.path, source(file)) if file is not None else ("", hub())
            facts: dict[str, Fact] = {"file": name, "source": place, "detail": f"it ended with code {end.code}"}
            return ErrorFacts(code="fetch-failed", facts=facts)

    # --- of the user's own ------------------------------------------------------------------------------------------

    def take(self, path: str) -> None:
        """Copy a file that the user has to where the model looks for it, then use the model."""
        files = self._known.files
        if files:
            self._executor.run(lambda: take(files[0], path), lambda _place: self._take_up(), self._refused)

    def _refused(self, error: Exception) -> None:
        if not isinstance(error, HalftoneError):
            raise error
        self._show(self._known.model, error.as_facts())

    def _take_up(self) -> None:
        model = self._known.model
        self._show(model)
        if model is not None and not self._known.files:
            self._show(None)
            self._models.complete(model)
