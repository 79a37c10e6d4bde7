"""A list of painted items: the ring around the one that has the keyboard, a cross that takes one away, and the menu of one."""

import re
from collections.abc import Sequence
from typing import Generic, TypeVar

from PySide6.QtCore import QEvent, QModelIndex, QPersistentModelIndex, QPoint, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QCursor, QHelpEvent, QKeyEvent, QMouseEvent, QPainter, QPen
from PySide6.QtWidgets import (
    QAbstractItemView,
    QFrame,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QToolTip,
)

from halftone.contract.echoes import harmless
from halftone.gui import icons, theme
from halftone.gui.kit.stock_widgets import plain_tip
from halftone.gui.views.list_model import Index, item_of

T = TypeVar("T")
_ARROWS = (Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Left, Qt.Key.Key_Right)
_JUMPS = (*_ARROWS, Qt.Key.Key_Home, Qt.Key.Key_End, Qt.Key.Key_PageUp, Qt.Key.Key_PageDown)
_ENTER = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space)
_CROSS = 24


class CardDelegate(QStyledItemDelegate, Generic[T]):
    """Subclasses paint an item and say how large it is; the cross and the focus ring are painted here."""

    def paint_card(self, painter: QPainter, rect: QRect, item: T, *, hovered: bool, selected: bool) -> None:
        raise NotImplementedError

    def size(self, item: T) -> QSize:
        raise NotImplementedError

    def has_cross(self, item: T) -> bool:
        return False

    def cross_tip(self, item: T) -> str:
        """What a click on the item's cross does."""
        return ""

    def cross(self, rect: QRect, item: T) -> QRect:
        """Where the cross of an item is; empty for one that has none."""
        if not self.has_cross(item):
            return QRect()
        return QRect(rect.right() - _CROSS - 4, rect.center().y() - _CROSS // 2, _CROSS, _CROSS)

    def ring(self, rect: QRect) -> QRect:
        """Where the ring around the item that has the keyboard is: the whole item, but for a gap beside it."""
        return rect

    # --- Qt ---------------------------------------------------------------------------------------------------------

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        return self.size(item_of(index))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        item, state = item_of(index), option.state
        hovered = bool(state & QStyle.StateFlag.State_MouseOver)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self.paint_card(painter, option.rect, item, hovered=hovered, selected=bool(state & QStyle.StateFlag.State_Selected))
        if cross := self.cross(option.rect, item):
            at = option.widget.mapFromGlobal(QCursor.pos())
            _paint_cross(painter, cross, hovered=hovered and cross.contains(at))
        if state & QStyle.StateFlag.State_HasFocus and option.widget.window().testAttribute(_BY_KEY):
            painter.setPen(QPen(theme.current().color("focus"), 2))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRoundedRect(QRectF(self.ring(option.rect)).adjusted(1, 1, -1, -1), 4, 4)
        painter.restore()

    def helpEvent(self, event: QHelpEvent, view: QAbstractItemView, option: QStyleOptionViewItem, index: Index) -> bool:
        item = item_of(index)
        if index.isValid() and self.cross(option.rect, item).contains(event.pos()):
            QToolTip.showText(event.globalPos(), plain_tip(self.cross_tip(item)), view)
            return True
        return super().helpEvent(event, view, option, index)


_BY_KEY = Qt.WidgetAttribute.WA_KeyboardFocusChange


def paint_line(
    painter: QPainter, rect: QRect, text: str, role: str, token: str = "text", *, numbers: bool = False, right: bool = False
) -> None:
    """Paint one line of text, which ends in an ellipsis where there is no room for all of it. numbers: figures of equal width."""
    colours = theme.current()
    painter.setFont(colours.font(role, numbers=numbers))
    painter.setPen(colours.color(token))
    line = re.sub("[ \t\n]+", " ", harmless(text))  # spaces that keep a number whole stay what they are
    side = Qt.AlignmentFlag.AlignRight if right else Qt.AlignmentFlag.AlignLeft
    shown = painter.fontMetrics().elidedText(line, Qt.TextElideMode.ElideRight, rect.width())
    painter.drawText(rect, int(Qt.AlignmentFlag.AlignVCenter | side), shown)


def _paint_cross(painter: QPainter, rect: QRect, *, hovered: bool) -> None:
    colours = theme.current()
    if hovered:
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colours.color("hover"))
        painter.drawRoundedRect(rect, 5, 5)
    icons.paint(painter, "x", QRectF(rect).adjusted(5, 5, -5, -5), colours.color("text" if hovered else "text-secondary"))


