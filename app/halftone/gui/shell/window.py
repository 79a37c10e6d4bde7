"""The top-level window: there at once, with a skeleton in it until the workspace moves in."""

from collections.abc import Callable

from PySide6.QtCore import QByteArray, QEvent, QMargins, QObject, QRect, QSize, Qt, Signal
from PySide6.QtGui import QCloseEvent, QKeyEvent, QResizeEvent
from PySide6.QtWidgets import QAbstractButton, QCheckBox, QMainWindow, QRadioButton, QStyle

from halftone.gui.kit.tab_order import bring_into_sight, put_in_order
from halftone.gui.shell.skeleton import Skeleton
from halftone.settings.glance import Glance


def fitted(wanted: QRect, frame: QMargins, available: QRect, least: QSize) -> QRect:
    """The wanted inside of a window, moved and made smaller until it lies with its frame on the screen; never below `least`."""
    room = available.marginsRemoved(frame)
    size = wanted.size().boundedTo(room.size()).expandedTo(least)
    left = max(room.left(), min(wanted.left(), room.right() + 1 - size.width()))
    top = max(room.top(), min(wanted.top(), room.bottom() + 1 - size.height()))
    return QRect(left, top, size.width(), size.height())


class MainWindow(QMainWindow):
    """Only the frame: what is in it, and whether it may close, is the workspace's business."""

    painted = Signal()
    """Once, after the first paint."""
    resized = Signal()

    def __init__(self, first: Glance | None = None) -> None:
        super().__init__()
        first = first or Glance()
        self.may_close: Callable[[], bool] = lambda: True
        self.leaving: Callable[[], object] = lambda: None
        """What is to be remembered where nobody can be asked."""
        self.setWindowTitle("Halftone")
        self.setMinimumSize(1024, 640)
        self.resize(1440, 900)
        if first.geometry:
            self.restoreGeometry(QByteArray.fromBase64(first.geometry.encode()))
        self._skeleton = Skeleton(first.columns, first_run=first.first_run)
        self._skeleton.installEventFilter(self)
        self.setCentralWidget(self._skeleton)

    def keep_on_screen(self) -> None:
        """A window beside the screen, or larger than it, hides its own edges. Before it is shown its frame is guessed."""
        if self.isMaximized() or self.isFullScreen():
            return
        inside, outside = self.geometry(), self.frameGeometry()
        frame = QMargins(
            inside.left() - outside.left(),
            inside.top() - outside.top(),
            outside.right() - inside.right(),
            outside.bottom() - inside.bottom(),
        )
        if frame.isNull() and not self.isVisible():
            frame.setTop(self.style().pixelMetric(QStyle.PixelMetric.PM_TitleBarHeight))
        place = fitted(inside, frame, self.screen().availableGeometry(), self.minimumSize())
        if place != inside:
            self.setGeometry(place)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        if event.type() == QEvent.Type.Paint and watched is self._skeleton:
            self._skeleton.removeEventFilter(self)
            self.painted.emit()
        return super().eventFilter(watched, event)

    def focusNextPrevChild(self, forward: bool) -> bool:
        """What was made anew since the last Tab stands at its place too."""
        put_in_order(self)
        moved = super().focusNextPrevChild(forward)
        if moved:
            bring_into_sight(self.focusWidget())
        return moved

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Press the button that has the focus on Enter, as Space does: Qt does so in dialogs alone."""
        focused = self.focusWidget()
        presses = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and not event.isAutoRepeat()
        if presses and isinstance(focused, QAbstractButton) and not isinstance(focused, (QCheckBox, QRadioButton)):
            focused.click()
        else:
            super().keyPressEvent(event)

    def resizeEvent(self, event: QResizeEvent) -> None:
        super().resizeEvent(event)
        self.resized.emit()

    def closeEvent(self, event: QCloseEvent) -> None:
        if self.may_close():
            super().closeEvent(event)
        else:
            event.ignore()
