"""The cures side by side with their four prices, as radio rows: time, memory, disk, picture."""

from collections.abc import Iterator, Sequence

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QButtonGroup, QSizePolicy, QWidget

from halftone.contract.plan import Cure
from halftone.gui import theme
from halftone.gui.health import health_text
from halftone.gui.i18n import tr
from halftone.gui.kit.painting import CENTRE, END, RIGHT, Painted, dot, plate, width_of, write
from halftone.gui.kit.stock_widgets import HoverButton, clear, column
from halftone.health.judge import disk_price

COLUMNS = (60, 72, 54, 62)
"""Widths of time, memory, disk and picture."""
UNMEASURED = "–"


class CureHead(Painted):
    """The words above the columns."""

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(theme.grown(20))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self._columns = True
        self.setToolTip(health_text.decibels())

    def show_columns(self, shown: bool) -> None:
        """The column heads make sense only above rows."""
        if shown != self._columns:
            self._columns = shown
            self.setToolTip(health_text.decibels() if shown else "")
            self.update()

    def draw(self, painter: QPainter) -> None:
        write(painter, QRectF(2, 0, 200, 20), tr("Cure"), "heading-s")
        if self._columns:
            for box, words in _columns(self, (tr("Time"), tr("Memory"), tr("Disk"), tr("Picture"))):
                write(painter, box, words, "caption", "text-secondary", RIGHT)


def _columns(widget: QWidget, words: Sequence[str]) -> Iterator[tuple[QRectF, str]]:
    """Lay words out in the columns at the right of a widget."""
    right = widget.width() - 10.0
    for width, one in zip(reversed(COLUMNS), reversed(words), strict=True):
        yield QRectF(right - width, 0, width, widget.height()), one
        right -= width


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
        self.setFixedHeight(theme.grown(48))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(health_text.cure_spoken(cure, type_words))
        self.setToolTip(health_text.cure_tooltip(cure))

    def sizeHint(self) -> QSize:
        return QSize(520, 48)

    def minimumSizeHint(self) -> QSize:
        return QSize(200 + sum(COLUMNS), 48)

    def draw(self, painter: QPainter) -> None:
        box = QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        if self.isChecked():
            plate(painter, box, 5, "selected", "accent")
        elif self.hovered and self.isEnabled():
            plate(painter, box, 5, "hover")
        self._paint_radio(painter)
        self._paint_prices(painter)
        self._paint_words(painter)

    def _ink(self, token: str) -> str:
        return token if self.isEnabled() else "text-disabled" if token == "border-control" else "text-muted"

    def _paint_radio(self, painter: QPainter) -> None:
        centre, on = QPointF(18, self.height() / 2), self.isChecked()
        dot(painter, centre, 7.5, "field", "accent" if on else self._ink("border-control"), 1.25)
        if on:
            dot(painter, centre, 4.5, "accent")

    def _prices(self) -> tuple[str, str, str, str]:
        cure = self.cure
        return (
            UNMEASURED if cure.time_ratio is None else health_text.price_time(cure),
            UNMEASURED if cure.memory_bytes is None else health_text.price_bytes(cure.memory_bytes),
            UNMEASURED if (disk := disk_price(cure)) is None else health_text.price_bytes(disk),
            UNMEASURED if cure.psnr is None else health_text.price_picture(cure),
        )

    def _paint_prices(self, painter: QPainter) -> None:
        for box, words in _columns(self, self._prices()):
            tone = self._ink("text") if words != UNMEASURED else "text-muted"
            write(painter, box, words, "small", tone, RIGHT, numbers=True)

    def _paint_words(self, painter: QPainter) -> None:
        left, right = 36.0, self.width() - 14.0 - sum(COLUMNS)
        wide = write(painter, QRectF(left, 6, right - left + 20, 20), self._title, "body-strong", self._ink("text"), cut=END)
        tag = tr("In use") if self._in_use else tr("Suggested") if self.cure.suggested else ""
        if tag and self.isEnabled():
            self._paint_tag(painter, left + wide + 8, tag, right)
        room = right - left + COLUMNS[0] - width_of(self._prices()[0], "small", numbers=True) - 6
        write(painter, QRectF(left, 26, room, 16), self._line, "caption", self._ink("text-secondary"), cut=END)

    def _paint_tag(self, painter: QPainter, x: float, words: str, right: float) -> None:
        width = width_of(words, "caption") + 12
        if x + width <= right + 24:
            box = QRectF(x, 7.5, width, 17)
            plate(painter, box, 3, "ok-subtle", "ok-border")
            write(painter, box, words, "caption", "ok", CENTRE)


class CureList(QWidget):
    """The rows of one report; arrow keys move between those that can be chosen."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._layout = column(spacing=0)
        self.setLayout(self._layout)
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
