"""Fields of the row Image to image: the picture's well, what is set of its mask, and by how much it is extended."""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from PySide6.QtCore import QEvent, QMimeData, QObject, QRectF, QSize, Qt, QTimer, Signal
from PySide6.QtGui import QDropEvent, QImage, QImageReader, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QCheckBox, QWidget

from halftone.contract.vocabulary import MaskedContent
from halftone.gui import icons, theme
from halftone.gui.create.form.binding import Binding, number_box
from halftone.gui.create.form.form_fields import combo
from halftone.gui.create.picture.painted_mask import tinted
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import HoverButton, button, column, label, row
from halftone.metadata.picture import PICTURES
from halftone.metadata.start_images import picture_size

WELL: Final = 88
_SIDE_STEP: Final = 8
_HOLD_MS: Final = 400
PICTURE_ENDINGS: Final = (*PICTURES, ".bmp", ".tif", ".tiff")


@dataclass(frozen=True)
class Seen:
    """A picture file as it is shown: (width, height), and a small picture of it."""

    path: str
    size: tuple[int, int]
    small: QImage


def look_at(path: str) -> Seen:
    """Runs on another thread. Raises as `opened_picture`."""
    width, height = picture_size(path)
    factor = 2 * WELL / max(width, height)
    small = read_whole(path, QSize(max(1, round(width * factor)), max(1, round(height * factor))))
    return Seen(path, (width, height), small)


def read_whole(path: str, size: QSize | None = None) -> QImage:
    """Turned as its camera noted. size: that it is to have, as it is shown."""
    reader = QImageReader(path)
    reader.setAutoTransform(True)
    image = reader.read()
    if size is None or image.isNull():
        return image
    return image.scaled(size, Qt.AspectRatioMode.IgnoreAspectRatio, Qt.TransformationMode.SmoothTransformation)


class PictureWell(HoverButton):
    """Shows the start picture, with its mask over it; a click chooses one."""

    def __init__(self) -> None:
        super().__init__()
        self.setFixedSize(WELL, WELL)
        self._small = QImage()
        self._mask = QImage()
        self.setAccessibleName(tr("Image to image"))
        self.setToolTip(tr("Choose or drop a picture"))

    def show_picture(self, small: QImage, mask: QImage) -> None:
        self._small, self._mask = small, mask
        self.update()

    def paintEvent(self, event: QPaintEvent) -> None:
        colours, whole = theme.current(), QRectF(self.rect()).adjusted(0.5, 0.5, -0.5, -0.5)
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        dashed = Qt.PenStyle.SolidLine if not self._small.isNull() else Qt.PenStyle.DashLine
        painter.setPen(QPen(colours.color("border-control" if self.hovered else "border"), 1, dashed))
        painter.setBrush(colours.color("canvas"))
        painter.drawRoundedRect(whole, 4, 4)
        if self._small.isNull():
            icons.paint(painter, "image", QRectF(WELL / 2 - 11, WELL / 2 - 11, 22, 22), colours.color("text-muted"))
        else:
            size = self._small.size().scaled(WELL - 6, WELL - 6, Qt.AspectRatioMode.KeepAspectRatio)
            box = QRectF((WELL - size.width()) / 2, (WELL - size.height()) / 2, size.width(), size.height())
            painter.drawImage(box, self._small)
            if not self._mask.isNull():
                painter.drawImage(box, tinted(self._mask))
        painter.end()


class PictureDrop(QObject):
    """Takes picture files that are dropped on the widgets it watches. `dropped`: the first one's path; `held`: a picture was held
    over one for a moment.
    """

    dropped = Signal(str)
    held = Signal()

    def __init__(self, *widgets: QWidget) -> None:
        super().__init__(widgets[0])
        self._holding = QTimer(self, singleShot=True, interval=_HOLD_MS)
        self._holding.timeout.connect(self.held)
        for widget in widgets:
            widget.setAcceptDrops(True)
            widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if isinstance(event, QDropEvent):
            path = picture_in(event.mimeData())
            if path:
                event.acceptProposedAction()
                if event.type() == QEvent.Type.DragEnter:
                    self._holding.start()
                elif event.type() == QEvent.Type.Drop:
                    self._holding.stop()
                    self.dropped.emit(path)
                return True
        elif event.type() == QEvent.Type.DragLeave:
            self._holding.stop()
        return super().eventFilter(watched, event)


def picture_in(data: QMimeData) -> str:
    """The path of the first picture file that is dragged or pasted, "" for none."""
    files = (url.toLocalFile() for url in data.urls())
    return next((str(Path(file)) for file in files if file.lower().endswith(PICTURE_ENDINGS)), "")


class MaskFields(QWidget):
    """How a mask is used."""

    def __init__(self, binding: Binding) -> None:
        super().__init__()
        blur_tip = tr("In pixels.")
        self.blur = binding.number("start.mask_blur", tr("Mask blur"), blur_tip)
        self.content = combo(tr("Masked content"), tr("No effect at strength 1."))
        words: dict[MaskedContent, str] = {
            "original": tr("Original"),
            "fill": tr("Fill"),
            "noise": tr("Noise"),
        }
        for value, name in words.items():
            self.content.addItem(name, value)
        self.only = QCheckBox(tr("Only masked"))
        tip = tr("Regenerates only the masked area, at the size above.")
        self.only.setToolTip(tip)
        self.padding = binding.number("padding", tr("Padding"), tr("Pixels around the mask."))
        self._more = QWidget()
        words_of = label(tr("Padding"), "small", "secondary")
        self._more.setLayout(row(words_of, self.padding, -1, spacing=6, margins=(24, 0, 0, 0)))
        blur, content = label(tr("Mask blur"), "small", "secondary"), label(tr("Masked content"), "small", "secondary")
        line = row(content, self.content, spacing=8)
        line.setStretch(1, 1)
        self.drawn = QWidget()
        """What acts on a mask that was given, not on what is added at the sides."""
        self.drawn.setLayout(line)
        self.setLayout(column(row(blur, self.blur, -1, spacing=8), self.drawn, self.only, self._more, spacing=8))
        binding.bind("start.masked_content", self.content)
        binding.bind("only_masked", self.only)
        binding.watch(self._more.setVisible, "only_masked")


class SideFields(QWidget):
    """The pixels by which each side is extended. `changed`: any of it; `menu_wanted`: for the presets."""

    changed = Signal()

    def __init__(self) -> None:
        super().__init__()
        names = (tr("Left"), tr("Top"), tr("Right"), tr("Bottom"))
        self.boxes = [number_box("start.outpaint", name, tr("Pixels to add.")) for name in names]
        for box in self.boxes:
            box.setSingleStep(_SIDE_STEP)
            box.setMinimumWidth(44)
            box.valueChanged.connect(lambda _value: self.changed.emit())
        cells = [column(label(name, "caption", "muted"), box, spacing=2) for name, box in zip(names, self.boxes, strict=True)]
        self.presets = button(tr("Presets"))
        title = label(tr("Outpaint"), "small", "secondary")
        self.setLayout(column(row(title, -1, self.presets, spacing=8), row(*cells, spacing=4), spacing=4))

    def value(self) -> tuple[int, int, int, int]:
        left, top, right, bottom = (round(box.value()) for box in self.boxes)
        return left, top, right, bottom

    def set_value(self, sides: tuple[int, int, int, int]) -> None:
        for box, value in zip(self.boxes, sides, strict=True):
            box.setValue(value)
