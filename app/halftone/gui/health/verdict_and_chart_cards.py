"""Two cards of the Health page: the verdict with its figures and progress, and the chart with its table."""

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QPersistentModelIndex, QSortFilterProxyModel, Qt, Signal
from PySide6.QtWidgets import (
    QFrame,
    QStackedWidget,
    QTableView,
    QWidget,
)

from halftone.contract.facts import LayerPeak
from halftone.contract.vocabulary import FLOAT_LIMITS, DType
from halftone.gui import theme
from halftone.gui.charts.headroom_chart import HeadroomChart
from halftone.gui.charts.headroom_chart_text import type_name
from halftone.gui.health.health_view import CARDS, Figure, HealthView, figures_of
from halftone.gui.i18n import listed, sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.painting import RIGHT
from halftone.gui.kit.stock_widgets import (
    Card,
    IconLabel,
    button,
    clear,
    column,
    dress_table,
    fill,
    icon_button,
    label,
    progress_bar,
    row,
    set_tone,
)
from halftone.gui.kit.switches import Segmented
from halftone.health.headroom import log2_peak, room_bits
from halftone.health.part_names import rounded_room

Index = QModelIndex | QPersistentModelIndex


class FigureLabel(QFrame):
    """A large number with its caption."""

    def __init__(self, figure: Figure) -> None:
        super().__init__()
        self._value = label(figure.value, "metric", "" if figure.tone == "text" else figure.tone, numbers=True)
        self._value.setFixedHeight(theme.current().line("metric"))  # figures stand in one line in any script
        self._caption = label(figure.caption, "caption", "secondary")
        self.setLayout(column(-1, self._value, self._caption, -1, spacing=1))
        self.setAccessibleName(f"{figure.value} {figure.caption}")


class VerdictCard(Card):
    """One verdict: icon, sentence, four figures; while a check runs its progress; on the right what can be done."""

    check = Signal()
    cancel = Signal()
    undo = Signal()
    copy = Signal()
    precision = Signal(object)
    """The one to look at."""

    def __init__(self) -> None:
        super().__init__("unknown")
        self._icon = IconLabel("circle-dashed", "unknown", 32)
        self._title = label("", "heading-m", wrap=True)
        self._text = label("", "body", "secondary", wrap=True)
        self._bar = progress_bar(tr("Check progress"))
        self._left = label("", "small", "secondary", numbers=True)
        self._figures, self._narrow_figures = row(spacing=26), row(spacing=26)
        self._check = button(tr("Check now"), "primary", "activity", size="large", clicked=self.check.emit)
        self._cancel = button(tr("Cancel"), "", "x", clicked=self.cancel.emit)
        self._undo = button(tr("Undo cure"), "", "undo-2", clicked=self.undo.emit)
        self._again = button(tr("Try again"), "", "refresh-cw", clicked=self.check.emit)
        self._copy = button(tr("Copy details"), "quiet", "copy", clicked=self.copy.emit)
        self._other: DType | None = None
        self.show_other = button("", "", "activity", clicked=lambda: self.precision.emit(self._other))
        self.show_other.hide()
        words = column(self._title, self._text, self._bar, spacing=4)
        self._actions = row(
            self._left, self.show_other, self._check, self._cancel, self._again, self._copy, self._undo, spacing=8
        )
        top = row(self._icon, words, self._figures, self._actions, spacing=16, stretch=1)
        top.setAlignment(self._icon, Qt.AlignmentFlag.AlignVCenter)
        self.setLayout(column(top, self._narrow_figures, spacing=10, margins=(18, 12, 18, 12)))
        self._shown: tuple[Figure, ...] | None = None
        self._narrow = False
        self.setMinimumHeight(theme.grown(72))

    def set_narrow(self, narrow: bool) -> None:
        if narrow != self._narrow:
            self._narrow = narrow
            self._fill(self._shown or ())

    def set_view(self, view: HealthView, *, running: bool, check_words: str, left: str, share: float | None) -> None:
        """running: the worker is on it. check_words: for the button. share: of the whole job, None: not known."""
        style, icon, tone = CARDS[view.state]
        self.set_kind(style)
        self._icon.set(icon, tone)
        self._title.setText(view.title)
        self._text.setText(view.text)
        self._text.setVisible(bool(view.text))
        checking = view.state == "checking"
        self._bar.setVisible(checking)
        self._bar.setRange(0, 0 if checking and share is None and running else 1000)
        self._bar.setValue(round((share or 0.0) * 1000))
        self._left.setText(left)
        self._left.setVisible(bool(left) and checking)
        self._check.set_words(check_words)
        self._check.setVisible(view.state in ("unchecked", "stale"))
        self._cancel.setVisible(checking)
        self._undo.setVisible(view.applied and view.state == "cured")
        self._again.setVisible(view.state in ("failed", "stopped"))
        self._copy.setVisible(view.state in ("failed", "missing"))
        if view.figures != self._shown:
            self._fill(view.figures)
        self.setAccessibleName(sentences(view.title, view.text, *(f"{f.value} {f.caption}." for f in view.figures)))

    def set_other(self, dtype: DType | None) -> None:
        """Offer the check in another precision; None: there is none."""
        self._other = dtype
        self.show_other.set_words("" if dtype is None else tr("Show the {0} check", type_name(dtype)))
        self.show_other.setVisible(dtype is not None)

    def _fill(self, shown: tuple[Figure, ...]) -> None:
        self._shown = shown
        clear(self._figures)
        clear(self._narrow_figures)
        made = [FigureLabel(figure) for figure in shown]
        if self._narrow and shown:
            fill(self._narrow_figures, 48, *made, -1)
        else:
            fill(self._figures, *made)

    def title(self) -> str:
        return self._title.text()

    def text(self) -> str:
        return self._text.text()


