"""Cards of the Device page with what was measured: speed, correctness, every single test."""

import math
from collections.abc import Sequence

from PySide6.QtCore import QPointF, QRectF
from PySide6.QtGui import QPainter
from PySide6.QtWidgets import QFrame, QGridLayout

from halftone.contract.facts import OperationResult, SelfTestReport
from halftone.contract.request import Numerics
from halftone.gui import icons, theme
from halftone.gui.charts.device_charts import BitsRow, SpeedBar, TestMatrix, speed_words
from halftone.gui.device import device_view
from halftone.gui.i18n import say, tr
from halftone.gui.kit import figures
from halftone.gui.kit.painting import Painted, dot
from halftone.gui.kit.stock_widgets import Card, boxed, clear, column, label, row, set_tone


class _MeasuredCard(Card):
    """A title with a hint beside it, a caption, and a row for each measurement."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._body = column(spacing=0)
        self._caption = label("", "small", "secondary", wrap=True)
        self._hint = label("", "small", "secondary")
        head = row(label(title, "heading-s"), -1, self._hint)
        self.setLayout(column(head, self._caption, 6, self._body, -1, spacing=2, margins=(16, 12, 16, 12)))


class SpeedCard(_MeasuredCard):
    """One bar per measured speed; the longest fills the track."""

    def set_report(self, report: SelfTestReport | None) -> None:
        clear(self._body)
        shown = device_view.speeds(report) if report is not None else []
        self._hint.setText(tr("higher is better") if shown else "")
        if report is None or not shown:
            self._caption.setText(tr("Not measured yet."))
            return
        self._caption.setText(device_view.speed_title(report))
        most = max(one.tflops for one in shown)
        for one, words in zip(shown, speed_words([one.tflops for one in shown]), strict=True):
            bar = SpeedBar(device_view.mode_name(one.mode), one.caption, words, one.tflops / most if most else 0)
            parts = speed_words([tflops for _, tflops in one.parts])
            bar.setToolTip("\n".join(f"{name}: {part}" for (name, _), part in zip(one.parts, parts, strict=True)))
            self._body.addWidget(bar)


class BitsCard(_MeasuredCard):
    """How many bits of a long sum were right."""

    def set_report(self, report: SelfTestReport | None) -> None:
        clear(self._body)
        shown = device_view.bits(report) if report is not None else []
        self._hint.setText(tr("Bits kept in a sum of {0} products", figures.group(shown[0].terms)) if shown else "")
        self._caption.setText(tr("Rings: bits of the type. Dots: correct bits.") if shown else tr("Not measured yet."))
        for one in shown:
            fine = device_view.bits_fine(one)
            caption = device_view.bits_caption(one)
            self._body.addWidget(BitsRow(device_view.mode_name(one.mode), caption, one.bits_kept, one.bits, fine=fine))


class TestsCard(Card):
    """The matrix, and the numbers behind the selected mark."""

    __test__ = False

    def __init__(self) -> None:
        super().__init__()
        self.matrix = TestMatrix()
        self.matrix.selected.connect(self._show)
        self._summary = label("", "small", "secondary")
        self._legend = label(tr("Select a mark for its numbers."), "caption", "secondary")
        self._detail_title = label("", "small-strong")
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(16)
        self._grid.setVerticalSpacing(4)
        self.detail = QFrame()
        self.detail.setProperty("surface", "plain")
        self.detail.setLayout(column(self._detail_title, self._grid, spacing=6, margins=(12, 8, 12, 10)))
        self.detail.hide()
        self._cells: dict[tuple[int, int], tuple[OperationResult, ...]] = {}
        self._tests: tuple[OperationResult, ...] | None = None
        marks = row(
            _LegendMark("right"),
            label(tr("Correct"), "caption", "secondary"),
            8,
            _LegendMark("wrong"),
            label(tr("Wrong or NaN"), "caption", "secondary"),
            8,
            self._legend,
            -1,
            spacing=6,
        )
        head = row(label(tr("Accuracy tests"), "heading-s"), -1, self._summary)
        self._legend_row = boxed(marks)
        parts = (head, self.matrix, 10, self._legend_row, 8, self.detail, -1)
        self.setLayout(column(*parts, spacing=2, margins=(16, 12, 16, 12)))

    def set_tests(self, tests: Sequence[OperationResult], numerics: Numerics) -> None:
        self._summary.setText(device_view.matrix_summary(tests, numerics) if tests else tr("Not measured yet."))
        if tuple(tests) == self._tests:
            return
        self._tests = tuple(tests)
        for part in (self.matrix, self._legend_row):
            part.setVisible(bool(tests))
        made = device_view.matrix(tests)
        self._cells = made.cells
        self.matrix.set_tests(made.columns, made.rows, made.short)
        if self.matrix.cell is None:
            self.detail.hide()
        else:
            self._show(*self.matrix.cell)

    def _show(self, line: int, place: int) -> None:
        results = self._cells.get((line, place), ())
        clear(self._grid)
        self.detail.setVisible(bool(results))
        if not results:
            return
        first = results[0]
        self._detail_title.setText(f"{device_view.mode_name(first.mode)} · {device_view.operation_name(first.operation)}")
        heads = (tr("Case"), tr("Expected"), tr("Result"), tr("Error"), tr("Tolerance"), tr("Time"), "")
        for place_of, words in enumerate(heads):
            self._grid.addWidget(label(words, "caption", "secondary"), 0, place_of)
        for stretched in (0, len(heads)):
            self._grid.setColumnStretch(stretched, 1)
        for index, one in enumerate(results, start=1):
            self._add_result(index, one)

    def _add_result(self, line: int, one: OperationResult) -> None:
        self._grid.addWidget(label(say(one.size), "small", wrap=True, numbers=True), line, 0)
        cells = (
            number_words(one.expected),
            number_words(one.got),
            number_words(one.error),
            number_words(one.tolerance),
            milliseconds(one.seconds) if one.outcome != "missing" else "–",
        )
        for place, words in enumerate(cells, start=1):
            self._grid.addWidget(label(words, "small", numbers=True), line, place)
        state = label(device_view.outcome_words(one.outcome), "small-strong", wrap=True)
        set_tone(state, {"right": "ok", "missing": "muted"}.get(one.outcome, "warn"))
        self._grid.addWidget(state, line, len(cells) + 1)


class _LegendMark(Painted):
    """A mark of the matrix, small, for its legend."""

    def __init__(self, state: str) -> None:
        super().__init__()
        self.setFixedSize(14, 14)
        self._right = state == "right"

    def draw(self, painter: QPainter) -> None:
        if self._right:
            dot(painter, QPointF(7, 7), 4.5, "chart.series-3")
        else:
            icons.paint(painter, "triangle-alert", QRectF(0, 0, 14, 14), theme.current().color("warn"))


def number_words(value: float | None) -> str:
    """A number of a test with six significant digits; nothing measured is a dash."""
    if value is None:
        return "–"
    if not math.isfinite(value) or (value != 0 and not 1e-4 <= abs(value) < 1e9):
        return figures.peak(value)
    size = 0 if value == 0 else math.floor(math.log10(abs(value)))
    text = figures.decimal(value, max(0, 5 - size))
    mark = figures.decimal(0.5)[1]
    return text.rstrip("0").rstrip(mark) if mark in text else text


def milliseconds(seconds: float) -> str:
    return f"{figures.decimal(seconds * 1000, 2)}{figures.HARD}ms"
