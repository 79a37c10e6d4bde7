"""Windows that open by mistake: a widget that is shown before it has a parent."""

from collections.abc import Generator
from contextlib import contextmanager

from PySide6.QtCore import QEvent, QObject
from PySide6.QtWidgets import QApplication, QWidget


class _Watch(QObject):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[QObject] = []

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        if event.type() == QEvent.Type.Show and isinstance(watched, QWidget) and watched.isWindow():
            self.seen.append(watched)
        return False


@contextmanager
def windows_shown() -> Generator[list[QObject]]:
    """Note what is shown as a window of its own."""
    program, watch = QApplication.instance(), _Watch()
    assert program is not None
    program.installEventFilter(watch)
    yield watch.seen
    program.removeEventFilter(watch)
