"""The models the user knows, and the one in use. Their headers are read off the UI thread."""

import os
from pathlib import Path

import msgspec
from PySide6.QtCore import QObject, Signal

from halftone.contract.errors import ErrorFacts, HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.gui.background import Background
from halftone.gui.control.writing import SettingsKeeper
from halftone.library import models

Found = tuple[dict[str, ModelFacts], dict[str, ErrorFacts]]
"""Models, and what is wrong with those that cannot be used, by their names."""


class ModelList(QObject):
    """`changed`: headers were read; `selected`: another model is in use, or the same one is known better."""

    changed = Signal()
    selected = Signal()

    def __init__(self, keeper: SettingsKeeper, background: Background, parent: QObject) -> None:
        super().__init__(parent)
        self._keeper = keeper
        self._background = background
        self._models: dict[str, ModelFacts] = {}
        self._errors: dict[str, ErrorFacts] = {}

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
    def pocket(self) -> ModelFacts | None:
        """The demo model, None while it is being read."""
        return self._models.get(models.POCKET)

    def refresh(self) -> None:
        """Read the headers of all known models again."""
        settings = self._keeper.settings
        wanted = tuple(dict.fromkeys((models.POCKET, *settings.model_folders, settings.last_model)))
        self._background.run(lambda: describe_all(wanted), self.show)

    def show(self, found: Found) -> None:
        """Take these models in place of those known before."""
        self._models, self._errors = found
        self.changed.emit()

    def select(self, model: str) -> None:
        """Make a model the one in use, and remember it. A folder of models is remembered too, and its first one used."""
        settings = self._keeper.settings
        known = settings.model_folders
        folders = known if model == models.POCKET or model in known else (*known, model)
        self._keeper.update(msgspec.structs.replace(settings, last_model=model, model_folders=folders))
        if model in self._models:
            self.selected.emit()
        else:
            self._background.run(lambda: describe_all((model,)), self._opened)

    def forget(self, model: str) -> None:
        """Take a model off the list, with the folder of models that it was found in; its files stay. Pocket is always there."""
        if model == models.POCKET:
            return
        settings = self._keeper.settings
        folders = tuple(folder for folder in settings.model_folders if folder not in _places(model))
        gone = {model, *settings.model_folders}.difference(folders)
        in_use = settings.last_model if gone.isdisjoint(_places(settings.last_model)) else models.POCKET
        self._keeper.update(msgspec.structs.replace(settings, last_model=in_use, model_folders=folders))
        self.refresh()
        if in_use != settings.last_model:
            self.selected.emit()

    def _opened(self, found: Found) -> None:
        self._models |= found[0]
        self._errors |= found[1]
        settings = self._keeper.settings
        if settings.last_model not in self._models and found[0]:
            self._keeper.update(msgspec.structs.replace(settings, last_model=next(iter(found[0]))))
        self.changed.emit()
        self.selected.emit()


def _places(model: str) -> set[str]:
    """A model and every folder above it."""
    return {model, *(str(folder) for folder in Path(model).parents)}


def describe_all(wanted: tuple[str, ...]) -> Found:
    """Models by their names; a folder that is no model itself stands for the models in it. Runs on another thread."""
    found: dict[str, ModelFacts] = {}
    errors: dict[str, ErrorFacts] = {}
    for model in wanted:
        try:
            facts = models.describe(model)
            models.runnable(facts)
            found[model] = facts
        except HalftoneError as error:
            inside = _models_inside(model) if os.path.isdir(model) else []
            found |= {facts.id: facts for facts in inside}
            if not inside:
                errors[model] = error.as_facts()
    return found, errors


def _models_inside(folder: str) -> list[ModelFacts]:
    """The models below a folder that can make a picture by themselves."""
    found: list[ModelFacts] = []
    for facts in models.list_models((folder,)):
        if facts.id == models.POCKET:
            continue
        try:
            models.runnable(facts)
        except HalftoneError:
            continue
        found.append(facts)
    return found
