"""Progress ring of the top bar, memory meter of the status bar, and the keyboard focus ring."""

from typing import cast

from PySide6.QtCore import QEvent, QObject, QRect, QRectF, Qt
from PySide6.QtGui import QPainter, QPainterPath, QPaintEvent, QPen
from PySide6.QtWidgets import (
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QDialog,
    QFocusFrame,
    QLineEdit,
    QListView,
    QTextEdit,
    QWidget,
)

from halftone.contract.facts import MemoryFacts
from halftone.gui import theme
from halftone.gui.kit.painting import Painted, paint_on, plate

_OWN_RINGS = (QLineEdit, QAbstractSpinBox, QComboBox, QTextEdit, QListView)
"""Fields have a focus border of their own; lists ring the item that has the focus."""


def paint_ring(painter: QPainter, rect: QRectF, fraction: float | None) -> None:
    """A ring filled clockwise from the top; a quarter of it when the length is not known."""
    colours = theme.current()
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    box = rect.adjusted(1.5, 1.5, -1.5, -1.5)
    painter.setPen(QPen(colours.color("border-strong"), 3))
    painter.drawEllipse(box)
    painter.setPen(QPen(colours.color("accent"), 3, Qt.PenStyle.SolidLine, Qt.PenCapStyle.FlatCap))
    painter.drawArc(box, 90 * 16, -round(360 * 16 * (0.25 if fraction is None else fraction)))
    painter.restore()


class MemoryMeter(Painted):
    """Memory of the device: other programs, Halftone, the rest free. square: with square ends, as wide as there is place."""

    def __init__(self, *, square: bool = False) -> None:
        super().__init__()
        self._memory: MemoryFacts | None = None
        self._square = square
        self.setFixedHeight(10)
        if not square:
            self.setFixedWidth(96)

    def set_memory(self, memory: MemoryFacts | None) -> None:
        self._memory = memory
        self.update()

    def draw(self, painter: QPainter) -> None:
        colours, memory = theme.current(), self._memory
        track, ground, own, least = QRectF(0, 2, self.width(), 6), "border-strong", "accent", 0.0
        if self._square:
            track, ground, own, least = QRectF(self.rect()), "border", "chart.series-1", 1.0
            painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        else:
            shape = QPainterPath()
            shape.addRoundedRect(track, 3, 3)
            painter.setClipPath(shape)
        painter.fillRect(track, colours.color(ground))
        if memory is not None and memory.total > 0:
            left = track.width() * min(1.0, memory.others / memory.total)
            used = max(least, track.width() * min(1.0, memory.own / memory.total))
            painter.fillRect(QRectF(0, track.top(), left, track.height()), colours.color("text-muted"))
            painter.fillRect(QRectF(left, track.top(), used, track.height()), colours.color(own))


def has_own_ring(widget: QWidget) -> bool:
    """Whether a widget shows by itself that it has the focus."""
    return isinstance(widget, _OWN_RINGS) or bool(widget.property("own-ring"))


class FocusRing(QFocusFrame):
    """A ring around the widget that has the keyboard focus, shown only after Tab, Backtab or a shortcut."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self._surrounded: QWidget | None = None
        self.setAttribute(Qt.WidgetAttribute.WA_TransparentForMouseEvents)
        cast("QApplication", QApplication.instance()).focusChanged.connect(self.follow)
        self.hide()

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Follow the surrounded widget as Qt does. Qt cuts out what lies over it, and with it a ring without space outside."""
        handled = super().eventFilter(watched, event)
        if watched is self._surrounded:
            self.clearMask()
        return handled

    def follow(self, before: QWidget | None, now: QWidget | None) -> None:
        """Qt notes at the window whether the keyboard moved the focus. A dialog gets a ring of its own."""
        window = None if now is None else now.window()
        if window is not None and window is not self.window():
            if isinstance(window, QDialog) and window.findChild(FocusRing) is None:
                FocusRing(window).follow(before, now)
            return
        by_key = now is not None and now.window().testAttribute(Qt.WidgetAttribute.WA_KeyboardFocusChange)
        self._surround(now if now is not None and by_key and not has_own_ring(now) else None)

    def _surround(self, widget: QWidget | None) -> None:
        self._surrounded = widget
        self.setWidget(widget)  # pyright: ignore[reportArgumentType] - None takes the ring away
        self.clearMask()
        self.setVisible(widget is not None)
        self.raise_()  # Qt puts it under the widget, which hides it where their parent is no larger

    def _room(self) -> QRect:
        """Return the part that its parent shows: a tab is as high as its bar, and the ring lies on its edge."""
        parent = self.parentWidget()
        return self.rect() & parent.rect().translated(-self.pos()) if parent is not None else self.rect()

    def paintEvent(self, event: QPaintEvent) -> None:
        box = QRectF(self._room()).adjusted(1, 1, -1, -1)
        paint_on(self, lambda painter: plate(painter, box, 7, edge="focus", width=2))
