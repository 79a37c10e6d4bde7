"""The small picture of an entry: the one beside its file, else the newest that was made with it."""

from PySide6.QtGui import QImage

from halftone.gui.controller import Controller
from halftone.session.models.listing import Row


class Previews:
    def __init__(self, controller: Controller) -> None:
        self._controller = controller

    def path(self, row: Row) -> str:
        """Where the picture is; "" for none."""
        entry = row.entry
        return entry.description.preview or self._controller.state.history.newest_with.get(entry.path, "")

    def small(self, row: Row) -> QImage:
        """The picture, a null image where there is none or until it is read."""
        path = self.path(row)
        return self._controller.thumbnails.get(path) if path else QImage()
