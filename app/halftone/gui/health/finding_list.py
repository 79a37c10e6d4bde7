"""The findings as a list: numbered disc, state, place, peak and headroom; Enter or a click on the arrow opens the details."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from PySide6.QtCore import (
    QAbstractListModel,
    QEvent,
    QModelIndex,
    QPersistentModelIndex,
    QPointF,
    QRectF,
    QSize,
    Qt,
    Signal,
)
from PySide6.QtGui import QFontMetricsF, QKeyEvent, QMouseEvent, QPainter, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QListView, QStyle, QStyledItemDelegate, QStyleOptionViewItem, QWidget

from halftone.contract.facts import Finding
from halftone.contract.plan import Plan
from halftone.contract.vocabulary import FLOAT_LIMITS, TIGHT_BITS, DType
from halftone.gui import icons, theme
from halftone.gui.health import health_text
from halftone.gui.health.health_view import Fine
from halftone.gui.i18n import sentences, tr
from halftone.gui.kit import figures
from halftone.gui.kit.painting import CENTRE, END, LEFT, RIGHT, START, dot, ink, width_of, write
from halftone.gui.kit.stock_widgets import paint_badge
from halftone.health.headroom import Layer, log2_peak, room_bits
from halftone.health.judge import cured_by

ROW = 53
LINE = 17
NARROW = 560
Index = QModelIndex | QPersistentModelIndex


@dataclass(frozen=True, slots=True)
class Row:
    """One row. number: of its disc, None for the last row. tone: of disc, badge and headroom."""

    number: int | None
    badge: str
    tone: str
    icon: str
    title: str
    module: str
    peak: str
    room: str
    room_tone: str
    details: tuple[str, ...]
    peak_caption: str = ""
    room_caption: str = ""
    past: bool = False
    """How it was before the cure that is in use."""

    @property
    def spoken(self) -> str:
        numbers = tr("peak {0}, headroom {1}", self.peak, self.room) if self.peak else ""
        return ", ".join(part for part in (str(self.number or ""), self.badge, self.title, numbers) if part)


def finding_row(number: int, finding: Finding) -> Row:
    word, tone, icon = health_text.finding_badge(finding)
    module = f"{finding.component}.{finding.module}" if finding.module else finding.component
    peak = "" if finding.peak is None else figures.peak(finding.peak)
    bits = None if finding.peak is None else room_bits(log2_peak(finding.peak), finding.dtype)
    room = "" if bits is None else figures.bits(bits)
    room_tone = "text" if bits is None or bits >= TIGHT_BITS else "danger" if bits < 0 else "warn"
    details = tuple(health_text.finding_details(finding))
    return Row(number, word, tone, icon, health_text.finding_title(finding), module, peak, room, room_tone, details)


def cured_row(number: int, finding: Finding, layer: Layer | None, plan: Plan) -> Row:
    """A finding under a cure in use. Taken care of: what was, muted, beside what is. layer: it under the cure.

    What no cure reaches, and a tight layer that this one left as it was, is still so.
    """
    before = finding_row(number, finding)
    if not cured_by(plan, finding):
        return before
    bits = None if layer is None or layer.exp_after == -math.inf else room_bits(layer.exp_after, layer.dtype_after)
    if layer is not None and finding.code == "tight" and not layer.changed and bits is not None and bits < TIGHT_BITS:
        return before
    details = tuple(health_text.cured_details(finding))
    row = replace(before, badge=tr("Cured"), tone="unknown", icon="bandage", room_tone="text-muted", past=True, details=details)
    if layer is None or bits is None or not before.peak:
        caption = tr("before the cure")
        return replace(row, peak_caption=caption if row.peak else "", room_caption=caption if row.room else "")
    return replace(
        row,
        peak=figures.peak(layer.peak_after),
        room=figures.bits(bits),
        room_tone="text" if bits >= TIGHT_BITS else "warn",
        peak_caption=tr("was {0}", before.peak),
        room_caption=tr("was {0}", before.room),
    )


def fine_row(fine: Fine, dtype: DType) -> Row:
    title = tr("All layers") if fine.everything else tr("All other layers")
    module = tr("tightest: {0}", f"{fine.component}.{fine.module}")
    share = figures.times(FLOAT_LIMITS[dtype] / fine.peak) if fine.peak else ""
    details = (tr("The peak could be {0} as large without overflow.", share),)
    peak, room = figures.peak(fine.peak), figures.bits(fine.room)
    return Row(None, tr("Fine"), "ok", "circle-check", title, module, peak, room, "text", details)


class FindingsModel(QAbstractListModel):
    """Rows of findings; the opened ones are remembered by row."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._rows: tuple[Row, ...] = ()
        self.opened: set[int] = set()

    def set_rows(self, rows: Sequence[Row]) -> None:
        if tuple(rows) == self._rows:
            return
        self.beginResetModel()
        self._rows = tuple(rows)
        self.opened.clear()
        self.endResetModel()

    def row(self, index: int) -> Row:
        return self._rows[index]

    def rowCount(self, parent: Index = QModelIndex()) -> int:  # noqa: B008 - Qt's own default
        return 0 if parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        if not index.isValid():
            return None
        row = self._rows[index.row()]
        if role in (Qt.ItemDataRole.DisplayRole, Qt.ItemDataRole.AccessibleTextRole):
            return row.spoken
        if role == Qt.ItemDataRole.AccessibleDescriptionRole:
            return sentences(*row.details)
        if role == Qt.ItemDataRole.ToolTipRole:
            return f"{row.title}\n{row.module}"
        return None

    def toggle(self, row: int) -> None:
        self.opened ^= {row}
        index = self.index(row)
        self.dataChanged.emit(index, index)
        self.layoutChanged.emit()


