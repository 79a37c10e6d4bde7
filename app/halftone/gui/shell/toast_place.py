"""Finds a place for a toast where it covers nothing that is clicked or typed into."""

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
_ASIDE: Final = 20
_EDGE: Final = 20


def place(host: QWidget, toast: QWidget, lowest: int) -> QPoint:
    """The upper left corner of a toast: as low as it can lie, from the height `lowest` on upwards, and there next to the middle.

    Where everything is taken it lies in the middle at `lowest`.
    """
    middle, most = (host.width() - toast.width()) // 2, host.width() - toast.width() - _EDGE
    across = sorted({middle, *range(_EDGE, most + 1, _ASIDE)}, key=lambda x: abs(x - middle))
    covered = list(_covered_areas(host, toast))
    for y in range(lowest, 0, -_STEP):
        for x in across:
            area = QRect(x, y, toast.width(), toast.height()).adjusted(-_GAP, -_GAP, _GAP, _GAP)
            if not any(area.intersects(one) for one in covered):
                return QPoint(x, y)
    return QPoint(middle, lowest)


def _covered_areas(host: QWidget, toast: QWidget) -> Iterator[QRect]:
    """What can be used, as far as it is in sight, in the coordinates of the host."""
    for widget in host.findChildren(QWidget):
        if not isinstance(widget, _USED) or isinstance(widget, QScrollBar) or not widget.isVisible() or not widget.isEnabled():
            continue
        shown = widget.visibleRegion().boundingRect()
        if not shown.isEmpty() and not toast.isAncestorOf(widget):
            yield shown.translated(widget.mapTo(host, QPoint()))
