"""Which embeddings the prompts name: a quiet line below them."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from PySide6.QtWidgets import QLabel

from halftone.gui import theme
from halftone.gui.i18n import listed, tr
from halftone.library.inversions import Inversion, inversion_name, named_of, names_any


class WordsNote(QLabel):
    """Hidden where none is named."""

    def __init__(self) -> None:
        super().__init__()
        self._known: Sequence[Inversion] = ()
        self._given: tuple[str, ...] = ()
        self._texts: tuple[str, ...] = ()
        self.setFont(theme.current().font("caption"))
        self.setProperty("tone", "muted")
        self.setWordWrap(True)
        self.hide()

    def take(self, given: Iterable[str]) -> None:
        """Files that a request from elsewhere names; they count before those of the folders."""
        self._given = tuple(path for path in given if Path(path).is_absolute())  # a picture's own text has only names
        self._show()

    def show_named(self, known: Sequence[Inversion], *texts: str) -> None:
        """Tell which of the known embeddings, and of those that were given, the texts name."""
        self._known, self._texts = known, texts
        self._show()

    def paths(self) -> tuple[str, ...]:
        """Files of the named ones."""
        written = "\n".join(self._texts)
        given = {inversion_name(path).casefold(): path for path in self._given if names_any(written, (inversion_name(path),))}
        return tuple(({one.name.casefold(): one.path for one in named_of(self._known, self._texts)} | given).values())

    def _show(self) -> None:
        paths = self.paths()
        self.setText(tr("Embeddings in use: {0}", listed(*map(inversion_name, paths))) if paths else "")
        self.setToolTip("\n".join(paths))
        self.setVisible(bool(paths))
