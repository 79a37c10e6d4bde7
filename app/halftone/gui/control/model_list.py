"""The models the user knows, and the one in use. Their headers are read off the UI thread."""

import os
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import msgspec
from PySide6.QtCore import QObject, Signal

from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.gui.background import Background
from halftone.gui.control.writing import SettingsKeeper
from halftone.library import models
from halftone.library.add_ons.denoisers import host_of
from halftone.library.files.small_files import lacking
from halftone.session.events import Noted
from halftone.session.store import Store


class Found(NamedTuple):
    """Models, what is wrong with those that cannot be used, and of these the ones that lack only small files and the files that
    run in the place of a model's transformer; by their names.
    """

    models: dict[str, ModelFacts]
    errors: dict[str, ErrorFacts]
    waiting: dict[str, ModelFacts]
    parts: dict[str, ModelFacts]


class Hosted(NamedTuple):
    """A file of a transformer alone, and the model whose other parts it runs with."""

    part: str
    host: ModelFacts


class ModelList(QObject):
    """`changed`: headers were read; `selected`: another model is in use, or the same one is known better; `hosted`: a
    file of a transformer alone was chosen, and the model in use now is one whose other parts it runs with; `lacking`: a
    model was chosen that lacks small files (its facts), and the one in use stays.
    """

    changed = Signal()
    selected = Signal()
    hosted = Signal(str)
    lacking = Signal(object)

    def __init__(self, holder: Store, keeper: SettingsKeeper, background: Background, parent: QObject) -> None:
        super().__init__(parent)
        self._holder = holder
        self._keeper = keeper
        self._background = background
        self._models: dict[str, ModelFacts] = {}
        self._errors: dict[str, ErrorFacts] = {}
        self._waiting: dict[str, ModelFacts] = {}
        self._parts: dict[str, ModelFacts] = {}
        self._folders = keeper.settings.model_folders
        keeper.changed.connect(self._follow)

    def _follow(self) -> None:
        """Other folders may be set now."""
        if self._keeper.settings.model_folders != self._folders:
            self.refresh()

    @property
    def current(self) -> ModelFacts | None:
        """Facts of the selected model, None while they are being read or when its file is missing."""
        return self._models.get(self._keeper.settings.last_model)

    @property
    def error(self) -> ErrorFacts | None:
        """Why the selected model cannot be used, None when it can."""
        return self._errors.get(self._keeper.settings.last_model)

    @property
    def all(self) -> tuple[ModelFacts, ...]:
        """Pocket first, then what was used before."""
        return tuple(self._models.values())

    @property
    def waiting(self) -> tuple[ModelFacts, ...]:
        """Those that lack only small files."""
        return tuple(self._waiting.values())

    @property
    def parts(self) -> tuple[ModelFacts, ...]:
        """Files that run in the place of a model's transformer, with its other parts."""
        return tuple(self._parts.values())

    @property
    def in_use_lacking(self) -> ModelFacts | None:
        """The selected model, if that is what it lacks."""
        return self._waiting.get(self._keeper.settings.last_model)

    @property
    def pocket(self) -> ModelFacts | None:
        """The demo model, None while it is being read."""
        return self._models.get(models.POCKET)

    def refresh(self) -> None:
        """Read the headers of all known models again."""
        settings = self._keeper.settings
        self._folders = settings.model_folders
        wanted = tuple(dict.fromkeys((models.POCKET, *settings.model_folders, settings.last_model)))
        self._background.run(lambda: describe_all(wanted), self.show)

    def show(self, found: Found) -> None:
        """Take these models in place of those known before; who is gone though the folder around it is there, is forgotten."""
        self._models, self._errors, self._waiting, self._parts = found
        settings = self._keeper.settings
        listed = set(settings.model_folders) - {settings.last_model}  # what was forgotten meanwhile is not told again
        gone = [name for name, error in found.errors.items() if _is_gone(name, error) and name in listed]
        if gone:
            self._write(tuple(folder for folder in settings.model_folders if folder not in gone), settings.last_model)
            self._holder.take(Noted(kind="models-gone", facts=tuple(Path(name).name for name in gone)))
        self.changed.emit()

    def select(self, model: str) -> None:
        """Make a model the one in use, and remember it. A folder of models is remembered too, and its first one used.

        What cannot be used is told, and the model in use stays.
        """
        if model in self._models:
            self._use(model, model)
        else:
            known = tuple(facts for facts in (self.current, *self.all) if facts is not None)
            self._background.run(lambda: opened(model, known), lambda found: self._opened(model, *found))

    def _opened(self, wanted: str, found: Found, hosted: Hosted | None) -> None:
        if hosted is not None:
            self._parts |= found.parts
            self._use(hosted.host.id, wanted)
            self.hosted.emit(hosted.part)
            self.changed.emit()
            return
        if not found.models and found.waiting:
            self.lacking.emit(next(iter(found.waiting.values())))
            return
        if not found.models:
            self._holder.take(Noted(kind="model-refused", facts=(Path(wanted).name,), error=_refusal(wanted, found)))
            return
        self._models |= found.models
        self._waiting |= found.waiting
        self._parts |= found.parts
        self._use(wanted if wanted in found.models else next(iter(found.models)), wanted)
        self.changed.emit()

    def complete(self, model: ModelFacts) -> None:
        """Its small files came: use it. Others that lacked the same ones can be used too."""
        ready = {name: facts for name, facts in self._waiting.items() if not lacking(facts)}
        self._models |= ready
        self._waiting = {name: facts for name, facts in self._waiting.items() if name not in ready}
        self._errors = {name: error for name, error in self._errors.items() if name not in ready}
        self.select(model.id)
        self.changed.emit()

    def _use(self, model: str, remembered: str) -> None:
        known = self._keeper.settings.model_folders
        listed = remembered == models.POCKET or bool(self._entries(remembered))
        self._write(known if listed else (*known, remembered), model)
        self.selected.emit()

    def _write(self, folders: tuple[str, ...], model: str) -> None:
        self._folders = folders
        self._keeper.update(msgspec.structs.replace(self._keeper.settings, model_folders=folders, last_model=model))

    # --- off the list -----------------------------------------------------------------------------------------------

    def _entries(self, model: str) -> set[str]:
        """What stands in the settings for a model: itself, and the folders of models it lies in."""
        return {model, *map(str, Path(model).parents)}.intersection(self._keeper.settings.model_folders)

    def with_it(self, model: str) -> tuple[str, ...]:
        """The models that leave the list together with this one; none where it cannot leave."""
        entries = set[str]() if model == models.POCKET else self._entries(model)
        names = (*self._models, *self._waiting, *self._parts)
        return tuple(name for name in names if name != models.POCKET and not entries.isdisjoint(self._entries(name)))

    def forget(self, model: str) -> None:
        """Take a model off the list, with the folder of models that it was found in. Its files stay; Pocket is always there."""
        leaving, entries, settings = self.with_it(model), self._entries(model), self._keeper.settings
        if not leaving:
            return
        self._models = {name: facts for name, facts in self._models.items() if name not in leaving}
        self._waiting = {name: facts for name, facts in self._waiting.items() if name not in leaving}
        self._parts = {name: facts for name, facts in self._parts.items() if name not in leaving}
        in_use = models.POCKET if settings.last_model in leaving else settings.last_model
        self._write(tuple(folder for folder in settings.model_folders if folder not in entries), in_use)
        self.changed.emit()
        self.selected.emit()


