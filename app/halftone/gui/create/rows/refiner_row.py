"""The second model of the next pictures, which makes their last steps: a folded row of the Create form."""

from typing import Final

import msgspec
from PySide6.QtWidgets import QVBoxLayout

from halftone.contract.facts import ModelFacts
from halftone.contract.request import PictureRequest, Refiner, model_stem
from halftone.gui.controller import Controller
from halftone.gui.create.form.form_fields import SliderField
from halftone.gui.create.rows.replaced_part_row import Replaced, ReplacedPart
from halftone.gui.i18n import listed, tr
from halftone.gui.kit import figures
from halftone.gui.text import short
from halftone.health.pictures.refiners import AT_RANGE, check_is_refiner, check_takes_refiner
from halftone.library.families.known_families import REFINER

_USUAL: Final = (0.5, 0.95)


def refiner_line(refiner: Refiner | None) -> str:
    """In a receipt, "" for none."""
    return "" if refiner is None else listed(refiner.name, tr("switch at {0}", figures.decimal(refiner.at, 2)))


def _check(path: str, model: ModelFacts) -> None:
    check_takes_refiner(model)
    check_is_refiner(path)


class RefinerPart(ReplacedPart):
    """Which one is used, and after which share of the steps."""

    extra = False

    def __init__(self, controller: Controller) -> None:
        tip = tr("An SDXL refiner adds detail in the last steps.")
        kind = Replaced(
            field="refiner",
            title=tr("Refiner"),
            tip=tip,
            own=tr("Use no refiner"),
            choosing=tr("Choose refiner"),
            kinds=tr("Refiners"),
            endings="*.safetensors",
            folders=True,
            check=_check,
            choose=lambda _path: None,
            none=tr("Off"),
        )
        at_tip = tr("Fraction of the steps, usually 0.8.")
        self.at = SliderField(tr("Switch at"), at_tip, _USUAL, AT_RANGE, 0.01)
        self.at.set_value(Refiner(path="").at)
        super().__init__(controller, kind)
        layout = self.layout()
        assert isinstance(layout, QVBoxLayout)
        layout.insertWidget(1, self.at)
        self.at.changed.connect(self._show)

    def refiner(self) -> Refiner | None:
        path = self.file()
        return None if path is None else Refiner(path=path, at=round(self.at.value(), 2))

    def put(self, request: PictureRequest) -> PictureRequest:
        return msgspec.structs.replace(request, refiner=self.refiner())

    def take(self, request: PictureRequest) -> None:
        if request.refiner is not None:
            self.at.set_value(request.refiner.at)
        self.set_file(None if request.refiner is None else request.refiner.path)

    def known(self) -> dict[str, str]:
        return {model.name: model.path for model in self._controller.models if model.family == REFINER.name}

    def _show(self) -> None:
        super()._show()
        refiner = self.refiner()
        self.at.setVisible(refiner is not None)
        if refiner is not None:
            self.row.value.setText(listed(short(model_stem(refiner.path)), figures.decimal(refiner.at, 2)))
        self.changed.emit()
