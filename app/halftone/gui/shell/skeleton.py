"""What the window shows until its parts are built: the same surfaces and lines, nothing that could be pressed."""

from collections.abc import Iterator

from PySide6.QtCore import QRectF, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QWidget

from halftone.gui import icons, theme

_NARROW = (280, 0, 112)
_WIDE = (336, 0, 208)
_FIELDS = ((79, 58), (208, 106), (342, 40), (423, 29), (460, 28), (600, 29), (658, 29))
"""Top and height of the fields of Create, in pixels from the top of the window."""
_CARDS = ((20, 124, 372, 114), (20, 252, 372, 218), (20, 484, 372, 120))
"""The left column of the first run's page."""
_STRIP = 60
"""Height of that page's strip and footer."""


class Skeleton(QWidget):
    """Top bar, the shown page's surfaces and the status bar, without a word in them."""

    def __init__(self, columns: tuple[int, ...] = (), *, first_run: bool = False) -> None:
        super().__init__()
        self._columns = columns
        self._first_run = first_run
        self.setAttribute(Qt.WidgetAttribute.WA_OpaquePaintEvent)

    def _ends(self) -> tuple[int, int]:
        """Top and bottom of the page."""
        colours = theme.current()
        return colours.px("layout.topbar"), self.height() - colours.px("layout.statusbar")

    def _columns_of_create(self) -> tuple[int, int]:
        """Return where the canvas begins and where it ends."""
        usual = _NARROW if self.width() < theme.current().px("layout.breakpoints.narrow") else _WIDE
        left, _, right = self._columns or usual
        return left, self.width() - right

    def _lines(self) -> Iterator[QRectF]:
        top, bottom = self._ends()
        across = (top - 1, bottom)
        if self._first_run:
            across += (top + _STRIP, bottom - _STRIP)
        else:
            for x in self._columns_of_create():
                yield QRectF(x, top, 1, bottom - top)
        for y in across:
            yield QRectF(0, y, self.width(), 1)

    def _blocks(self) -> Iterator[QRectF]:
        if not self._first_run:
            left, _ = self._columns_of_create()
            yield from (QRectF(16, y, left - 32, height) for y, height in _FIELDS)
            return
        yield from (QRectF(*card) for card in _CARDS)
        half = (self.width() - 404 - 20 - 12) / 2
        yield QRectF(404, 124, half, 68)
        yield QRectF(404 + half + 12, 124, half, 68)
        yield QRectF(404, 204, self.width() - 404 - 20, 160)

    def paintEvent(self, event: QPaintEvent) -> None:
        colours = theme.current()
        top, bottom = self._ends()
        painter = QPainter(self)
        painter.fillRect(self.rect(), colours.color("surface"))
        if not self._first_run:
            left, right = self._columns_of_create()
            painter.fillRect(QRectF(left, top, right - left, bottom - top), colours.color("canvas"))
        for line in self._lines():
            painter.fillRect(line, colours.color("border"))
        icons.paint_mark(painter, QRectF(12, top / 2 - 10, 20, 20))
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(colours.color("surface-raised"))
        for block in self._blocks():
            if block.bottom() < bottom - _STRIP:
                painter.drawRoundedRect(block, 6, 6)
        painter.end()