def _is_gone(model: str, error: ErrorFacts) -> bool:
    """A drive that is away is no loss."""
    return error.code == "model-missing" and Path(model).parent.is_dir()


def _refusal(wanted: str, found: Found) -> ErrorFacts | None:
    """Why nothing of what was opened can be used: of a folder, what is wrong with the first file in it."""
    return found.errors.get(wanted) or next(iter(found.errors.values()), None)


def opened(model: str, known: tuple[ModelFacts, ...]) -> tuple[Found, Hosted | None]:
    """What a name stands for; where that are only files of transformers, the first that fits a known model, and the first of
    these that it fits. Runs on another thread.
    """
    found = describe_all((model,))
    if found.models or found.waiting:
        return found, None
    fitting = (Hosted(path, host) for path in found.parts if (host := host_of(path, known)) is not None)
    return found, next(fitting, None)


def describe_all(wanted: tuple[str, ...]) -> Found:
    """Models by their names; a folder that is no model itself stands for the models in it. Runs on another thread."""
    found = Found({}, {}, {}, {})
    for model in wanted:
        try:
            _sort_in(model, models.describe(model), found)
        except HalftoneError as error:
            if not (os.path.isdir(model) and _add_inside(model, found)):
                found.errors[model] = error.as_facts()
    return found


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


def _add_inside(folder: str, found: Found) -> bool:
    """The models below a folder that can make a picture by themselves, or with small files, and transformers; False without
    one.
    """
    any_there = False
    for facts in models.list_models((folder,)):
        if facts.id != models.POCKET:
            with suppress(HalftoneError):
                _sort_in(facts.id, facts, found)
                any_there = True
    return any_there
