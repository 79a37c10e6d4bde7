"""Filters and sorts the rows of a list of models in the background, the newest query last."""

from PySide6.QtCore import QObject, Signal
from PySide6.QtWidgets import QWidget

from halftone.gui.controller import Controller
from halftone.gui.kit.stock_widgets import health_word
from halftone.session.models.listing import STATES, Listing, Query, Row, entries_of, look, rows_of


class ModelRows(QObject):
    """changed: there is another listing. One computation runs at a time; what changes meanwhile is looked at after it, and what
    changes while the page is hidden once `refresh` is called.
    """

    changed = Signal()

    def __init__(self, controller: Controller, query: Query, page: QWidget) -> None:
        super().__init__(page)
        self._controller = controller
        self._page = page
        self.query = query
        self.listing = Listing()
        self._rows: tuple[Row, ...] = ()
        self._stale = self._wanted = True
        self._busy = False
        self._listed = self._parts()
        controller.library_changed.connect(self._library_changed)
        for source in (controller.healths_changed, controller.models_changed):
            source.connect(self._outdate)
        controller.session.healths.look()

    @property
    def ready(self) -> bool:
        """Whether the listing answers the query with what is known now."""
        return not (self._wanted or self._busy)

    @property
    def rows(self) -> tuple[Row, ...]:
        """All of them, whatever is asked for."""
        return self._rows

    @property
    def busy(self) -> bool:
        return self._busy

    def ask(self, query: Query) -> None:
        """Show others."""
        self.query, self._wanted = query, True
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
        self._stale = self._wanted = True
        self.refresh()

    def refresh(self) -> None:
        """List what is wanted now, unless nobody sees it."""
        if self._busy or not self._wanted or not self._page.isVisible():
            return
        self._busy, self._wanted = True, False
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
        self.refresh()

    def _failed(self, error: Exception) -> None:
        self._busy, self._stale, self._wanted = False, True, True
        raise error
