"""What the folders of the settings hold of files that are used beside a model, embeddings among them."""

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from halftone.contract.facts import ModelFacts
from halftone.library.add_ons.extras import parts_among, transformers_among
from halftone.library.add_ons.inversions import Inversion, encoder_widths, inversion_folders, list_inversions
from halftone.library.add_ons.loras import lora_folders, loras_among, own_names
from halftone.library.add_ons.upscalers import upscalers_among
from halftone.library.index.known import listed_models
from halftone.library.index.walk import is_inside, outermost
from halftone.session.events import Replaced
from halftone.session.ports import Executor
from halftone.session.state import NOTHING_FOUND, Loras
from halftone.session.store import Store
from halftone.settings.store import Settings

Then = Callable[[dict[str, str]], None]
"""Gets name -> path."""


class KnownFiles:
    """Reads the folders in the background."""

    def __init__(self, store: Store, executor: Executor) -> None:
        self._store = store
        self._executor = executor

    def parts(self, kind: str, then: Then) -> None:
        """kind: as `library.families.KIND_NAMES` has them."""
        self._executor.run(self._among(lambda found: parts_among(found, kind)), then)

    def transformers(self, model: ModelFacts, then: Then) -> None:
        """Look for transformers and UNets that fit this model."""
        self._executor.run(self._among(lambda found: transformers_among(found, model)), then)

    def upscalers(self, then: Then) -> None:
        """Look into the folders of upscale models, too."""
        settings = self._store.state.settings
        self._executor.run(self._among(lambda found: upscalers_among(found, settings)), then)

    def _among(self, pick: Callable[[list[ModelFacts]], dict[str, str]]) -> Callable[[], dict[str, str]]:
        """Pick from the models of the folders; while the folders are watched, files that no scan has read yet are left out."""
        folders, indexed = self._store.state.settings.model_folders, self._store.state.library.watching
        return lambda: pick(listed_models(folders, indexed=indexed))


class LoraList:
    """The LoRAs in the folders of the settings. The list of models finds those beside the models; others are read here."""

    def __init__(self, store: Store, executor: Executor) -> None:
        self._store = store
        self._executor = executor
        self._looks = self._comparisons = 0
        self._read: tuple[str, ...] | None = None
        self._own: dict[str, str] = {}
        """The LoRAs in the folders `_read`."""
        self._waiting: list[Callable[[], object]] = []
        store.subscribe(
            lambda state: (_own_folders(state.settings), state.library.changes, state.models is not NOTHING_FOUND),
            lambda _changed: self._look(_own_folders(store.state.settings)),
        )
        store.subscribe(lambda state: (lora_folders(state.settings), state.models.loras), lambda _found: self._show())

    def look(self, then: Callable[[], object] | None = None) -> None:
        """Read all folders in the background: they may not be watched. then: called once they were read."""
        self._waiting += () if then is None else (then,)
        self._look(lora_folders(self._store.state.settings))

    def _look(self, folders: tuple[str, ...]) -> None:
        own, indexed = _own_folders(self._store.state.settings), self._store.state.library.watching
        self._looks += 1
        number = self._looks
        self._executor.run(
            lambda: loras_among(listed_models(folders, indexed=indexed)), lambda known: self._found(number, own, known)
        )

    def _found(self, number: int, own: tuple[str, ...], known: dict[str, str]) -> None:
        """Keep what the folders hold that are set now: an answer to an older look, or for others, may come later."""
        if number == self._looks and own == _own_folders(self._store.state.settings):
            self._read, self._own = own, known
            self._show()
            waiting, self._waiting = self._waiting, []
            for then in waiting:
                then()

    def _show(self) -> None:
        """Show the LoRAs that lie in the folders. There may be thousands, so they are compared in the background."""
        state = self._store.state
        folders, found, own = lora_folders(state.settings), state.models.loras, self._own
        self._comparisons += 1
        number = self._comparisons
        if self._read == _own_folders(state.settings):
            self._executor.run(
                lambda: _inside({**found, **own, **own_names(found), **own_names(own)}, folders),
                lambda paths: self._compared(number, folders, paths),
            )

    def _compared(self, number: int, folders: tuple[str, ...], paths: dict[str, str]) -> None:
        if number == self._comparisons:
            self._store.take(Replaced(part=Loras(paths=paths, folders=folders)))


def _inside(known: dict[str, str], folders: tuple[str, ...]) -> dict[str, str]:
    """Return the files that lie in one of the folders."""
    roots = outermost(folders)
    return {name: path for name, path in known.items() if any(is_inside(os.path.abspath(path), root) for root in roots)}


def _own_folders(settings: Settings) -> tuple[str, ...]:
    """Return the folders of LoRAs that the list of models does not read."""
    return tuple(folder for folder in settings.lora_folders if folder not in settings.model_folders)


class EmbeddingList:
    """The embeddings that the folders of the settings hold, and those of them that the selected model can read."""

    def __init__(self, store: Store, executor: Executor) -> None:
        self._store = store
        self._executor = executor
        self._looks = 0
        self._waiting: list[Callable[[], object]] = []
        store.subscribe(lambda state: inversion_folders(state.settings), lambda _folders: self.look())
        store.subscribe(lambda state: state.draft.inversions, lambda _files: self.look())
        store.subscribe(lambda state: (state.models, state.library.changes), lambda _found: self.look())
        store.subscribe(lambda state: state.selections, lambda _count: self._measure())

    def look(self, then: Callable[[], object] | None = None) -> None:
        """Read the folders in the background. Files that the draft names count before those, as long as they are there.

        then: called once they were read.
        """
        self._waiting += () if then is None else (then,)
        state = self._store.state
        folders = inversion_folders(state.settings)
        requested = tuple(path for path in state.draft.inversions if Path(path).is_absolute())  # a picture's text has only names
        self._looks += 1
        number = self._looks
        self._executor.run(lambda: list_inversions(folders, requested), lambda known: self._found(number, known))
        self._measure()

    def _measure(self) -> None:
        """How wide the words of the selected model are."""
        model = self._store.state.model
        if model is not None:
            self._executor.run(lambda: encoder_widths(model), lambda widths: self._measured(model.id, widths))

    def _found(self, number: int, known: tuple[Inversion, ...]) -> None:
        """number: of the look; an older one may end later."""
        if number == self._looks:
            self._store.take(Replaced(part=replace(self._store.state.embeddings, known=known)))
            waiting, self._waiting = self._waiting, []
            for then in waiting:
                then()

    def _measured(self, model: str, widths: tuple[int, ...]) -> None:
        current = self._store.state.model
        if current is not None and current.id == model:
            self._store.take(Replaced(part=replace(self._store.state.embeddings, widths=widths)))
