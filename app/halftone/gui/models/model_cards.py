"""The cards of the Models page: preview, name, health and what can be done about it."""

import itertools
from collections.abc import Callable
from typing import Final

from PySide6.QtCore import QPoint, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QImage, QKeyEvent, QMouseEvent, QPainter, QPen, QResizeEvent
from PySide6.QtWidgets import QListView, QStyle

from halftone.gui import icons, theme
from halftone.gui.i18n import tr
from halftone.gui.kit.painting import plate, width_of
from halftone.gui.kit.stock_widgets import HEALTH_LOOK, health_word, paint_badge
from halftone.gui.models.model_words import PLACE_ICONS, entry_line, row_tip, row_words
from halftone.gui.views.card_list import CardDelegate, CardList, paint_line
from halftone.gui.views.list_model import ListModel
from halftone.gui.views.thumbnails import paint_thumbnail
from halftone.session.models.listing import Row

GAP: Final = 12
LEAST: Final = 186
"""Pixels of the narrowest card at the usual text size."""
_PICTURE: Final = 0.45
"""Height of the preview over its width."""
_WORDS: Final = 80
"""Height of the lines below the preview."""
_ENTER: Final = (Qt.Key.Key_Return, Qt.Key.Key_Enter)
Preview = Callable[[Row], QImage]


class RowModel(ListModel[Row]):
    """What is filtered or sorted otherwise is a list of its own: moving thousands of rows one by one would take seconds."""

    def key(self, item: Row) -> str:
        return item.entry.path

    def name(self, item: Row) -> str:
        return row_words(item)

    def tip(self, item: Row) -> str:
        return row_tip(item)

    def show_rows(self, rows: tuple[Row, ...]) -> bool:
        """Show these; whether the list was made anew, so that the selection has to be restored."""
        places = {row.entry.path: place for place, row in enumerate(self._items)}
        stayed = [place for row in rows if (place := places.get(row.entry.path)) is not None]
        few = len(rows) + len(places) - 2 * len(stayed) <= 200
        if few and all(first < second for first, second in itertools.pairwise(stayed)):
            self.show(rows)
            return False
        self.beginResetModel()
        self._items, self._keys = list(rows), [row.entry.path for row in rows]
        self.endResetModel()
        return True


def act_of(row: Row) -> str:
    """What the link of a card does: "fix", "check", "convert"; "" for a menu instead."""
    if row.entry.pickle:
        return "convert"
    return {"overflows": "fix", "unchecked": "check"}.get(row.state, "")


def act_words(act: str) -> str:
    return {"fix": tr("Fix"), "check": tr("Check"), "convert": tr("Convert")}.get(act, "")


class ModelDelegate(CardDelegate[Row]):
    """preview: the picture of an entry, a null image until it is read. acts: cards have a link or a menu."""

    def __init__(self, preview: Preview, *, acts: bool) -> None:
        super().__init__()
        self._preview, self._acts = preview, acts
        self.cell = theme.grown(LEAST) + GAP

    def size(self, item: Row) -> QSize:
        return QSize(self.cell, round((self.cell - GAP) * _PICTURE) + theme.grown(_WORDS) + GAP)

    def ring(self, rect: QRect) -> QRect:
        return rect.adjusted(0, 0, -GAP, -GAP)

    def act_place(self, cell: QRect, item: Row) -> QRect:
        """Where the link or the dots of a card are; empty where it has none."""
        if not self._acts:
            return QRect()
        box = cell.adjusted(0, 0, -GAP, -GAP)
        words = act_words(act_of(item))
        wide = round(width_of(words, "small")) + 12 if words else 28
        return QRect(box.right() - 6 - wide, box.bottom() - theme.grown(31), wide, theme.grown(26))

    def paint_card(self, painter: QPainter, rect: QRect, item: Row, *, hovered: bool, selected: bool) -> None:
        colours, box = theme.current(), QRectF(rect.adjusted(0, 0, -GAP, -GAP)).adjusted(0.5, 0.5, -0.5, -0.5)
        high = round(rect.width() - GAP) * _PICTURE
        plate(painter, box, 8, "surface-overlay" if hovered else "surface-raised")
        self._paint_picture(painter, QRectF(box.left(), box.top(), box.width(), high), item)
        edge = "accent" if selected else "border-control" if hovered else "border"
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.setPen(QPen(colours.color(edge), 2 if selected else 1))
        painter.drawRoundedRect(box, 8, 8)
        left, wide, top = int(box.left()) + 11, int(box.width()) - 22, int(box.top() + high)
        star = 20 if item.mark.favourite else 0
        paint_line(painter, QRect(left, top + theme.grown(8), wide - star, theme.grown(20)), item.entry.name, "body-strong")
        if star:
            icons.paint(painter, "star", QRectF(left + wide - 14, top + theme.grown(18) - 7, 14, 14), colours.color("warn"))
        paint_line(
            painter, QRect(left, top + theme.grown(27), wide, theme.grown(17)), entry_line(item.entry), "caption", "text-muted"
        )
        self._paint_state(painter, QRectF(left, box.bottom() - theme.grown(28), wide, theme.grown(20)), item)
        if self._acts:
            self._paint_act(painter, self.act_place(rect, item), item, hovered=hovered)

    def _paint_picture(self, painter: QPainter, place: QRectF, item: Row) -> None:
        image = self._preview(item)
        if not image.isNull():
            paint_thumbnail(painter, place, image, top=8)
            return
        painter.save()
        painter.setClipRect(place)
        plate(painter, place.adjusted(0, 0, 0, 10), 8, "surface-sunken")
        painter.restore()
        side = 30.0
        sign = QRectF(place.center().x() - side / 2, place.center().y() - side / 2, side, side)
        icons.paint(painter, PLACE_ICONS[item.entry.shelf], sign, theme.current().color("border-control"))

    def _paint_state(self, painter: QPainter, place: QRectF, item: Row) -> None:
        icon, word, tone = state_look(item)
        if word:
            wide = 14 + 6 + 5 + width_of(word, "caption-strong") + 8
            paint_badge(painter, QRectF(place.left(), place.top(), wide, place.height()), icon, word, tone)

    def _paint_act(self, painter: QPainter, place: QRect, item: Row, *, hovered: bool) -> None:
        colours = theme.current()
        if words := act_words(act_of(item)):
            paint_line(painter, place.adjusted(0, 0, -6, 0), words, "small", "text-link", right=True)
        else:
            token = "text" if hovered else "text-muted"
            dots = QRectF(place.right() - 22, place.center().y() - 7, 16, 16)
            icons.paint(painter, "ellipsis", dots, colours.color(token))


