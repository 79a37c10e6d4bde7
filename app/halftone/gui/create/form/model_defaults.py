"""What a model that was just chosen was made for; what the user set otherwise stays, and that is said."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from PySide6.QtWidgets import QWidget

from halftone.contract.facts import ModelFacts
from halftone.gui import theme
from halftone.gui.create.form.form_fields import SizeField, SliderField
from halftone.gui.i18n import listed, tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import IconLabel, button, label, row


@dataclass(frozen=True)
class Field:
    """One field of the form. own: the value that a model was made for; words: a value as people write it."""

    name: str
    value: Callable[[], Any]
    put: Callable[[Any], object]
    own: Callable[[ModelFacts], Any]
    words: Callable[[Any], str]


def fields_of(size: SizeField, steps: SliderField, guidance: SliderField) -> tuple[Field, ...]:
    """The fields that a model has values of its own for."""
    return (
        Field(
            tr("Size"),
            size.size_value,
            lambda value: size.set_size(*value),
            lambda model: (model.native_width, model.native_height),
            lambda value: f"{value[0]} × {value[1]}",
        ),
        Field(tr("Steps"), steps.value, steps.set_value, lambda model: float(model.default_steps), "{:.0f}".format),
        Field(
            tr("Guidance"), guidance.value, guidance.set_value, lambda model: round(model.default_guidance, 1), figures.decimal
        ),
    )


class OwnValues(QWidget):
    """A note below the model, shown while fields hold what the user set for another model."""

    def __init__(self, fields: Sequence[Field]) -> None:
        super().__init__()
        self._fields = fields
        self._model: ModelFacts | None = None
        self._kept: tuple[Field, ...] = ()
        self.words = label("", "caption", "muted", wrap=True)
        self.take = button(tr("Use these"), "link", clicked=self._take)
        self.take.setFont(theme.current().font("caption"))
        line = row(IconLabel("info", "text-muted", 14), self.words, self.take, spacing=6, margins=(14, 0, 14, 10))
        line.setStretch(1, 1)
        self.setLayout(line)
        self.hide()

    def follow(self, model: ModelFacts) -> None:
        """Another model was chosen: fields that were not touched take its values, the others stay."""
        before, self._model = self._model, model
        kept: list[Field] = []
        for field in self._fields:
            if before is None or field.value() == field.own(before):
                field.put(field.own(model))
            elif field.own(model) != field.value() and (field in self._kept or field.own(model) != field.own(before)):
                kept.append(field)
        self._kept = tuple(kept)
        made_for = (f"{field.name} {field.words(field.own(model))}" for field in kept)
        self.words.setText(tr("{0} recommends {1}.", model.name, listed(*made_for)))
        self.setVisible(bool(kept))

    def _take(self) -> None:
        if self._model is not None:
            for field in self._kept:
                field.put(field.own(self._model))
        self.forget()

    def forget(self) -> None:
        """What stands in the form is not about an earlier model."""
        self._kept = ()
        self.hide()
