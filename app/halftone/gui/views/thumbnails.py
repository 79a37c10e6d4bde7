"""Small pictures: read in the background when they are first painted, scaled once for each size they are painted in."""

import logging
from collections.abc import Callable, Mapping
from typing import Final

from PySide6.QtCore import QObject, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import QImage, QPainter, QPainterPath, QPixmap, QPixmapCache

from halftone.gui import icons, theme
from halftone.gui.background import Background

_log = logging.getLogger(__name__)

SIDE: Final = 256
"""Pixels of the longer side of a thumbnail in memory."""
_KEPT: Final = 192
"""Thumbnails in memory: at most 48 MB."""
_AT_ONCE: Final = 16
_WANTED: Final = 128
"""More than a screen of a list shows; what was scrolled past before is read when it is seen again."""
_SCALED_KILOBYTES: Final = 32 * 1024


class Thumbnails(QObject):
    """Keeps the latest used ones. read: takes keys and returns the pictures it found, on another thread."""

    arrived = Signal()

    def __init__(self, background: Background, read: Callable[[tuple[str, ...]], Mapping[str, QImage]], parent: QObject) -> None:
        super().__init__(parent)
        self._background, self._read = background, read
        self._kept, self._most_wanted = _KEPT, _WANTED
        self._images: dict[str, QImage] = {}
        self._wanted: dict[str, None] = {}
        self._busy = False
        QPixmapCache.setCacheLimit(_SCALED_KILOBYTES)

    def keep(self, shown: int) -> None:
        """Keep more where a screen shows so many."""
        self._kept, self._most_wanted = max(_KEPT, 2 * shown), max(_WANTED, shown)

    @property
    def busy(self) -> bool:
        """Whether any are still to be read."""
        return self._busy or bool(self._wanted)

    def get(self, key: str) -> QImage:
        """The picture; a null image until it is read, and where there is none."""
        image = self._images.pop(key, None)
        if image is not None:
            self._images[key] = image
            return image
        self._wanted.pop(key, None)
        self._wanted[key] = None
        if len(self._wanted) > self._most_wanted:
            del self._wanted[next(iter(self._wanted))]
        self._start()
        return QImage()

    def put(self, key: str, image: QImage) -> None:
        """Keep a picture that is already decoded."""
        self._images.pop(key, None)
        self._images[key] = image
        if len(self._images) > self._kept:
            del self._images[next(iter(self._images))]

    def _start(self) -> None:
        """Read what was wanted last: that is what can be seen now."""
        if self._busy or not self._wanted:
            return
        self._busy = True
        keys = tuple(self._wanted.popitem()[0] for _ in range(min(_AT_ONCE, len(self._wanted))))
        self._background.run(lambda: self._read(keys), lambda found: self._take(keys, found), self._failed, receiver=self)

    def _take(self, keys: tuple[str, ...], found: Mapping[str, QImage]) -> None:
        for key in keys:
            self.put(key, found.get(key, QImage()))
        self._busy = False
        self.arrived.emit()
        self._start()

    def _failed(self, error: Exception) -> None:
        """They are asked for again with the next paint."""
        _log.info("thumbnails cannot be read now", exc_info=error)
        self._busy = False


def small(image: QImage) -> QImage:
    """The image, made as small as a thumbnail is kept."""
    if max(image.width(), image.height()) <= SIDE:
        return image
    return image.scaled(SIDE, SIDE, Qt.AspectRatioMode.KeepAspectRatio, Qt.TransformationMode.SmoothTransformation)


def paint_thumbnail(painter: QPainter, rect: QRectF, image: QImage, *, top: int = 0) -> None:
    """Paint the middle of a picture with small round corners, or a sign where there is none yet.

    top: radius of the upper corners of a picture that ends in a card, whose lower ones are square.
    """
    if image.isNull():
        paint_sign(painter, rect)
        return
    size, ratio = rect.size().toSize(), painter.device().devicePixelRatio()
    key = f"thumbnail {image.cacheKey()} {size.width()} {size.height()} {ratio} {top}"
    made = QPixmap()
    if not QPixmapCache.find(key, made):
        made = _cut(image, size, ratio, top)
        QPixmapCache.insert(key, made)
    painter.drawPixmap(rect.topLeft(), made)


def _cut(image: QImage, size: QSize, ratio: float, top: int) -> QPixmap:
    made = QPixmap(size * ratio)
    made.setDevicePixelRatio(ratio)
    made.fill(Qt.GlobalColor.transparent)
    crop = QRect(0, 0, image.width(), image.height())
    inside = size.scaled(crop.size(), Qt.AspectRatioMode.KeepAspectRatio)
    rect, source = QRectF(0, 0, size.width(), size.height()), QRectF(0, 0, inside.width(), inside.height())
    source.moveCenter(QRectF(crop).center())
    painter = QPainter(made)
    painter.setRenderHints(QPainter.RenderHint.Antialiasing | QPainter.RenderHint.SmoothPixmapTransform)
    path = QPainterPath()
    path.addRoundedRect(rect.adjusted(0, 0, 0, top), top or 3, top or 3)
    painter.setClipPath(path)
    painter.drawImage(rect, image, source)
    painter.end()
    return made


def paint_glyph(painter: QPainter, box: QRectF, icon: str, tone: str) -> None:
    """A sign in the corner of a picture to which something happened."""
    disc = QRectF(box.right() - 22, box.bottom() - 22, 18, 18)
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(theme.current().color("picture-badge"))
    painter.drawEllipse(disc)
    icons.paint(painter, icon, disc.adjusted(3, 3, -3, -3), theme.Theme("dark").color(tone))


def paint_sign(painter: QPainter, rect: QRectF, icon: str = "image") -> None:
    """A sign in the place of a picture."""
    painter.setPen(Qt.PenStyle.NoPen)
    painter.setBrush(theme.current().color("surface-overlay"))
    painter.drawRoundedRect(rect, 3, 3)
    side = min(48.0, min(rect.width(), rect.height()) * 0.45)
    sign = QRectF(rect.center().x() - side / 2, rect.center().y() - side / 2, side, side)
    icons.paint(painter, icon, sign, theme.current().color("text-muted"))
