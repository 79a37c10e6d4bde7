"""The parameters of the table that are options, and what else a request gave its pipeline: a folded row of the Create form."""

from collections.abc import Collection, Mapping
from typing import Final

from PySide6.QtCore import Qt

from halftone.contract.facts import ModelFacts
from halftone.contract.parameters import OPTION_PARAMETERS, Parameter, option_numbers, overruled
from halftone.gui import theme
from halftone.gui.create.form.binding import Binding
from halftone.gui.create.form.form_fields import ChoiceBox, NumberBox
from halftone.gui.create.rows.folded_row import FoldedPart
from halftone.gui.i18n import catalogue, listed, tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import boxed, column, icon_button, label, row
from halftone.library.options import known_options
from halftone.session.pictures.draft import Draft, fitting_sampler, is_masked

_PLACES: Final = 2
"""Digits behind the point of a number that is not whole."""
_LONG: Final = 8
"""Letters from which on a name needs a wider box."""
_WIDEST: Final = 150
"""Pixels of what the folded row shows."""


class OptionsPart(FoldedPart):
    """A number for each parameter that is an option. Other options come with the settings of a picture, and can only be removed.
    What the model's pipeline does not take stays here and is not sent.
    """

    part_name = "options"

    def __init__(self, binding: Binding) -> None:
        super().__init__(binding, tr("Options"), tr("Clip skip and other pipeline options."))
        binding.watch(self._show, "options", "sampler", "image", "mask", "start", "hires_on")

    def build(self) -> None:
        self.boxes = {name: _box(one) for name, one in OPTION_PARAMETERS.items()}
        self.others = label("", "caption", "muted", wrap=True)
        self.remove = icon_button("x", tr("Remove other options"), size=14, clicked=lambda: self._keep(self.boxes))
        others = row(self.others, self.remove, spacing=6, stretch=0)
        self.lines = {
            name: boxed(row(label(_name(name), "small", "secondary"), -1, box, spacing=8)) for name, box in self.boxes.items()
        }
        self.setLayout(column(*self.lines.values(), others, self.note, spacing=8, margins=(14, 10, 14, 12)))
        for name, box in self.boxes.items():
            changed = box.currentIndexChanged if isinstance(box, ChoiceBox) else box.valueChanged
            changed.connect(lambda _value, name=name: self._edited(name))
        self._binding.quietly(self._show_inside)

    def follow(self, model: ModelFacts | None) -> None:
        super().follow(model)
        self._binding.quietly(self._show)

    def _edited(self, name: str) -> None:
        one, value = OPTION_PARAMETERS[name], round(self.boxes[name].value(), _PLACES)
        others = {other: stored for other, stored in self._binding.draft.options.items() if other != name}
        self._binding.set("options", others if value == _none(one) else others | one.entry(value))

    def _keep(self, names: Mapping[str, object]) -> None:
        options = self._binding.draft.options
        self._binding.set("options", {name: value for name, value in options.items() if name in names})

    def _show(self, *_: object) -> None:
        draft, model = self._binding.draft, self._model
        numbers, there = option_numbers(draft), self._there()
        shown = listed(*(f"{_name(name)} {_shown(name, number)}" for name, number in numbers.items() if name in there))
        value = self.row.value
        value.setText(value.fontMetrics().elidedText(shown, Qt.TextElideMode.ElideRight, theme.grown(_WIDEST)))
        value.setToolTip(shown)
        if self.built:
            self._show_inside()
        self.say("" if model is None else _notes(draft, model, numbers, there))

    def _there(self) -> list[str]:
        """Options that the model takes with the sampler, and that say something."""
        if self._model is None:
            return list(OPTION_PARAMETERS)
        options = self._binding.draft.options
        taken = known_options(self._model, _sampler(self._binding.draft, self._model), options, image=False, mask=False)
        return [
            name
            for name, one in OPTION_PARAMETERS.items()
            if name in taken and name not in overruled(options) and (not one.of or options.get(one.of))
        ]

    def _show_inside(self) -> None:
        """A number that came with a picture keeps the digits that its box does not show."""
        options, there = self._binding.draft.options, self._there()
        numbers = option_numbers(self._binding.draft)
        for name, box in self.boxes.items():
            wanted = numbers.get(name, _none(OPTION_PARAMETERS[name]))
            if round(wanted, _PLACES) != round(box.value(), _PLACES):
                box.setValue(wanted)
            self.lines[name].setVisible(name in there)
        others = {name: value for name, value in options.items() if name not in self.boxes}
        self.others.setText(tr("Other options: {0}", ", ".join(f"{name} {value}" for name, value in others.items())))
        for widget in (self.others, self.remove):
            widget.setVisible(bool(others))


def _sampler(draft: Draft, model: ModelFacts) -> str | None:
    return fitting_sampler(draft.sampler, model.samplers)


def _notes(draft: Draft, model: ModelFacts, numbers: Collection[str], there: Collection[str]) -> str:
    """Say which options stay without effect, and why."""
    idle = listed(*(_name(name) for name in numbers if name not in there))
    said = tr("Not with this model, sampler and the other options: {0}.", idle) if idle else ""
    return " ".join(filter(None, (said, _unused(draft, model, [name for name in numbers if name in there]))))


def _unused(draft: Draft, model: ModelFacts, wanted: list[str]) -> str:
    """Say which of the options the pipeline of a start picture or of the second pass does not take."""
    if draft.image is None and not draft.hires_on:
        return ""
    taken = known_options(model, _sampler(draft, model), draft.options, image=True, mask=is_masked(draft, model))
    unused = listed(*(_name(name) for name in wanted if name not in taken))
    if not unused:
        return ""
    return tr("Not in the second pass: {0}.", unused) if draft.image is None else tr("Not with image to image: {0}.", unused)


def _shown(option: str, number: float) -> str:
    one = OPTION_PARAMETERS[option]
    return one.text(number) or figures.decimal(number, 0 if one.kind is int else _PLACES)


def _name(option: str) -> str:
    return OPTION_PARAMETERS[option].label.text(catalogue())


def _none(one: Parameter) -> float:
    """The number of the box that stands for nothing: the neutral one, else one step below the smallest."""
    return one.limits[0] - one.step if one.neutral is None else one.neutral


def _box(one: Parameter) -> NumberBox | ChoiceBox:
    box = ChoiceBox(one.names) if one.names else _number_box(one)
    box.setFixedWidth(theme.grown(68 if not one.names else 96 if max(map(len, one.names)) < _LONG else 160))
    box.setAccessibleName(one.label.text(catalogue()))
    box.setToolTip("" if one.tip is None else one.tip.text(catalogue()))
    return box


def _number_box(one: Parameter) -> NumberBox:
    box = NumberBox((min(_none(one), one.limits[0]), one.limits[1]), 0 if one.kind is int else _PLACES)
    if one.neutral is None:
        box.setSpecialValueText("–")
    box.setValue(_none(one))
    box.setSingleStep(one.step)
    return box
