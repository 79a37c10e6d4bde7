"""The earlier prompts, searched, in a menu below the prompt."""

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPainter
from PySide6.QtWidgets import QFrame, QLineEdit, QWidget

from halftone.gui import theme
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import column, label
from halftone.gui.views.card_list import CardDelegate, CardList, paint_line
from halftone.gui.views.list_model import ListModel

_ROW: Final = 30
_MOST: Final = 10
"""Rows that are shown at once."""


class _Prompts(ListModel[str]):
    def key(self, item: str) -> str:
        return item

    def name(self, item: str) -> str:
        return item

    def tip(self, item: str) -> str:
        return item


class _Delegate(CardDelegate[str]):
    def size(self, item: str) -> QSize:
        return QSize(0, theme.grown(_ROW))

    def paint_card(self, painter: QPainter, rect: QRect, item: str, *, hovered: bool, selected: bool) -> None:
        if hovered or selected:
            painter.fillRect(rect, theme.current().color("selected" if selected else "hover"))
        paint_line(painter, rect.adjusted(10, 0, -10, 0), item, "small")


def found(prompts: Sequence[str], wanted: str) -> list[str]:
    """The prompts that hold all of the words."""
    words = wanted.casefold().split()
    return [prompt for prompt in prompts if all(word in prompt.casefold() for word in words)]


class PromptHistory(QFrame):
    """Closes when a prompt is chosen."""

    chosen = Signal(str)

    def __init__(self, parent: QWidget, prompts: Sequence[str]) -> None:
        super().__init__(parent, Qt.WindowType.Popup)
        self.setObjectName("modelMenu")
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self._all = prompts
        self.search = QLineEdit()
        self.search.setPlaceholderText(tr("Search prompts"))
        self.search.setAccessibleName(tr("Search prompts"))
        self.prompts = _Prompts()
        self.list = CardList(tr("Earlier prompts"), _Delegate())
        self.list.setUniformItemSizes(True)
        self.list.setModel(self.prompts)
        self.none = label(tr("No matches") if prompts else tr("No pictures yet."), "small", "muted")
        self.none.setContentsMargins(10, 4, 10, 8)
        self.setLayout(column(self.search, self.list, self.none, spacing=6, margins=(6, 6, 6, 6)))
        self.search.textChanged.connect(self._show)
        self.list.chosen.connect(self._choose)
        self._show("")

    def _show(self, wanted: str) -> None:
        shown = found(self._all, wanted)
        self.prompts.show(shown)
        self.list.select(self.prompts.index(0))
        self.list.setVisible(bool(shown))
        self.none.setHidden(bool(shown))

    def _choose(self, prompt: str) -> None:
        self.close()
        self.chosen.emit(prompt)

    def show_under(self, anchor: QWidget) -> None:
        """Show it as wide as the anchor, as high as its first rows."""
        self.list.setFixedHeight(theme.grown(_ROW) * max(1, min(_MOST, len(self._all))))
        self.setFixedWidth(anchor.width())
        self.adjustSize()
        self.move(anchor.mapToGlobal(QPoint(0, anchor.height() + 3)))
        self.show()
        self.search.setFocus(Qt.FocusReason.PopupFocusReason)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter in the search takes the first, arrows lead into the list."""
        current = self.list.current()
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and current is not None:
            self._choose(current)
        elif event.key() in (Qt.Key.Key_Down, Qt.Key.Key_Up):
            row = self.list.currentIndex().row() + (1 if event.key() == Qt.Key.Key_Down else -1)
            self.list.select(self.prompts.index(min(max(row, 0), len(self.prompts.items) - 1)))
        else:
            super().keyPressEvent(event)
