"""A folded row of the Create form over several parts: what is set in them is seen while it is folded."""

from collections.abc import Sequence

from PySide6.QtWidgets import QWidget

from halftone.contract.facts import ModelFacts
from halftone.gui.controller import Controller
from halftone.gui.create.form.form_parts import FoldedRow
from halftone.gui.create.rows.folded_row import FoldedPart
from halftone.gui.i18n import listed
from halftone.gui.kit.stock_widgets import ElidedLabel, boxed, column, hline, set_tone
from halftone.session.events import RowFolded


class PartGroup(QWidget):
    """A head, and below it the row of each part. It opens with any of its parts, and is there if the model can use one."""

    def __init__(self, controller: Controller, name: str, title: str, parts: Sequence[FoldedPart]) -> None:
        """name: in the state."""
        super().__init__()
        self._name, self._title, self._parts, self._controller = f"group {name}", title, tuple(parts), controller
        self._inside = boxed(column(*(widget for part in parts for widget in (part.row, part)), spacing=0))
        self._summary = ElidedLabel("", "small", "muted")
        self.row = FoldedRow(title, self._inside, self._summary)
        self.setLayout(column(self.row, self._inside, hline(), spacing=0))
        self.row.toggled.connect(self._toggled)
        for part in parts:
            part.row.set_inset()
            part.opened.connect(self._reveal)
            part.changed.connect(self._show)

    def restore(self) -> None:
        """Open it where it was open before the form was made anew."""
        self.row.setChecked(self._name in self._controller.state.open_rows)
        self.row.toggled.connect(lambda on: self._controller.take(RowFolded(row=self._name, open=on)))
        self._show()

    def follow(self, model: ModelFacts | None) -> None:
        """Show the parts that a model can use."""
        self.setVisible(any(part.there for part in self._parts))
        self._show()

    def _toggled(self, on: bool) -> None:
        """What stands alone in a group opens with it."""
        self._summary.setHidden(on)
        there = [part for part in self._parts if part.there]
        if on and len(there) == 1:
            there[0].row.setChecked(True)

    def _reveal(self) -> None:
        self.row.setChecked(True)

    def _show(self) -> None:
        """One part that is set shows its value, several show their names; where none is, the row names what it holds."""
        there = [part for part in self._parts if part.there]
        used = [part for part in there if part.used()]
        values = [f"{part.title} {part.row.value.text()}".rstrip() for part in used]
        words = values[0] if len(used) == 1 else listed(*(part.title for part in used or there))
        self._summary.set_text(words, "\n".join(values) if len(used) > 1 else "")
        set_tone(self._summary, "accent" if used else "muted")
        self.row.setAccessibleDescription(words if used else "")
