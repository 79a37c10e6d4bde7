"""Lucide outline icons and Halftone's own mark, tinted with theme colours when they are drawn."""

from functools import cache
from typing import TYPE_CHECKING

from PySide6.QtCore import QByteArray, QPointF, QRect, QRectF, QSize, Qt
from PySide6.QtGui import QColor, QIcon, QIconEngine, QPainter, QPixmap

from halftone.gui import theme
from halftone.settings.places import resources

if TYPE_CHECKING:
    from PySide6.QtSvg import QSvgRenderer  # drawn with only after the first paint

STROKE = "1.75"


@cache
def _source(name: str) -> str:
    text = (resources() / "icons" / "lucide" / f"{name}.svg").read_text("utf-8")
    return text.replace('stroke-width="2"', f'stroke-width="{STROKE}"')


@cache
def _renderer(name: str, rgb: str) -> "QSvgRenderer":
    from PySide6.QtSvg import QSvgRenderer

    return QSvgRenderer(QByteArray(_source(name).replace("currentColor", rgb).encode()))


def paint(painter: QPainter, name: str, rect: QRectF, colour: QColor) -> None:
    """Draw an icon into a rectangle in one colour."""
    painter.save()
    painter.setOpacity(painter.opacity() * colour.alphaF())
    _renderer(name, colour.name(QColor.NameFormat.HexRgb)).render(painter, rect)
    painter.restore()


class _LucideEngine(QIconEngine):
    """Draws with the theme in force at that moment, so that icons follow a theme change by themselves."""

    def __init__(self, name: str, token: str) -> None:
        super().__init__()
        self._name = name
        self._token = token

    def _colour(self, mode: QIcon.Mode) -> QColor:
        if mode == QIcon.Mode.Disabled:
            return theme.current().color("text-disabled")
        if mode == QIcon.Mode.Active and self._token == "text-secondary":
            return theme.current().color("text")
        return theme.current().color(self._token)

    def paint(self, painter: QPainter, rect: QRect, mode: QIcon.Mode, state: QIcon.State) -> None:
        del state  # on and off look alike; the button shows it
        paint(painter, self._name, QRectF(rect), self._colour(mode))

    def pixmap(self, size: QSize, mode: QIcon.Mode, state: QIcon.State) -> QPixmap:
        if size.isEmpty():  # a button that is being laid out has no room for it yet
            return QPixmap()
        image = QPixmap(size)
        image.fill(Qt.GlobalColor.transparent)
        painter = QPainter(image)
        self.paint(painter, QRect(QPointF(0, 0).toPoint(), size), mode, state)
        painter.end()
        return image

    def clone(self) -> QIconEngine:
        return _LucideEngine(self._name, self._token)

    def key(self) -> str:
        return f"lucide-{self._name}"


def icon(name: str, color_token: str = "text-secondary") -> QIcon:
    """A Lucide icon that follows the theme."""
    return QIcon(_LucideEngine(name, color_token))


def paint_mark(painter: QPainter, rect: QRectF) -> None:
    """Halftone's mark: four rows of printing dots that shrink to the right, the last row in the accent colour."""
    pitch = rect.width() / 4
    radii = (0.47, 0.38, 0.27, 0.17)
    painter.save()
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    painter.setPen(Qt.PenStyle.NoPen)
    for row in range(4):
        painter.setBrush(theme.current().color("accent" if row == 3 else "text"))
        for column, radius in enumerate(radii):
            centre = rect.topLeft() + QPointF((column + 0.5) * pitch, (row + 0.5) * pitch)
            painter.drawEllipse(centre, radius * pitch, radius * pitch)
    painter.restore()


def app_icon() -> QIcon:
    """The window icon: the mark on a dark rounded square, in the usual sizes."""
    from PySide6.QtSvg import QSvgRenderer

    result = QIcon()
    renderer = QSvgRenderer(str(resources() / "icons" / "halftone.svg"))
    for side in (16, 24, 32, 48, 64, 128, 256):
        image = QPixmap(side, side)
        image.fill(Qt.GlobalColor.transparent)
        painter = QPainter(image)
        renderer.render(painter)
        painter.end()
        result.addPixmap(image)
    return result
