"""The test pictures of a training, the newest first; a click opens one large."""

from PySide6.QtCore import QRectF, QSize, Signal
from PySide6.QtGui import QImage, QPainter
from PySide6.QtWidgets import QSizePolicy, QWidget

from halftone.gui import icons, theme
from halftone.gui.i18n import listed, tr
from halftone.gui.kit import figures
from halftone.gui.kit.painting import plate, write
from halftone.gui.kit.stock_widgets import HoverButton, boxed, clear, column, icon_button, label, row, scrolling, surface
from halftone.gui.views.thumbnails import paint_thumbnail
from halftone.session.state import Shown

WIDTH = 208
_WIDE = 184
"""Pixels of a picture."""


class TestPictureButton(HoverButton):
    """A test picture, whole, as wide as the column, with the step it was made after below it."""

    __test__ = False

    def __init__(self, shown: Shown) -> None:
        super().__init__()
        self.shown = shown
        self._image = QImage.fromData(shown.thumbnail)
        words = tr("Step {0}", figures.group(shown.picture.step))
        self._words = listed(words, tr("black")) if shown.picture.black else words
        self.setAccessibleName(f"{self._words}: {shown.picture.prompt}")
        self.setToolTip(tr("Enlarge"))
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)

    def _box(self) -> QRectF:
        image = self._image
        ratio = image.height() / image.width() if not image.isNull() else 1.0
        return QRectF(0, 0, _WIDE, round(_WIDE * min(2.0, ratio)))

    def sizeHint(self) -> QSize:
        return QSize(_WIDE, round(self._box().height()) + 24)

    def draw(self, painter: QPainter) -> None:
        box = self._box()
        paint_thumbnail(painter, box, self._image)
        if self.hovered:
            plate(painter, box.adjusted(1, 1, -1, -1), 2, edge="accent", width=2)
        left = 0.0
        if self.shown.picture.black:
            icons.paint(painter, "octagon-alert", QRectF(0, box.bottom() + 5, 14, 14), theme.current().color("danger"))
            left = 19.0
        line = QRectF(left, box.bottom() + 2, _WIDE - left, 20)
        write(painter, line, self._words, "small", "text-secondary", numbers=True)


class PicturesColumn(QWidget):
    """`opened` carries the path of a picture, `hidden` that the column is not wanted."""

    opened = Signal(str)
    hidden = Signal()

    def __init__(self) -> None:
        super().__init__()
        self._listed: tuple[Shown, ...] | None = None
        self._hide = icon_button("panel-right-close", tr("Hide test pictures"), clicked=self.hidden.emit)
        head = row(label(tr("Test pictures"), "body-strong"), -1, self._hide, margins=(12, 6, 8, 6))
        self._prompt = label("", "small", "muted", wrap=True)
        self._list = column(spacing=12)
        inside = boxed(column(self._prompt, self._list, -1, spacing=10, margins=(12, 12, 12, 12)))
        line = surface("plain", "bottom", layout=head)
        line.setFixedHeight(theme.grown(40))
        frame = surface("plain", layout=column(line, scrolling(inside), spacing=0, stretch=1))
        self.setLayout(column(frame))
        self.setMinimumWidth(WIDTH)
        self.show_pictures(())

    def set_closable(self, on: bool) -> None:
        self._hide.setVisible(on)

    def show_pictures(self, shown: tuple[Shown, ...]) -> None:
        if shown == self._listed:
            return
        self._listed = shown
        clear(self._list)
        last = shown[-1].picture if shown else None
        asked = tr("“{0}”, seed {1}", last.prompt, last.seed) if last is not None else ""
        self._prompt.setText(asked or tr("No test pictures yet."))
        for one in reversed(shown):
            made = TestPictureButton(one)
            made.clicked.connect(lambda _on=False, path=one.picture.path: self.opened.emit(path))
            self._list.addWidget(made)

    def buttons(self) -> list[TestPictureButton]:
        """Return the pictures in order, from the top."""
        found = (self._list.itemAt(place) for place in range(self._list.count()))
        return [made for item in found if item is not None and isinstance(made := item.widget(), TestPictureButton)]
