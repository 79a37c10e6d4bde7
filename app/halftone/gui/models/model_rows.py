"""Filters and sorts the rows of a list of models in the background, the newest wish last."""

from PySide6.QtCore import QObject, Signal

from halftone.gui.controller import Controller
from halftone.gui.kit.stock_widgets import health_word
from halftone.session.models.listing import STATES, Listing, Query, Row, entries_of, look, rows_of


class ModelRows(QObject):
    """changed: there is another listing. One computation runs at a time; what changes meanwhile is looked at after it."""

    changed = Signal()

    def __init__(self, controller: Controller, query: Query, parent: QObject) -> None:
        super().__init__(parent)
        self._controller = controller
        self.query = query
        self.listing = Listing()
        self._rows: tuple[Row, ...] = ()
        self._stale = True
        self._busy = self._again = False
        self._listed = self._parts()
        controller.library_changed.connect(self._library_changed)
        for source in (controller.healths_changed, controller.models_changed):
            source.connect(self._outdate)
        controller.session.healths.look()

    @property
    def rows(self) -> tuple[Row, ...]:
        """All of them, whatever is asked for."""
        return self._rows

    @property
    def busy(self) -> bool:
        return self._busy

    def ask(self, query: Query) -> None:
        """Show others."""
        self.query = query
        self.refresh()

    def _parts(self) -> tuple[object, ...]:
        """What rows are made of; how far a scan came is not."""
        library = self._controller.state.library
        return library.entries, library.hashes, library.marks, library.weights, library.read

    def _library_changed(self) -> None:
        parts = self._parts()
        if any(now is not before for now, before in zip(parts, self._listed, strict=True)):
            self._listed = parts
            self._outdate()

    def _outdate(self) -> None:
        self._stale = True
        self.refresh()

    def refresh(self) -> None:
        """Look again, unless nobody sees it."""
        if self._busy:
            self._again = True
            return
        self._busy, self._again = True, False
        state, query, before, stale = self._controller.state, self.query, self._rows, self._stale
        self._stale = False
        words = {name: health_word(name) for name in STATES}

        def work() -> tuple[tuple[Row, ...], Listing]:
            rows = before
            if stale:
                entries = entries_of(state.library, state.models.models.values())
                rows = rows_of(entries, state.library, state.healths.by_model, known=before, words=words)
            return rows, look(rows, query)

        self._controller.background.run(work, self._take, self._failed, receiver=self)

    def _take(self, found: tuple[tuple[Row, ...], Listing]) -> None:
        self._busy = False
        self._rows, self.listing = found
        self.changed.emit()
        if self._again:
            self.refresh()

    def _failed(self, error: Exception) -> None:
        self._busy, self._stale = False, True
        raise error
