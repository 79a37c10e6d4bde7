"""Two or four pictures in one place: a wipe shows the left one up to a line, or each of four up to a cross."""

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt
from PySide6.QtGui import QImage, QKeyEvent, QMouseEvent, QPainter, QWheelEvent
from PySide6.QtWidgets import QSizePolicy

from halftone.gui import theme
from halftone.gui.i18n import tr
from halftone.gui.kit.painting import Painted, dot, plate, stroke, width_of, write

_MARGIN: Final = 20
_STEP: Final = 0.02
_LARGEST: Final = 16.0


class Compare(Painted):
    """Drag, or use the arrow keys, to move the wipe; the wheel zooms, and the right button pans."""

    def __init__(self) -> None:
        super().__init__()
        self._images: list[QImage] = []
        self._names: list[str] = []
        self.wipe = QPointF(0.5, 0.5)
        """From 0 to 1 in the picture."""
        self._zoom, self._offset = 1.0, QPointF()
        self._pan: QPointF | None = None
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setAccessibleName(tr("Compare"))

    def show_pictures(self, names: Sequence[str]) -> None:
        """Compare two or four pictures of these names; their images come later."""
        self._names, self._images = list(names), [QImage()] * len(names)
        self.wipe, self._zoom, self._offset = QPointF(0.5, 0.5), 1.0, QPointF()
        self.setAccessibleDescription(", ".join(names))
        self.update()

    def set_image(self, place: int, image: QImage) -> None:
        if place < len(self._images):
            self._images[place] = image
            self.update()

    def _target(self) -> QRectF:
        """The place of the first picture, in which the others are fitted."""
        shape = next((image.size() for image in self._images if not image.isNull()), None)
        if shape is None:
            return QRectF()
        free = QSizeF(max(40, self.width() - 2 * _MARGIN), max(40, self.height() - 2 * _MARGIN))
        size = QSizeF(shape).scaled(free, Qt.AspectRatioMode.KeepAspectRatio) * self._zoom
        found = QRectF(QPointF(), size)
        found.moveCenter(QPointF(self.width() / 2, self.height() / 2) + self._offset)
        return found

    def draw(self, painter: QPainter) -> None:
        painter.fillRect(self.rect(), theme.current().color("canvas"))
        target = self._target()
        if target.isEmpty():
            return
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        four = len(self._images) > 2
        x = target.left() + target.width() * self.wipe.x()
        y = target.top() + target.height() * self.wipe.y() if four else target.bottom()
        for image, part in zip(self._images, _parts(target, x, y, four=four), strict=False):
            if not image.isNull():
                painter.setClipRect(part)
                painter.drawImage(_fitted(target, image), image)
        painter.setClipping(False)
        self._draw_wipe(painter, target, QPointF(x, y), four=four)
        self._draw_names(painter, four=four)

    def _draw_wipe(self, painter: QPainter, target: QRectF, at: QPointF, *, four: bool) -> None:
        light = theme.Theme("dark").color("text")
        stroke(painter, QPointF(at.x(), target.top()), QPointF(at.x(), target.bottom()), light, 1.5)
        if four:
            stroke(painter, QPointF(target.left(), at.y()), QPointF(target.right(), at.y()), light, 1.5)
        middle = at if four else QPointF(at.x(), target.center().y())
        dot(painter, middle, 9, "picture-badge", light, 1.5)

    def _draw_names(self, painter: QPainter, *, four: bool) -> None:
        """In the corners of the widget, each on the side of its picture."""
        light = theme.Theme("dark").color("text")
        for place, name in enumerate(self._names):
            wide = min(width_of(name, "small") + 16, self.width() / 2 - 24)
            left = 12.0 if place % 2 == 0 else self.width() - wide - 12
            top = self.height() - 34.0 if four and place > 1 else 12.0
            box = QRectF(left, top, wide, 22)
            plate(painter, box, 4, "picture-badge")
            write(painter, box.adjusted(8, 0, -8, 0), name, "small", light, cut=Qt.TextElideMode.ElideMiddle)

    # --- input ------------------------------------------------------------------------------------------------------

    def move_wipe(self, to: QPointF) -> None:
        """Put it at a point of the picture, each from 0 to 1."""
        self.wipe = QPointF(min(1.0, max(0.0, to.x())), min(1.0, max(0.0, to.y())))
        self.update()

    def _wipe_to(self, at: QPointF) -> None:
        target = self._target()
        if not target.isEmpty():
            self.move_wipe(QPointF((at.x() - target.left()) / target.width(), (at.y() - target.top()) / target.height()))

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._wipe_to(event.position())
        else:
            self._pan = event.position()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._pan is not None:
            self._offset += event.position() - self._pan
            self._pan = event.position()
            self.update()
        elif event.buttons() & Qt.MouseButton.LeftButton:
            self._wipe_to(event.position())

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._pan = None

    def wheelEvent(self, event: QWheelEvent) -> None:
        before = self._zoom
        self._zoom = min(_LARGEST, max(1.0, before * 1.2 ** (event.angleDelta().y() / 120)))
        around = event.position() - QPointF(self.width() / 2, self.height() / 2)
        self._offset = QPointF() if self._zoom == 1.0 else (self._offset - around) * (self._zoom / before) + around
        self.update()
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        by = {
            Qt.Key.Key_Left: QPointF(-_STEP, 0),
            Qt.Key.Key_Right: QPointF(_STEP, 0),
            Qt.Key.Key_Up: QPointF(0, -_STEP),
            Qt.Key.Key_Down: QPointF(0, _STEP),
        }.get(Qt.Key(event.key()))
        if by is None:
            super().keyPressEvent(event)
        else:
            self.move_wipe(self.wipe + by)


def _fitted(target: QRectF, image: QImage) -> QRectF:
    """The largest place in the middle that has the shape of a picture."""
    size = QSizeF(image.size()).scaled(target.size(), Qt.AspectRatioMode.KeepAspectRatio)
    found = QRectF(QPointF(), size)
    found.moveCenter(target.center())
    return found


def _parts(target: QRectF, x: float, y: float, *, four: bool) -> list[QRectF]:
    """Where each of the pictures is seen."""
    left, top, right, bottom = target.left(), target.top(), target.right(), target.bottom()
    upper = [QRectF(QPointF(left, top), QPointF(x, y)), QRectF(QPointF(x, top), QPointF(right, y))]
    lower = [QRectF(QPointF(left, y), QPointF(x, bottom)), QRectF(QPointF(x, y), QPointF(right, bottom))]
    return upper + lower if four else upper
