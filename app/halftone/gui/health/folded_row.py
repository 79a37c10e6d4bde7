"""A quiet row of the Health page that opens what belongs to it."""

from PySide6.QtWidgets import QFrame, QLayout

from halftone.gui import icons
from halftone.gui.kit.stock_widgets import boxed, button, column, row


class FoldedRow(QFrame):
    """Closed and away at first."""

    def __init__(self, words: str, inside: QLayout) -> None:
        super().__init__()
        self.head = button(words, "quiet", "chevron-right", clicked=self.turn)
        self.body = boxed(inside)
        self.body.setVisible(False)
        self.setLayout(column(row(self.head, -1), self.body, spacing=2))
        self.setVisible(False)

    def turn(self) -> None:
        """Open it, or close it again."""
        opened = self.body.isHidden()
        self.body.setVisible(opened)
        self.head.setIcon(icons.icon("chevron-down" if opened else "chevron-right", "text-secondary"))

    @property
    def closed_height(self) -> int:
        """Pixels of the closed row with the gap above it; 0 where it is away."""
        return 0 if self.isHidden() else self.head.sizeHint().height() + 10
