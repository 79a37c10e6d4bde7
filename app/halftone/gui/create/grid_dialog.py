"""The choice of a grid: two or three parameters with their values, and how many pictures that makes."""

from collections.abc import Sequence
from itertools import zip_longest

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QComboBox, QGridLayout, QLineEdit, QWidget

from halftone.contract.errors import HalftoneError
from halftone.contract.request import PictureRequest
from halftone.contract.wording import Words
from halftone.gui.controller import Controller
from halftone.gui.i18n import listed, say, tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import button, column, label, row, set_tone
from halftone.gui.kit.tab_order import OrderedDialog
from halftone.gui.text import error_sentence
from halftone.session.pictures.grid import MOST_AXES, Axis, Grid, Variable, axis_of, parsed, planned, proposed, variables

_SHOWN_CHOICES = 3


def variable_label(variable: Variable) -> str:
    """A parameter in the language of the user."""
    return say(variable.label) if isinstance(variable.label, Words) else tr(variable.label)


class AxisRow(QWidget):
    """A parameter and its values as they are typed. changed: one of the two."""

    changed = Signal()

    def __init__(self, number: int, known: Sequence[Variable], request: PictureRequest) -> None:
        super().__init__()
        self._request = request
        self._known = {one.name: one for one in known}
        self.parameter = QComboBox()
        self.parameter.setAccessibleName(tr("Axis {0}", "XYZ"[number]))
        self.parameter.setMinimumWidth(190)
        if number:
            self.parameter.addItem(tr("None"), "")
        for one in known:
            name = variable_label(one)
            self.parameter.addItem(f"{one.of} · {name}" if one.of else name, one.name)
        self.values = QLineEdit()
        self.values.setAccessibleName(tr("Values"))
        self.values.setMinimumWidth(220)
        self.count = label("", "caption", "muted", numbers=True)
        self.parameter.currentIndexChanged.connect(self._chosen)
        self.values.textChanged.connect(lambda _text: self.changed.emit())

    @property
    def variable(self) -> Variable | None:
        return self._known.get(self.parameter.currentData())

    def set(self, name: str, values: str) -> None:
        """Choose a parameter and its values."""
        self.parameter.setCurrentIndex(max(0, self.parameter.findData(name)))
        self.values.setText(values)

    def _chosen(self, _index: int) -> None:
        variable = self.variable
        self.values.setEnabled(variable is not None)
        self.values.setText("" if variable is None else listed_choices(variable))
        self.values.setPlaceholderText(placeholder(variable))
        self.values.setToolTip(listed(*variable.choices) if variable is not None else "")
        self.changed.emit()

    def axis(self) -> Axis | None:
        """The axis; None where no parameter is chosen. Raises HalftoneError."""
        variable = self.variable
        if variable is None:
            self.count.setText("")
            return None
        values = parsed(self.values.text(), variable)
        self.count.setText(f"× {len(values)}")
        return axis_of(variable, values, variable_label(variable))


def listed_choices(variable: Variable) -> str:
    """The first choices, quoted where a comma is in them."""
    return ", ".join(f'"{one}"' if "," in one else one for one in variable.choices[:_SHOWN_CHOICES])


def placeholder(variable: Variable | None) -> str:
    """How values are typed."""
    if variable is None or variable.choices:
        return ""
    if variable.name in ("prompt", "negative"):
        return tr("word in the prompt, replacement, …")
    return "5, 7, 9   1-10 (+2)   1-10 [5]" if variable.kind != "text" else tr("values, separated by commas")


class GridDialog(OrderedDialog):
    """chosen: the axes, when the user wants the grid."""

    chosen = Signal(object)

    def __init__(self, page: QWidget, controller: Controller, request: PictureRequest, upscaler: str = "") -> None:
        """upscaler: the upscale model for each picture, "" for none."""
        super().__init__(page)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Grid"))
        self._controller = controller
        self._request = request
        self._upscaler = upscaler
        known = variables(request, controller.model, tuple(controller.state.models.models))
        self.rows = [AxisRow(number, known, request) for number in range(MOST_AXES)]
        self.summary = label("", "small", "secondary", numbers=True, wrap=True)
        self.make = button(tr("Make the grid"), "primary", clicked=self._make)
        self.make.setDefault(True)
        self._build()
        for one, (name, values) in zip_longest(self.rows, proposed(request, controller.model), fillvalue=("", "")):
            assert isinstance(one, AxisRow)
            one.set(name, values)
            one.changed.connect(self._refresh)
        self._refresh()
        self.make.setFocus()

    def _build(self) -> None:
        grid = QGridLayout()
        grid.setSpacing(8)
        for number, one in enumerate(self.rows):
            for place, part in enumerate((label("XYZ"[number], "small", "secondary"), one.parameter, one.values, one.count)):
                grid.addWidget(part, number, place)
        grid.setColumnStretch(2, 1)
        buttons = row(-1, button(tr("Cancel"), clicked=self.reject), self.make, spacing=8)
        self.setLayout(column(grid, self.summary, buttons, spacing=12, margins=(16, 14, 16, 14)))
        self.setMinimumWidth(520)

    def axes(self) -> tuple[Axis, ...]:
        """Raises HalftoneError."""
        return tuple(axis for one in self.rows if (axis := one.axis()) is not None)

    def _refresh(self) -> None:
        try:
            planned_grid = planned(self._request, self.axes())
        except HalftoneError as error:
            self.summary.setText(error_sentence(error.as_facts()))
            set_tone(self.summary, "danger")
            self.make.setEnabled(False)
            return
        set_tone(self.summary, "secondary")
        self.summary.setText(self._words(planned_grid))
        self.make.setEnabled(True)

    def _words(self, grid: Grid) -> str:
        """How many pictures there will be, how long they take, that they share a seed, and what follows."""
        count = tr("{0} pictures", figures.group(grid.count))
        seconds = self._controller.session.estimates.seconds(grid.requests)
        time = "" if seconds is None else tr("about {0}", figures.duration(seconds))
        random = self._request.seed is None and all(one.variable is None or one.variable.name != "seed" for one in self.rows)
        then = tr("then upscale") if self._upscaler else ""
        return listed(*filter(None, (count, time, tr("one random seed for all") if random else "", then)))

    def _make(self) -> None:
        axes = self.axes()
        self.accept()
        self.chosen.emit(axes)
