"""The models as a table: the same rows as the cards, with a column for each thing they can be sorted by."""

from datetime import datetime
from functools import cache
from typing import Final

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, QPoint, Qt, Signal
from PySide6.QtGui import QContextMenuEvent, QIcon, QKeyEvent, QPixmap, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QTableView

from halftone.contract.echoes import harmless
from halftone.gui import icons, theme
from halftone.gui.i18n import tr
from halftone.gui.kit import figures
from halftone.gui.kit.painting import RIGHT
from halftone.gui.kit.stock_widgets import dress_table, plain_tip
from halftone.gui.models.model_cards import state_look
from halftone.gui.models.model_words import row_tip, row_words, sort_words, stored_words
from halftone.session.models.listing import Row, Sort, short_family

Index = QModelIndex | QPersistentModelIndex
COLUMNS: Final[tuple[Sort, ...]] = ("name", "family", "precision", "size", "health", "used")
_WIDTHS: Final[dict[Sort, int]] = {"name": 280, "family": 130, "precision": 90, "size": 96, "health": 164, "used": 138}
_NAME: Final = 180
"""Pixels that the names keep, at the usual text size, before columns are left out."""
_DISPENSABLE: Final[tuple[Sort, ...]] = ("used", "precision", "size", "family")
"""Columns that are left out where there is no space for all, the first one first."""
_ROOT: Final = QModelIndex()


def fitting(wide: float) -> tuple[Sort, ...]:
    """The columns for which a table of so many pixels, at the usual text size, has space."""
    shown: tuple[Sort, ...] = COLUMNS
    for column in _DISPENSABLE:
        if _NAME + sum(_WIDTHS[name] for name in shown[1:]) <= wide:
            break
        shown = tuple(name for name in shown if name != column)
    return shown


class RowTable(QAbstractTableModel):
    def __init__(self) -> None:
        super().__init__()
        self.rows: tuple[Row, ...] = ()

    def show_rows(self, rows: tuple[Row, ...]) -> bool:
        """Show these; whether the table was made anew, so that the selection has to be restored."""
        if [row.entry.path for row in rows] == [row.entry.path for row in self.rows]:
            self.rows = rows
            self.dataChanged.emit(self.index(0, 0), self.index(len(rows) - 1, len(COLUMNS) - 1))
            return False
        self.beginResetModel()
        self.rows = rows
        self.endResetModel()
        return True

    def rowCount(self, parent: Index = _ROOT) -> int:
        return 0 if parent.isValid() else len(self.rows)

    def columnCount(self, parent: Index = _ROOT) -> int:
        return 0 if parent.isValid() else len(COLUMNS)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return sort_words(COLUMNS[section])
        return RIGHT if role == Qt.ItemDataRole.TextAlignmentRole and COLUMNS[section] == "size" else None

    def _words(self, row: Row, column: Sort) -> str:
        entry = row.entry
        match column:
            case "name":
                return entry.name
            case "family":
                return short_family(entry.base or entry.family) if entry.base or entry.family else ""
            case "precision":
                return stored_words(entry)
            case "size":
                return figures.size(entry.size)
            case "health":
                bits = row.badge.room_bits if row.badge is not None else None
                return state_look(row)[1] + (f" · {figures.bits(bits)}" if bits is not None else "")
            case "used":
                return figures.moment(datetime.fromtimestamp(row.mark.used).astimezone().isoformat()) if row.mark.used else ""

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        row, column = self.rows[index.row()], COLUMNS[index.column()]
        match role:
            case Qt.ItemDataRole.DisplayRole:
                return harmless(self._words(row, column))
            case Qt.ItemDataRole.AccessibleTextRole:
                return harmless(row_words(row) if column == "name" else self._words(row, column))
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(harmless(row_tip(row)))
            case Qt.ItemDataRole.TextAlignmentRole if column == "size":
                return RIGHT
            case Qt.ItemDataRole.DecorationRole:
                return self._icon(row, column)
            case _:
                return None

    def _icon(self, row: Row, column: Sort) -> QIcon | None:
        if column == "health" and (icon := state_look(row)[0]):
            return icons.icon(icon, state_look(row)[2])
        if column != "name":
            return None
        return icons.icon("star", "warn") if row.mark.favourite else _blank()


@cache
def _blank() -> QIcon:
    """As wide as a star, so that all names begin at one place."""
    empty = QPixmap(16, 16)
    empty.fill(Qt.GlobalColor.transparent)
    return QIcon(empty)


class ModelTable(QTableView):
    """The signals are those of the cards. sorted: by a click on a heading."""

    chosen = Signal(object)
    used = Signal(object)
    removed = Signal(object)
    menu_requested = Signal(object, QPoint)
    sorted = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.rows = RowTable()
        self.setModel(self.rows)
        dress_table(self, tr("Models"), [theme.grown(wide) for wide in _WIDTHS.values()], stretched=0)
        self.setSelectionMode(QAbstractItemView.SelectionMode.ExtendedSelection)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setTabKeyNavigation(False)
        self.setFrameShape(QTableView.Shape.NoFrame)
        self.setVerticalScrollMode(QTableView.ScrollMode.ScrollPerPixel)
        self.verticalHeader().setDefaultSectionSize(theme.grown(30))
        head = self.horizontalHeader()
        head.setSectionsClickable(True)
        head.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        head.setSortIndicatorShown(True)
        head.sectionClicked.connect(lambda section: self.sorted.emit(COLUMNS[section]))
        self.selectionModel().currentRowChanged.connect(lambda now, _before: self._reached(now))
        self.doubleClicked.connect(lambda index: self.used.emit(self.rows.rows[index.row()]))

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        shown = fitting(100 * self.viewport().width() / theme.grown(100))
        for place, column in enumerate(COLUMNS):
            self.setColumnHidden(place, column not in shown)

    def show_sort(self, sort: Sort, *, backwards: bool) -> None:
        """The arrow of the column that the rows are sorted by."""
        way = Qt.SortOrder.DescendingOrder if backwards else Qt.SortOrder.AscendingOrder
        self.horizontalHeader().setSortIndicator(COLUMNS.index(sort), way)

    def current(self) -> Row | None:
        index = self.currentIndex()
        return self.rows.rows[index.row()] if index.isValid() else None

    def _reached(self, index: QModelIndex) -> None:
        if index.isValid():
            self.chosen.emit(self.rows.rows[index.row()])

    def keyPressEvent(self, event: QKeyEvent) -> None:
        row, plain = self.current(), not event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        if plain and row is not None and event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self.used.emit(row)
        elif plain and row is not None and event.key() == Qt.Key.Key_Delete:
            self.removed.emit(row)
        else:
            super().keyPressEvent(event)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        by_key = event.reason() == QContextMenuEvent.Reason.Keyboard
        index = self.currentIndex() if by_key else self.indexAt(event.pos())
        if index.isValid():
            at = self.viewport().mapToGlobal(self.visualRect(index).center()) if by_key else event.globalPos()
            self.menu_requested.emit(self.rows.rows[index.row()], at)
