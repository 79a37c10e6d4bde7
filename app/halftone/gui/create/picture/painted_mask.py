"""The mask of a picture while it is painted, and how it is shown over the picture."""

from typing import Final, NamedTuple, cast

from PySide6.QtCore import QLineF, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QBrush, QColor, QImage, QPainter, QPen

from halftone.gui import theme

_UNDO: Final = 60
"""Strokes that can be taken back."""
_UNDO_BYTES: Final = 2**28
"""The most memory of what was there before them; the last one is kept in any case."""
_SHOWN: Final = 0.5
"""How strongly the mask covers the picture."""
_RINGS: Final[tuple[tuple[str, tuple[tuple[int, int], ...]], ...]] = (
    ("#000000", ((-3, 0), (3, 0), (0, -3), (0, 3), (-2, -2), (2, -2), (-2, 2), (2, 2))),
    ("#FFFFFF", ((-2, 0), (2, 0), (0, -2), (0, 2), (-1, -1), (1, -1), (-1, 1), (1, 1))),
)
"""The edge, dark outside and bright inside, so that it is seen on any picture: colour and shifts in device pixels."""
EDGE: Final = 4
"""Device pixels around a place in which its edge may be drawn."""


class _Step(NamedTuple):
    """A change of the mask: where, and what was there before and after. An inversion needs no copies."""

    place: QRect
    before: QImage | None = None
    after: QImage | None = None

    @property
    def bytes(self) -> int:
        return sum(image.sizeInBytes() for image in (self.before, self.after) if image is not None)


def stroke_box(begin: QPointF, end: QPointF, width: float, size: QSize) -> QRect:
    """The pixels that a stroke can change, within a picture of this size."""
    reach = width / 2 + 1
    box = QRectF(begin, end).normalized().adjusted(-reach, -reach, reach, reach)
    return box.toAlignedRect() & QRect(0, 0, size.width(), size.height())


class PaintedMask:
    """Grayscale8 of the picture's size, 255 where something new is to be."""

    def __init__(self, size: QSize, image: QImage | None = None) -> None:
        """image: what it begins with, scaled to the picture; None or a null one for an empty mask."""
        self.image = QImage(size, QImage.Format.Format_Grayscale8)
        self.image.fill(0)
        if image is not None and not image.isNull():
            ways = Qt.AspectRatioMode.IgnoreAspectRatio, Qt.TransformationMode.SmoothTransformation
            same = image if image.size() == size else image.scaled(size, *ways)
            self.image = same.convertToFormat(QImage.Format.Format_Grayscale8)
        self._done: list[_Step] = []
        self._undone: list[_Step] = []
        self._before: QImage | None = None
        self._changed = QRect()

    @property
    def can_undo(self) -> bool:
        return bool(self._done)

    @property
    def can_redo(self) -> bool:
        return bool(self._undone)

    @property
    def held(self) -> int:
        """Bytes of the copies that undo and redo need."""
        return sum(step.bytes for step in (*self._done, *self._undone))

    # --- changes ----------------------------------------------------------------------------------------------------

    def begin(self) -> None:
        """Begin a stroke. The copy shares its pixels until the first change."""
        self._before, self._changed = QImage(self.image), QRect()

    def draw(self, begin: QPointF, end: QPointF, width: float, *, erase: bool) -> QRect:
        """Draw a part of a stroke, and return the pixels it can have changed."""
        painter = QPainter(self.image)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        ink = QBrush(QColor(0, 0, 0) if erase else QColor(255, 255, 255))
        painter.setPen(QPen(ink, width, Qt.PenStyle.SolidLine, Qt.PenCapStyle.RoundCap))
        painter.drawPoint(end) if begin == end else painter.drawLine(QLineF(begin, end))
        painter.end()
        box = stroke_box(begin, end, width, self.image.size())
        self._changed |= box
        return box

    def finish(self) -> None:
        """End a stroke: it can be taken back as one."""
        if self._before is not None and not self._changed.isEmpty():
            step = _Step(self._changed, self._before.copy(self._changed), self.image.copy(self._changed))
            self._keep(step)
        self._before = None

    def fill(self, value: int) -> None:
        """Paint all of it, or clear it."""
        self.begin()
        self._changed = self.image.rect()
        self.image.fill(value)
        self.finish()

    def invert(self) -> None:
        self.image.invertPixels()
        self._keep(_Step(self.image.rect()))

    def _keep(self, step: _Step) -> None:
        """Remember a change, and forget the oldest ones that are too many or too large."""
        self._done, self._undone = [*self._done[1 - _UNDO :], step], []
        while len(self._done) > 1 and self.held > _UNDO_BYTES:
            del self._done[0]

    def undo(self) -> None:
        if self._done:
            *self._done, step = self._done
            self._undone.append(step)
            self._put(step.place, step.before)

    def redo(self) -> None:
        if self._undone:
            *self._undone, step = self._undone
            self._done.append(step)
            self._put(step.place, step.after)

    def _put(self, place: QRect, image: QImage | None) -> None:
        if image is None:
            self.image.invertPixels()
            return
        painter = QPainter(self.image)
        painter.drawImage(place.topLeft(), image)
        painter.end()

    # --- looks ------------------------------------------------------------------------------------------------------

    def shown(self, part: QRectF, size: QSize) -> QImage:
        """A part of the mask in this size, tinted and with its edge."""
        grey = QImage(size, QImage.Format.Format_Grayscale8)
        grey.fill(0)
        painter = QPainter(grey)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        painter.drawImage(QRectF(0, 0, size.width(), size.height()), self.image, part)
        painter.end()
        return _overlay(grey, edged=True)


def is_empty(mask: QImage) -> bool:
    """Whether nothing is painted. What fills up the lines of an image does not count."""
    width = mask.width()
    lines = (bytes(cast("memoryview", mask.constScanLine(y)))[:width] for y in range(mask.height()))
    return not any(line.strip(b"\0") for line in lines)


def tinted(mask: QImage) -> QImage:
    """A mask in the accent's colour, see-through where it is black and a little where it is white."""
    return _overlay(mask, edged=False)


def _overlay(grey: QImage, *, edged: bool) -> QImage:
    made = _blank(grey.size())
    painter = QPainter(made)
    if edged:
        hard = _alpha(grey.convertToFormat(QImage.Format.Format_Mono, Qt.ImageConversionFlag.ThresholdDither))
        for colour, shifts in _RINGS:
            painter.drawImage(0, 0, _inked(hard, QColor(colour), shifts))
        painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_DestinationOut)
        painter.drawImage(0, 0, hard)
        painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_SourceOver)
    painter.setOpacity(_SHOWN)
    painter.drawImage(0, 0, _inked(_alpha(grey), theme.current().color("accent"), ((0, 0),)))
    painter.end()
    return made


def _alpha(grey: QImage) -> QImage:
    made = grey.convertToFormat(QImage.Format.Format_Grayscale8)
    made.reinterpretAsFormat(QImage.Format.Format_Alpha8)
    return made


def _inked(alpha: QImage, colour: QColor, shifts: tuple[tuple[int, int], ...]) -> QImage:
    """What an alpha channel covers, drawn once for each shift."""
    made = _blank(alpha.size())
    painter = QPainter(made)
    for x, y in shifts:
        painter.drawImage(x, y, alpha)
    painter.setCompositionMode(QPainter.CompositionMode.CompositionMode_SourceIn)
    painter.fillRect(made.rect(), colour)
    painter.end()
    return made


def _blank(size: QSize) -> QImage:
    made = QImage(size, QImage.Format.Format_ARGB32_Premultiplied)
    made.fill(0)
    return made
