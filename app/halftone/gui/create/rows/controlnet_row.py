"""The ControlNets of the next pictures: a folded row of the Create form."""

from collections.abc import Sequence
from functools import partial

from PySide6.QtWidgets import QBoxLayout, QCheckBox, QLayout, QPushButton, QWidget

from halftone.contract.limits import CONTROL_RANGE
from halftone.contract.request import Control
from halftone.gui.create.form.binding import Binding
from halftone.gui.create.form.file_choosers import ask_picture
from halftone.gui.create.form.form_fields import combo
from halftone.gui.create.rows.list_row import Listed, ListRow
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import button, column, fill_combo, label, row
from halftone.gui.text import net_words, short
from halftone.library.add_ons.controlnets import check_fit, kinds_in
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
        several = kinds_in(item.path)
        kinds = self._kinds(index, several) if several else ()
        low, high = (f"{value:g}" for value in CONTROL_RANGE)
        strength = self._number(index, "scale", tr("Strength"), tr("{0} to {1}.", low, high))
        begins = self._number(index, "start", tr("From"), tr("Starting control step (0 to 1)"))
        ends = self._number(index, "end", tr("To"), tr("Ending control step (0 to 1)"))
        numbers = row(*strength, *kinds, -1, spacing=6)
        return column(head, middle, numbers, row(*begins, *ends, -1, spacing=6), spacing=6)

    def _kinds(self, index: int, kinds: Sequence[str]) -> tuple[QWidget, QWidget]:
        """What the picture shows, for a ControlNet that was trained for several kinds."""
        words = {
            "openpose": tr("Pose"),
            "depth": tr("Depth"),
            "scribble": tr("Scribble, soft edges"),
            "canny": tr("Edges, line art"),
            "normal": tr("Normal map"),
            "segment": tr("Segmentation"),
            "tile": tr("Tile"),
            "repaint": tr("Repaint"),
            "blur": tr("Blur"),
            "gray": tr("Grey"),
            "low quality": tr("Low quality"),
        }
        box = combo(f"{self.items()[index].name}: {tr('Kind of picture')}", tr("What the control picture shows."))
        fill_combo(box, [("", tr("Choose…")), *((kind, words[kind]) for kind in kinds)])
        self.tie(index, "kind", box)
        return label(tr("Kind of picture"), "small", "secondary"), box

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
