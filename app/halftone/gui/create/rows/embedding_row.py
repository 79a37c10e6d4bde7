"""The embeddings that the model can read: a folded row of the Create form that puts their names into the prompts."""

from functools import partial
from pathlib import Path

from PySide6.QtWidgets import QMenu

from halftone.contract.facts import ModelFacts
from halftone.gui.create.form.binding import Binding
from halftone.gui.create.rows.folded_row import FoldedPart, below
from halftone.gui.i18n import listed, tr
from halftone.gui.kit.stock_widgets import button, column, row
from halftone.gui.models.picker import library_button
from halftone.library.add_ons.inversions import Inversion, named_of
from halftone.library.prompts.prompt_syntax import Syntax, rules_of
from halftone.session.pictures.draft import with_word, written


class EmbeddingPart(FoldedPart):
    """There while a folder holds one for the model. What is in use stands in the prompts."""

    def __init__(self, binding: Binding) -> None:
        super().__init__(binding, tr("Embeddings"), tr("In prompts: the file name."))
        self._controller.embeddings_changed.connect(self._found)
        binding.watch(lambda *_: self._show_value(), "prompt", "negative", "styles")

    def build(self) -> None:
        self.prompt_button = button(tr("Add to prompt"), clicked=lambda: below(self.menu_for("prompt"), self.prompt_button))
        self.negative_button = button(
            tr("Add to negative prompt"), clicked=lambda: below(self.menu_for("negative"), self.negative_button)
        )
        self.library_button = library_button(self._controller, "embedding", lambda path: self.add_file("prompt", path))
        self.negative_library_button = library_button(self._controller, "embedding", lambda path: self.add_file("negative", path))
        buttons = column(
            row(self.prompt_button, self.library_button, -1, spacing=6),
            row(self.negative_button, self.negative_library_button, -1, spacing=6),
            spacing=6,
        )
        self.setLayout(column(buttons, self.note, spacing=8, margins=(14, 10, 14, 12)))

    @property
    def _fitting(self) -> tuple[Inversion, ...]:
        return self._controller.state.embeddings.fitting

    def menu_for(self, field: str) -> QMenu:
        """Those that the model can read. field: the prompt that a name goes into."""
        menu = self.menu()
        for one in self._fitting:
            menu.addAction(one.name.replace("&", "&&"), partial(self.add, field, one.name)).setToolTip(one.path)
        return menu

    def add(self, field: str, name: str) -> None:
        """Put a name behind a prompt, the way its syntax writes names."""
        draft = self._binding.draft
        word = f"embedding:{name}" if rules_of(draft.options).syntax is Syntax.COMFYUI else name
        self._binding.set(field, with_word(getattr(draft, field), word))

    def add_file(self, field: str, path: str) -> None:
        """Put the trigger of a file behind a prompt, if the model can read it."""
        one = next((one for one in self._fitting if one.path == path), None)
        if one is None:
            self.refuse(tr("{0} does not fit {1}.", Path(path).stem, self._model.name) if self._model is not None else "")
        else:
            self.say("")
            self.add(field, one.name)

    def used(self) -> bool:
        return bool(self._named())

    def _named(self) -> tuple[Inversion, ...]:
        draft = self._binding.draft
        return named_of(self._fitting, written(draft), rules_of(draft.options))

    def _found(self) -> None:
        self.follow(self._model)
        self.hush()
        self._show_value()

    def _show_value(self) -> None:
        names = [one.name for one in self._named()]
        self.row.value.setText(listed(*names) if len(names) < 2 else tr("{0} in use", len(names)))
        self.changed.emit()

    def is_there(self, model: ModelFacts | None) -> bool:
        return bool(self._fitting)
