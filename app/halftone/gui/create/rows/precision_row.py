"""The precision of the next pictures: a folded row of the Create form."""

from halftone.contract.vocabulary import Precision
from halftone.gui import text
from halftone.gui.create.form.binding import Binding
from halftone.gui.create.rows.folded_row import FoldedPart
from halftone.gui.i18n import catalogue, tr
from halftone.gui.kit.stock_widgets import column, label
from halftone.gui.kit.switches import Segmented


class NumericsPart(FoldedPart):
    """A choice for this sitting; the setting stays as it is."""

    def __init__(self, binding: Binding) -> None:
        super().__init__(binding, tr("Numerics"))
        self.show_value()

    def build(self) -> None:
        choose = self._controller.session.settings.choose_precision
        self.precision = Segmented(
            [("settings", tr("Global")), ("auto", tr("Auto")), ("float16", "FP16"), ("bfloat16", "BF16"), ("float32", "FP32")]
        )
        how_long = tr("Applies to this session only.")
        self.precision.setToolTip(how_long)
        words = label(how_long, "caption", "muted", wrap=True)
        self.setLayout(column(self.precision, words, spacing=6, margins=(14, 10, 14, 12)))
        self.precision.chosen.connect(lambda chosen: choose(_precision(chosen)))
        self.show_value()

    def take_precision(self, precision: Precision) -> None:
        """Choose the precision an earlier picture was asked for in, so that a check or a fix is about what it met."""
        if precision != self._controller.numerics.precision:
            asked = precision != self._controller.settings.numerics.precision
            self._controller.session.settings.choose_precision(precision if asked else None)

    def used(self) -> bool:
        return self._controller.state.once is not None

    def show_value(self) -> None:
        """What the choice means on this device, in the closed row."""
        if self.built:
            self.precision.set_value(self._controller.state.once or "settings")
        state = self._controller.state
        dtype, reason = self._controller.precision
        measured = dtype if state.self_test is not None else None
        wanted = self._controller.numerics.precision
        self.row.value.setText(text.precision_words(wanted, measured, measuring=state.measuring))
        self.row.setToolTip(reason.text(catalogue()))
        self.changed.emit()


def _precision(value: str) -> Precision | None:
    """The precision that a choice stands for; None: as the settings say."""
    table: dict[str, Precision] = {"auto": "auto", "float16": "float16", "bfloat16": "bfloat16", "float32": "float32"}
    return table.get(value)
