"""The ControlNets of the next pictures: a folded row of the Create form."""

from functools import partial
from typing import Final

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QCheckBox, QPushButton, QWidget

from halftone.contract.limits import CONTROL_RANGE
from halftone.contract.request import Control, PictureRequest
from halftone.gui import theme
from halftone.gui.controller import Controller
from halftone.gui.create.form.file_choosers import add_choosing, add_known, ask_picture
from halftone.gui.create.form.form_fields import NumberBox
from halftone.gui.create.rows.fitted_files_row import Check, FittedPart
from halftone.gui.create.rows.folded_row import below
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import ElidedLabel, button, clear, column, icon_button, label, row
from halftone.gui.text import net_words, short
from halftone.library.add_ons.controlnets import check_fit
from halftone.library.add_ons.vaes import vae_name

_STEP: Final = 0.05


class ControlPart(FittedPart):
    """The list, each with its picture and how much of it, and a button to add one."""

    def __init__(self, controller: Controller) -> None:
        tip = tr("Guide with edges, depth or a pose.")
        super().__init__(controller, tr("ControlNet"), tip)
        self._known: dict[str, str] = {}
        self._controls: tuple[Control, ...] = ()
        self._list = column(spacing=10)
        self.add_button = button(tr("Add ControlNet"), tip=tip, clicked=self._open_menu)
        self.setLayout(column(self._list, row(self.add_button, -1), self.note, spacing=8, margins=(14, 10, 14, 12)))
        self.row.toggled.connect(lambda on: controller.look_for_parts("ControlNet", self._found) if on else None)
        self._show()

    def put(self, request: PictureRequest) -> PictureRequest:
        return msgspec.structs.replace(request, controls=self._controls)

    def take(self, request: PictureRequest) -> None:
        self.set_controls(request.controls)

    def controls(self) -> tuple[Control, ...]:
        return self._controls

    def set_controls(self, controls: tuple[Control, ...]) -> None:
        """Take these in place of what is listed."""
        self._take(controls)
        self._show()
        self.look_at_fit()

    def problem(self) -> str:
        lacking = next((control.name for control in self._controls if not control.image), "")
        return super().problem() or (tr("Choose a picture for {0}.", lacking) if lacking else "")

    def _take(self, controls: tuple[Control, ...]) -> None:
        self._controls = controls
        self.row.value.setText(net_words(controls))
        self._controller.choose_controls(control for control in controls if control.image)
        self.say(self.problem())

    def _found(self, known: dict[str, str]) -> None:
        self._known = known

    # --- the list ---------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        clear(self._list)
        for index, control in enumerate(self._controls):
            self._list.addWidget(self._entry(index, control))
        self.row.value.setText(net_words(self._controls))

    def _entry(self, index: int, control: Control) -> QWidget:
        name = ElidedLabel(control.name)
        remove = icon_button("x", tr("Remove {0}", control.name), size=14, clicked=partial(self._remove, index))
        head = row(name, remove, spacing=6)
        head.setStretch(0, 1)
        middle = row(self._picture(index, control), self._edges(index, control), spacing=8)
        middle.setStretch(0, 1)
        low, high = (f"{value:g}" for value in CONTROL_RANGE)
        strength = self._number(index, "scale", tr("Strength"), CONTROL_RANGE, tr("{0} to {1}.", low, high))
        begins = tr("Starting control step (0 to 1)")
        ends = tr("Ending control step (0 to 1)")
        first, last = (0.0, 0.99), (0.01, 1.0)
        part = (*self._number(index, "start", tr("From"), first, begins), *self._number(index, "end", tr("To"), last, ends))
        made = QWidget()
        made.setToolTip(control.path)
        made.setLayout(column(head, middle, row(*strength, -1, spacing=6), row(*part, -1, spacing=6), spacing=6))
        return made

    def _picture(self, index: int, control: Control) -> QPushButton:
        made = button(short(vae_name(control.image)) if control.image else tr("Choose a picture…"), icon="image")
        made.setToolTip(control.image or tr("Reference picture"))
        made.setAccessibleName(tr("Picture of {0}", control.name))
        made.setMinimumWidth(40)
        made.clicked.connect(lambda _on=False: ask_picture(self, partial(self.give, index)))
        return made

    def _edges(self, index: int, control: Control) -> QCheckBox:
        made = QCheckBox(tr("Edges"))
        made.setToolTip(tr("Apply Canny edge detection first."))
        made.setChecked(control.canny)
        made.toggled.connect(lambda on: self._change(index, canny=on))
        return made

    def _number(self, index: int, field: str, words: str, allowed: tuple[float, float], tip: str) -> tuple[QWidget, QWidget]:
        box = NumberBox(allowed, 2)
        box.setSingleStep(_STEP)
        box.setValue(getattr(self._controls[index], field))
        box.setFont(theme.current().font("body", numbers=True))
        box.setAlignment(Qt.AlignmentFlag.AlignRight)
        box.setFixedWidth(72)
        box.setToolTip(tip)
        box.setAccessibleName(f"{self._controls[index].name}: {words}")
        box.valueChanged.connect(lambda value: self._change(index, **{field: round(value, 2)}))
        return label(words, "small", "secondary"), box

    def _change(self, index: int, **changes: str | float | bool) -> None:
        changed = msgspec.structs.replace(self._controls[index], **changes)
        self._take((*self._controls[:index], changed, *self._controls[index + 1 :]))

    def give(self, index: int, picture: str) -> None:
        """The picture that one of them goes by."""
        self._change(index, image=picture)
        self._show()

    def _remove(self, index: int) -> None:
        self.set_controls((*self._controls[:index], *self._controls[index + 1 :]))
        self.add_button.setFocus(Qt.FocusReason.OtherFocusReason)

    # --- adding -----------------------------------------------------------------------------------------------------

    def add(self, path: str) -> None:
        """Add a ControlNet's file or folder, if it fits the model; what is wrong with it is said below the list."""
        control = Control(path=path, image="")
        self.try_first(partial(check_fit, (control,)), lambda: self.set_controls((*self._controls, control)))

    def listed_check(self) -> Check | None:
        return partial(check_fit, self._controls) if self._controls else None

    def _open_menu(self) -> None:
        menu = self.menu()
        add_known(menu, self._known, self.add)
        add_choosing(menu, tr("Add ControlNet"), tr("ControlNet files"), self.add)
        below(menu, self.add_button)
