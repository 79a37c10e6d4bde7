"""The models the user knows, and the one in use. Their headers are read off this thread."""

import os
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec

from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.request import model_stem
from halftone.contract.vocabulary import POCKET
from halftone.library import models
from halftone.library.add_ons.denoisers import host_of
from halftone.library.add_ons.loras import loras_among
from halftone.library.files.small_files import lacking
from halftone.library.index.known import listed_models
from halftone.session.events import ModelsForgotten, ModelUsed, Noted, Replaced
from halftone.session.ports import Executor
from halftone.session.state import NOTHING_FOUND, Found, Lacking
from halftone.session.store import Store


class Hosted(NamedTuple):
    """A file of a transformer alone, and the model whose other parts it runs with."""

    part: str
    host: ModelFacts


def missing(model: ModelFacts | None, error: ErrorFacts | None = None, *, fetching: bool = False) -> Lacking:
    """What a model lacks now; reads the disk."""
    return Lacking(model=model, files=lacking(model) if model is not None else (), error=error, fetching=fetching)


class ModelList:
    def __init__(self, store: Store, executor: Executor) -> None:
        self._store = store
        self._executor = executor
        self._folders = store.state.settings.model_folders
        store.subscribe(lambda state: state.settings.model_folders, self._follow)
        store.subscribe(lambda state: state.library.changes, lambda _changes: self.refresh())

    @property
    def found(self) -> Found:
        return self._store.state.models

    def _follow(self, folders: tuple[str, ...]) -> None:
        """Other folders may be set now."""
        if folders != self._folders:
            self.refresh()

    def refresh(self, then: Callable[[], object] = lambda: None) -> None:
        """Read the headers of all known models again. then: called once they were read."""
        self._folders = self._store.state.settings.model_folders
        wanted, indexed = self._wanted, self._store.state.library.watching
        self._executor.run(lambda: describe_all(wanted, indexed=indexed), lambda found: self._read(wanted, found, then))

    @property
    def _wanted(self) -> tuple[str, ...]:
        settings = self._store.state.settings
        return tuple(dict.fromkeys((POCKET, *settings.model_folders, settings.last_model)))

    def _read(self, wanted: tuple[str, ...], found: Found, then: Callable[[], object]) -> None:
        """What was chosen or taken off the list while the headers were read counts: then they are read again."""
        if set(wanted) == set(self._wanted):
            self.show(found)
            then()
        else:
            self.refresh(then)

    def show(self, found: Found) -> None:
        """Put these models in place of those known before; forget a model that was deleted from a folder that is still there."""
        settings = self._store.state.settings
        listed = set(settings.model_folders) - {settings.last_model}  # what was forgotten meanwhile needs no message
        gone = tuple(name for name, error in found.errors.items() if _is_gone(name, error) and name in listed)
        self._store.take(Replaced(part=found))
        if gone:
            self._folders = tuple(folder for folder in settings.model_folders if folder not in gone)
            self._store.take(Replaced(part=msgspec.structs.replace(settings, model_folders=self._folders)))
            self._store.take(Noted(kind="models-gone", facts=tuple(Path(name).name for name in gone)))

    def select(self, model: str) -> None:
        """Make a model the one in use, and remember it. A folder of models is remembered too, and its first one used.

        A message names what cannot be used; the model in use stays then.
        """
        state = self._store.state
        if model in state.models.models:
            self._use(model, model)
        else:
            known = tuple(facts for facts in (state.model, *state.models.models.values()) if facts is not None)
            self._executor.run(lambda: opened(model, lambda: known), lambda found: self._opened(model, *found))

    def _opened(self, wanted: str, found: Found, hosted: Hosted | None) -> None:
        if hosted is not None:
            self._use(hosted.host.id, wanted, NOTHING_FOUND._replace(parts=found.parts), hosted.part)
        elif found.models:
            self._use(wanted if wanted in found.models else next(iter(found.models)), wanted, found)
        elif found.waiting:
            self._store.take(Replaced(part=missing(next(iter(found.waiting.values())))))
        else:
            self._store.take(Noted(kind="model-refused", facts=(Path(wanted).name,), error=_refusal(wanted, found)))

    def complete(self, model: ModelFacts) -> None:
        """Its small files came: use it. Others that lacked the same ones can be used too."""
        known = self.found
        ready = {name: facts for name, facts in known.waiting.items() if not lacking(facts)}
        waiting = {name: facts for name, facts in known.waiting.items() if name not in ready}
        errors = {name: error for name, error in known.errors.items() if name not in ready}
        self._store.take(Replaced(part=known._replace(models=known.models | ready, errors=errors, waiting=waiting)))
        self.select(model.id)

    def _use(self, model: str, remembered: str, found: Found = NOTHING_FOUND, part: str = "") -> None:
        known = self._store.state.settings.model_folders
        listed = remembered == POCKET or bool(self._entries(remembered))
        self._folders = known if listed else (*known, remembered)
        self._store.take(ModelUsed(model=model, folders=self._folders, found=found, part=part))

    # --- off the list -----------------------------------------------------------------------------------------------

    def _entries(self, model: str) -> set[str]:
        """What stands in the settings for a model: itself, and the folders of models it lies in."""
        return {model, *map(str, Path(model).parents)}.intersection(self._store.state.settings.model_folders)

    def can_leave(self, model: str) -> bool:
        """Whether it can be taken off the list: Pocket cannot, nor what stands in no folder of the settings."""
        return model != POCKET and bool(self._entries(model))

    def with_it(self, model: str) -> tuple[str, ...]:
        """The models that leave the list together with this one; none where it cannot leave."""
        entries, known = self._entries(model) if self.can_leave(model) else set[str](), self._store.state.models
        names = (*known.models, *known.waiting, *known.parts)
        return tuple(name for name in names if name != POCKET and not entries.isdisjoint(self._entries(name)))

    def forget(self, model: str) -> None:
        """Take a model off the list, with the folder of models that it was found in. Its files stay; Pocket is always there."""
        leaving, entries, settings = self.with_it(model), self._entries(model), self._store.state.settings
        if leaving:
            in_use = POCKET if settings.last_model in leaving else settings.last_model
            self._folders = tuple(folder for folder in settings.model_folders if folder not in entries)
            self._store.take(ModelsForgotten(names=leaving, folders=self._folders, in_use=in_use))