class FindingDelegate(QStyledItemDelegate):
    """Paints a row; opened rows grow by their details."""

    def __init__(self, model: FindingsModel, view: QListView) -> None:
        super().__init__(view)
        self._model = model
        self._view = view

    def _detail_height(self, row: Row, width: float) -> float:
        metrics = QFontMetricsF(theme.current().font("small"))
        box = QRectF(0, 0, max(120.0, width - self._text_left() - 40), 2000)
        flags = int(Qt.TextFlag.TextWordWrap)
        return sum(metrics.boundingRect(box, flags, line).height() + 4 for line in row.details) + 8

    def _text_left(self) -> float:
        return 158.0 if self._view.viewport().width() > NARROW else 134.0

    def sizeHint(self, option: QStyleOptionViewItem, index: Index) -> QSize:
        extra = 0.0
        width = self._view.viewport().width()
        if index.row() in self._model.opened:
            extra = self._detail_height(self._model.row(index.row()), width)
        return QSize(width, round(theme.grown(ROW) + extra))

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        style = theme.current()
        row = self._model.row(index.row())
        area = QRectF(option.rect)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        state = option.state
        if state & QStyle.StateFlag.State_Selected:
            painter.fillRect(area, style.color("selected"))
        elif state & QStyle.StateFlag.State_MouseOver:
            painter.fillRect(area, style.color("hover", 0.6))
        painter.fillRect(QRectF(area.left(), area.bottom() - 1, area.width(), 1), style.color("border"))
        if state & QStyle.StateFlag.State_HasFocus and self._view.property("keyboard"):
            ink(painter, edge="focus")
            painter.drawRect(area.adjusted(1, 1, -1.5, -1.5))
        self._paint_marks(painter, row, area)
        self._paint_words(painter, row, area)
        self._paint_arrow(painter, area, opened=index.row() in self._model.opened)
        if index.row() in self._model.opened:
            self._paint_details(painter, row, area)
        painter.restore()

    def _paint_marks(self, painter: QPainter, row: Row, area: QRectF) -> None:
        middle = area.top() + theme.grown(ROW) / 2
        if row.number is not None:
            tone = "unknown" if row.past else "chart.limit" if row.tone == "danger" else "warn"
            dot(painter, QPointF(area.left() + 24, middle), min(13, theme.grown(9)), tone)
            box = QRectF(area.left() + 10, middle - theme.grown(9), 28, theme.grown(18))
            write(painter, box, str(row.number), "caption-strong", "surface-raised", CENTRE, numbers=True)
        width = 31 + width_of(row.badge, "caption-strong")
        left = area.left() + 44
        paint_badge(painter, QRectF(left, middle - theme.grown(10), width, theme.grown(20)), row.icon, row.badge, row.tone)

    def _paint_words(self, painter: QPainter, row: Row, area: QRectF) -> None:
        top, right = area.top(), area.right() - 42
        badge_end = area.left() + 44 + 31 + width_of(row.badge, "caption-strong") + 12
        left = max(area.left() + self._text_left(), badge_end)
        if row.room:
            self._pair(painter, QPointF(right, top), theme.grown(92), row.room, row.room_caption or tr("headroom"), row.room_tone)
            right -= theme.grown(92)
        if self._view.viewport().width() > NARROW and row.peak:
            right -= (
                self._pair(painter, QPointF(right, top), theme.grown(96), row.peak, row.peak_caption or tr("peak"), "text") + 8
            )
        width = right - left - 8
        write(
            painter,
            QRectF(left, top + theme.grown(8), width, theme.grown(19)),
            row.title,
            "body",
            "text-secondary" if row.past else "text",
            cut=END,
        )
        mono = theme.current().font("mono")
        mono.setPixelSize(theme.grown(11))
        painter.setFont(mono)
        painter.setPen(theme.current().color("text-muted"))
        shown = QFontMetricsF(mono).elidedText(row.module, START, width)
        painter.drawText(QRectF(left, top + theme.grown(27), width, theme.grown(19)), LEFT, shown)

    def _pair(self, painter: QPainter, corner: QPointF, width: float, value: str, caption: str, tone: str) -> float:
        """A number with its small caption below, right-aligned; the width of the wider one."""
        box = QRectF(corner.x() - width, corner.y() + theme.grown(8), width, theme.grown(19))
        wide = write(painter, box, value, "body", tone, RIGHT, numbers=True)
        box = QRectF(corner.x() - width, corner.y() + theme.grown(27), width, theme.grown(17))
        return max(wide, write(painter, box, caption, "caption", "text-muted", RIGHT))

    def _paint_arrow(self, painter: QPainter, area: QRectF, *, opened: bool) -> None:
        box = QRectF(area.right() - 30, area.top() + theme.grown(ROW) / 2 - 8, 16, 16)
        icons.paint(painter, "chevron-down" if opened else "chevron-right", box, theme.current().color("text-secondary"))

    def _paint_details(self, painter: QPainter, row: Row, area: QRectF) -> None:
        painter.setFont(theme.current().font("small"))
        painter.setPen(theme.current().color("text-secondary"))
        left = area.left() + self._text_left()
        width = max(120.0, area.width() - self._text_left() - 40)
        y = area.top() + theme.grown(ROW)
        flags = int(Qt.TextFlag.TextWordWrap)
        for line in row.details:
            box = QFontMetricsF(painter.font()).boundingRect(QRectF(left, y, width, 2000), flags, line)
            painter.drawText(QRectF(left, y, width, box.height() + 2), flags, line)
            y += box.height() + 4


