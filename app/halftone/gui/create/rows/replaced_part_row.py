"""A part of the model that may be exchanged for that of another file, as a folded row of the Create form."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

import msgspec
from PySide6.QtWidgets import QMenu, QWidget

from halftone.contract.facts import ModelFacts
from halftone.contract.request import PictureRequest
from halftone.gui.controller import Controller
from halftone.gui.create.form.file_choosers import add_choosing, add_known
from halftone.gui.create.rows.folded_row import FoldedPart, below, no_model_words
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import ElidedLabel, button, column, icon_button, row
from halftone.gui.text import part_words
from halftone.library.add_ons.vaes import vae_name


@dataclass(frozen=True)
class Replaced:
    """field: of the request; title, tip, own, choosing, kinds: words for the row, what it is for, the way back, the button, and
    the files; endings: of them; check: raises where one does not fit a model; choose: has the next checks use it, too; none: what
    no file is called, "" where the model has its own.
    """

    field: str
    title: str
    tip: str
    own: str
    choosing: str
    kinds: str
    endings: str
    folders: bool
    check: Callable[[str, ModelFacts], None]
    choose: Callable[[str | None], None]
    none: str = ""


class ReplacedPart(FoldedPart):
    """Which file is used, a button to choose another, and the way back to the model's own."""

    extra = True

    def __init__(self, controller: Controller, kind: Replaced) -> None:
        super().__init__(kind.title, kind.tip)
        self._controller, self._kind = controller, kind
        self._file: str | None = None
        self._wanted: str | None = None  # the last that was asked for: answers about any other come too late
        self._noted: str | None = None  # the model that the note is about
        self._name = ElidedLabel("")
        self._own = icon_button("x", kind.own, size=14, clicked=lambda: self.set_file(None))
        self._line = QWidget()
        line = row(self._name, self._own, spacing=6)
        line.setStretch(0, 1)
        self._line.setLayout(line)
        self.choose_button = button(kind.choosing, tip=kind.tip, clicked=self._open_menu)
        self.setLayout(column(self._line, row(self.choose_button, -1), self.note, spacing=6, margins=(14, 10, 14, 12)))
        controller.model_selected.connect(self._look_again)
        controller.models_changed.connect(self._look_again)
        self._show()

    def put(self, request: PictureRequest) -> PictureRequest:
        return msgspec.structs.replace(request, **{self._kind.field: self._file})

    def take(self, request: PictureRequest) -> None:
        self.set_file(getattr(request, self._kind.field))

    def file(self) -> str | None:
        return self._file

    def set_file(self, path: str | None) -> None:
        """Take this one; None: the model's own."""
        self._file = self._wanted = path
        self._kind.choose(path)
        self._show()
        self.fits()
        self._look_again()

    def known(self) -> dict[str, str]:
        """Name -> path of those that can be chosen without looking for them."""
        return {}

    def _show(self) -> None:
        self.row.value.setText(self._kind.none if self._file is None and self._kind.none else part_words(self._file))
        self._line.setVisible(self._file is not None)
        self._line.setToolTip(self._file or "")
        self._name.set_text("" if self._file is None else vae_name(self._file))

    # --- choosing ---------------------------------------------------------------------------------------------------

    def choose(self, path: str) -> None:
        """Take a file or folder, if it fits the model; what is wrong with it is said below."""
        model = self._controller.model
        if model is None:
            self.say(no_model_words())
        else:
            self._wanted = path
            self._check(path, model)

    def _look_again(self) -> None:
        """Another model may be there now."""
        model = self._controller.model
        if model is None:
            return
        if model.id != self._noted:
            self._noted = model.id
            self.fits()
        if self._wanted is not None:
            self._check(self._wanted, model)

    def _check(self, path: str, model: ModelFacts) -> None:
        self._controller.background.run(
            lambda: self._kind.check(path, model),
            lambda _none: self._fits(path) if self._awaits(path, model) else None,
            lambda error: self._refused(path, error) if self._awaits(path, model) else None,
            receiver=self,
        )

    def _awaits(self, path: str, model: ModelFacts) -> bool:
        now = self._controller.model
        return path == self._wanted and now is not None and now.id == model.id

    def _fits(self, path: str) -> None:
        if path == self._file:
            if self.problem():  # else a note about the file stays
                self.fits()
        else:
            self.set_file(path)

    def _refused(self, path: str, error: Exception) -> None:
        self._wanted = self._file
        if path == self._file:
            self.does_not_fit(error)
        else:
            self.refused(error)

    def _open_menu(self) -> None:
        menu: QMenu = self.menu()
        menu.addAction(self._kind.none or tr("Model default"), partial(self.set_file, None))
        add_known(menu, self.known(), self.choose)
        kind = self._kind
        add_choosing(menu, kind.choosing, kind.kinds, self.choose, folders=kind.folders, endings=kind.endings)
        below(menu, self.choose_button)
