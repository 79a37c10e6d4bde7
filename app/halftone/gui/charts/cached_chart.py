"""What charts share: their base is painted once and kept; what follows the pointer is painted over it."""

from PySide6.QtCore import QSizeF, Qt, QTimer
from PySide6.QtGui import QPainter, QPaintEvent, QPixmap, QResizeEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from halftone.gui import theme
from halftone.gui.kit.painting import blank, paint_on

REFRESH_MS = 100


class CachedChart(QWidget):
    """A subclass paints its base in `paint_base`, and in `paint_over` what changes with the pointer."""

    def __init__(self) -> None:
        super().__init__()
        self._cache: QPixmap | None = None
        self._timer = QTimer(self, singleShot=True, interval=REFRESH_MS)
        self._timer.timeout.connect(self.refresh)
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        theme.watcher().changed.connect(self.refresh)

    def paint_base(self, painter: QPainter) -> None:
        raise NotImplementedError

    def paint_over(self, painter: QPainter) -> None:
        raise NotImplementedError

    def refresh_soon(self) -> None:
        """Paint the base anew, at most every 100 ms."""
        if not self._timer.isActive():
            self._timer.start()

    def flush(self) -> None:
        """Paint now what waits for the next refresh."""
        self._timer.stop()
        self.refresh()

    def refresh(self) -> None:
        self._cache = None
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        if self._cache is None or self._cache.devicePixelRatio() != self.devicePixelRatioF():
            self._cache = blank(QSizeF(self.size()), self.devicePixelRatioF())
            painter = QPainter(self._cache)
            self.paint_base(painter)
            painter.end()
        kept = self._cache

        def paint(painter: QPainter) -> None:
            painter.drawPixmap(0, 0, kept)
            self.paint_over(painter)

        paint_on(self, paint)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.refresh()
