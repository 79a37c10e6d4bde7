"""Clip skip, and what else a request gave its pipeline: a folded row of the Create form."""

from halftone.contract.facts import ModelFacts
from halftone.gui.create.form.binding import Binding
from halftone.gui.create.rows.folded_row import FoldedPart
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import column, icon_button, label, row
from halftone.library.options import CLIP_SKIP, takes_option


class OptionsPart(FoldedPart):
    """Other options come with the settings of a picture, and can only be removed. What the model's pipeline does not take stays
    here and is not sent.
    """

    def __init__(self, binding: Binding) -> None:
        super().__init__(binding, tr("Clip skip"), tr("Leaves out the last layers of the text encoder, as A1111 counts them."))
        self.skip = binding.number("clip_skip", tr("Clip skip"), tr("1: none is left out; 2: the last one."), width=68)
        self.others = label("", "caption", "muted", wrap=True)
        removed = tr("Remove the other options")
        self.remove = icon_button("x", removed, size=14, clicked=lambda: binding.set("options", {}))
        told = row(self.others, self.remove, spacing=6)
        told.setStretch(0, 1)
        skip = row(label(tr("Clip skip"), "small", "secondary"), -1, self.skip, spacing=8)
        self.setLayout(column(skip, told, spacing=8, margins=(14, 10, 14, 12)))
        binding.watch(self._show, "clip_skip", "options")

    def follow(self, model: ModelFacts | None) -> None:
        super().follow(model)
        self._show()

    def _show(self, *_: object) -> None:
        draft, there = self._binding.draft, self._model is None or takes_option(self._model, CLIP_SKIP)
        self.skip.setEnabled(there)
        self.row.value.setText(str(draft.clip_skip) if there else tr("Not with this model"))
        self.others.setText(tr("Other options: {0}", ", ".join(f"{name} {value}" for name, value in draft.options.items())))
        for widget in (self.others, self.remove):
            widget.setVisible(bool(draft.options))
        self.changed.emit()
