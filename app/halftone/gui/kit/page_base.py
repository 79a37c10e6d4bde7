"""What pages have in common: they follow signals, refresh soon after a change, and not while nobody sees them."""

from PySide6.QtCore import QTimer, SignalInstance
from PySide6.QtGui import QResizeEvent, QShowEvent
from PySide6.QtWidgets import QWidget

from halftone.gui import theme

NARROW = 1180
"""Pages narrower than this, at the usual text size, put things below each other that stand side by side otherwise."""


class Page(QWidget):
    """soon_ms: how long changes are gathered before they are shown. A subclass shows what is known in `_show`."""

    def __init__(self, soon_ms: int = 60) -> None:
        super().__init__()
        self.setObjectName("page")
        self._narrow: bool | None = None
        self._timer = QTimer(self, singleShot=True, interval=soon_ms)
        self._timer.timeout.connect(self.refresh)
        self._clock = QTimer(self, interval=1000)
        self._clock.timeout.connect(self.refresh)

    def follow(self, *signals: SignalInstance) -> None:
        """Refresh before long whenever one of these is emitted."""
        for signal in signals:
            signal.connect(self.soon)

    def soon(self) -> None:
        """Refresh before long; a page that nobody sees waits until it is shown."""
        if self.isVisible() and not self._timer.isActive():
            self._timer.start()

    def refresh(self) -> None:
        """Show what is known now."""
        self._timer.stop()
        self._show()

    def tick(self, on: bool) -> None:
        """Refresh every second: something counts down."""
        if on != self._clock.isActive():
            self._clock.start() if on else self._clock.stop()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.refresh()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        narrow = self.width() < theme.grown(NARROW)
        if narrow != self._narrow:
            self._narrow = narrow
            self._arrange(narrow)

    def _show(self) -> None:
        raise NotImplementedError

    def _arrange(self, narrow: bool) -> None:
        """Lay the page out anew: it has become narrow, or wide."""
