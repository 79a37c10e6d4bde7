"""The strip above the canvas that says what was imported from a picture, with an undo."""

from PySide6.QtCore import Signal
from PySide6.QtWidgets import QVBoxLayout, QWidget

from halftone.gui.i18n import tr
from halftone.gui.kit.message_bars import Act, Message, MessageBar, announce


class ImportStrip(QWidget):
    """Stays until it is closed, undone, or the next picture is begun. `undone`: the user undoes the import."""

    undone = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._lines = QVBoxLayout()
        self._lines.setContentsMargins(12, 8, 12, 8)
        self.setLayout(self._lines)
        self.bar: MessageBar | None = None
        self.hide()

    @property
    def words(self) -> str:
        """What it says, "" while it is hidden."""
        return self.bar.message.spoken if self.bar is not None and not self.isHidden() else ""

    def say(self, words: str, *, whole: bool = True) -> None:
        """Show what was imported. whole: nothing of it was missing."""
        if self.bar is not None:
            self.bar.deleteLater()
        self.bar = MessageBar(Message("ok" if whole else "warn", words, actions=(Act("undo", tr("Undo")),)))
        self.bar.acted.connect(lambda _key: self._undo())
        self.bar.closed.connect(self.hide)
        self._lines.addWidget(self.bar)
        self.show()
        announce(self, words)

    def _undo(self) -> None:
        self.hide()
        self.undone.emit()