class CardList(QListView, Generic[T]):
    """`chosen`, `reached`, `removed` and `menu_requested` carry the item: by a click, Enter or Space; by an arrow key; by its
    cross or Delete; and by a right click or the menu key, with the place on the screen.
    """

    chosen = Signal(object)
    reached = Signal(object)
    removed = Signal(object)
    menu_requested = Signal(object, QPoint)

    def __init__(self, name: str, delegate: CardDelegate[T]) -> None:
        super().__init__()
        self._cards = delegate
        self._pressed_cross: QPersistentModelIndex | None = None
        self._press: tuple[QPersistentModelIndex, QPersistentModelIndex] | None = None
        """The item that a press made current, and the one before; None once it was chosen."""
        self.setAccessibleName(name)
        self.setItemDelegate(delegate)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.verticalScrollBar().setSingleStep(20)
        self.setSelectionMode(QListView.SelectionMode.SingleSelection)
        self.setEditTriggers(QListView.EditTrigger.NoEditTriggers)
        self.setMouseTracking(True)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_Hover)

    def select(self, index: QModelIndex) -> None:
        """Select an item and scroll to it; an invalid index selects none."""
        self.setCurrentIndex(index)
        self.scrollTo(index)

    def current(self) -> T | None:
        """The item that has the keyboard."""
        index = self.currentIndex()
        return item_of(index) if index.isValid() else None

    def pointer(self, item: T) -> Qt.CursorShape:
        """The pointer over an item."""
        return Qt.CursorShape.PointingHandCursor

    def dataChanged(self, first: Index, last: Index, roles: Sequence[int] = ()) -> None:
        """Lay the list out anew only where an item has another size: QListView would do it for every change."""
        QAbstractItemView.dataChanged(self, first, last, roles)
        changed = (self.model().index(row, 0) for row in range(first.row(), last.row() + 1))
        if any(self.visualRect(index).height() != self._cards.size(item_of(index)).height() for index in changed):
            self.scheduleDelayedItemsLayout()

    @property
    def presses_cross(self) -> bool:
        """Whether the mouse button is held down on a cross."""
        return self._pressed_cross is not None

    # --- mouse ------------------------------------------------------------------------------------------------------

    def cross_of(self, index: QModelIndex) -> QRect:
        """Where the cross of an item is; empty where there is none."""
        return self._cards.cross(self.visualRect(index), item_of(index)) if index.isValid() else QRect()

    def _cross_at(self, at: QPoint) -> QModelIndex:
        """The item whose cross is there."""
        index = self.indexAt(at)
        return index if self.cross_of(index).contains(at) else QModelIndex()

    def _acts(self, index: QModelIndex) -> bool:
        return bool(index.flags() & Qt.ItemFlag.ItemIsEnabled)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        cross = self._cross_at(event.position().toPoint()) if event.button() == Qt.MouseButton.LeftButton else QModelIndex()
        self._pressed_cross = QPersistentModelIndex(cross) if cross.isValid() else None
        if event.button() == Qt.MouseButton.LeftButton and not self.presses_cross:
            before = QPersistentModelIndex(self.currentIndex())
            super().mousePressEvent(event)  # another button selects nothing
            self._press = QPersistentModelIndex(self.currentIndex()), before

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        index = self.indexAt(event.position().toPoint())
        over = self._acts(index) and not self._cross_at(event.position().toPoint()).isValid()
        self.viewport().setCursor(self.pointer(item_of(index)) if over else Qt.CursorShape.ArrowCursor)
        self.update(index)  # its cross may be under the pointer now
        if not self.presses_cross:
            super().mouseMoveEvent(event)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        pressed, self._pressed_cross = self._pressed_cross, None
        at = event.position().toPoint()
        if pressed is not None:  # its item may be gone by now, and another one in its place
            if pressed.isValid() and pressed == self._cross_at(at):
                self.removed.emit(item_of(pressed))
            return
        clicked = event.button() == Qt.MouseButton.LeftButton and self.state() != QListView.State.DraggingState
        super().mouseReleaseEvent(event)
        index = self.indexAt(at)
        if clicked and self._acts(index) and index == self.currentIndex():
            self.chosen.emit(item_of(index))
            self._press = None
        self._give_up_press()

    def startDrag(self, supported: Qt.DropAction) -> None:
        super().startDrag(supported)
        self._give_up_press()

    def _give_up_press(self) -> None:
        """Select what was selected before a press that chose nothing."""
        press, self._press = self._press, None
        if press is not None and press[0] == self.currentIndex():  # nothing else was selected meanwhile
            self.setCurrentIndex(self.model().index(press[1].row(), press[1].column()))

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Count the second click of two as a click."""
        self.mousePressEvent(event)

    # --- keys -------------------------------------------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:
        before = self.currentIndex()
        plain = not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        if plain and before.isValid() and event.key() in _ENTER:
            self.chosen.emit(item_of(before))
        elif plain and before.isValid() and event.key() == Qt.Key.Key_Delete:
            self.removed.emit(item_of(before))
        else:
            if event.key() in _JUMPS:
                self.window().setAttribute(_BY_KEY)
            super().keyPressEvent(event)
            if event.key() in _JUMPS and self.currentIndex() != before:
                self.reached.emit(item_of(self.currentIndex()))

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        by_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        index = self.currentIndex() if by_key else self.indexAt(event.pos())
        if not self._acts(index):
            return
        middle = self.visualRect(index).center()
        self.menu_requested.emit(item_of(index), self.viewport().mapToGlobal(middle) if by_key else event.globalPos())

    def focusInEvent(self, event: QEvent) -> None:
        super().focusInEvent(event)  # pyright: ignore[reportArgumentType] - Qt sends a QFocusEvent
        self.viewport().update()
