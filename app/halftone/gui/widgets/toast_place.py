"""Where a toast lies over nothing that is clicked or typed into."""

from collections.abc import Iterator
from typing import Final

from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QScrollBar,
    QTextEdit,
    QWidget,
)

_USED: Final = (QAbstractButton, QAbstractSlider, QAbstractSpinBox, QComboBox, QLineEdit, QTextEdit)
_STEP: Final = 6
_GAP: Final = 4


def place(host: QWidget, toast: QWidget, lowest: int) -> QPoint:
    """The upper left corner of a toast: in the middle, as low as it can lie, from the height `lowest` on upwards.

    Where every height is taken it lies at `lowest`.
    """
    x = (host.width() - toast.width()) // 2
    taken = list(_taken(host, toast))
    for y in range(lowest, 0, -_STEP):
        area = QRect(x, y, toast.width(), toast.height()).adjusted(-_GAP, -_GAP, _GAP, _GAP)
        if not any(area.intersects(one) for one in taken):
            return QPoint(x, y)
    return QPoint(x, lowest)


def _taken(host: QWidget, toast: QWidget) -> Iterator[QRect]:
    """What can be used, as far as it is in sight, in the coordinates of the host."""
    for widget in host.findChildren(QWidget):
        if not isinstance(widget, _USED) or isinstance(widget, QScrollBar) or not widget.isVisible() or not widget.isEnabled():
            continue
        shown = widget.visibleRegion().boundingRect()
        if not shown.isEmpty() and not toast.isAncestorOf(widget):
            yield shown.translated(widget.mapTo(host, QPoint()))