class LayersModel(QAbstractTableModel):
    """The chart's data as a table: layer, part, kind, peak, headroom, and the same under the cure."""

    SORT = Qt.ItemDataRole.UserRole

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._layers: tuple[LayerPeak, ...] = ()
        self._dtype: DType = "float16"
        self._head = (
            tr("No."),
            tr("Part"),
            tr("Layer"),
            tr("Kind"),
            tr("Peak"),
            tr("Headroom (bits)"),
            tr("Peak after the cure"),
        )

    def set_layers(self, layers: tuple[LayerPeak, ...], dtype: DType) -> None:
        if layers is self._layers and dtype == self._dtype:
            return
        self.beginResetModel()
        self._layers, self._dtype = layers, dtype
        self.endResetModel()

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own default
        return 0 if parent.isValid() else len(self._layers)

    def columnCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own default
        return 0 if parent.isValid() else len(self._head)

    def headerData(self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if orientation == Qt.Orientation.Horizontal and role == Qt.ItemDataRole.DisplayRole:
            return self._head[section]
        if role == Qt.ItemDataRole.TextAlignmentRole and section in (0, 4, 5, 6):
            return RIGHT
        return None

    def _key(self, row: int, column: int) -> str | float:
        """What a column is sorted by."""
        layer = self._layers[row]
        size, after = log2_peak(layer.peak), -1.0 if layer.peak_after is None else layer.peak_after
        keys = (float(row), layer.component, layer.module, layer.kind, size, room_bits(size, self._dtype), after)
        return keys[column]

    def _words(self, row: int, column: int) -> str:
        layer = self._layers[row]
        match column:
            case 0:
                return str(row + 1)
            case 4:
                return figures.peak(layer.peak)
            case 5:
                room = room_bits(log2_peak(layer.peak), self._dtype)
                return figures.decimal(rounded_room(room)) if abs(room) < 1e6 else figures.bits(room)
            case 6:
                return "" if layer.peak_after is None else figures.peak(layer.peak_after)
            case _:
                return str(self._key(row, column))

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if not index.isValid():
            return None
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.ToolTipRole):
            return self._words(index.row(), index.column())
        if role == self.SORT:
            return self._key(index.row(), index.column())
        if role == Qt.ItemDataRole.TextAlignmentRole and index.column() in (0, 4, 5, 6):
            return RIGHT
        if role == Qt.ItemDataRole.ForegroundRole and index.column() == 5:
            peak = self._layers[index.row()].peak
            limit = FLOAT_LIMITS[self._dtype]
            if not peak <= limit:
                return theme.current().color("danger")
            return theme.current().color("warn") if peak > limit / 4 else None
        return None


