"""The variation of the next pictures: a folded row of the Create form."""

from halftone.contract.limits import SIZE_RANGE
from halftone.gui.create.form.binding import Binding
from halftone.gui.create.form.form_fields import SeedField, SizeBox
from halftone.gui.create.rows.folded_row import FoldedPart
from halftone.gui.i18n import listed, tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import column, label, row


class VariationPart(FoldedPart):
    """Another seed, and how far the noise is turned towards its noise; a size that the noise is drawn at."""

    part_name = "variation"
    field = "seed_size"

    def __init__(self, binding: Binding) -> None:
        super().__init__(binding, tr("Variation"), tr("Blend in another seed for similar pictures."))
        binding.watch(self._show_value, "variation_strength", "seed_size")

    def build(self) -> None:
        binding = self._binding
        tip = tr("0 is the seed, 1 nearly the variation seed.")
        self.strength = binding.number("variation_strength", tr("Variation strength"), tip, width=72)
        self.seed = SeedField()
        self.seed.edit.setAccessibleName(tr("Variation seed"))
        self.seed.edit.setToolTip(tr("Increases within a batch; the main seed stays."))
        self.seed.lock.setToolTip(tr("Reuse this seed"))
        self.boxes = self.wide, self.high = SizeBox(tr("Noise width")), SizeBox(tr("Noise height"))
        for box in self.boxes:
            box.setRange(0, SIZE_RANGE[1])
            box.setSpecialValueText("–")
            box.setToolTip(tr("Keeps the seed's composition at this size."))
            box.setValue(0)
            box.valueChanged.connect(lambda _edge: binding.set("seed_size", self._noise_size()))
        strength = row(label(tr("Variation strength"), "small", "secondary"), -1, self.strength, spacing=8)
        drawn_at = row(self.wide, label("×", "small", "secondary"), self.high, spacing=6, stretch=(0, 2))
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
        binding.bind("variation_seed", self.seed)
        binding.watch(self._show_size, "seed_size")

    def _noise_size(self) -> tuple[int, int] | None:
        return (self.wide.value(), self.high.value()) if self.wide.value() or self.high.value() else None

    def _show_size(self, size: tuple[int, int] | None) -> None:
        for box, edge in zip(self.boxes, size or (0, 0), strict=True):
            box.setValue(edge)

    def _show_value(self, strength: float, size: tuple[int, int] | None) -> None:
        parts = (f"{strength:g}" if strength else "", figures.pixels(*size) if size else "")
        self.row.value.setText(listed(*parts))
        self.changed.emit()