def _is_gone(model: str, error: ErrorFacts) -> bool:
    """Whether a model was deleted. One on a drive that is away stays in the list."""
    return error.code == "model-missing" and Path(model).parent.is_dir()


def _refusal(wanted: str, found: Found) -> ErrorFacts | None:
    """Why nothing of what was opened can be used: of a folder, what is wrong with the first file in it."""
    return found.errors.get(wanted) or next(iter(found.errors.values()), None)


def usable(model: str) -> ModelFacts:
    """The facts of a model that can make pictures. Raises HalftoneError as `describe` and `runnable`."""
    facts = models.describe(model)
    models.runnable(facts)
    return facts


def opened(model: str, known: Callable[[], Iterable[ModelFacts]]) -> tuple[Found, Hosted | None]:
    """What a name stands for; where that are only files of transformers, the first that fits a known model, and the first of
    these that it fits. Runs on another thread.
    """
    found = describe_all((model,))
    if found.models or found.waiting or not found.parts:
        return found, None
    hosts = tuple(known())
    fitting = (Hosted(part.path, host) for part in found.parts.values() if (host := host_of(part.path, hosts)) is not None)
    return found, next(fitting, None)


def named_model(name: str, folders: tuple[str, ...]) -> str | None:
    """The one model of these folders with this name; None where there is none, or several."""
    wanted = model_stem(name).casefold()
    found = [one.id for one in models_in(folders).models.values() if wanted == model_stem(one.path).casefold()]
    return found[0] if len(found) == 1 else None


def models_in(folders: tuple[str, ...]) -> Found:
    """Pocket, and what lies below the folders and makes a picture by itself, with small files, or in the place of a model's
    transformer.
    """
    found = Found({}, {}, {}, {})
    _sort_all(listed_models(folders), found)
    return found._replace(closed=models.closed_folders(folders))


def describe_all(wanted: tuple[str, ...], *, indexed: bool = False) -> Found:
    """Models by their names; a folder that is no model itself stands for the models in it. Runs on another thread.

    indexed: leave out what no scan has read yet.
    """
    found, loras = Found({}, {}, {}, {}), dict[str, str]()
    for model in wanted:
        try:
            _sort_in(model, models.describe(model), found)
        except HalftoneError as error:
            inside = listed_models((model,), indexed=indexed) if os.path.isdir(model) else ()
            loras = loras_among(inside) | loras
            if not _sort_all((facts for facts in inside if facts.id != POCKET), found):
                found.errors[model] = error.as_facts()
    return found._replace(loras=loras)


def _sort_all(known: Iterable[ModelFacts], found: Found) -> bool:
    """Whether any of them can be used."""
    any_there = False
    for facts in known:
        with suppress(HalftoneError):
            _sort_in(facts.id, facts, found)
            any_there = True
    return any_there


def _sort_in(name: str, facts: ModelFacts, found: Found) -> None:
    """Raises HalftoneError for what neither small files nor the other parts of a model make runnable."""
    try:
        models.runnable(facts)
    except HalftoneError as error:
        aside = {"model-needs-files": found.waiting, "model-needs-parts": found.parts}.get(error.code)
        if aside is None:
            raise
        aside[name] = facts
        found.errors[name] = error.as_facts()
        return
    found.models[name] = facts
