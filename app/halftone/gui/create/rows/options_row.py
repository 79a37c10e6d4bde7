"""Clip skip, and what else a request gave its pipeline: a folded row of the Create form."""

import msgspec
from PySide6.QtCore import Qt

from halftone.contract.facts import ModelFacts
from halftone.contract.request import OptionValue, PictureRequest
from halftone.gui.create.form.form_fields import NumberBox
from halftone.gui.create.rows.folded_row import FoldedPart
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import column, icon_button, label, row
from halftone.library.options import CLIP_SKIP, CLIP_SKIPS, takes_option


class OptionsPart(FoldedPart):
    """Other options come with the settings of a picture, and can only be removed. What the model's pipeline does not take stays
    here and is not sent.
    """

    def __init__(self) -> None:
        super().__init__(tr("Clip skip"), tr("Skip text encoder layers, as in A1111."))
        self._model: ModelFacts | None = None
        self._others: dict[str, OptionValue] = {}
        self.skip = NumberBox(CLIP_SKIPS)
        self.skip.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.skip.setFixedWidth(68)
        self.skip.setAccessibleName(tr("Clip skip"))
        self.skip.setToolTip(tr("1: skip none. 2: skip the last."))
        self.others = label("", "caption", "muted", wrap=True)
        self.remove = icon_button("x", tr("Remove other options"), size=14, clicked=lambda: self._take_others({}))
        told = row(self.others, self.remove, spacing=6)
        told.setStretch(0, 1)
        self.setLayout(
            column(
                row(label(tr("Clip skip"), "small", "secondary"), -1, self.skip, spacing=8),
                told,
                spacing=8,
                margins=(14, 10, 14, 12),
            )
        )
        self.skip.valueChanged.connect(self._show)
        self._show()

    def put(self, request: PictureRequest) -> PictureRequest:
        skip = round(self.skip.value())
        options = {**self._others, **({CLIP_SKIP: skip - 1} if skip > 1 else {})}
        sent = {name: value for name, value in options.items() if self._model is None or takes_option(self._model, name)}
        return msgspec.structs.replace(request, options=sent)

    def take(self, request: PictureRequest) -> None:
        others = dict(request.options)
        skip = others.pop(CLIP_SKIP, 0)
        self.skip.setValue(skip + 1 if type(skip) is int else 1)
        self._take_others(others)

    def follow(self, model: ModelFacts | None) -> None:
        self._model = model
        self._show()

    def _take_others(self, others: dict[str, OptionValue]) -> None:
        self._others = others
        self._show()

    def _show(self) -> None:
        there = self._model is None or takes_option(self._model, CLIP_SKIP)
        self.skip.setEnabled(there)
        self.row.value.setText(str(round(self.skip.value())) if there else tr("Not supported"))
        self.others.setText(tr("Other options: {0}", ", ".join(f"{name} {value}" for name, value in self._others.items())))
        for widget in (self.others, self.remove):
            widget.setVisible(bool(self._others))
        self.changed.emit()
