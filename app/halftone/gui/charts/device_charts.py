"""What the Device page paints: speed bars, bits kept in a sum, and the matrix of tests with known answers."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from PySide6.QtCore import QPointF, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QFocusEvent, QFontMetricsF, QKeyEvent, QMouseEvent, QPainter
from PySide6.QtWidgets import QSizePolicy

from halftone.gui import icons, theme
from halftone.gui.i18n import tr
from halftone.gui.kit import figures
from halftone.gui.kit.painting import END, RIGHT, Painted, dot, plate, stroke, write

ROW = 39
LABEL = 148
DOTS = 24


class _Row(Painted):
    """Name, small second line and something painted on the right."""

    def __init__(self, title: str, caption: str) -> None:
        super().__init__()
        self._title = title
        self._caption = caption
        self.setFixedHeight(theme.grown(ROW))
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)

    def _paint_label(self, painter: QPainter, width: float) -> None:
        line = theme.grown(17)
        write(painter, QRectF(0, 2, width, line), self._title, "small-strong", cut=END)
        write(painter, QRectF(0, 2 + line, width, line), self._caption, "caption", "text-muted", cut=END)

    @property
    def _label(self) -> float:
        """How far the words reach: with larger text up to two fifths of the row."""
        return max(LABEL, min(theme.grown(LABEL), self.width() * 0.4))


class SpeedBar(_Row):
    """Measured speed as a bar. share: of the longest bar on the card. No tick: the data sheet is not a measurement."""

    def __init__(self, title: str, caption: str, words: str, share: float) -> None:
        super().__init__(title, caption)
        self._share = max(0.0, min(1.0, share))
        self._words = words
        self.setAccessibleName(tr("{0}, {1}: {2}", title, caption, self._words))
        self.setMinimumWidth(300)

    def sizeHint(self) -> QSize:
        return QSize(420, theme.grown(ROW))

    def draw(self, painter: QPainter) -> None:
        label = self._label
        self._paint_label(painter, label - 8)
        words = theme.grown(108)
        end = self.width() - words - 4.0
        track = QRectF(label, self.height() / 2 - 6, max(20.0, end - label), 12)
        stroke(painter, QPointF(track.left(), self.height() / 2), QPointF(track.right(), self.height() / 2), "border", 2)
        plate(painter, QRectF(label, track.top(), max(3.0, track.width() * self._share), 12), 2, "chart.series-1")
        write(
            painter, QRectF(self.width() - words, 0, words, self.height()), self._words, "small-strong", flags=RIGHT, numbers=True
        )


def speed_words(tflops: Sequence[float]) -> list[str]:
    """Speeds of one column, in one unit: TFLOPS, or GFLOPS where the slowest would read as zero."""
    if min(tflops, default=1.0) >= 0.1:
        return [f"{figures.decimal(one, 1 if one >= 1 else 2)}{figures.HARD}TFLOPS" for one in tflops]
    return [f"{figures.decimal(one * 1000, 1 if one < 0.01 else 0)}{figures.HARD}GFLOPS" for one in tflops]


class BitsRow(_Row):
    """24 places: filled dots are bits that were right, rings bits the type has but lost, small dots bits it never had."""

    def __init__(self, title: str, caption: str, kept: float, bits: int, *, fine: bool) -> None:
        super().__init__(title, caption)
        self._kept = max(0.0, min(float(bits), kept))
        self._bits = bits
        self._fine = fine
        words = tr("{0}, {1}: {2} of {3} bits correct", title, caption, figures.decimal(kept), bits)
        self.setAccessibleName(words)
        self.setMinimumWidth(360)

    def sizeHint(self) -> QSize:
        return QSize(520, theme.grown(ROW))

    def draw(self, painter: QPainter) -> None:
        label = self._label
        self._paint_label(painter, label - 22)
        tone = "chart.series-3" if self._fine else "warn"
        left, right = label - 14.0, self.width() - theme.grown(92)
        pitch = min(11.6, (right - left) / DOTS)
        radius = pitch * 0.4
        for index in range(DOTS):
            centre = QPointF(left + (index + 0.5) * pitch, self.height() / 2)
            if index >= self._bits:
                dot(painter, centre, 1.0, theme.current().color("text-muted", 0.7))
                continue
            part = min(1.0, max(0.0, self._kept - index))
            dot(painter, centre, radius - 0.6, tone if part >= 0.95 else "", tone, 1.2)
            if 0.05 < part < 0.95:
                dot(painter, centre, (radius - 0.9) * math.sqrt(part), tone)
        self._paint_figure(painter)

    def _paint_figure(self, painter: QPainter) -> None:
        whole = QRectF(0, 0, self.width(), self.height())
        behind = write(painter, whole, tr("of {0}", self._bits), "small", "text-muted", RIGHT, numbers=True)
        figure, tone = figures.decimal(self._kept), "text" if self._fine else "warn"
        whole.setRight(self.width() - behind - 5)
        x = whole.right() - 1 - write(painter, whole, figure, "small-strong", tone, RIGHT, numbers=True)
        name, token = ("circle-check", "ok") if self._fine else ("triangle-alert", "warn")
        icons.paint(painter, name, QRectF(x - 20, self.height() / 2 - 7, 14, 14), theme.current().color(token))


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


class TestMatrix(Painted):
    """Tests with known answers: modes down, operations across. The heads are slanted where one does not fit upright."""

    __test__ = False
    selected = Signal(int, int)
    """Row and column of the chosen mark."""

    HEAD = 40
    LINE = 42

    def __init__(self) -> None:
        super().__init__()
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
        least = 130.0 if self.width() > 720 else 104.0
        return max(least, min(theme.grown(least), self.width() / 4))

    def _pitch(self) -> float:
        return (self.width() - self._label_width() - 70) / max(1, len(self._columns))

    def cell_centre(self, row: int, column: int) -> QPointF:
        return QPointF(self._label_width() + (column + 0.5) * self._pitch(), self._head + (row + 0.5) * self.LINE)

    def _cell_at(self, at: QPointF) -> tuple[int, int] | None:
        column = math.floor((at.x() - self._label_width()) / self._pitch())
        row = math.floor((at.y() - self._head) / self.LINE)
        return (row, column) if self._mark(row, column) is not None else None

    # painting

    def draw(self, painter: QPainter) -> None:
        self._paint_head(painter)
        for row in range(len(self._rows)):
            self._paint_row(painter, row)

    def _paint_head(self, painter: QPainter) -> None:
        bottom = int(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignBottom)
        write(painter, QRectF(self.width() - 70, 0, 70, self._head - 8), tr("Passed"), "caption", "text-secondary", bottom)
        slanted, pitch = self.slanted(), self._pitch()
        for column, name in enumerate(self.heads()):
            x = self._label_width() + column * pitch
            if not slanted:
                painter.drawText(QRectF(x + 1, 0, pitch - 2, self._head - 8), _HEAD_FLAGS, name)
                continue
            painter.save()  # upwards to the right from the column's middle
            painter.translate(QPointF(x + pitch / 2, self._head - 8))
            painter.rotate(-math.degrees(_SLOPE))
            painter.drawText(QPointF(0, 0), name)
            painter.restore()

    def _paint_row(self, painter: QPainter, row: int) -> None:
        top, one = self._head + row * self.LINE, self._rows[row]
        stroke(painter, QPointF(0, top - 0.5), QPointF(self.width(), top - 0.5), "border")
        write(painter, QRectF(0, top, self._label_width() - 6, self.LINE), one.name, "small-strong", cut=END)
        passed = QRectF(self.width() - 100, top, 100, self.LINE)
        write(painter, passed, one.passed, "small", "text-secondary", RIGHT, numbers=True)
        for column, mark in enumerate(self._rows[row].marks):
            if mark is not None:
                self._paint_mark(painter, row, column, mark)

    def _paint_mark(self, painter: QPainter, row: int, column: int, mark: Mark) -> None:
        style = theme.current()
        centre = self.cell_centre(row, column)
        if (row, column) in (self._cell, self._hover):
            chosen = (row, column) == self._cell
            around = QRectF(centre.x() - 14, centre.y() - 14, 28, 28)
            plate(painter, around, 6, "accent-subtle" if chosen else "hover", "focus" if chosen else "", 2)
        if mark.state == "wrong":
            icons.paint(painter, "triangle-alert", QRectF(centre.x() - 8, centre.y() - 8.5, 16, 16), style.color("warn"))
        elif mark.state == "missing":
            icons.paint(painter, "circle-dashed", QRectF(centre.x() - 7, centre.y() - 7, 14, 14), style.color("text-muted"))
        elif mark.state == "right":
            dot(painter, centre, 5.5, "chart.series-3")
        else:
            dot(painter, centre, 1.5, style.color("text-muted", 0.6))

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
