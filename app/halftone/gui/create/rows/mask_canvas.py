"""A picture under a mask that is painted on it: with the mouse or a pen, or with the arrow keys and Space."""

from typing import Final

from PySide6.QtCore import QLineF, QPointF, QRectF, QSizeF, Qt, Signal
from PySide6.QtGui import (
    QBrush,
    QColor,
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from halftone.gui import theme
from halftone.gui.i18n import tr

BRUSH: Final = (1, 100)
"""Its width, in hundredths of the picture's longer edge."""
_UNDO: Final = 30
"""Strokes that can be taken back."""
_SHOWN: Final = 0.55
"""How strongly the mask covers the picture."""


class MaskCanvas(QWidget):
    """Its mask is Grayscale8 of the picture's size, 255 where it was painted. `changed`: by a stroke, or as a whole."""

    changed = Signal()
    resized_brush = Signal(int)

    def __init__(self, picture: QImage, mask: QImage | None = None) -> None:
        super().__init__()
        self._picture = picture
        self._small = QPixmap()
        self._mask = QImage(picture.size(), QImage.Format.Format_Grayscale8)
        self._mask.fill(0)
        if mask is not None and not mask.isNull():
            scaled = mask.scaled(picture.size(), Qt.AspectRatioMode.IgnoreAspectRatio, Qt.TransformationMode.SmoothTransformation)
            self._mask = scaled.convertToFormat(QImage.Format.Format_Grayscale8)
        self._before: list[QImage] = []
        self._at = QPointF(picture.width() / 2, picture.height() / 2)
        self._stroke = False
        self.brush = 8
        self.erasing = False
        self.setMinimumSize(240, 160)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setMouseTracking(True)
        self.setCursor(Qt.CursorShape.CrossCursor)
        self.setAccessibleName(tr("Mask"))
        self.setAccessibleDescription(tr("Arrow keys move, Space paints, [ and ] resize the brush."))

    # --- the mask ---------------------------------------------------------------------------------------------------

    def painted_mask(self) -> QImage:
        return self._mask

    def is_empty(self) -> bool:
        """Nothing was painted."""
        bits = bytes(self._mask.constBits())
        return not any(bits)

    def can_undo(self) -> bool:
        return bool(self._before)

    def undo(self) -> None:
        if self._before:
            self._mask = self._before.pop()
            self._announce()

    def clear(self) -> None:
        self._keep()
        self._mask.fill(0)
        self._announce()

    def invert(self) -> None:
        self._keep()
        self._mask.invertPixels()
        self._announce()

    def _keep(self) -> None:
        self._before = [*self._before[-_UNDO + 1 :], self._mask.copy()]

    def _announce(self) -> None:
        self.changed.emit()
        self.update()

    def _width(self) -> float:
        """The width of the brush, in pixels of the picture."""
        return max(1.0, max(self._picture.width(), self._picture.height()) * self.brush / BRUSH[1])

    def set_brush(self, size: int) -> None:
        """Set the brush size in hundredths of the longer edge."""
        size = max(BRUSH[0], min(BRUSH[1], size))
        if size != self.brush:
            self.brush = size
            self.resized_brush.emit(size)
            self.update()

    def paint_to(self, place: QPointF, *, begin: bool) -> None:
        """Draw from where the brush is to a place of the picture (in its pixels). begin: a stroke of its own, which is a dot."""
        if begin:
            self._keep()
            self._at = place
        painter = QPainter(self._mask)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        ink = QColor(0, 0, 0) if self.erasing else QColor(255, 255, 255)
        painter.setPen(QPen(QBrush(ink), self._width(), Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
        if place == self._at:
            painter.drawPoint(place)
        else:
            painter.drawLine(QLineF(self._at, place))
        painter.end()
        self._at = place
        self.update()

    # --- painting ---------------------------------------------------------------------------------------------------

    def picture_rect(self) -> QRectF:
        """Return the place of the picture, in widget coordinates."""
        size = QSizeF(self._picture.size()).scaled(QSizeF(self.size()), Qt.AspectRatioMode.KeepAspectRatio)
        return QRectF(QPointF((self.width() - size.width()) / 2, (self.height() - size.height()) / 2), size)

    def _place(self, point: QPointF) -> QPointF:
        """From the widget to the picture."""
        box = self.picture_rect()
        return (point - box.topLeft()) * (self._picture.width() / max(1.0, box.width()))

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, box = theme.current(), self.picture_rect()
        painter = QPainter(self)
        painter.fillRect(self.rect(), colours.color("canvas"))
        painter.drawPixmap(box.topLeft(), self._reduced(box))
        painter.drawImage(box, tinted(self._mask.scaled(box.size().toSize())))
        scale = box.width() / self._picture.width()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        radius = self._width() * scale / 2
        middle = box.topLeft() + self._at * scale
        for ink, width in ((QColor(0, 0, 0), 3.0), (QColor(255, 255, 255), 1.2)):
            painter.setPen(QPen(ink, width))
            painter.drawEllipse(middle, radius, radius)
        painter.end()

    def _reduced(self, box: QRectF) -> QPixmap:
        """The picture in the size it is shown in, kept until that changes."""
        ratio = self.devicePixelRatioF()
        wanted = (box.size() * ratio).toSize()
        if self._small.size() != wanted:
            small = self._picture.scaled(wanted, Qt.AspectRatioMode.IgnoreAspectRatio, Qt.TransformationMode.SmoothTransformation)
            self._small = QPixmap.fromImage(small)
            self._small.setDevicePixelRatio(ratio)
        return self._small

    # --- input ------------------------------------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._stroke = True
            self.paint_to(self._place(event.position()), begin=True)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._stroke:
            self.paint_to(self._place(event.position()), begin=False)
        else:
            self._at = self._place(event.position())
            self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self._stroke:
            self._stroke = False
            self._announce()

    def wheelEvent(self, event: QWheelEvent) -> None:
        self.set_brush(self.brush + (1 if event.angleDelta().y() > 0 else -1))
        event.accept()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        step = self._width() / 2
        moves = {
            Qt.Key.Key_Left: QPointF(-step, 0),
            Qt.Key.Key_Right: QPointF(step, 0),
            Qt.Key.Key_Up: QPointF(0, -step),
            Qt.Key.Key_Down: QPointF(0, step),
        }
        match event.key():
            case Qt.Key.Key_Space if not event.isAutoRepeat():
                self._stroke = True
                self.paint_to(self._at, begin=True)
            case Qt.Key.Key_BracketLeft:
                self.set_brush(self.brush - 1)
            case Qt.Key.Key_BracketRight:
                self.set_brush(self.brush + 1)
            case key if key in moves:
                self._moved(moves[Qt.Key(key)])
            case _:
                super().keyPressEvent(event)

    def _moved(self, by: QPointF) -> None:
        place = self._at + by
        place = QPointF(
            min(max(place.x(), 0.0), float(self._picture.width())), min(max(place.y(), 0.0), float(self._picture.height()))
        )
        if self._stroke:
            self.paint_to(place, begin=False)
        else:
            self._at = place
            self.update()

    def keyReleaseEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Space and not event.isAutoRepeat() and self._stroke:
            self._stroke = False
            self._announce()
        else:
            super().keyReleaseEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.update()


def tinted(mask: QImage) -> QImage:
    """A mask in the accent's colour, see-through where it is black and a little where it is white."""
    cover = QImage(mask.size(), QImage.Format.Format_ARGB32_Premultiplied)
    cover.fill(theme.current().color("accent"))
    cover.setAlphaChannel(mask.convertToFormat(QImage.Format.Format_Grayscale8))
    made = QImage(mask.size(), QImage.Format.Format_ARGB32_Premultiplied)
    made.fill(0)
    painter = QPainter(made)
    painter.setOpacity(_SHOWN)
    painter.drawImage(0, 0, cover)
    painter.end()
    return made