class FindingsView(QListView):
    """Selecting a row tells the chart; Enter, Space or a click on the arrow opens it."""

    chosen = Signal(int)
    """Number of the finding of the selected row (from 1), 0 for the last row."""

    def __init__(self) -> None:
        super().__init__()
        self.rows = FindingsModel(self)
        self.setModel(self.rows)
        self.setItemDelegate(FindingDelegate(self.rows, self))
        self.setMouseTracking(True)
        self.setUniformItemSizes(False)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
        self.setAccessibleName(tr("Findings"))
        self.selectionModel().currentChanged.connect(self._current_changed)

    def set_rows(self, rows: Sequence[Row]) -> None:
        keep = self.currentIndex().row()
        self.rows.set_rows(rows)
        if rows and self.currentIndex().row() < 0:
            self.setCurrentIndex(self.rows.index(max(0, min(keep, len(rows) - 1))))

    def select_number(self, number: int) -> None:
        for index in range(self.rows.rowCount()):
            if self.rows.row(index).number == number:
                self.setCurrentIndex(self.rows.index(index))
                self.scrollTo(self.rows.index(index))

    def selected_number(self) -> int | None:
        row = self.currentIndex().row()
        return self.rows.row(row).number if 0 <= row < self.rows.rowCount() else None

    def _current_changed(self, index: QModelIndex, _before: QModelIndex) -> None:
        if index.isValid():
            self.chosen.emit(self.rows.row(index.row()).number or 0)

    def toggle(self, row: int) -> None:
        self.rows.toggle(row)
        self.scheduleDelayedItemsLayout()

    def height_for_rows(self) -> int:
        """Pixels that show every row."""
        return sum(self.sizeHintForRow(row) for row in range(self.rows.rowCount())) + 2

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        super().mouseReleaseEvent(event)
        self.setProperty("keyboard", False)
        index = self.indexAt(event.position().toPoint())
        if index.isValid() and event.position().x() > self.viewport().width() - 40:
            self.toggle(index.row())

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        index = self.indexAt(event.position().toPoint())
        if index.isValid() and event.position().x() <= self.viewport().width() - 40:
            self.toggle(index.row())

    def keyPressEvent(self, event: QKeyEvent) -> None:
        self.setProperty("keyboard", True)
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space) and self.currentIndex().isValid():
            self.toggle(self.currentIndex().row())
            return
        super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.scheduleDelayedItemsLayout()

    def changeEvent(self, event: QEvent) -> None:
        super().changeEvent(event)
        if event.type() == QEvent.Type.StyleChange:
            self.viewport().update()
