"""A splitter with a hit area of 5 and a line of 1; a double click restores the default."""

from collections.abc import Sequence

from PySide6.QtCore import Qt
from PySide6.QtGui import QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSplitter, QSplitterHandle

from halftone.gui import theme


class _Handle(QSplitterHandle):
    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.contentsRect(), theme.current().color("border"))
        painter.end()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        splitter = self.splitter()
        if isinstance(splitter, LineSplitter):
            splitter.restore_defaults()


class LineSplitter(QSplitter):
    """Side by side."""

    def __init__(self) -> None:
        super().__init__(Qt.Orientation.Horizontal)
        self._defaults: list[int] = []
        self.setHandleWidth(1)  # Qt then widens the hit area over its neighbours
        self.setChildrenCollapsible(False)

    def createHandle(self) -> QSplitterHandle:
        return _Handle(self.orientation(), self)

    def set_defaults(self, sizes: Sequence[int]) -> None:
        self._defaults = list(sizes)

    def restore_defaults(self) -> None:
        self.setSizes(self._defaults)
