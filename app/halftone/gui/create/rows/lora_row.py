"""The LoRAs of the next pictures: a folded row of the Create form."""

from functools import partial
from typing import Final

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QWidget

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.limits import LORA_RANGE
from halftone.contract.request import Lora, PictureRequest
from halftone.gui import theme
from halftone.gui.controller import Controller
from halftone.gui.create.form.file_choosers import add_choosing, add_known
from halftone.gui.create.form.form_fields import NumberBox
from halftone.gui.create.rows.fitted_files_row import Check, FittedPart
from halftone.gui.create.rows.folded_row import below
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import ElidedLabel, button, clear, column, icon_button, row
from halftone.gui.text import lora_words
from halftone.library.add_ons.drawn_loras import draws_words
from halftone.library.add_ons.lora_fit import check_lora_fit
from halftone.library.add_ons.loras import check_loras, has_tags, lora_folders, take_tags

_STEP: Final = 0.05


class LoraPart(FittedPart):
    """The list with a weight for each, and a button to add one."""

    def __init__(self, controller: Controller) -> None:
        super().__init__(controller, tr("LoRA"), "")
        self._known: dict[str, str] = {}
        self._folders: tuple[str, ...] = ()
        self._loras: tuple[Lora, ...] = ()
        self._list = column(spacing=6)
        self.add_button = button(tr("Add LoRA"), clicked=self._open_menu)
        self.setLayout(column(self._list, row(self.add_button, -1), self.note, spacing=6, margins=(14, 10, 14, 12)))
        self.row.toggled.connect(lambda on: self.look() if on else None)
        self._show()

    # --- the list ---------------------------------------------------------------------------------------------------

    def put(self, request: PictureRequest) -> PictureRequest:
        """Where drawn words may name more of them, with the folders to look in."""
        folders = lora_folders(self._controller.settings) if draws_words(request) else None
        return msgspec.structs.replace(request, loras=self._loras, lora_folders=folders)

    def take(self, request: PictureRequest) -> None:
        self.set_loras(request.loras)

    def loras(self) -> tuple[Lora, ...]:
        return self._loras

    def set_loras(self, loras: tuple[Lora, ...]) -> None:
        """Take these in place of what is listed."""
        self._take(loras)
        self._show()
        self.look_at_fit()

    def look(self) -> None:
        """Read which LoRAs the folders of the settings hold."""
        self._controller.look_for_loras(self._found)

    def look_again(self) -> None:
        """Other folders may be set now."""
        if lora_folders(self._controller.settings) != self._folders:
            self.look()

    def _found(self, known: dict[str, str], folders: tuple[str, ...]) -> None:
        self._known, self._folders = known, folders

    def hush(self) -> None:
        """What was said is of something that was changed since."""
        if not self.note.isHidden():
            self.say(self.problem())

    def _take(self, loras: tuple[Lora, ...]) -> None:
        self._loras = loras
        self.row.value.setText(lora_words(loras))
        self._controller.choose_loras(loras)
        self.say(self.problem())

    def _show(self) -> None:
        """One line for each."""
        clear(self._list)
        for index, lora in enumerate(self._loras):
            self._list.addWidget(self._line(index, lora))
        self.row.value.setText(lora_words(self._loras))

    def _line(self, index: int, lora: Lora) -> QWidget:
        name = ElidedLabel(lora.name)
        weight = NumberBox(LORA_RANGE, 2)
        weight.setSingleStep(_STEP)
        weight.setValue(lora.weight)
        weight.setFont(theme.current().font("body", numbers=True))
        weight.setAlignment(Qt.AlignmentFlag.AlignRight)
        weight.setFixedWidth(72)
        low, high = (f"{value:g}" for value in LORA_RANGE)
        weight.setToolTip(tr("Weight of {0}, {1} to {2}.", lora.name, low, high))
        weight.setAccessibleName(tr("Weight of {0}", lora.name))
        weight.valueChanged.connect(partial(self._weigh, index))
        remove = icon_button("x", tr("Remove {0}", lora.name), size=14, clicked=partial(self._remove, index))
        made = QWidget()
        made.setToolTip(lora.path)
        layout = row(name, weight, remove, spacing=6)
        layout.setStretch(0, 1)
        made.setLayout(layout)
        return made

    def _weigh(self, index: int, weight: float) -> None:
        changed = msgspec.structs.replace(self._loras[index], weight=round(weight, 2))
        self._take((*self._loras[:index], changed, *self._loras[index + 1 :]))

    def _remove(self, index: int) -> None:
        self.set_loras((*self._loras[:index], *self._loras[index + 1 :]))
        self.add_button.setFocus(Qt.FocusReason.OtherFocusReason)

    # --- adding -----------------------------------------------------------------------------------------------------

    def add(self, path: str) -> None:
        """Add a LoRA's file, if it is one and fits the model; what is wrong with it is said below the list."""
        lora = Lora(path=path)
        self.try_first(partial(_check_all, (lora,)), lambda: self.set_loras((*self._loras, lora)))

    def listed_check(self) -> Check | None:
        return partial(_check_all, self._loras) if self._loras else None

    def take_tags(self, prompt: str, *, draws: bool) -> str | None:
        """Move the LoRAs that a prompt names, as A1111 writes them, into the list; the prompt without them. draws: those stay
        that only some pictures have, as what names them is drawn.

        None, with a word below the list, if one of them is not known.
        """
        if not has_tags(prompt):
            return prompt
        try:
            rest, named = take_tags(prompt, self._known, self._folders, draws=draws)
            _check_all(named, self._controller.model)
        except HalftoneError as error:
            self.refused(error)
            return None
        if named:
            self.set_loras((*self._loras, *named))
        return rest

    def _open_menu(self) -> None:
        menu, listed = self.menu(), {lora.path for lora in self._loras}
        add_known(menu, {name: path for name, path in self._known.items() if path not in listed}, self.add)
        add_choosing(menu, tr("Add LoRA"), tr("LoRA files"), self.add, folders=False)
        below(menu, self.add_button)


def _check_all(loras: tuple[Lora, ...], model: ModelFacts | None) -> None:
    check_loras(loras)
    if model is not None:
        check_lora_fit(loras, model)
