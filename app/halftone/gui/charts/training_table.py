"""The data of a training's chart as a table: also the way to it for those who do not see the chart."""

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtWidgets import QAbstractItemView, QHeaderView, QTableView, QWidget

from halftone.gui import theme
from halftone.gui.charts.training_chart_paint import loss_text
from halftone.gui.i18n import catalogue, tr
from halftone.gui.kit import figures
from halftone.health.training.training_record import RunRecord
from halftone.health.training.training_sentences import caught_line

Index = QModelIndex | QPersistentModelIndex
_LEFT = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
_RIGHT = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)


class StepsModel(QAbstractTableModel):
    """A row for each step, the last one first. Its numbers are read from the record when they are looked at."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._record: RunRecord | None = None
        self._rows = 0
        self._events: dict[int, str] = {}
        self._head = (tr("Step"), tr("Loss"), tr("Loss, smoothed"), tr("Gradient norm"), tr("What happened"))

    def follow(self, record: RunRecord) -> None:
        """Show all that is known of this training now."""
        self.beginResetModel()
        self._record, self._rows = record, len(record.losses)
        self._events = {one.step: caught_line(one).text(catalogue()) for one in record.caught}
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own default
        return 0 if parent.isValid() else self._rows

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own default
        return 0 if parent.isValid() else len(self._head)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return self._head[section]
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _RIGHT if section < 4 else _LEFT
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if role == Qt.ItemDataRole.TextAlignmentRole and index.column() < 4:
            return _RIGHT
        record, place = self._record, self._rows - 1 - index.row()
        if (
            role not in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole)
            or record is None
            or place >= len(record.losses)
        ):
            return None
        if role == Qt.ItemDataRole.ToolTipRole:
            return self._events.get(place + 1) if index.column() == 4 else None
        match index.column():
            case 0:
                return figures.group(place + 1)
            case 1:
                return _number_words(record.losses[place])
            case 2:
                return _number_words(record.smoothed[place])
            case 3:
                norm = record.norms[place]
                return figures.peak(norm) if norm == norm else tr("unknown")
            case _:
                return self._events.get(place + 1, "")


def _number_words(value: float) -> str:
    return loss_text(value) if value == value else tr("unknown")


class StepsTable(QTableView):
    """`follow` fills it."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = StepsModel(self)
        self.setModel(self.steps)
        self.setAccessibleName(tr("Training steps"))
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setTabKeyNavigation(False)
        self.setShowGrid(False)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(26)
        self.setFont(theme.current().font("small", numbers=True))
        head = self.horizontalHeader()
        head.setHighlightSections(False)
        head.setFont(theme.current().font("small"))
        head.setSectionResizeMode(4, QHeaderView.ResizeMode.Stretch)
        for place, width in enumerate((90, 90, 120, 120)):
            self.setColumnWidth(place, width)

    def follow(self, record: RunRecord) -> None:
        """Show it as it is now; what was selected stays selected, by its step."""
        bar, at = self.verticalScrollBar().value(), self.currentIndex()
        rows = self.steps.rowCount()
        self.steps.follow(record)
        added = self.steps.rowCount() - rows
        if at.isValid() and added >= 0:
            self.setCurrentIndex(self.steps.index(at.row() + added, at.column()))
            self.verticalScrollBar().setValue(bar + added)
