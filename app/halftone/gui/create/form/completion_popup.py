"""What could be meant by what is being typed, in a list below the cursor. It takes no key that was not meant for it."""

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QPoint, QRect, QSize, Qt, Signal
from PySide6.QtGui import QKeyEvent, QPainter
from PySide6.QtWidgets import QFrame, QTextEdit

from halftone.gui import theme
from halftone.gui.i18n import listed, tr
from halftone.gui.kit import figures
from halftone.gui.kit.painting import width_of
from halftone.gui.kit.stock_widgets import column
from halftone.gui.views.card_list import CardDelegate, CardList, paint_line
from halftone.gui.views.list_model import ListModel, item_of
from halftone.library.prompts.completion import Offer

_ROW: Final = 24
_WIDTH: Final = 280
_ARROWS: Final = {Qt.Key.Key_Down: 1, Qt.Key.Key_Up: -1}
_TAKING: Final = (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Tab)


class _Offers(ListModel[Offer]):
    def key(self, item: Offer) -> str:
        return f"{item.kind} {item.name}"

    def name(self, item: Offer) -> str:
        return listed(item.name, detail(item))


class _Delegate(CardDelegate[Offer]):
    def size(self, item: Offer) -> QSize:
        return QSize(0, theme.grown(_ROW))

    def paint_card(self, painter: QPainter, rect: QRect, item: Offer, *, hovered: bool, selected: bool) -> None:
        if hovered or selected:
            painter.fillRect(rect, theme.current().color("selected" if selected else "hover"))
        said = detail(item)
        right = round(width_of(said, "caption", numbers=True)) + 4
        paint_line(painter, rect.adjusted(10, 0, -right - 18, 0), item.name, "small")
        paint_line(
            painter, rect.adjusted(rect.width() - right - 10, 0, -10, 0), said, "caption", "text-muted", numbers=True, right=True
        )


def detail(offer: Offer) -> str:
    """What it is: a tag is named by how often it is used, and by the other name that was typed."""
    if offer.kind == "tag":
        return listed(offer.alias, _short(offer.uses) if offer.uses else "")
    return {"lora": tr("LoRA"), "wildcard": tr("Wildcard"), "embedding": tr("Embedding")}[offer.kind]


def _short(uses: int) -> str:
    return figures.group(uses) if uses < 1_000_000 else f"{figures.decimal(uses / 1e6)}M"


class CompletionPopup(QFrame):
    """Nothing in it is chosen until an arrow key chooses; then Enter and Tab take it, else they do what they always do."""

    taken = Signal(object)

    def __init__(self, editor: QTextEdit) -> None:
        super().__init__(editor, Qt.WindowType.ToolTip | Qt.WindowType.FramelessWindowHint)
        self.setObjectName("modelMenu")
        self.setAttribute(Qt.WidgetAttribute.WA_ShowWithoutActivating)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._editor = editor
        self.offers = _Offers()
        self.list = CardList(tr("Completions"), _Delegate())
        self.list.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.list.setUniformItemSizes(True)
        self.list.setModel(self.offers)
        self.list.chosen.connect(self._take)
        self.setLayout(column(self.list, spacing=0, margins=(1, 1, 1, 1)))

    def offer(self, found: Sequence[Offer]) -> None:
        """Show these, none of them chosen; none: hide."""
        if not found:
            self.hide()
            return
        self.offers.show(found)
        self.list.clearSelection()
        self.list.setCurrentIndex(self.offers.index(-1))
        self.list.setFixedHeight(theme.grown(_ROW) * len(found))
        self.setFixedWidth(theme.grown(_WIDTH))
        self.adjustSize()
        self._place()
        self.show()

    def _place(self) -> None:
        """Below the line of the cursor, above it at the lower edge of the screen."""
        box, viewport = self._editor.cursorRect(), self._editor.viewport()
        screen = self._editor.screen().availableGeometry()
        at = viewport.mapToGlobal(QPoint(box.left(), box.bottom() + 4))
        if at.y() + self.height() > screen.bottom():
            at = viewport.mapToGlobal(QPoint(box.left(), box.top() - 4)) - QPoint(0, self.height())
        self.move(min(at.x(), screen.right() - self.width()), at.y())

    def takes(self, event: QKeyEvent) -> bool:
        """Whether a key is for the list and not for the text."""
        if not self.isVisible() or event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier:
            return False
        return event.key() in (Qt.Key.Key_Escape, *_ARROWS) or (event.key() in _TAKING and self.list.current() is not None)

    def press(self, event: QKeyEvent) -> None:
        """An arrow chooses, Enter and Tab take what is chosen, Esc closes."""
        key, chosen = Qt.Key(event.key()), self.list.current()
        if key in _ARROWS:
            count = len(self.offers.items)
            before = self.list.currentIndex().row() if chosen is not None else -1 if _ARROWS[key] > 0 else count
            self.list.select(self.offers.index((before + _ARROWS[key]) % count))
        elif key == Qt.Key.Key_Escape or chosen is None:
            self.hide()
        else:
            self._take(item_of(self.list.currentIndex()))

    def _take(self, offer: Offer) -> None:
        self.hide()
        self.taken.emit(offer)
