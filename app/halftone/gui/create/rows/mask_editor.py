"""The window in which the mask of a start picture is painted."""

from PySide6.QtCore import QBuffer, QIODevice, Qt, Signal
from PySide6.QtGui import QImage, QImageWriter, QKeySequence, QShortcut
from PySide6.QtWidgets import QDialog, QSlider, QWidget

from halftone.gui import theme
from halftone.gui.create.rows.mask_canvas import BRUSH, MaskCanvas
from halftone.gui.i18n import tr
from halftone.gui.kit.actions import with_keys
from halftone.gui.kit.stock_widgets import button, column, icon_button, label, row
from halftone.gui.kit.switches import Segmented


class MaskEditor(QDialog):
    """`painted`: the mask, Grayscale8 of the picture's size; a null one when nothing is painted."""

    painted = Signal(QImage)

    def __init__(self, picture: QImage, mask: QImage | None, parent: QWidget) -> None:
        super().__init__(parent)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Paint the mask"))
        self.canvas = MaskCanvas(picture, mask)
        self.tool = Segmented([("paint", tr("Paint")), ("erase", tr("Erase"))])
        self.tool.set_value("paint")
        self.tool.set_tip("paint", with_keys(tr("Paint the area to regenerate"), "P"))
        self.tool.set_tip("erase", with_keys(tr("Erase from the mask"), "E"))
        self.width_slider = QSlider(Qt.Orientation.Horizontal)
        self.width_slider.setRange(*BRUSH)
        self.width_slider.setValue(self.canvas.brush)
        self.width_slider.setFixedWidth(140)
        self.width_slider.setToolTip(tr("Brush size ([, ] or wheel)"))
        self.width_slider.setAccessibleName(tr("Brush size"))
        self.undo = icon_button("undo-2", with_keys(tr("Undo"), "Ctrl+Z"), kind="framed", clicked=self.canvas.undo)
        invert = button(tr("Invert"), clicked=self.canvas.invert)
        clear = button(tr("Clear"), clicked=self.canvas.clear)
        use = button(tr("Use mask"), "primary", clicked=self._use)
        use.setDefault(True)
        leave = button(tr("Cancel"), clicked=self.reject)
        for made in (invert, clear, leave):
            made.setAutoDefault(False)
        brush = label(tr("Brush"), "small", "secondary")
        brush.setBuddy(self.width_slider)
        tools = row(self.tool, brush, self.width_slider, self.undo, invert, clear, -1, spacing=8)
        hint = label(tr("Paint the area to regenerate."), "small", "muted", wrap=True)
        end = row(hint, leave, use, spacing=8, stretch=0)
        self.setLayout(column(tools, self.canvas, end, spacing=10, margins=(14, 12, 14, 12), stretch=1))
        self._connect()
        self._fit(picture, parent)
        self.canvas.setFocus(Qt.FocusReason.OtherFocusReason)

    def _connect(self) -> None:
        self.tool.chosen.connect(self._choose)
        self.width_slider.valueChanged.connect(self.canvas.set_brush)
        self.canvas.resized_brush.connect(self.width_slider.setValue)
        self.canvas.changed.connect(self._show)
        QShortcut(QKeySequence(QKeySequence.StandardKey.Undo), self, self.canvas.undo)
        for key, tool in (("P", "paint"), ("E", "erase")):
            QShortcut(QKeySequence(key), self, lambda tool=tool: self._choose(tool))
        self._show()

    def _fit(self, picture: QImage, parent: QWidget) -> None:
        """Make the editor as large as the window allows."""
        room = parent.window().size() * 0.86
        pad = theme.current().px("layout.toolbar") * 3
        shown = picture.size().scaled(room.width() - 40, room.height() - pad, Qt.AspectRatioMode.KeepAspectRatio)
        self.resize(max(560, shown.width() + 40), shown.height() + pad)

    def _choose(self, tool: str) -> None:
        self.tool.set_value(tool)
        self.canvas.erasing = tool == "erase"

    def _show(self) -> None:
        self.undo.setEnabled(self.canvas.can_undo())

    def _use(self) -> None:
        self.painted.emit(QImage() if self.canvas.is_empty() else self.canvas.painted_mask())
        self.accept()


def png(mask: QImage) -> bytes:
    """The file of a mask."""
    buffer = QBuffer()
    buffer.open(QIODevice.OpenModeFlag.WriteOnly)
    QImageWriter(buffer, b"png").write(mask)
    return bytes(buffer.data().data())
