"""The data of a training's chart as a table: also the way to it for those who do not see the chart."""

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, Qt
from PySide6.QtWidgets import QAbstractItemView, QTableView, QWidget

from halftone.gui.charts.training_chart_paint import loss_text
from halftone.gui.i18n import catalogue, tr
from halftone.gui.kit import figures
from halftone.gui.kit.painting import LEFT, RIGHT
from halftone.gui.kit.stock_widgets import dress_table
from halftone.health.training.training_record import RunRecord
from halftone.health.training.training_sentences import caught_line

Index = QModelIndex | QPersistentModelIndex


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
            return RIGHT if section < 4 else LEFT
        return None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if role == Qt.ItemDataRole.TextAlignmentRole and index.column() < 4:
            return RIGHT
        record, place = self._record, self._rows - 1 - index.row()
        if record is None or place >= len(record.losses):
            return None
        if role == Qt.ItemDataRole.ToolTipRole:
            return self._events.get(place + 1) if index.column() == 4 else None
        if role != Qt.ItemDataRole.DisplayRole:
            return None
        match index.column():
            case 0:
                return figures.group(place + 1)
            case 4:
                return self._events.get(place + 1, "")
            case column:
                value = (record.losses, record.smoothed, record.norms)[column - 1][place]
                words = figures.peak if column == 3 else loss_text
                return words(value) if value == value else tr("unknown")


class StepsTable(QTableView):
    """`follow` fills it."""

    def __init__(self) -> None:
        super().__init__()
        self.steps = StepsModel(self)
        self.setModel(self.steps)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setTabKeyNavigation(False)
        dress_table(self, tr("Training steps"), (90, 90, 120, 120), stretched=4)

    def follow(self, record: RunRecord) -> None:
        """Show it as it is now; what was selected stays selected, by its step."""
        bar, at = self.verticalScrollBar().value(), self.currentIndex()
        rows = self.steps.rowCount()
        self.steps.follow(record)
        added = self.steps.rowCount() - rows
        if at.isValid() and added >= 0:
            self.setCurrentIndex(self.steps.index(at.row() + added, at.column()))
            self.verticalScrollBar().setValue(bar + added)
