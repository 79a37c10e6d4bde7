"""The variation of the next pictures: a folded row of the Create form."""

from typing import Final

import msgspec
from PySide6.QtCore import Qt

from halftone.contract.limits import SIZE_MULTIPLE, SIZE_RANGE
from halftone.contract.request import PictureRequest
from halftone.gui.create.form.form_fields import NumberBox, SeedField, SizeBox
from halftone.gui.create.rows.folded_row import FoldedPart
from halftone.gui.i18n import listed, tr
from halftone.gui.kit.stock_widgets import column, label, row

_STEP: Final = 0.05


class VariationPart(FoldedPart):
    """Another seed, and how far the noise is turned towards its noise; a size that the noise is drawn at."""

    def __init__(self) -> None:
        tip = tr("Blend in another seed's noise for similar pictures.")
        super().__init__(tr("Variation"), tip)
        self.strength = NumberBox((0.0, 1.0), 2)
        self.strength.setSingleStep(_STEP)
        self.strength.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.strength.setFixedWidth(72)
        self.strength.setToolTip(tr("0 is the seed, 1 nearly the variation seed."))
        self.strength.setAccessibleName(tr("Variation strength"))
        self.seed = SeedField()
        self.seed.edit.setAccessibleName(tr("Variation seed"))
        self.seed.edit.setToolTip(tr("Increases within a batch; the main seed stays."))
        self.seed.lock.setToolTip(tr("Reuse this seed"))
        self.wide, self.high = SizeBox(tr("Noise width")), SizeBox(tr("Noise height"))
        for box in (self.wide, self.high):
            box.setRange(0, SIZE_RANGE[1])
            box.setSpecialValueText("–")
            box.setToolTip(tr("Keeps the seed's composition at this size."))
            box.setValue(0)
        strength = row(label(tr("Variation strength"), "small", "secondary"), -1, self.strength, spacing=8)
        drawn_at = row(self.wide, label("×", "small", "secondary"), self.high, spacing=6)
        drawn_at.setStretch(0, 1)
        drawn_at.setStretch(2, 1)
        self.setLayout(
            column(
                strength,
                column(label(tr("Variation seed"), "small", "secondary"), self.seed, spacing=5),
                column(label(tr("Use the picture size"), "small", "secondary"), drawn_at, spacing=5),
                self.note,
                spacing=10,
                margins=(14, 10, 14, 12),
            )
        )
        self.strength.valueChanged.connect(self._show)
        self.seed.changed.connect(self._show)
        self.wide.valueChanged.connect(self._show)
        self.high.valueChanged.connect(self._show)
        self._show()

    def put(self, request: PictureRequest) -> PictureRequest:
        return msgspec.structs.replace(
            request,
            variation_strength=round(self.strength.value(), 2),
            variation_seed=self.seed.seed_for_next(),
            seed_size=(self.wide.value(), self.high.value()) if self._is_sized() else None,
        )

    def take(self, request: PictureRequest) -> None:
        self.strength.setValue(request.variation_strength)
        self.seed.set_seed(request.variation_seed, lock=request.variation_seed is not None)
        wide, high = request.seed_size or (0, 0)
        self.wide.setValue(wide)
        self.high.setValue(high)

    def problem(self) -> str:
        size = (self.wide.value(), self.high.value())
        if self._is_sized() and any(value % SIZE_MULTIPLE or value < SIZE_RANGE[0] for value in size):
            return tr("Noise width and height must be multiples of 8.")
        return ""

    def after_picture(self) -> None:
        """A picture was queued: without the lock, the next one gets another variation seed."""
        self.seed.after_picture()

    def _is_sized(self) -> bool:
        return bool(self.wide.value() or self.high.value())

    def _show(self) -> None:
        strength = self.strength.value()
        size = f"{self.wide.value()} × {self.high.value()}" if self._is_sized() else ""
        told = [part for part in (f"{strength:g}" if strength else "", size) if part]
        self.row.value.setText(listed(*told) if told else "")
        self.say(self.problem())