class LayerTable(QTableView):
    """All layers, sortable by every column."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = LayersModel(self)
        proxy = QSortFilterProxyModel(self)
        proxy.setSourceModel(self.layers)
        proxy.setSortRole(LayersModel.SORT)
        self.setModel(proxy)
        self.setSortingEnabled(True)
        self.sortByColumn(0, Qt.SortOrder.AscendingOrder)
        self.horizontalHeader().setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
        dress_table(self, tr("Headroom by layer"), (64, 120, 420, 150, 110, 110, 150), stretched=2)


class ChartCard(Card):
    """Headroom by layer: the chart, its table, and the switch between now and after the cure."""

    def __init__(self) -> None:
        super().__init__()
        self.chart = HeadroomChart()
        self.table = LayerTable()
        self._stack = QStackedWidget()
        for page in (self.chart, self.table):
            self._stack.addWidget(page)
        self.when = Segmented((("now", tr("Now")), ("after", tr("After the cure"))))
        self.when.set_value("now")
        self.when.setMinimumWidth(190)
        self.when.set_tip("after", tr("Peaks and limits with the cure."))
        self.when.chosen.connect(lambda _value: self._show_when())
        self.zoom = icon_button("zoom-in", tr("Zoom to findings"), kind="framed", clicked=self.chart.zoom_to_findings)
        self.as_table = icon_button("table-2", tr("Show as table"), kind="framed", checkable=True)
        self.as_table.toggled.connect(self._show_table)
        self._show = label(tr("Show"), "small", "secondary")
        self._sub = label("", "small", "secondary")
        self._view: HealthView | None = None
        self._mark = label("", "small-strong", "warn")
        self._cured = False
        self._shown: tuple[tuple[LayerPeak, ...], DType] = ((), "float16")
        head = row(
            label(tr("Headroom by layer"), "heading-s"),
            4,
            self._sub,
            self._mark,
            -1,
            self._show,
            self.when,
            4,
            self.zoom,
            self.as_table,
        )
        self.setLayout(column(head, self._stack, spacing=6, margins=(14, 11, 14, 8)))
        self.setMinimumHeight(240)

    def set_narrow(self, narrow: bool) -> None:
        self._sub.setVisible(not narrow)
        self._show.setVisible(not narrow)

    def _show_table(self, on: bool) -> None:
        """The table is filled only while it is looked at: sorting thousands of rows takes its time."""
        self.zoom.setEnabled(not on)
        if on:
            self.table.layers.set_layers(*self._shown)
        self._stack.setCurrentIndex(1 if on else 0)

    def _show_when(self) -> None:
        """The chart as it is now or after the cure; then the line above it says what the cure gives."""
        after, view, words = self.when.value() == "after", self._view, tr("Layer peaks in running order, log scale")
        self.chart.set_after(after)
        if after and view is not None and view.plan is not None:
            over, _peak, headroom, *_rest = figures_of(view.layers, view.dtype, cured=view.plan)
            words = listed(f"{over.value} {over.caption}", f"{headroom.value} {headroom.caption}")
        self._sub.setText(words)

    def set_view(self, view: HealthView) -> None:
        new, self._view = view is not self._view, view
        self.chart.set_layers(view.layers, view.dtype, view.findings, view.plan, view.share)
        self._shown = (view.layers, view.dtype)
        if self.as_table.isChecked():
            self.table.layers.set_layers(*self._shown)
        can_cure = view.plan is not None and bool(view.layers)
        cured = view.state == "cured"
        if cured != self._cured:  # the change itself turns the view; afterwards the user's choice stays
            self._cured = cured
            self.when.set_value("after" if cured else "now")
        self.when.button("after").setEnabled(can_cure)
        if not can_cure and self.when.value() == "after":
            self.when.set_value("now")
        if new:
            self._show_when()
        self.zoom.setEnabled(bool(view.findings) and not self.as_table.isChecked())
        self.as_table.setEnabled(bool(view.layers))
        self._mark.setText(tr("Not finished") if view.state in ("failed", "stopped") and view.layers else "")
        set_tone(self._mark, "warn")
