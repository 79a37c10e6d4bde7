"""The canvas while the start picture is edited: a mask is painted on it, and its edges are dragged to extend it."""

from collections.abc import Sequence
from typing import Final

from PySide6.QtCore import QEvent, QPointF, QRect, QRectF, QSizeF, Qt, Signal
from PySide6.QtGui import QColor, QFocusEvent, QImage, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen, QWheelEvent
from PySide6.QtWidgets import QWidget

from halftone.contract.limits import SIZE_MULTIPLE
from halftone.gui import theme
from halftone.gui.create.picture.painted_mask import EDGE, PaintedMask
from halftone.gui.i18n import tr
from halftone.gui.kit.actions import ActionName, pressed, takes_escape
from halftone.gui.kit.painting import Painted, plate
from halftone.gui.kit.picture_canvas import CanvasView
from halftone.session.pictures.outpainting import GRIPS, Grip, Sides, dragged, extended

BRUSH: Final = (1, 100)
"""The width of the brush, in hundredths of the picture's longer edge."""
_GRIP: Final = 22
"""Pixels that a grip can be taken in; it is drawn smaller."""
_BUTTONS: Final = (Qt.MouseButton.LeftButton, Qt.MouseButton.RightButton)
_CURSORS: Final = {
    (0, 1): Qt.CursorShape.SizeVerCursor,
    (1, 0): Qt.CursorShape.SizeHorCursor,
    (1, 1): Qt.CursorShape.SizeFDiagCursor,
    (1, -1): Qt.CursorShape.SizeBDiagCursor,
}
_KEYS: Final = {
    Qt.Key.Key_Left: (-1, 0),
    Qt.Key.Key_Right: (1, 0),
    Qt.Key.Key_Up: (0, -1),
    Qt.Key.Key_Down: (0, 1),
}


class SideGrip(Painted):
    """An edge or a corner of the picture, to be dragged or moved with the arrow keys. `moved`: by so many pixels of the window
    since it was taken; `stepped`: by so many multiples; `taken` and `left`: a drag begins and ends.
    """

    taken = Signal()
    moved = Signal(QPointF)
    stepped = Signal(int, int)
    left = Signal()

    def __init__(self, grip: Grip, parent: QWidget) -> None:
        super().__init__(parent)
        self.grip = grip
        self._from: QPointF | None = None
        self.setFixedSize(_GRIP, _GRIP)
        across, down = grip
        turned = across * down < 0
        self.setCursor(_CURSORS[abs(across), -abs(down) if turned else abs(down)])
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        names = {
            (-1, -1): tr("Top left"), (0, -1): tr("Top"), (1, -1): tr("Top right"), (1, 0): tr("Right"),
            (1, 1): tr("Bottom right"), (0, 1): tr("Bottom"), (-1, 1): tr("Bottom left"), (-1, 0): tr("Left"),
        }  # fmt: skip
        self.setAccessibleName(tr("Outpaint: {0}", names[grip]))
        self.setToolTip(tr("Outpaint: drag, or use the arrow keys."))

    def draw(self, painter: QPainter) -> None:
        across, down = self.grip
        size = QSizeF(10, 10) if across and down else QSizeF(8, 20) if across else QSizeF(20, 8)
        box = QRectF(QPointF((self.width() - size.width()) / 2, (self.height() - size.height()) / 2), size)
        edge = "accent" if self.hasFocus() or self._from is not None else "#17191C"
        plate(painter, box.adjusted(0.5, 0.5, -0.5, -0.5), 3, QColor("#FFFFFF"), QColor(edge) if edge[0] == "#" else edge, 1.5)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton:
            self._from = event.globalPosition()
            self.taken.emit()
            self.update()

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._from is not None:
            self.moved.emit(event.globalPosition() - self._from)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self._from is not None:
            self._from = None
            self.left.emit()
            self.update()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if event.key() in _KEYS:
            self.stepped.emit(*_KEYS[Qt.Key(event.key())])
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        self.update()