def state_look(row: Row) -> tuple[str, str, str]:
    """Icon, word and tone of a badge; a word "" for no badge."""
    if row.entry.error is not None:
        return "octagon-x", tr("Unreadable"), "danger"
    if row.entry.pickle:
        return "shield-alert", tr("Pickle"), "warn"
    if row.badge is None:
        return "", "", ""
    icon, tone = HEALTH_LOOK[row.state]
    return icon, health_word(row.state), tone


class ModelGrid(CardList[Row]):
    """used: by Enter or a double click. acted: by the link of a card. Its dots open the menu."""

    used = Signal(object)
    acted = Signal(object)

    def __init__(self, preview: Preview, *, acts: bool = True) -> None:
        self._delegate = ModelDelegate(preview, acts=acts)
        super().__init__(tr("Models"), self._delegate)
        self.setFlow(QListView.Flow.LeftToRight)
        self.setWrapping(True)
        self.setUniformItemSizes(True)
        self.setResizeMode(QListView.ResizeMode.Fixed)
        self.setSelectionMode(QListView.SelectionMode.ExtendedSelection)
        self.setViewportMargins(16, GAP, 0, 0)
        self.verticalScrollBar().setSingleStep(48)

    @property
    def columns(self) -> int:
        return max(1, self._room() // self._delegate.cell)

    def _room(self) -> int:
        """Pixels for cards; the scroll bar has its place even while there is none."""
        bar = self.style().pixelMetric(QStyle.PixelMetric.PM_ScrollBarExtent, None, self.verticalScrollBar())
        return self.width() - 16 - bar - 4

    def resizeEvent(self, event: QResizeEvent) -> None:
        room, least = self._room(), theme.grown(LEAST)
        cell = max(least, room // max(1, room // (least + GAP)))
        if cell != self._delegate.cell:
            self._delegate.cell = cell
            self.scheduleDelayedItemsLayout()
        super().resizeEvent(event)

    def _act_at(self, at: QPoint) -> Row | None:
        """The row whose link or dots are there."""
        index = self.indexAt(at)
        if not index.isValid():
            return None
        row = index.model().items[index.row()]  # pyright: ignore[reportAttributeAccessIssue]
        return row if self._delegate.act_place(self.visualRect(index), row).contains(at) else None

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        at = event.position().toPoint()
        row = self._act_at(at) if event.button() == Qt.MouseButton.LeftButton else None
        if row is None:
            return
        if act_of(row):
            self.acted.emit(row)
        else:
            self.menu_requested.emit(row, self.viewport().mapToGlobal(at))

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        at = event.position().toPoint()
        index = self.indexAt(at)
        if index.isValid() and event.button() == Qt.MouseButton.LeftButton and self._act_at(at) is None:
            self.used.emit(index.model().items[index.row()])  # pyright: ignore[reportAttributeAccessIssue]

    def keyPressEvent(self, event: QKeyEvent) -> None:
        row = self.current()
        plain = not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        if plain and row is not None and event.key() in _ENTER:
            self.used.emit(row)
        else:
            super().keyPressEvent(event)
