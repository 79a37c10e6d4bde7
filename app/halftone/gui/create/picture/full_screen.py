"""The picture alone on the whole screen; Esc or F11 leaves."""

from PySide6.QtCore import Qt
from PySide6.QtGui import QImage, QKeyEvent
from PySide6.QtWidgets import QWidget

from halftone.gui.i18n import tr
from halftone.gui.kit.actions import pressed
from halftone.gui.kit.picture_canvas import CanvasView
from halftone.gui.kit.stock_widgets import column


class FullScreen(QWidget):
    """A window of its own that deletes itself when it is left."""

    def __init__(self, image: QImage, parent: QWidget) -> None:
        super().__init__(parent, Qt.WindowType.Window)
        self.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        self.setWindowTitle(tr("Picture"))
        self.canvas = CanvasView()
        self.canvas.set_image(image)
        self.setLayout(column(self.canvas))
        self.canvas.setFocus(Qt.FocusReason.OtherFocusReason)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        if pressed(event, "cancel", "full-screen"):
            self.close()
        else:
            super().keyPressEvent(event)
