"""What others met on a combination: a quiet row that opens, and one line for the Device page."""

from collections.abc import Sequence

from PySide6.QtWidgets import QWidget

from halftone.gui.health.folded_row import FoldedRow
from halftone.gui.i18n import catalogue, sentences, tr
from halftone.gui.kit.stock_widgets import boxed, clear, column, fill, label
from halftone.health.troubles import Trouble, helps_words, origin_words


def known_text(trouble: Trouble) -> str:
    """What happens, and where that is from."""
    return tr("{0} ({1})", tr(trouble.what), ", ".join(trouble.sources))


class KnownCard(FoldedRow):
    """Closed at first, with how many there are; away where there are none."""

    def __init__(self) -> None:
        self._shown: tuple[Trouble, ...] = ()
        self._rows = column(spacing=10, margins=(30, 0, 14, 6))
        super().__init__("", self._rows)
        self.head.setToolTip(tr("Similar models and devices, not measured here."))

    def set_troubles(self, troubles: Sequence[Trouble]) -> None:
        """Most specific first."""
        if tuple(troubles) == self._shown:
            return
        self._shown = tuple(troubles)
        count = len(self._shown)
        self.head.set_words(tr("{0} reports from other users", count, one="1 report from other users"))
        clear(self._rows)
        fill(self._rows, *map(_entry, self._shown))
        self.setVisible(bool(self._shown))


def _entry(trouble: Trouble) -> QWidget:
    words = sentences(tr(trouble.what), helps_words(trouble).text(catalogue()))
    return boxed(
        column(
            label(words, "small", "secondary", wrap=True),
            label(origin_words(trouble).text(catalogue()), "caption", "muted", wrap=True),
            spacing=1,
        )
    )
