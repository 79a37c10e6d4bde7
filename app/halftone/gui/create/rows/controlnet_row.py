"""The ControlNets of the next pictures: a folded row of the Create form."""

from functools import partial

from PySide6.QtWidgets import QBoxLayout, QCheckBox, QLayout, QPushButton, QWidget

from halftone.contract.limits import CONTROL_RANGE
from halftone.contract.request import Control
from halftone.gui.create.form.binding import Binding
from halftone.gui.create.form.file_choosers import ask_picture
from halftone.gui.create.rows.list_row import Listed, ListRow
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import button, column, label, row
from halftone.gui.text import net_words, short
from halftone.library.add_ons.controlnets import check_fit
from halftone.library.add_ons.vaes import vae_name


class ControlPart(ListRow[Control]):
    """The list, each with its picture and how much of it, and a button to add one."""

    part_name = field = "controls"

    def __init__(self, binding: Binding) -> None:
        kind = Listed[Control](
            title=tr("ControlNet"),
            tip=tr("Guide with edges, depth or a pose."),
            adding=tr("Add ControlNet"),
            kinds=tr("ControlNet files"),
            folders=True,
            new=lambda path: Control(path=path, image=""),
            check=check_fit,
            kind="ControlNet",
            words=net_words,
            shape=lambda control: (control.path, control.image),
        )
        super().__init__(binding, kind)

    def look(self) -> None:
        self._controller.session.files.parts("ControlNet", self.found)

    def inside(self, index: int, item: Control, head: QBoxLayout) -> QLayout:
        edges = QCheckBox(tr("Edges"))
        edges.setToolTip(tr("Apply Canny edge detection first."))
        self.tie(index, "canny", edges)
        middle = row(self._picture(index, item), edges, spacing=8, stretch=0)
        low, high = (f"{value:g}" for value in CONTROL_RANGE)
        strength = self._number(index, "scale", tr("Strength"), tr("{0} to {1}.", low, high))
        begins = self._number(index, "start", tr("From"), tr("Starting control step (0 to 1)"))
        ends = self._number(index, "end", tr("To"), tr("Ending control step (0 to 1)"))
        return column(head, middle, row(*strength, -1, spacing=6), row(*begins, *ends, -1, spacing=6), spacing=6)

    def _number(self, index: int, field: str, words: str, tip: str) -> tuple[QWidget, QWidget]:
        name = f"{self.items()[index].name}: {words}"
        return label(words, "small", "secondary"), self.number(index, field, name, tip)

    def _picture(self, index: int, control: Control) -> QPushButton:
        made = button(short(vae_name(control.image)) if control.image else tr("Choose a picture…"), icon="image")
        made.setToolTip(control.image or tr("Reference picture"))
        made.setAccessibleName(tr("Picture of {0}", control.name))
        made.setMinimumWidth(40)
        made.clicked.connect(lambda _on=False: ask_picture(self, partial(self.give, index)))
        return made

    def give(self, index: int, picture: str) -> None:
        """The picture that one of them goes by."""
        self.change(index, image=picture)
