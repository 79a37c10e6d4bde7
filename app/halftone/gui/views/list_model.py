"""The base of the models behind the window's lists."""

from collections.abc import Sequence
from typing import Any, Final, Generic, TypeVar, cast

from PySide6.QtCore import QAbstractListModel, QModelIndex, QPersistentModelIndex, Qt

from halftone.contract.echoes import harmless
from halftone.gui.kit.stock_widgets import plain_tip

T = TypeVar("T")
Index = QModelIndex | QPersistentModelIndex
_ROOT: Final = QModelIndex()


class ListModel(QAbstractListModel, Generic[T]):
    """Items in an order, each with a key of its own. Subclasses say what an item is called."""

    def __init__(self) -> None:
        super().__init__()
        self._items: list[T] = []
        self._keys: list[str] = []

    def key(self, item: T) -> str:
        raise NotImplementedError

    def name(self, item: T) -> str:
        """What a screen reader calls the item."""
        raise NotImplementedError

    def tip(self, item: T) -> str:
        """The item's tooltip; a screen reader reads it as the description."""
        return ""

    def state(self, item: T) -> Qt.ItemFlag:
        return Qt.ItemFlag.ItemIsEnabled | Qt.ItemFlag.ItemIsSelectable | Qt.ItemFlag.ItemNeverHasChildren

    # --- items ------------------------------------------------------------------------------------------------------

    @property
    def items(self) -> Sequence[T]:
        return self._items

    def index_of(self, key: str) -> QModelIndex:
        """The place of a key, an invalid index where it is not in the list."""
        return self.index(self._keys.index(key)) if key in self._keys else QModelIndex()

    def show(self, items: Sequence[T]) -> None:
        """Replace the items. Only what differs is touched, so the selection and the scroll position stay."""
        keys = [self.key(item) for item in items]
        self._remove_all_but(set(keys))
        there, row = set(self._keys), 0
        while row < len(keys):
            if keys[row] not in there:
                end = next((end for end in range(row + 1, len(keys)) if keys[end] in there), len(keys))
                self.beginInsertRows(_ROOT, row, end - 1)
                self._keys[row:row], self._items[row:row] = keys[row:end], items[row:end]
                self.endInsertRows()
                row = end
                continue
            if self._keys[row] != keys[row]:
                at = self._keys.index(keys[row], row)
                self.beginMoveRows(_ROOT, at, at, _ROOT, row)
                self._keys.insert(row, self._keys.pop(at))
                self._items.insert(row, self._items.pop(at))
                self.endMoveRows()
            if self._items[row] is not items[row] and self._items[row] != items[row]:
                self._items[row] = items[row]
                self.dataChanged.emit(self.index(row), self.index(row))
            row += 1

    def _remove_all_but(self, staying: set[str]) -> None:
        last = len(self._keys) - 1
        while last >= 0:
            if self._keys[last] in staying:
                last -= 1
                continue
            first = last
            while first > 0 and self._keys[first - 1] not in staying:
                first -= 1
            self.beginRemoveRows(_ROOT, first, last)
            del self._keys[first : last + 1], self._items[first : last + 1]
            self.endRemoveRows()
            last = first - 1

    # --- Qt ---------------------------------------------------------------------------------------------------------

    def rowCount(self, parent: Index = _ROOT) -> int:
        return 0 if parent.isValid() else len(self._items)

    def flags(self, index: Index) -> Qt.ItemFlag:
        return self.state(self._items[index.row()]) if index.isValid() else Qt.ItemFlag.NoItemFlags

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        item = self._items[index.row()]
        match role:
            case Qt.ItemDataRole.DisplayRole | Qt.ItemDataRole.AccessibleTextRole:
                return harmless(self.name(item))
            case Qt.ItemDataRole.ToolTipRole:
                return plain_tip(harmless(self.tip(item)))
            case Qt.ItemDataRole.AccessibleDescriptionRole:
                return harmless(self.tip(item))
            case _:
                return None


def item_of(index: Index) -> Any:
    """The item at a place. Layouts ask for thousands: a role would cost a call of `data` for each."""
    return cast("ListModel[Any]", index.model()).items[index.row()]
