"""The top-level window: there at once, with a skeleton in it until the workspace moves in."""

from collections.abc import Callable

from PySide6.QtCore import QByteArray, QEvent, QObject, Signal
from PySide6.QtGui import QCloseEvent, QResizeEvent
from PySide6.QtWidgets import QMainWindow

from halftone.gui.skeleton import Skeleton
from halftone.settings.glance import Glance


class MainWindow(QMainWindow):
    """Only the frame: what is in it, and whether it may close, is the workspace's business."""

    painted = Signal()
    """Once, after the first paint."""
    resized = Signal()

    def __init__(self, first: Glance | None = None) -> None:
        super().__init__()
        first = first or Glance()
        self.may_close: Callable[[], bool] = lambda: True
        self.setWindowTitle("Halftone")
        self.setMinimumSize(1024, 640)
        self.resize(1440, 900)
        if first.geometry:
            self.restoreGeometry(QByteArray.fromBase64(first.geometry.encode()))
        self._skeleton = Skeleton(first.columns, first_run=first.first_run)
        self._skeleton.installEventFilter(self)
        self.setCentralWidget(self._skeleton)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint and watched is self._skeleton:
            self._skeleton.removeEventFilter(self)
            self.painted.emit()
        return super().eventFilter(watched, event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.resized.emit()

    def closeEvent(self, event: QCloseEvent) -> None:
        if self.may_close():
            super().closeEvent(event)
        else:
            event.ignore()
