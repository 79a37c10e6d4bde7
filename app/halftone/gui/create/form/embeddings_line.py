"""Which embeddings the prompts name: a quiet line below them."""

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QLabel

from halftone.gui import theme
from halftone.gui.i18n import listed, tr
from halftone.gui.kit.message_bars import announce
from halftone.gui.kit.stock_widgets import set_tone
from halftone.library.add_ons.inversions import Inversion, named_of


class TakenNote(QLabel):
    """What became of settings from elsewhere, until the next ones or until a picture is asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.setFont(theme.current().font("caption"))
        self.setProperty("tone", "muted")
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setWordWrap(True)
        self.hide()

    def say(self, words: str, tone: str = "muted") -> None:
        """ "" for nothing to say. tone: "warn" where something was not taken."""
        set_tone(self, tone)
        self.setText(words)
        self.setVisible(bool(words))
        if words:
            announce(self, words)


class WordsNote(QLabel):
    """Hidden where none is named."""

    def __init__(self) -> None:
        super().__init__()
        self._named: tuple[Inversion, ...] = ()
        self.setFont(theme.current().font("caption"))
        self.setProperty("tone", "muted")
        self.setWordWrap(True)
        self.hide()

    def show_named(self, known: Sequence[Inversion], *texts: str) -> None:
        """Tell which of the known embeddings the texts name."""
        self._named = named_of(known, texts)
        self.setText(tr("Embeddings in use: {0}", listed(*(one.name for one in self._named))) if self._named else "")
        self.setToolTip("\n".join(self.paths()))
        self.setVisible(bool(self._named))

    def paths(self) -> tuple[str, ...]:
        """Files of the named ones."""
        return tuple(one.path for one in self._named)
