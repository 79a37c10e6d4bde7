"""The parameters of the table that are options, and what else a request gave its pipeline: a folded row of the Create form."""

from collections.abc import Set
from typing import Final

import msgspec
from PySide6.QtCore import Qt

from halftone.contract.facts import ModelFacts
from halftone.contract.parameters import OPTION_PARAMETERS, Parameter, option_numbers
from halftone.contract.request import OptionValue, PictureRequest
from halftone.gui.create.form.form_fields import NumberBox
from halftone.gui.create.rows.folded_row import FoldedPart
from halftone.gui.i18n import catalogue, listed, tr
from halftone.gui.kit.stock_widgets import column, icon_button, label, row
from halftone.library.options import known_options, takes_option

_PLACES: Final = 2
"""Digits behind the point of a number that is not whole."""


class OptionsPart(FoldedPart):
    """A number for each parameter that is an option. Other options come with the settings of a picture, and can only be removed.
    What the model's pipeline does not take stays here and is not sent.
    """

    def __init__(self) -> None:
        super().__init__(tr("Options"), tr("Clip skip and what else the pipelines of some models take."))
        self._model: ModelFacts | None = None
        self._others: dict[str, OptionValue] = {}
        self._known = frozenset(OPTION_PARAMETERS)
        self.boxes = {name: _box(one) for name, one in OPTION_PARAMETERS.items()}
        self._exact: dict[str, float] = {}
        self.others = label("", "caption", "muted", wrap=True)
        self.remove = icon_button("x", tr("Remove the other options"), size=14, clicked=lambda: self._take_others({}))
        told = row(self.others, self.remove, spacing=6)
        told.setStretch(0, 1)
        named = [
            row(label(OPTION_PARAMETERS[name].label.text(catalogue()), "small", "secondary"), -1, box, spacing=8)
            for name, box in self.boxes.items()
        ]
        self.setLayout(column(*named, told, self.note, spacing=8, margins=(14, 10, 14, 12)))
        for box in self.boxes.values():
            box.valueChanged.connect(self._show)
        self._show()

    def put(self, request: PictureRequest) -> PictureRequest:
        options = {**self._others, **self._entries()}
        if self._model is not None:
            known = known_options(self._model, image=request.image is not None, mask=request.masked)
            self._tell_unused(self._entries().keys() & self._known - set(known))
            options = {name: value for name, value in options.items() if name in known}
        return msgspec.structs.replace(request, options=options)

    def take(self, request: PictureRequest) -> None:
        self._exact = option_numbers(request)
        for name, box in self.boxes.items():
            box.setValue(self._exact.get(name, _none(OPTION_PARAMETERS[name])))
        self._take_others({name: value for name, value in request.options.items() if name not in self.boxes})

    def follow(self, model: ModelFacts | None) -> None:
        self._model = model
        if model is not None:
            self._known = frozenset(name for name in self.boxes if takes_option(model, name))
        self._show()

    def _entries(self) -> dict[str, OptionValue]:
        """The options that the boxes stand for. A number that came with a picture keeps the digits that its box does not show."""
        found: dict[str, OptionValue] = {}
        for name, box in self.boxes.items():
            one, shown = OPTION_PARAMETERS[name], round(box.value(), _PLACES)
            exact = self._exact.get(name, shown)
            if shown != _none(one):
                found |= one.entry(exact if round(exact, _PLACES) == shown else shown)
        return found

    def _tell_unused(self, names: Set[str]) -> None:
        """Say which numbers have no effect, as another pipeline runs with a start picture."""
        words = listed(*(OPTION_PARAMETERS[name].label.text(catalogue()) for name in sorted(names)))
        if (said := words and tr("Not with a start picture: {0}.", words)) != self.note.text():
            self.say(said)

    def _take_others(self, others: dict[str, OptionValue]) -> None:
        self._others = others
        self._show()

    def _show(self) -> None:
        there = [name for name in self.boxes if name in self._known]
        for name, box in self.boxes.items():
            box.setEnabled(name in there)
        numbers = {name: box.text() for name, box in self.boxes.items() if name in self._entries() and name in there}
        told = listed(*(f"{OPTION_PARAMETERS[name].label.text(catalogue())} {number}" for name, number in numbers.items()))
        self.row.value.setText(told if there else tr("Not with this model"))
        self.others.setText(tr("Other options: {0}", ", ".join(f"{name} {value}" for name, value in self._others.items())))
        for widget in (self.others, self.remove):
            widget.setVisible(bool(self._others))
        self.changed.emit()


def _none(one: Parameter) -> float:
    """The number of the box that stands for nothing: the neutral one, else one step below the smallest."""
    return one.limits[0] - one.step if one.neutral is None else one.neutral


def _box(one: Parameter) -> NumberBox:
    box = NumberBox((min(_none(one), one.limits[0]), one.limits[1]), 0 if one.kind is int else _PLACES)
    if one.neutral is None:
        box.setSpecialValueText("–")
    box.setValue(_none(one))
    box.setSingleStep(one.step)
    box.setAlignment(Qt.AlignmentFlag.AlignRight)
    box.setFixedWidth(68)
    box.setAccessibleName(one.label.text(catalogue()))
    box.setToolTip("" if one.tip is None else one.tip.text(catalogue()))
    return box
