"""The cures side by side with their four prices, as radio rows: time, memory, disk, picture."""

from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFontMetricsF, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QButtonGroup, QSizePolicy, QVBoxLayout, QWidget

from halftone.contract.plan import Cure
from halftone.gui import theme
from halftone.gui.health import health_text
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import HoverButton, clear
from halftone.health.judge import disk_price

COLUMNS = (60, 72, 54, 62)
"""Widths of time, memory, disk and picture."""
ALIGN_LEFT = int(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
ALIGN_RIGHT = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
UNMEASURED = "–"


class CureHead(QWidget):
    """The words above the columns."""

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(20)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._columns = True
        self.setToolTip(health_text.decibels())

    def show_columns(self, shown: bool) -> None:
        """The column heads make sense only above rows."""
        if shown != self._columns:
            self._columns = shown
            self.setToolTip(health_text.decibels() if shown else "")
            self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        style = theme.current()
        painter.setFont(style.font("heading-s"))
        painter.setPen(style.color("text"))
        painter.drawText(QRectF(2, 0, 200, 20), ALIGN_LEFT, tr("Cure"))
        if not self._columns:
            painter.end()
            return
        painter.setFont(style.font("caption"))
        painter.setPen(style.color("text-secondary"))
        right = self.width() - 10.0
        for width, words in zip(reversed(COLUMNS), (tr("Picture"), tr("Disk"), tr("Memory"), tr("Time")), strict=True):
            painter.drawText(QRectF(right - width, 0, width, 20), ALIGN_RIGHT, words)
            right -= width
        painter.end()


class CureRow(HoverButton):
    """One cure. Disabled rows say why in their second line and in the tooltip."""

    def __init__(self, cure: Cure, type_words: str, *, in_use: bool) -> None:
        super().__init__()
        self.cure = cure
        self._in_use = in_use
        self._title = health_text.cure_title(cure)
        self._line = health_text.cure_line(cure, type_words)
        self.setCheckable(True)
        self.setEnabled(not cure.refusal)
        self.setFixedHeight(48)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(health_text.cure_spoken(cure, type_words))
        self.setToolTip(health_text.cure_tooltip(cure))

    def sizeHint(self) -> QSize:
        return QSize(520, 48)

    def minimumSizeHint(self) -> QSize:
        return QSize(200 + sum(COLUMNS), 48)

    def draw(self, painter: QPainter) -> None:
        style = theme.current()
        box = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        if self.isChecked():
            painter.setPen(QPen(style.color("accent"), 1))
            painter.setBrush(style.color("selected"))
            painter.drawRoundedRect(box, 5, 5)
        elif self.hovered and self.isEnabled():
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(style.color("hover"))
            painter.drawRoundedRect(box, 5, 5)
        self._paint_radio(painter)
        self._paint_prices(painter)
        self._paint_words(painter)

    def _ink(self, token: str) -> str:
        return token if self.isEnabled() else "text-disabled" if token == "border-control" else "text-muted"

    def _paint_radio(self, painter: QPainter) -> None:
        style = theme.current()
        centre = QPointF(18, self.height() / 2)
        on = self.isChecked()
        painter.setPen(QPen(style.color("accent" if on else self._ink("border-control")), 1.25))
        painter.setBrush(style.color("field"))
        painter.drawEllipse(centre, 7.5, 7.5)
        if on:
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(style.color("accent"))
            painter.drawEllipse(centre, 4.5, 4.5)

    def _prices(self) -> tuple[str, str, str, str]:
        cure = self.cure
        return (
            UNMEASURED if cure.time_ratio is None else health_text.price_time(cure),
            UNMEASURED if cure.memory_bytes is None else health_text.price_bytes(cure.memory_bytes),
            UNMEASURED if (disk := disk_price(cure)) is None else health_text.price_bytes(disk),
            UNMEASURED if cure.psnr is None else health_text.price_picture(cure),
        )

    def _paint_prices(self, painter: QPainter) -> None:
        style = theme.current()
        painter.setFont(style.font("small", numbers=True))
        right = self.width() - 10.0
        for width, words in zip(reversed(COLUMNS), reversed(self._prices()), strict=True):
            painter.setPen(style.color(self._ink("text") if words != UNMEASURED else "text-muted"))
            painter.drawText(QRectF(right - width, 0, width, self.height()), ALIGN_RIGHT, words)
            right -= width

    def _paint_words(self, painter: QPainter) -> None:
        style = theme.current()
        left, right = 36.0, self.width() - 14.0 - sum(COLUMNS)
        painter.setFont(style.font("body-strong"))
        painter.setPen(style.color(self._ink("text")))
        metrics = QFontMetricsF(painter.font())
        title = metrics.elidedText(self._title, Qt.TextElideMode.ElideRight, right - left + 20)
        painter.drawText(QRectF(left, 6, right - left + 20, 20), ALIGN_LEFT, title)
        tag = tr("In use") if self._in_use else tr("Suggested") if self.cure.suggested else ""
        if tag and self.isEnabled():
            self._paint_tag(painter, left + metrics.horizontalAdvance(title) + 8, tag, right)
        painter.setFont(style.font("caption"))
        painter.setPen(style.color(self._ink("text-secondary")))
        numbers = QFontMetricsF(style.font("small", numbers=True))
        room = right - left + COLUMNS[0] - numbers.horizontalAdvance(self._prices()[0]) - 6
        line = QFontMetricsF(painter.font()).elidedText(self._line, Qt.TextElideMode.ElideRight, room)
        painter.drawText(QRectF(left, 26, room, 16), ALIGN_LEFT, line)

    def _paint_tag(self, painter: QPainter, x: float, words: str, right: float) -> None:
        style = theme.current()
        painter.setFont(style.font("caption"))
        width = QFontMetricsF(painter.font()).horizontalAdvance(words) + 12
        if x + width > right + 24:
            return
        box = QRectF(x, 7.5, width, 17)
        painter.setPen(QPen(style.color("ok-border"), 1))
        painter.setBrush(style.color("ok-subtle"))
        painter.drawRoundedRect(box, 3, 3)
        painter.setPen(style.color("ok"))
        painter.drawText(box, int(Qt.AlignmentFlag.AlignCenter), words)


class CureList(QWidget):
    """The rows of one report; arrow keys move between those that can be chosen."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._layout = QVBoxLayout(self)
        self._layout.setContentsMargins(0, 0, 0, 0)
        self._layout.setSpacing(0)
        self._group = QButtonGroup(self)
        self._group.buttonClicked.connect(self.changed)
        self._shown: tuple[tuple[Cure, ...], str, int | None] | None = None
        self.rows: list[CureRow] = []
        self.setAccessibleName(tr("Cures"))

    def set_cures(self, cures: Sequence[Cure], type_words: str, chosen: int | None, in_use: int | None) -> None:
        if self._shown == (tuple(cures), type_words, in_use):
            return
        self._shown = (tuple(cures), type_words, in_use)
        for row in self.rows:
            self._group.removeButton(row)
        clear(self._layout)
        self.rows = [CureRow(cure, type_words, in_use=index == in_use) for index, cure in enumerate(cures)]
        for index, row in enumerate(self.rows):
            self._group.addButton(row)
            self._layout.addWidget(row)
            row.setChecked(index == chosen)
        self.setVisible(bool(cures))

    def chosen(self) -> Cure | None:
        return next((row.cure for row in self.rows if row.isChecked()), None)
