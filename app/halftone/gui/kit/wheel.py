"""Fields that the wheel changes only while they have the focus: a page that scrolls under the pointer changes none of them."""

from typing import TypeVar

from PySide6.QtCore import QEvent, QObject, Qt
from PySide6.QtWidgets import QWidget

Field = TypeVar("Field", bound=QWidget)


class _Guard(QObject):
    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Leave the wheel to what the field stands in, unless the field has the focus."""
        if event.type() != QEvent.Type.Wheel or not isinstance(watched, QWidget) or watched.hasFocus():
            return False
        event.ignore()
        return True


def guard_wheel(field: Field) -> Field:
    """Let the wheel change this field only while it has the focus, and give it no focus."""
    field.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
    field.installEventFilter(_Guard(field))
    return field
