"""The order in which Tab visits a window: as the eye reads it, whatever was made first."""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, Protocol, cast, runtime_checkable

from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QAbstractButton, QButtonGroup, QDialog, QGridLayout, QLayout, QScrollArea, QWidget

_RING: Final = 6
"""Pixels around a widget that its ring takes at most."""


@runtime_checkable
class OrderedByHand(Protocol):
    """Holds widgets that Tab visits in another order than the layout's."""

    def tab_order(self) -> Sequence[QWidget]: ...


class OrderedDialog(QDialog):
    """A dialog that Tab visits as the main window, also what was made since the last Tab."""

    def focusNextPrevChild(self, forward: bool) -> bool:
        put_in_order(self)
        moved = super().focusNextPrevChild(forward)
        if moved:
            bring_into_sight(self.focusWidget())
        return moved


def put_in_order(window: QWidget) -> None:
    """Let Tab go on in reading order, and stop once in a group of buttons: at the one that is chosen."""
    seen = list(reading_order(window))
    for one in seen:
        if isinstance(one, QAbstractButton):
            _stop_at_the_chosen(one)
    stops = [one for one in seen if one.focusPolicy() & Qt.FocusPolicy.TabFocus and one.focusProxy() is None]
    for before, after in pairwise(stops):
        QWidget.setTabOrder(before, after)


def bring_into_sight(widget: QWidget) -> None:
    """Scroll to a widget and its ring: Qt forgets the ring, and does so only while Tab stays in what scrolls."""
    holder = widget.parentWidget()
    while holder is not None:
        if isinstance(holder, QScrollArea) and (inside := holder.widget()) is not None:
            top = widget.mapTo(inside, QPoint())
            for y in (top.y() + widget.height(), top.y()):
                holder.ensureVisible(top.x(), y, 0, _RING)
        holder = holder.parentWidget()


def reading_order(holder: QWidget) -> Iterator[QWidget]:
    """Yield a widget and what is visible in it: first what its layout holds, then what lies over that or has no layout."""
    yield holder
    layout = holder.layout()
    held = holder.tab_order() if isinstance(holder, OrderedByHand) else [] if layout is None else list(_held(layout))
    free = [child for child in holder.children() if isinstance(child, QWidget) and not child.isWindow() and child not in held]
    for child in (*held, *sorted(free, key=lambda child: (child.y(), child.x()))):
        if child.isVisible():
            yield from reading_order(child)


def _held(layout: QLayout) -> Iterator[QWidget]:
    """Yield the widgets in a layout and in those inside it."""
    places = list(range(layout.count()))
    if isinstance(layout, QGridLayout):
        places.sort(key=lambda place: layout.getItemPosition(place)[:2])  # pyright: ignore[reportIndexIssue]
    for item in map(layout.itemAt, places):
        if item is None:
            continue
        widget, inner = item.widget(), item.layout()
        if widget is not None:
            yield widget
        elif inner is not None:
            yield from _held(inner)


def _stop_at_the_chosen(button: QAbstractButton) -> None:
    """Qt stops at the button of a group that had the focus last, though the mouse may have chosen another since."""
    group = cast("QButtonGroup | None", button.group())
    chosen = group.checkedButton() if group is not None and group.exclusive() else None
    if chosen is None or not chosen.isVisible() or not chosen.isEnabled():
        return
    chosen.setFocusPolicy(Qt.FocusPolicy(chosen.focusPolicy() | Qt.FocusPolicy.TabFocus))
    if button is not chosen:
        button.setFocusPolicy(Qt.FocusPolicy(button.focusPolicy() & ~Qt.FocusPolicy.TabFocus))
