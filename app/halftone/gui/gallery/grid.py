"""The grid of the gallery: pictures by day in lines as wide as the page. Only what is in sight is painted and read."""

from collections.abc import Mapping, Sequence
from datetime import date
from typing import Final

from PySide6.QtCore import QEvent, QMimeData, QPoint, QRect, QRectF, QSize, Qt, QUrl, Signal
from PySide6.QtGui import (
    QContextMenuEvent,
    QDrag,
    QFocusEvent,
    QImage,
    QImageReader,
    QKeyEvent,
    QKeySequence,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
    QPixmap,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QApplication, QFrame

from halftone.gui import icons, theme
from halftone.gui.background import Background
from halftone.gui.create.history_panel import day_name
from halftone.gui.gallery.justified import GAP, HEADING, Box, Heading, Justified
from halftone.gui.i18n import tr
from halftone.gui.kit import figures
from halftone.gui.kit.painting import plate, width_of, write
from halftone.gui.views.thumbnails import SIDE, Thumbnails, paint_glyph, paint_thumbnail, small
from halftone.session.pictures.gallery import thumbnails
from halftone.session.pictures.gallery_state import Rows

SIZES: Final = (120, 320)
"""Pixels that a line is high, at least and at most."""
USUAL: Final = 180
_MARGIN: Final = 20
_LARGE: Final = 640
"""Pixels of the longer side of a picture that a thumbnail would be too small for."""
_STEP: Final = 60
_EMPTY: Final = Rows()
_CTRL: Final = Qt.KeyboardModifier.ControlModifier
_SHIFT: Final = Qt.KeyboardModifier.ShiftModifier
_MOVES: Final[dict[int, tuple[int, int]]] = {
    Qt.Key.Key_Left: (-1, 0),
    Qt.Key.Key_Right: (1, 0),
    Qt.Key.Key_Up: (0, -1),
    Qt.Key.Key_Down: (0, 1),
}
"""Key -> pictures further, lines further."""


def pictures_words(count: int) -> str:
    """1 picture, 412 pictures."""
    return tr("{1} pictures", count, figures.group(count), one="{1} picture")


def as_files(paths: Sequence[str]) -> QMimeData:
    """Files as other programs take them from the clipboard or a drag."""
    made = QMimeData()
    made.setUrls([QUrl.fromLocalFile(path) for path in paths])
    return made


class SmallPictures:
    """Reads what the grid paints, on another thread. gone: numbers of pictures whose files are missing.

    A key is the number of a picture, with a plus where the thumbnail would be too small.
    """

    def __init__(self) -> None:
        self.gone: set[int] = set()

    def read(self, keys: Sequence[str]) -> Mapping[str, QImage]:
        found = dict[str, QImage]()
        for large in (False, True):
            numbers = [int(key.rstrip("+")) for key in keys if key.endswith("+") == large]
            for number, one in thumbnails(numbers, images=not large).items() if numbers else ():
                (self.gone.add if one.gone else self.gone.discard)(number)
                key = f"{number}{'+' if large else ''}"
                found[key] = _large(one.path) if large else small(QImage.fromData(one.image)) if one.image else QImage()
        return found


def _large(path: str) -> QImage:
    """The file, decoded no larger than it is shown."""
    reader = QImageReader(path)
    size = reader.size()
    if max(size.width(), size.height()) > _LARGE:
        reader.setScaledSize(size.scaled(QSize(_LARGE, _LARGE), Qt.AspectRatioMode.KeepAspectRatio))
    return reader.read()


class Grid(QAbstractScrollArea):
    """`selected`: the selection changed; `reached`: the picture with the keyboard changed; `opened`: a picture is to be seen
    large; `drag_wanted`: `drag_out` needs the selected files; `menu_requested`: with the place on the screen; `sized`: the wheel
    asks for another height of the lines.
    """

    selected = Signal()
    reached = Signal()
    opened = Signal()
    removed = Signal()
    copied = Signal()
    drag_wanted = Signal()
    menu_requested = Signal(QPoint)
    sized = Signal(int)

    def __init__(self, background: Background) -> None:
        super().__init__()
        self.pictures = SmallPictures()
        self.thumbnails = Thumbnails(background, self.pictures.read, self)
        self.thumbnails.arrived.connect(self.viewport().update)
        self._rows, self._wanted = _EMPTY, USUAL
        self.lines = Justified((), (), 1, USUAL)
        self._selected = set[int]()
        self._current = self._anchor = -1
        """Places: of the picture that has the keyboard, and of the one that a range begins with."""
        self._kept = (0, 0)
        """Numbers of the two, while the rest of the list is read."""
        self._hovered = -1
        self._pressed: QPoint | None = None
        self._band: QRect | None = None
        self._before = set[int]()
        self._click_selects = self._dragging = False
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setProperty("own-ring", True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
        self.verticalScrollBar().setSingleStep(_STEP)
        self.viewport().setMouseTracking(True)
        self.viewport().setAttribute(Qt.WidgetAttribute.WA_Hover)
        self.setAccessibleName(tr("Pictures"))

    # --- what is shown ----------------------------------------------------------------------------------------------

    @property
    def rows(self) -> Rows:
        return self._rows

    @property
    def current(self) -> int:
        """The place of the picture that has the keyboard, -1 for none."""
        return self._current

    @property
    def current_id(self) -> int:
        """Its number, 0 for none."""
        return self._rows.ids[self._current] if 0 <= self._current < len(self._rows) else 0

    def selection(self) -> list[int]:
        """The numbers of the selected pictures, in their order."""
        if len(self._selected) < 2:
            return list(self._selected)
        return [number for number in self._rows.ids if number in self._selected]

    def show_gone(self, number: int, *, gone: bool) -> None:
        """It was found out whether the file of a picture is missing."""
        if gone != (number in self.pictures.gone):
            (self.pictures.gone.add if gone else self.pictures.gone.discard)(number)
            self.viewport().update()

    @property
    def selection_count(self) -> int:
        return len(self._selected)

    def restore(self, numbers: Sequence[int]) -> None:
        """Select these again, as far as they are listed, and scroll to the first."""
        wanted = set(numbers)
        if wanted == self._selected:
            return  # each click comes back this way
        if (there := wanted.intersection(self._rows.ids)) and there != self._selected:
            place = self._anchor = self._place(next(number for number in numbers if number in there))
            self._go(place, there)
            self.show_place(place)

    def after_selection(self) -> int:
        """The number of the picture behind the last selected one, or before the first; 0 for none."""
        places = [place for place, number in enumerate(self._rows.ids) if number in self._selected]
        if not places:
            return 0
        return self._id(places[-1] + 1) or self._id(places[0] - 1)

    def select_number(self, number: int) -> None:
        """Select a picture by its number; none where it is not listed."""
        self.select_only(self._place(number))

    def show_rows(self, rows: Rows) -> None:
        """Show other pictures. What is selected stays, as far as it is among them, and so does what is in sight."""
        if rows is self._rows:
            return
        current, anchor = self.current_id or self._kept[0], self._id(self._anchor) or self._kept[1]
        top, offset = self._in_sight()
        self._rows = rows
        self._kept = (0, 0) if rows.whole else (current, anchor)
        if self._selected and rows.whole:
            self._selected.intersection_update(rows.ids)
        self._current, self._anchor, self._hovered = self._place(current), self._place(anchor), -1
        self._arrange()
        if offset is not None and (place := self._place(top)) >= 0:
            self.verticalScrollBar().setValue(self.lines.box(place).top - offset)
        elif not self.verticalScrollBar().isSliderDown():
            self.verticalScrollBar().setValue(0)

    def _in_sight(self) -> tuple[int, int | None]:
        """(the first picture in sight, its distance from the top); None at the top, where new ones are to appear."""
        value = self.verticalScrollBar().value()
        if not value:
            return 0, None
        first = next((one for one in self.lines.between(value, value + self.height()) if isinstance(one, Box)), None)
        return (self._rows.ids[first.place], first.top - value) if first is not None else (0, None)

    def _id(self, place: int) -> int:
        return self._rows.ids[place] if 0 <= place < len(self._rows) else 0

    def _place(self, number: int) -> int:
        try:
            return self._rows.ids.index(number)
        except ValueError:
            return -1

    def set_wanted(self, height: int) -> None:
        """The height of the lines; the picture at the top stays there."""
        if height != self._wanted:
            self._wanted = height
            self._arrange_again()

    def _arrange_again(self) -> None:
        top, offset = self._in_sight()
        self._arrange()
        if offset is not None and (place := self._place(top)) >= 0:
            self.verticalScrollBar().setValue(self.lines.box(place).top - offset)

    def _arrange(self) -> None:
        view = self.viewport()
        width = view.width() - 2 * _MARGIN
        self.lines = Justified(self._rows.days, self._rows.aspects, width, self._wanted, theme.grown(HEADING))
        bar = self.verticalScrollBar()
        bar.setPageStep(view.height())
        bar.setRange(0, max(0, self.lines.height + _MARGIN - view.height()))
        across, down = width // max(1, self._wanted // 2) + 1, view.height() // self._wanted + 2
        self.thumbnails.keep(across * down)
        view.update()

    def resizeEvent(self, event: QResizeEvent) -> None:
        if event.size().width() != event.oldSize().width():
            self._arrange_again()
        else:
            self.verticalScrollBar().setPageStep(self.viewport().height())
            self.verticalScrollBar().setRange(0, max(0, self.lines.height + _MARGIN - self.viewport().height()))

    def scrollContentsBy(self, dx: int, dy: int) -> None:
        self.viewport().scroll(0, dy)

    def show_place(self, place: int) -> None:
        """Scroll to a picture."""
        box, bar, high = self.lines.box(place), self.verticalScrollBar(), self.viewport().height()
        first = self.lines.line_of(place)
        above = self.lines.heading if first and not self.lines.has_pictures(first - 1) else GAP
        if box.top - above < bar.value():
            bar.setValue(box.top - above)
        elif box.top + box.height + GAP > bar.value() + high:
            bar.setValue(box.top + box.height + GAP - high)

    # --- painting ---------------------------------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        top = self.verticalScrollBar().value()
        painter.fillRect(event.rect(), theme.current().color("surface"))
        painter.translate(_MARGIN, -top)
        touched = event.rect().translated(0, top)
        today = date.today()
        for one in self.lines.between(touched.top() - GAP, touched.bottom() + GAP):
            self._paint_heading(painter, one, today) if isinstance(one, Heading) else self._paint_picture(painter, one)
        if self._band is not None:
            colour = theme.current().color("accent")
            painter.setPen(QPen(colour, 1))
            painter.setBrush(theme.current().color("accent", 0.15))
            painter.drawRect(self._band)
        painter.end()

    def _paint_heading(self, painter: QPainter, day: Heading, today: date) -> None:
        name = day_name(date.fromordinal(self._rows.days[day.place]), today)
        base = QRectF(0, day.top + 8, self.viewport().width(), self.lines.heading - 12)
        write(painter, base, name, "body-strong")
        count = pictures_words(day.pictures)
        write(painter, base.adjusted(width_of(name, "body-strong") + 10, 0, 0, 0), count, "small", "text-muted")

    def _paint_picture(self, painter: QPainter, box: Box) -> None:
        rect = QRectF(box.left, box.top, box.width, box.height)
        number, row = self._rows.ids[box.place], self._rows.row(box.place)
        image = self._image(number, box)
        gone = number in self.pictures.gone
        painter.setOpacity(0.35 if gone and not image.isNull() else 1.0)
        paint_thumbnail(painter, rect, image) if not image.isNull() else plate(painter, rect, 3, "surface-overlay")
        painter.setOpacity(1.0)
        happened = ("triangle-alert", "warn") if row.recovered else ("bandage", "ok") if row.cured else None
        glyph = ("image-off", "text") if gone else happened
        if glyph is not None:
            paint_glyph(painter, rect, *glyph)
        if row.video:
            disc = QRectF(rect.left() + 4, rect.bottom() - 22, 18, 18)
            plate(painter, disc, 4, "picture-badge")
            icons.paint(painter, "film", disc.adjusted(3, 3, -3, -3), theme.Theme("dark").color("text"))
        self._paint_frame(painter, rect, number, box.place)

    def _image(self, number: int, box: Box) -> QImage:
        """The thumbnail; once it is read, the picture itself where that would be too small."""
        if max(box.width, box.height) * self.devicePixelRatioF() > SIDE * 1.15 and number not in self.pictures.gone:
            large = self.thumbnails.get(f"{number}+")
            if not large.isNull():
                return large
        return self.thumbnails.get(str(number))

    def _paint_frame(self, painter: QPainter, rect: QRectF, number: int, place: int) -> None:
        colours = theme.current()
        painter.setBrush(Qt.BrushStyle.NoBrush)
        if number in self._selected:
            painter.setPen(QPen(colours.color("accent"), 3))
            painter.drawRoundedRect(rect.adjusted(-2, -2, 2, 2), 4, 4)
            painter.setPen(QPen(colours.color("surface"), 1.5))
            painter.drawRoundedRect(rect.adjusted(0, 0, 0, 0), 3, 3)
        elif place == self._hovered:
            painter.setPen(QPen(colours.color("border-control"), 1.5))
            painter.drawRoundedRect(rect.adjusted(-1, -1, 1, 1), 3, 3)
        if place == self._current and self.hasFocus() and self.window().testAttribute(Qt.WidgetAttribute.WA_KeyboardFocusChange):
            painter.setPen(QPen(colours.color("focus"), 2))
            painter.drawRoundedRect(rect.adjusted(-3, -3, 3, 3), 5, 5)

    # --- selection --------------------------------------------------------------------------------------------------

    def select_only(self, place: int) -> None:
        """Select one picture, with the keyboard on it."""
        self._anchor = place
        self._go(place, {self._rows.ids[place]} if place >= 0 else set())

    def select_all(self) -> None:
        self._go(max(0, self._current) if len(self._rows) else -1, set(self._rows.ids))

    def clear_selection(self) -> None:
        self._go(self._current, set())

    def _go(self, place: int, numbers: set[int]) -> None:
        changed, moved = numbers != self._selected, place != self._current
        self._selected, self._current = numbers, place
        self.viewport().update()
        if changed:
            self.selected.emit()
        if moved:
            self.reached.emit()

    def _range(self, place: int) -> set[int]:
        start = self._anchor if self._anchor >= 0 else place
        return set(self._rows.ids[min(start, place) : max(start, place) + 1])

    # --- mouse ------------------------------------------------------------------------------------------------------

    def _point(self, at: QPoint) -> QPoint:
        """From the widget to the grid."""
        return at + QPoint(-_MARGIN, self.verticalScrollBar().value())

    def place_at(self, at: QPoint) -> int:
        """The picture at a point of the widget, -1 for none."""
        point = self._point(at)
        return self.lines.at(point.x(), point.y())

    def mousePressEvent(self, event: QMouseEvent) -> None:
        at = event.position().toPoint()
        place = self.place_at(at)
        keys = event.modifiers()
        self._click_selects = False
        if event.button() == Qt.MouseButton.RightButton:
            if place >= 0 and self._rows.ids[place] not in self._selected:
                self.select_only(place)
            return
        if event.button() != Qt.MouseButton.LeftButton:
            return
        self._pressed = at
        if place < 0:
            self._before = set(self._selected) if keys & (_CTRL | _SHIFT) else set()
            self._band = QRect(self._point(at), QSize())
            self._go(self._current, set(self._before))
        elif keys & _SHIFT:
            self._go(place, self._range(place) | (self._selected if keys & _CTRL else set()))
        elif keys & _CTRL:
            self._anchor = place
            self._go(place, self._selected ^ {self._rows.ids[place]})
        elif self._rows.ids[place] in self._selected:
            self._click_selects = True  # unless the selected ones are dragged away
        else:
            self.select_only(place)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        at = event.position().toPoint()
        if self._band is not None:
            self._stretch(at)
        elif self._pressed is not None and event.buttons() & Qt.MouseButton.LeftButton:
            if (at - self._pressed).manhattanLength() >= QApplication.startDragDistance():
                self._pressed, self._click_selects, self._dragging = None, False, True
                self.drag_wanted.emit()
        elif (place := self.place_at(at)) != self._hovered:
            self._hovered = place
            self.viewport().setCursor(Qt.CursorShape.PointingHandCursor if place >= 0 else Qt.CursorShape.ArrowCursor)
            self.viewport().update()

    def _stretch(self, at: QPoint) -> None:
        """The rubber band follows the pointer, and the page where that leaves it."""
        if self._band is None:
            return
        bar, high = self.verticalScrollBar(), self.viewport().height()
        if at.y() < 0 or at.y() > high:
            bar.setValue(bar.value() + (at.y() if at.y() < 0 else at.y() - high))
        self._band.setBottomRight(self._point(at))
        band = self._band.normalized()
        touched = self.lines.within(band.left(), band.top(), band.right(), band.bottom())
        self._go(touched[-1] if touched else self._current, self._before | {self._rows.ids[place] for place in touched})

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        if event.button() != Qt.MouseButton.LeftButton:
            return
        place = self.place_at(event.position().toPoint())
        if self._band is not None:
            self._band = None
            self.viewport().update()
        elif self._click_selects and place >= 0:
            self.select_only(place)
        self._pressed, self._click_selects, self._dragging = None, False, False

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        if event.button() == Qt.MouseButton.LeftButton and self.place_at(event.position().toPoint()) >= 0:
            self.opened.emit()

    def leaveEvent(self, event: QEvent) -> None:
        if self._hovered >= 0:
            self._hovered = -1
            self.viewport().update()
        super().leaveEvent(event)

    def viewportEvent(self, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Leave:
            self.leaveEvent(event)
        return super().viewportEvent(event)

    def wheelEvent(self, event: QWheelEvent) -> None:
        if event.modifiers() & _CTRL:
            low, high = SIZES
            self.sized.emit(min(high, max(low, self._wanted + (20 if event.angleDelta().y() > 0 else -20))))
            event.accept()
        else:
            super().wheelEvent(event)

    def drag_out(self, paths: Sequence[str]) -> None:
        """Drag these files, unless the button was released before they were known."""
        if not paths or not self._dragging:
            return
        self._dragging = False
        drag = QDrag(self)
        drag.setMimeData(as_files(paths))
        image = self.thumbnails.get(str(self.current_id))
        if not image.isNull():
            ghost = image.scaled(QSize(96, 96), Qt.AspectRatioMode.KeepAspectRatio, Qt.TransformationMode.SmoothTransformation)
            drag.setPixmap(QPixmap.fromImage(ghost))
        drag.exec(Qt.DropAction.CopyAction)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        if not self._selected:
            return
        if event.reason() == QContextMenuEvent.Reason.Keyboard and self._current >= 0:
            box = self.lines.box(self._current)
            middle = QPoint(box.left + box.width // 2 + _MARGIN, box.top + box.height // 2 - self.verticalScrollBar().value())
            self.menu_requested.emit(self.viewport().mapToGlobal(middle))
        elif self.place_at(event.pos()) >= 0:
            self.menu_requested.emit(event.globalPos())

    # --- keys -------------------------------------------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:
        key, keys = event.key(), event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier
        if event.matches(QKeySequence.StandardKey.SelectAll):
            self.select_all()
        elif event.matches(QKeySequence.StandardKey.Copy) and self._selected:
            self.copied.emit()
        elif key in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space) and not keys and self._current >= 0:
            self.opened.emit()
        elif key == Qt.Key.Key_Space and keys == _CTRL and self._current >= 0:
            self._anchor = self._current
            self._go(self._current, self._selected ^ {self.current_id})
        elif key == Qt.Key.Key_Delete and not keys and self._selected:
            self.removed.emit()
        elif (place := self._target(key)) >= 0:
            self._move(place, keys)
        else:
            super().keyPressEvent(event)

    def _target(self, key: int) -> int:
        """The place that a key leads to, -1 for another key."""
        last = len(self._rows) - 1
        if last < 0:
            return -1
        ends = {Qt.Key.Key_Home: 0, Qt.Key.Key_End: last}
        if key in ends:
            return ends[Qt.Key(key)]
        page = max(1, self.viewport().height() // (self._wanted + GAP) - 1)
        moves = {**_MOVES, Qt.Key.Key_PageUp: (0, -page), Qt.Key.Key_PageDown: (0, page)}
        if key not in moves:
            return -1
        if self._current < 0:
            return 0
        by, lines = moves[key]
        return min(last, max(0, self._current + by)) if by else self.lines.beside(self._current, lines)

    def _move(self, place: int, keys: Qt.KeyboardModifier) -> None:
        self.window().setAttribute(Qt.WidgetAttribute.WA_KeyboardFocusChange)
        if keys & _SHIFT:
            if self._anchor < 0:
                self._anchor = max(0, self._current)
            self._go(place, self._range(place))
        elif keys & _CTRL:
            self._go(place, self._selected)
        else:
            self.select_only(place)
        self.show_place(place)

    def step(self, by: int) -> bool:
        """Select the next or the previous picture; whether there is one."""
        place = self._current + by
        if not 0 <= place < len(self._rows):
            return False
        self.select_only(place)
        self.show_place(place)
        return True

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Tab shows where the keyboard is: at the first picture, until it was at another."""
        super().focusInEvent(event)
        if self._current < 0 and event.reason() in (Qt.FocusReason.TabFocusReason, Qt.FocusReason.BacktabFocusReason):
            self._current = min(0, len(self._rows) - 1)
        self.viewport().update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        super().focusOutEvent(event)
        self.viewport().update()
