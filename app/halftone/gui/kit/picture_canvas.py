"""The picture on neutral grey: zoom, pan, smooth below 100 %, nearest above 300 %; holding B shows what came out before."""

from typing import Final

from PySide6.QtCore import QPointF, QRectF, QSizeF, Qt, Signal
from PySide6.QtGui import (
    QImage,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPainterPath,
    QPaintEvent,
    QPixmap,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from halftone.gui import theme
from halftone.gui.i18n import tr
from halftone.gui.kit.actions import pressed

SMALLEST: Final = 0.05
LARGEST: Final = 16.0
_WHEEL: Final = 1.2
_FIT_LARGEST: Final = 3.0
"""Fit enlarges a small picture at most so far: beyond, one sees squares and no picture."""


class CanvasView(QWidget):
    """Shows one picture. `fit` follows the size of the window until the user zooms."""

    zoomed = Signal(float)
    step_requested = Signal(int)
    delete_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._image = QImage()
        self._before = QImage()
        self._show_before = False
        self._pixmap = QPixmap()
        self._pixmap_key: tuple[int, int, int] | None = None
        self._nominal = QSizeF()
        self._fit = True
        self._zoom = 1.0
        self._offset = QPointF()
        self._drag: QPointF | None = None
        self.setMinimumSize(200, 120)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName(tr("Picture"))

    # --- what is shown ----------------------------------------------------------------------------------------------

    def set_image(self, image: QImage, nominal: tuple[int, int] | None = None) -> None:
        """Show a picture. nominal: the size it stands for, where a preview has fewer pixels than the picture will have."""
        size = QSizeF(*nominal) if nominal is not None else QSizeF(image.size())
        if size == self._nominal and image.cacheKey() == self._image.cacheKey():
            return
        if size != self._nominal:
            self._nominal = size
            self._offset = QPointF()
        self._image = image
        self._pixmap_key = None
        self._tell()
        self.update()

    def set_before(self, image: QImage) -> None:
        """What came out before the recovery, for holding B; a null image takes it away."""
        if image.cacheKey() != self._before.cacheKey():
            self._before = image
            self._show_before = False
            self.update()

    def image(self) -> QImage:
        return self._image

    def clear(self) -> None:
        self._image = QImage()
        self._before = QImage()
        self._nominal = QSizeF()
        self._pixmap_key = None
        self.update()

    # --- zoom -------------------------------------------------------------------------------------------------------

    def fit(self) -> None:
        """The whole picture, with a margin of 20."""
        self._fit = True
        self._offset = QPointF()
        self._tell()
        self.update()

    def zoom(self) -> float:
        """Screen pixels per picture pixel (1.0: 100 %)."""
        return self._fitting() if self._fit else self._zoom

    def set_zoom(self, zoom: float, around: QPointF | None = None) -> None:
        """Zoom so that the point under `around` (widget coordinates) stays where it is."""
        before = self.zoom()
        zoom = min(LARGEST, max(SMALLEST, zoom))
        centre = QPointF(self.width() / 2, self.height() / 2)
        anchor = around if around is not None else centre
        self._offset = (self._offset - (anchor - centre)) * (zoom / before) + (anchor - centre)
        self._fit = False
        self._zoom = zoom
        self._tell()
        self.update()

    def _fitting(self) -> float:
        if self._nominal.isEmpty():
            return 1.0
        margin = theme.current().px("layout.picture-margin") * 2
        across = max(40.0, self.width() - margin) / self._nominal.width()
        down = max(40.0, self.height() - margin) / self._nominal.height()
        return min(_FIT_LARGEST, across, down)

    def _tell(self) -> None:
        self.zoomed.emit(self.zoom())

    # --- painting ---------------------------------------------------------------------------------------------------

    def picture_rect(self) -> QRectF:
        """Return the place of the picture, in widget coordinates."""
        zoom = self.zoom()
        size = self._nominal * zoom
        centre = QPointF(self.width() / 2, self.height() / 2) + self._offset
        left = round(centre.x() - size.width() / 2)
        top = round(centre.y() - size.height() / 2)
        return QRectF(left, top, round(size.width()), round(size.height()))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(self.rect(), theme.current().color("canvas"))
        image = self._before if self._show_before and not self._before.isNull() else self._image
        if not image.isNull():
            self._paint_image(painter, image, self.picture_rect())
        painter.end()

    def _paint_image(self, painter: QPainter, image: QImage, target: QRectF) -> None:
        path = QPainterPath()
        path.addRoundedRect(target, 2, 2)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setClipPath(path)
        ratio = self.devicePixelRatioF()
        wanted = (round(target.width() * ratio), round(target.height() * ratio))
        if wanted[0] < image.width():
            painter.drawPixmap(target.topLeft(), self._scaled(image, wanted, ratio))
            return
        smooth = target.width() * ratio / image.width() <= 3.01 or image.width() < self._nominal.width()
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, smooth)
        painter.drawImage(target, image)

    def _scaled(self, image: QImage, wanted: tuple[int, int], ratio: float) -> QPixmap:
        """A reduced picture, kept until the size or the picture changes: smooth reduction is not for every paint."""
        key = (image.cacheKey(), *wanted)
        if key != self._pixmap_key:
            small = image.scaled(*wanted, Qt.AspectRatioMode.IgnoreAspectRatio, Qt.TransformationMode.SmoothTransformation)
            self._pixmap = QPixmap.fromImage(small)
            self._pixmap.setDevicePixelRatio(ratio)
            self._pixmap_key = key
        return self._pixmap

    # --- input ------------------------------------------------------------------------------------------------------

    def wheelEvent(self, event: QWheelEvent) -> None:
        turns = event.angleDelta().y() / 120
        if turns and not self._image.isNull():
            self.set_zoom(self.zoom() * _WHEEL**turns, event.position())
            event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.setFocus(Qt.FocusReason.MouseFocusReason)
        if event.button() in (Qt.MouseButton.LeftButton, Qt.MouseButton.MiddleButton) and not self._image.isNull():
            self._drag = event.position()
            self.setCursor(Qt.CursorShape.ClosedHandCursor)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._drag is None:
            return
        if self._fit:
            self._zoom = self._fitting()
            self._fit = False
        self._offset += event.position() - self._drag
        self._drag = event.position()
        self.update()

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        self._drag = None
        self.unsetCursor()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        if self._fit:
            self.set_zoom(1.0, event.position())
        else:
            self.fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        match pressed(event, "fit", "actual-size", "previous", "next", "delete", "before"):
            case "fit":
                self.fit()
            case "actual-size":
                self.set_zoom(1.0)
            case "previous":
                self.step_requested.emit(-1)
            case "next":
                self.step_requested.emit(1)
            case "delete":
                self.delete_requested.emit()
            case "before" if not self._before.isNull():
                self._set_show_before(True)
            case _:
                super().keyPressEvent(event)

    def keyReleaseEvent(self, event: QKeyEvent) -> None:
        if not event.isAutoRepeat():
            self._set_show_before(False)
        super().keyReleaseEvent(event)

    def _set_show_before(self, on: bool) -> None:
        if on != self._show_before:
            self._show_before = on
            self.update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        if self._fit:
            self._tell()
