"""Python's cyclic garbage is collected on the UI thread only: a Qt object that ends on another thread ends the program."""

import gc

from PySide6.QtCore import QObject, QTimer


def keep() -> None:
    """Leave what is built now out of later collections: the window stays, and looking through it takes 50 ms each time."""
    gc.freeze()


class Collector(QObject):
    """Takes over from Python's automatic collection: looks once a second, and collects what Python itself would by now."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        gc.disable()
        self._timer = QTimer(self)
        self._timer.setInterval(1000)
        self._timer.timeout.connect(self.look)
        self._timer.start()

    def look(self) -> None:
        """Collect the oldest generation whose threshold is passed, and with it the younger ones."""
        due = [
            age for age, (count, limit) in enumerate(zip(gc.get_count(), gc.get_threshold(), strict=True)) if count > limit > 0
        ]
        if due:
            gc.collect(max(due))
