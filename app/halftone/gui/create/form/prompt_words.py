"""What can be completed in the prompts: names that the model in use can read, and the tags of the user's file."""

from functools import partial
from pathlib import Path
from typing import NamedTuple

from PySide6.QtCore import QObject, Signal

from halftone.contract.errors import HalftoneError
from halftone.gui.controller import Controller
from halftone.gui.i18n import sentences
from halftone.gui.text import error_remedy, error_sentence
from halftone.library.add_ons.loras import own_names
from halftone.library.prompts.completion import Known
from halftone.library.prompts.prompt_syntax import Syntax, rules_of
from halftone.library.prompts.tag_files import Tags, read_tags
from halftone.library.prompts.wildcards import Book
from halftone.session.state import AppState


class _Files(NamedTuple):
    """Files of the settings that names come from."""

    tags: str = ""
    wildcards: tuple[str, ...] = ()


class PromptWords(QObject):
    """The files are read in the background when a name is first wanted. `refused`: why the file of tags cannot be read."""

    refused = Signal(str)

    def __init__(self, controller: Controller, parent: QObject) -> None:
        super().__init__(parent)
        self._controller = controller
        self._files = _Files()
        self._tags, self._wildcards = Tags(), tuple[str, ...]()

    def known(self) -> Known:
        """What is known by now."""
        state = self._controller.state
        wanted = _Files(state.settings.tags_file, state.settings.wildcard_folders)
        if wanted != self._files:
            self._read(wanted)
        wildcards = self._wildcards if state.draft.draws else ()
        names = [one.name for one in state.embeddings.fitting]
        return Known(
            _fitting_loras(state), wildcards, names, self._tags, marked=rules_of(state.draft.options).syntax is Syntax.COMFYUI
        )

    def _read(self, wanted: _Files) -> None:
        before, self._files = self._files, wanted
        run = self._controller.background.run
        if wanted.wildcards != before.wildcards:
            run(lambda: tuple(Book(wanted.wildcards).names), partial(self._found, wanted), receiver=self)
        if wanted.tags != before.tags:
            self._tags = Tags()
            if wanted.tags:
                run(lambda: read_tags(Path(wanted.tags)), partial(self._read_tags, wanted), self._failed, receiver=self)

    def _found(self, wanted: _Files, names: tuple[str, ...]) -> None:
        if wanted.wildcards == self._files.wildcards:
            self._wildcards = names

    def _read_tags(self, wanted: _Files, tags: Tags) -> None:
        if wanted.tags == self._files.tags:
            self._tags = tags

    def _failed(self, error: Exception) -> None:
        if not isinstance(error, HalftoneError):
            raise error
        facts = error.as_facts()
        self.refused.emit(sentences(error_sentence(facts), error_remedy(facts)))


def _fitting_loras(state: AppState) -> list[str]:
    """Names of the LoRAs but for those that are known to be for models of another family."""
    family = state.model.family if state.model is not None else ""
    others = {entry.path for entry in state.library.entries if entry.family and family and entry.family != family}
    return [name for name, path in own_names(state.loras.paths).items() if path not in others]
