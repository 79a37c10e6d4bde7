"""The IP-Adapters of the next pictures: a folded row of the Create form."""

from functools import partial
from typing import Final

import msgspec
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLayout, QWidget

from halftone.contract.limits import IP_ADAPTER_RANGE
from halftone.contract.request import IpAdapter, PictureRequest
from halftone.gui import theme
from halftone.gui.controller import Controller
from halftone.gui.create.form.file_choosers import add_choosing, add_known, ask_picture
from halftone.gui.create.form.form_fields import NumberBox
from halftone.gui.create.rows.fitted_files_row import Check, FittedPart
from halftone.gui.create.rows.folded_row import below
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import ElidedLabel, button, clear, column, icon_button, label, row
from halftone.gui.text import net_words
from halftone.library.add_ons.ipadapters import KIND, check_files_fit
from halftone.library.add_ons.vaes import vae_name

_STEP: Final = 0.05


class IpAdapterPart(FittedPart):
    """The list, each with its pictures and how much they count, and a button to add one."""

    def __init__(self, controller: Controller) -> None:
        tip = tr("Copy a style, subject or face.")
        super().__init__(controller, tr("IP-Adapter"), tip)
        self._known: dict[str, str] = {}
        self._adapters: tuple[IpAdapter, ...] = ()
        self._list = column(spacing=10)
        self.add_button = button(tr("Add IP-Adapter"), tip=tip, clicked=self._open_menu)
        self.setLayout(column(self._list, row(self.add_button, -1), self.note, spacing=8, margins=(14, 10, 14, 12)))
        self.row.toggled.connect(lambda on: controller.look_for_parts(KIND, self._found) if on else None)
        self._show()

    def put(self, request: PictureRequest) -> PictureRequest:
        return msgspec.structs.replace(request, ip_adapters=self._adapters)

    def take(self, request: PictureRequest) -> None:
        self.set_adapters(request.ip_adapters)

    def adapters(self) -> tuple[IpAdapter, ...]:
        return self._adapters

    def set_adapters(self, adapters: tuple[IpAdapter, ...]) -> None:
        """Take these in place of what is listed."""
        self._take(adapters)
        self._show()
        self.look_at_fit()

    def problem(self) -> str:
        lacking = next((one.name for one in self._adapters if not one.images), "")
        return super().problem() or (tr("Choose a picture for {0}.", lacking) if lacking else "")

    def _take(self, adapters: tuple[IpAdapter, ...]) -> None:
        self._adapters = adapters
        self.row.value.setText(net_words(adapters))
        self._controller.choose_ip_adapters(one for one in adapters if one.images)
        self.say(self.problem())

    def _found(self, known: dict[str, str]) -> None:
        self._known = known

    # --- the list ---------------------------------------------------------------------------------------------------

    def _show(self) -> None:
        clear(self._list)
        for index, one in enumerate(self._adapters):
            self._list.addWidget(self._entry(index, one))
        self.row.value.setText(net_words(self._adapters))

    def _entry(self, index: int, one: IpAdapter) -> QWidget:
        name = ElidedLabel(one.name)
        remove = icon_button("x", tr("Remove {0}", one.name), size=14, clicked=partial(self._remove, index))
        head = row(name, remove, spacing=6)
        head.setStretch(0, 1)
        pictures = [self._picture(index, place, image) for place, image in enumerate(one.images)]
        words = tr("Add another picture…") if one.images else tr("Choose a picture…")
        more = button(words, icon="image", tip=tr("Reference picture"))
        more.clicked.connect(lambda _on=False: ask_picture(self, partial(self.give, index)))
        made = QWidget()
        made.setToolTip(one.path)
        made.setLayout(column(head, *pictures, row(more, -1), self._strength(index, one), spacing=6))
        return made

    def _picture(self, index: int, place: int, image: str) -> QLayout:
        name = ElidedLabel(vae_name(image))
        name.setToolTip(image)
        remove = icon_button("x", tr("Remove {0}", vae_name(image)), size=14, clicked=partial(self._leave_out, index, place))
        made = row(name, remove, spacing=6)
        made.setStretch(0, 1)
        return made

    def _strength(self, index: int, one: IpAdapter) -> QLayout:
        box = NumberBox(IP_ADAPTER_RANGE, 2)
        box.setSingleStep(_STEP)
        box.setValue(one.scale)
        box.setFont(theme.current().font("body", numbers=True))
        box.setAlignment(Qt.AlignmentFlag.AlignRight)
        box.setFixedWidth(72)
        low, high = (f"{value:g}" for value in IP_ADAPTER_RANGE)
        box.setToolTip(tr("{0} to {1}.", low, high))
        box.setAccessibleName(f"{one.name}: {tr('Strength')}")
        box.valueChanged.connect(lambda value: self._change(index, scale=round(value, 2)))
        return row(label(tr("Strength"), "small", "secondary"), box, -1, spacing=6)

    def _change(self, index: int, **changes: tuple[str, ...] | float) -> None:
        changed = msgspec.structs.replace(self._adapters[index], **changes)
        self._take((*self._adapters[:index], changed, *self._adapters[index + 1 :]))

    def give(self, index: int, picture: str) -> None:
        """One more picture that one of them goes by."""
        self._change(index, images=(*self._adapters[index].images, picture))
        self._show()
        self.look_at_fit()  # some take one only

    def _leave_out(self, index: int, place: int) -> None:
        images = self._adapters[index].images
        self._change(index, images=(*images[:place], *images[place + 1 :]))
        self._show()
        self.look_at_fit()

    def _remove(self, index: int) -> None:
        self.set_adapters((*self._adapters[:index], *self._adapters[index + 1 :]))
        self.add_button.setFocus(Qt.FocusReason.OtherFocusReason)

    # --- adding -----------------------------------------------------------------------------------------------------

    def add(self, path: str) -> None:
        """Add an IP-Adapter's file, if it fits the model; what is wrong with it is said below the list."""
        adapters = (*self._adapters, IpAdapter(path=path, images=()))
        self.try_first(partial(check_files_fit, adapters), lambda: self.set_adapters(adapters))

    def listed_check(self) -> Check | None:
        return partial(check_files_fit, self._adapters) if self._adapters else None

    def _open_menu(self) -> None:
        menu = self.menu()
        add_known(menu, self._known, self.add)
        add_choosing(menu, tr("Add IP-Adapter"), tr("IP-Adapter files"), self.add, folders=False)
        below(menu, self.add_button)
