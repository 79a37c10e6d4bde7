"""Finds a place for a toast where it covers nothing that is clicked or typed into."""

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QPoint, QRect
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QComboBox,
    QLineEdit,
    QScrollBar,
    QTextEdit,
    QWidget,
)

_USED: Final = (QAbstractButton, QAbstractItemView, QAbstractSlider, QAbstractSpinBox, QComboBox, QLineEdit, QTextEdit)
_STEP: Final = 6
_GAP: Final = 4
_EDGE: Final = 20


def free_place(across: int, size: tuple[int, int], lowest: int, taken: Sequence[QRect]) -> tuple[int, int] | None:
    """The upper left corner of a toast: as low as it can lie, from the height `lowest` on upwards, and there next to the middle.

    across: pixels between the edges of the window. None where it would cover something that is taken everywhere.
    """
    width, height = size
    middle, most = (across - width) // 2, across - width - _EDGE
    for y in range(lowest, 0, -_STEP):
        band = [one for one in taken if one.top() < y + height + _GAP and one.bottom() > y - _GAP]
        beside = (x for one in band for x in (one.left() - width - _GAP, one.right() + 1 + _GAP))
        places = sorted((x for x in (middle, *beside) if x == middle or _EDGE <= x <= most), key=lambda x: abs(x - middle))
        for x in places:
            if all(one.left() >= x + width + _GAP or one.right() < x - _GAP for one in band):
                return x, y
    return None


def taken_areas(host: QWidget, toast: QWidget) -> list[QRect]:
    """What can be used, as far as it is in sight, in the coordinates of the host."""
    found: list[QRect] = []
    for widget in host.findChildren(QWidget):
        if not isinstance(widget, _USED) or isinstance(widget, QScrollBar) or not widget.isVisible() or not widget.isEnabled():
            continue
        shown = widget.visibleRegion().boundingRect()
        if not shown.isEmpty() and not toast.isAncestorOf(widget):
            found.append(shown.translated(widget.mapTo(host, QPoint())))
    return found
