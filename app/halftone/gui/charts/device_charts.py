"""What the Device page paints: speed bars, bits kept in a sum, and the matrix of tests with known answers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QFontMetricsF, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QSizePolicy, QWidget

from halftone.gui import icons, theme
from halftone.gui.i18n import tr
from halftone.gui.kit import figures

ALIGN_LEFT = Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter
ALIGN_RIGHT = Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter
ROW = 39
LABEL = 148
DOTS = 24


class _Row(QWidget):
    """Name, small second line and something painted on the right."""

    def __init__(self, title: str, caption: str, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._title = title
        self._caption = caption
        self.setFixedHeight(ROW)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme.watcher().changed.connect(self.update)

    def _paint_label(self, painter: QPainter, width: float) -> None:
        style = theme.current()
        for words, role, colour, y in (
            (self._title, "small-strong", "text", 2.0),
            (self._caption, "caption", "text-muted", 19.0),
        ):
            painter.setFont(style.font(role))
            painter.setPen(style.color(colour))
            shown = QFontMetricsF(painter.font()).elidedText(words, Qt.TextElideMode.ElideRight, width)
            painter.drawText(QRectF(0, y, width, 17), ALIGN_LEFT, shown)


class SpeedBar(_Row):
    """Measured speed as a bar. share: of the longest bar on the card. No tick: the data sheet is not a measurement."""

    def __init__(self, title: str, caption: str, words: str, share: float, parent: QWidget | None = None) -> None:
        super().__init__(title, caption, parent)
        self._share = max(0.0, min(1.0, share))
        self._words = words
        self.setAccessibleName(tr("{0}, {1}: {2}", title, caption, self._words))
        self.setMinimumWidth(300)

    def sizeHint(self) -> QSize:
        return QSize(420, ROW)

    def paintEvent(self, event: QPaintEvent) -> None:
        style = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_label(painter, LABEL - 8)
        end = self.width() - 112.0
        track = QRectF(LABEL, ROW / 2 - 6, max(20.0, end - LABEL), 12)
        painter.setPen(QPen(style.color("border"), 2))
        painter.drawLine(QPointF(track.left(), track.center().y()), QPointF(track.right(), track.center().y()))
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(style.color("chart.series-1"))
        painter.drawRoundedRect(QRectF(track.left(), track.top(), max(3.0, track.width() * self._share), 12), 2, 2)
        painter.setFont(style.font("small-strong", numbers=True))
        painter.setPen(style.color("text"))
        painter.drawText(QRectF(self.width() - 108, 0, 108, ROW), ALIGN_RIGHT, self._words)
        painter.end()


def speed_words(tflops: Sequence[float]) -> list[str]:
    """Speeds of one column, in one unit: TFLOPS, or GFLOPS where the slowest would read as zero."""
    if min(tflops, default=1.0) >= 0.1:
        return [f"{figures.decimal(one, 1 if one >= 1 else 2)}{figures.HARD}TFLOPS" for one in tflops]
    return [f"{figures.decimal(one * 1000, 1 if one < 0.01 else 0)}{figures.HARD}GFLOPS" for one in tflops]


class BitsRow(_Row):
    """24 places: filled dots are bits that were right, rings bits the type has but lost, small dots bits it never had."""

    def __init__(self, title: str, caption: str, kept: float, bits: int, *, fine: bool, parent: QWidget | None = None) -> None:
        super().__init__(title, caption, parent)
        self._kept = max(0.0, min(float(bits), kept))
        self._bits = bits
        self._fine = fine
        words = tr("{0}, {1}: {2} of {3} bits correct", title, caption, figures.decimal(kept), bits)
        self.setAccessibleName(words)
        self.setMinimumWidth(360)

    def sizeHint(self) -> QSize:
        return QSize(520, ROW)

    def paintEvent(self, event: QPaintEvent) -> None:
        style = theme.current()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_label(painter, LABEL - 22)
        colour = style.color("chart.series-3" if self._fine else "warn")
        left, right = LABEL - 14.0, self.width() - 92.0
        pitch = min(11.6, (right - left) / DOTS)
        radius = pitch * 0.4
        for index in range(DOTS):
            centre = QPointF(left + (index + 0.5) * pitch, ROW / 2)
            if index >= self._bits:
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(style.color("text-muted", 0.7))
                painter.drawEllipse(centre, 1.0, 1.0)
                continue
            part = min(1.0, max(0.0, self._kept - index))
            painter.setPen(QPen(colour, 1.2))
            painter.setBrush(colour if part >= 0.95 else Qt.BrushStyle.NoBrush)
            painter.drawEllipse(centre, radius - 0.6, radius - 0.6)
            if 0.05 < part < 0.95:
                painter.setPen(Qt.PenStyle.NoPen)
                painter.setBrush(colour)
                painter.drawEllipse(centre, (radius - 0.9) * math.sqrt(part), (radius - 0.9) * math.sqrt(part))
        self._paint_figure(painter)
        painter.end()

    def _paint_figure(self, painter: QPainter) -> None:
        style = theme.current()
        of = tr("of {0}", self._bits)
        font = style.font("small", numbers=True)
        strong = style.font("small-strong", numbers=True)
        of_width = QFontMetricsF(font).horizontalAdvance(of)
        figure = figures.decimal(self._kept)
        figure_width = QFontMetricsF(strong).horizontalAdvance(figure)
        painter.setFont(font)
        painter.setPen(style.color("text-muted"))
        painter.drawText(QRectF(self.width() - of_width - 1, 0, of_width + 1, ROW), ALIGN_RIGHT, of)
        painter.setFont(strong)
        painter.setPen(style.color("text" if self._fine else "warn"))
        x = self.width() - of_width - figure_width - 6
        painter.drawText(QRectF(x, 0, figure_width + 1, ROW), ALIGN_RIGHT, figure)
        name, token = ("circle-check", "ok") if self._fine else ("triangle-alert", "warn")
        icons.paint(painter, name, QRectF(x - 20, ROW / 2 - 7, 14, 14), style.color(token))


@dataclass(frozen=True, slots=True)
class Mark:
    """One cell of the matrix. state: 'right', 'wrong', 'missing' or 'open' (not run yet); label: said aloud."""

    state: str
    label: str


@dataclass(frozen=True, slots=True)
class MatrixRow:
    """One mode: its name, a mark per column (None: there is no such test) and the count of passed tests."""

    key: str
    name: str
    marks: tuple[Mark | None, ...]
    passed: str


_WIDE: Final = 66
_SLOPE: Final = math.radians(40)
_HEAD_FLAGS: Final = int(Qt.AlignmentFlag.AlignHCenter | Qt.AlignmentFlag.AlignBottom | Qt.TextFlag.TextWordWrap)


class TestMatrix(QWidget):
    """The accuracy tests: modes down, operations across. Arrow keys move, a click selects.

    Column heads are slanted where one does not fit in two lines.
    """

    __test__ = False
    selected = Signal(int, int)
    """Row and column of the chosen mark."""

    HEAD = 40
    LINE = 42

    def __init__(self, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self._columns: tuple[str, ...] = ()
        self._short: tuple[str, ...] = ()
        self._rows: tuple[MatrixRow, ...] = ()
        self._cell: tuple[int, int] | None = None
        self._hover: tuple[int, int] | None = None
        self._head = self.HEAD
        self.setMouseTracking(True)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setAccessibleName(tr("Accuracy tests"))
        theme.watcher().changed.connect(self.update)

    def set_tests(self, columns: Sequence[str], rows: Sequence[MatrixRow], short: Sequence[str] = ()) -> None:
        """short: names of the columns for little space."""
        self._columns, self._rows = tuple(columns), tuple(rows)
        self._short = tuple(short) or self._columns
        if self._cell is not None and self._mark(*self._cell) is None:
            self._cell = None
        self._fit()
        self.update()
        self._speak()

    @property
    def cell(self) -> tuple[int, int] | None:
        return self._cell

    def select(self, row: int, column: int) -> None:
        if self._mark(row, column) is None or (row, column) == self._cell:
            return
        self._cell = (row, column)
        self.update()
        self._speak()
        self.selected.emit(row, column)

    def sizeHint(self) -> QSize:
        return QSize(880, self.height())

    def minimumSizeHint(self) -> QSize:
        return QSize(104 + 70 + 24 * max(1, len(self._columns)), self.HEAD + self.LINE)

    def _mark(self, row: int, column: int) -> Mark | None:
        if 0 <= row < len(self._rows) and 0 <= column < len(self._rows[row].marks):
            return self._rows[row].marks[column]
        return None

    def _speak(self) -> None:
        mark = self._mark(*self._cell) if self._cell else None
        if mark is not None and self._cell is not None:
            name = self._rows[self._cell[0]].name
            self.setAccessibleDescription(tr("{0}, {1}: {2}", name, self._columns[self._cell[1]], mark.label))
        else:
            self.setAccessibleDescription("; ".join(f"{row.name}: {row.passed}" for row in self._rows))

    # geometry

    def heads(self) -> tuple[str, ...]:
        """Labels as painted: short ones only where they fit upright."""
        return self._columns if self._pitch() >= _WIDE or self.slanted() else self._short

    def slanted(self) -> bool:
        metrics, room = QFontMetricsF(theme.current().font("caption")), QRectF(0, 0, self._pitch() - 2, 1000)
        names = self._columns if self._pitch() >= _WIDE else self._short
        boxes = (metrics.boundingRect(room, _HEAD_FLAGS, name) for name in names)
        return any(box.width() > room.width() or box.height() > self.HEAD - 8 for box in boxes)

    def _fit(self) -> None:
        self._head = self.HEAD
        if self.slanted():
            metrics = QFontMetricsF(theme.current().font("caption"))
            longest = max(metrics.horizontalAdvance(name) for name in self.heads())
            self._head = math.ceil(longest * math.sin(_SLOPE) + metrics.ascent() * math.cos(_SLOPE)) + 10
        self.setFixedHeight(self._head + self.LINE * max(1, len(self._rows)))

    def resizeEvent(self, event: object) -> None:
        self._fit()

    def _label_width(self) -> float:
        return 130.0 if self.width() > 720 else 104.0

    def _pitch(self) -> float:
        return (self.width() - self._label_width() - 70) / max(1, len(self._columns))

    def cell_centre(self, row: int, column: int) -> QPointF:
        return QPointF(self._label_width() + (column + 0.5) * self._pitch(), self._head + (row + 0.5) * self.LINE)

    def _cell_at(self, at: QPointF) -> tuple[int, int] | None:
        column = math.floor((at.x() - self._label_width()) / self._pitch())
        row = math.floor((at.y() - self._head) / self.LINE)
        return (row, column) if self._mark(row, column) is not None else None

    # painting

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        self._paint_head(painter)
        for row in range(len(self._rows)):
            self._paint_row(painter, row)
        painter.end()

    def _paint_head(self, painter: QPainter) -> None:
        style = theme.current()
        painter.setFont(style.font("caption"))
        painter.setPen(style.color("text-secondary"))
        slanted = self.slanted()
        for column, name in enumerate(self.heads()):
            x = self._label_width() + column * self._pitch()
            if slanted:
                self._paint_slanted(painter, QPointF(x + self._pitch() / 2, self._head - 8), name)
            else:
                painter.drawText(QRectF(x + 1, 0, self._pitch() - 2, self._head - 8), _HEAD_FLAGS, name)
        painter.drawText(
            QRectF(self.width() - 70, 0, 70, self._head - 8),
            Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignBottom,
            tr("Passed"),
        )

    @staticmethod
    def _paint_slanted(painter: QPainter, at: QPointF, name: str) -> None:
        """Upwards to the right from its column's middle."""
        painter.save()
        painter.translate(at)
        painter.rotate(-math.degrees(_SLOPE))
        painter.drawText(QPointF(0, 0), name)
        painter.restore()

    def _paint_row(self, painter: QPainter, row: int) -> None:
        style = theme.current()
        top = self._head + row * self.LINE
        painter.setPen(QPen(style.color("border"), 1))
        painter.drawLine(QPointF(0, top - 0.5), QPointF(self.width(), top - 0.5))
        painter.setFont(style.font("small-strong"))
        painter.setPen(style.color("text"))
        name = QFontMetricsF(painter.font()).elidedText(
            self._rows[row].name, Qt.TextElideMode.ElideRight, self._label_width() - 6
        )
        painter.drawText(QRectF(0, top, self._label_width(), self.LINE), ALIGN_LEFT, name)
        painter.setFont(style.font("small", numbers=True))
        painter.setPen(style.color("text-secondary"))
        painter.drawText(QRectF(self.width() - 100, top, 100, self.LINE), ALIGN_RIGHT, self._rows[row].passed)
        for column, mark in enumerate(self._rows[row].marks):
            if mark is not None:
                self._paint_mark(painter, row, column, mark)

    def _paint_mark(self, painter: QPainter, row: int, column: int, mark: Mark) -> None:
        style = theme.current()
        centre = self.cell_centre(row, column)
        if (row, column) in (self._cell, self._hover):
            chosen = (row, column) == self._cell
            painter.setPen(QPen(style.color("focus"), 2) if chosen else Qt.PenStyle.NoPen)
            painter.setBrush(style.color("accent-subtle" if chosen else "hover"))
            painter.drawRoundedRect(QRectF(centre.x() - 14, centre.y() - 14, 28, 28), 6, 6)
        if mark.state == "wrong":
            icons.paint(painter, "triangle-alert", QRectF(centre.x() - 8, centre.y() - 8.5, 16, 16), style.color("warn"))
        elif mark.state == "missing":
            icons.paint(painter, "circle-dashed", QRectF(centre.x() - 7, centre.y() - 7, 14, 14), style.color("text-muted"))
        else:
            painter.setPen(Qt.PenStyle.NoPen)
            right = mark.state == "right"
            painter.setBrush(style.color("chart.series-3") if right else style.color("text-muted", 0.6))
            radius = 5.5 if right else 1.5
            painter.drawEllipse(centre, radius, radius)

    # input

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        cell = self._cell_at(event.position())
        if cell != self._hover:
            self._hover = cell
            self.setCursor(Qt.CursorShape.PointingHandCursor if cell else Qt.CursorShape.ArrowCursor)
            self.update()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        cell = self._cell_at(event.position())
        if cell is not None and event.button() == Qt.MouseButton.LeftButton:
            self.select(*cell)

    def leaveEvent(self, event: object) -> None:
        self._hover = None
        self.update()

    def focusInEvent(self, event: QFocusEvent) -> None:
        if self._cell is None and event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason):
            self._step(0, 0, (0, 0))
        super().focusInEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        moves = {
            Qt.Key.Key_Left: (0, -1),
            Qt.Key.Key_Right: (0, 1),
            Qt.Key.Key_Up: (-1, 0),
            Qt.Key.Key_Down: (1, 0),
        }
        move = moves.get(Qt.Key(event.key()))
        if move is None:
            super().keyPressEvent(event)
        elif self._cell is None:
            self._step(0, 0, (0, 0))
        else:
            self._step(*move, self._cell)

    def _step(self, down: int, across: int, start: tuple[int, int]) -> None:
        """Move to the next mark in this direction, past empty cells."""
        row, column = start[0] + down, start[1] + across
        while 0 <= row < len(self._rows) and 0 <= column < len(self._columns):
            if self._mark(row, column) is not None:
                self.select(row, column)
                return
            if down == 0 and across == 0:
                across = 1
            row, column = row + down, column + across