class EditCanvas(CanvasView):
    """`painted`: the mask has changed, by a stroke or as a whole; `brush_changed`: its width; `erasing_changed`: the tool;
    `extended`: the pixels that are added at the sides; `left`: the user wants no more.
    """

    painted = Signal()
    brush_changed = Signal(int)
    erasing_changed = Signal(bool)
    extended = Signal(object)
    left = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.painting = PaintedMask(self._image.size())
        self.sides: Sides = (0, 0, 0, 0)
        self.brush = 8
        self.erasing = False
        self._at = QPointF()
        self._stroke: bool | None = None
        """Whether the present stroke erases; None while there is none."""
        self._hovered = False
        self._taken: tuple[Sides, float, bool] | None = None
        """What a drag of an edge began with: the sides, the zoom, and whether the picture was fitted to the window."""
        self.setMouseTracking(True)
        self.setCursor(Qt.CursorShape.CrossCursor)
        self.setAccessibleName(tr("Mask"))
        self.setAccessibleDescription(tr("Arrow keys move, Space paints, [ and ] resize the brush."))
        self.grips = [SideGrip(grip, self) for grip in GRIPS]
        for grip in self.grips:
            grip.taken.connect(self._take)
            grip.moved.connect(lambda by, grip=grip: self._drag_side(grip.grip, by))
            grip.stepped.connect(lambda x, y, grip=grip: self._step_side(grip.grip, (x * SIZE_MULTIPLE, y * SIZE_MULTIPLE)))
            grip.left.connect(self._leave)
        self.zoomed.connect(lambda _zoom: self._place_grips())

    # --- what is edited ---------------------------------------------------------------------------------------------

    def edit(self, picture: QImage, mask: QImage) -> None:
        """Begin with a picture and its mask, which may be null."""
        self.painting = PaintedMask(picture.size(), mask)
        self.sides = (0, 0, 0, 0)
        self.set_image(picture)
        self._at = QPointF(picture.width() / 2, picture.height() / 2)
        self.fit()

    def set_mask(self, mask: QImage) -> None:
        """Take another mask for the same picture."""
        self.painting = PaintedMask(self._image.size(), mask)
        self.update()

    def set_sides(self, sides: Sides) -> None:
        """Extend the picture. What is seen of it stays where it is while an edge is dragged or the user has zoomed."""
        if sides == self.sides or self._image.isNull():
            return
        left, top, right, bottom = (new - old for new, old in zip(sides, self.sides, strict=True))
        self.sides = sides
        self._nominal = QSizeF(*extended(self._size, sides))
        if not self._fit:
            self._offset += QPointF(right - left, bottom - top) * self._zoom / 2
        self._tell()
        self.update()

    @property
    def _size(self) -> tuple[int, int]:
        return self._image.width(), self._image.height()

    # --- places -----------------------------------------------------------------------------------------------------

    def own_rect(self) -> QRectF:
        """Return the place of the picture without what is added to it."""
        whole, zoom = self.picture_rect(), self.zoom()
        left, top, right, bottom = (side * zoom for side in self.sides)
        return whole.adjusted(left, top, -right, -bottom)

    def _on_picture(self, point: QPointF) -> QPointF:
        """Convert a place on the widget to one on the picture."""
        box = self.own_rect()
        across, down = self._image.width() / max(1.0, box.width()), self._image.height() / max(1.0, box.height())
        return QPointF((point.x() - box.left()) * across, (point.y() - box.top()) * down)

    def _on_widget(self, box: QRect | QRectF) -> QRectF:
        """Convert a part of the picture to one of the widget."""
        own = self.own_rect()
        across, down = own.width() / max(1, self._image.width()), own.height() / max(1, self._image.height())
        corner = QPointF(own.left() + box.left() * across, own.top() + box.top() * down)
        return QRectF(corner, QSizeF(box.width() * across, box.height() * down))

    def _place_grips(self) -> None:
        box = self.picture_rect()
        for grip in self.grips:
            across, down = grip.grip
            x = box.center().x() + across * box.width() / 2
            y = box.center().y() + down * box.height() / 2
            grip.move(round(x - _GRIP / 2), round(y - _GRIP / 2))

    def resizeEvent(self, event: object) -> None:
        super().resizeEvent(event)  # pyright: ignore[reportArgumentType]
        self._place_grips()

    # --- painting ---------------------------------------------------------------------------------------------------

    @property
    def width_of_brush(self) -> float:
        """The width in pixels of the picture."""
        return max(1.0, max(self._size) * self.brush / BRUSH[1])

    def set_brush(self, size: int) -> None:
        """Set the width of the brush in hundredths of the longer edge."""
        size = max(BRUSH[0], min(BRUSH[1], size))
        if size != self.brush:
            self._repaint_brush()
            self.brush = size
            self.brush_changed.emit(size)
            self._repaint_brush()

    def set_erasing(self, on: bool) -> None:
        if on != self.erasing:
            self.erasing = on
            self.erasing_changed.emit(on)

    def change(self, change: str) -> None:
        """Do one of "undo", "redo", "fill", "invert" and "clear" to the mask."""
        match change:
            case "undo":
                self.painting.undo()
            case "redo":
                self.painting.redo()
            case "invert":
                self.painting.invert()
            case _:
                self.painting.fill(255 if change == "fill" else 0)
        self.painted.emit()
        self.update()

    def _begin(self, at: QPointF, *, erase: bool) -> None:
        self._move_brush(at)
        self._stroke = erase
        self.painting.begin()
        self._draw(at, at)

    def _draw(self, begin: QPointF, end: QPointF) -> None:
        changed = self.painting.draw(begin, end, self.width_of_brush, erase=bool(self._stroke))
        self.update(self._on_widget(changed).toAlignedRect().adjusted(-EDGE, -EDGE, EDGE, EDGE))

    def _move_brush(self, to: QPointF) -> None:
        self._repaint_brush()
        before, self._at = self._at, to
        if self._stroke is not None:
            self._draw(before, to)
        self._repaint_brush()

    def _finish(self) -> None:
        if self._stroke is not None:
            self._stroke = None
            self.painting.finish()
            self.painted.emit()

    def _brush_rect(self) -> QRectF:
        radius = self.width_of_brush / 2
        return self._on_widget(QRectF(self._at.x() - radius, self._at.y() - radius, radius * 2, radius * 2))

    def _repaint_brush(self) -> None:
        self.update(self._brush_rect().toAlignedRect().adjusted(-EDGE, -EDGE, EDGE, EDGE))

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self)
        painter.fillRect(event.rect(), theme.current().color("canvas"))
        if not self._image.isNull():
            self._paint_added(painter)
            own = self.own_rect()
            painter.save()
            self._paint_image(painter, self._image, own)
            painter.restore()
            self._paint_mask(painter, event.rect(), own)
            if self._hovered or self.hasFocus():
                self._paint_brush(painter)
        painter.end()

    def _paint_added(self, painter: QPainter) -> None:
        """Paint what will be added around the picture, with a dashed edge."""
        if any(self.sides):
            colours, box = theme.current(), self.picture_rect()
            painter.fillRect(box, colours.color("surface-raised"))
            painter.setPen(QPen(colours.color("text-muted"), 1, Qt.PenStyle.DashLine))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(box.adjusted(0.5, 0.5, -0.5, -0.5))

    def _paint_mask(self, painter: QPainter, exposed: QRect, own: QRectF) -> None:
        """Tint what is exposed and no more: a stroke on a large picture costs no more than on a small one."""
        ratio = self.devicePixelRatioF()
        around = QRectF(exposed).adjusted(-EDGE, -EDGE, EDGE, EDGE) & QRectF(own.toAlignedRect())
        if around.isEmpty():
            return
        corner, opposite = self._on_picture(around.topLeft()), self._on_picture(around.bottomRight())
        size = (around.size() * ratio).toSize()
        shown = self.painting.shown(QRectF(corner, opposite), size)
        painter.drawImage(around, shown)

    def _paint_brush(self, painter: QPainter) -> None:
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setBrush(Qt.BrushStyle.NoBrush)
        box = self._brush_rect()
        for ink, width in (("#000000", 3.0), ("#FFFFFF", 1.2)):
            painter.setPen(QPen(QColor(ink), width))
            painter.drawEllipse(box)

    # --- sides ------------------------------------------------------------------------------------------------------

    def _take(self) -> None:
        self._taken = self.sides, self.zoom(), self._fit
        self._zoom, self._fit = self.zoom(), False

    def _drag_side(self, grip: Grip, by: QPointF) -> None:
        if self._taken is not None:
            sides, zoom, _ = self._taken
            self._extend(dragged(sides, self._size, grip, (by.x() / zoom, by.y() / zoom)))

    def _step_side(self, grip: Grip, by: tuple[int, int]) -> None:
        self._extend(dragged(self.sides, self._size, grip, by))

    def _extend(self, sides: Sides) -> None:
        if sides != self.sides:
            self.set_sides(sides)
            self.extended.emit(sides)

    def _leave(self) -> None:
        """Fit the picture to the window again, with what was added, if it was fitted before."""
        if self._taken is not None and self._taken[2]:
            self.fit()
        self._taken = None

    def set_extends(self, on: bool) -> None:
        """Whether the model in use can extend pictures."""
        for grip in self.grips:
            grip.setVisible(on)

    # --- input ------------------------------------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        self.setFocus(Qt.FocusReason.MouseFocusReason)
        pans = event.button() == Qt.MouseButton.MiddleButton or event.modifiers() & Qt.KeyboardModifier.ShiftModifier
        if pans:
            super().mousePressEvent(event)
        elif event.button() in _BUTTONS and not self._image.isNull():
            self._begin(self._on_picture(event.position()), erase=self.erasing or event.button() == Qt.MouseButton.RightButton)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        if self._drag is not None:
            super().mouseMoveEvent(event)
            self._place_grips()
        elif not self._image.isNull():
            self._move_brush(self._on_picture(event.position()))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if self._drag is not None:
            super().mouseReleaseEvent(event)
            self.setCursor(Qt.CursorShape.CrossCursor)
        self._finish()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Paint the second of two quick dots."""
        self.mousePressEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if event.modifiers() & Qt.KeyboardModifier.ControlModifier:
            self.set_brush(self.brush + (1 if event.angleDelta().y() > 0 else -1))
            event.accept()
        else:
            super().wheelEvent(event)

    def event(self, event: QEvent) -> bool:
        """Let Esc end the editing here; elsewhere it cancels the running job."""
        return takes_escape(event) or super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        match event.key():
            case Qt.Key.Key_Space if not event.isAutoRepeat():
                self._begin(self._at, erase=self.erasing)
            case Qt.Key.Key_Space:
                pass
            case Qt.Key.Key_Escape:
                self.left.emit()
            case key if key in _KEYS:
                self._step_brush(_KEYS[Qt.Key(key)])
            case _:
                if not self._set_tool(pressed(event, "brush-smaller", "brush-larger", "brush", "eraser")):
                    super().keyPressEvent(event)

    def _set_tool(self, wanted: ActionName | None) -> bool:
        """Change the brush as the key of an action says; False for no such key."""
        match wanted:
            case "brush-smaller" | "brush-larger":
                self.set_brush(self.brush + (1 if wanted == "brush-larger" else -1))
            case "brush" | "eraser":
                self.set_erasing(wanted == "eraser" and not self.erasing)
            case _:
                return False
        return True

    def _step_brush(self, by: Sequence[int]) -> None:
        step = self.width_of_brush / 2
        place = self._at + QPointF(*by) * step
        self._move_brush(QPointF(min(max(place.x(), 0.0), float(self._size[0])), min(max(place.y(), 0.0), float(self._size[1]))))

    def keyReleaseEvent(self, event: QKeyEvent) -> None:
        if event.key() == Qt.Key.Key_Space and not event.isAutoRepeat():
            self._finish()
        else:
            super().keyReleaseEvent(event)

    def enterEvent(self, event: object) -> None:
        self._hovered = True
        self._repaint_brush()

    def leaveEvent(self, event: object) -> None:
        self._hovered = False
        self._repaint_brush()
