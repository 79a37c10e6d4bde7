"""One picture, or several compared, in the place of the grid."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QHideEvent, QImage, QShowEvent
from PySide6.QtWidgets import QStackedWidget, QWidget

from halftone.gui import theme
from halftone.gui.background import Background
from halftone.gui.create.picture.full_screen import FullScreen
from halftone.gui.create.picture.picture_images import read_later
from halftone.gui.create.picture.video_player import Player
from halftone.gui.gallery.compare import Compare
from halftone.gui.i18n import tr
from halftone.gui.kit import actions, figures
from halftone.gui.kit.picture_canvas import CanvasView
from halftone.gui.kit.stock_widgets import ElidedLabel, column, icon_button, label, row, surface
from halftone.session.pictures.gallery_state import Detail


class Viewer(QWidget):
    """`closed`: back to the grid; `stepped`: the next (+1) or previous (-1) picture is wanted; `removed`: the shown one."""

    closed = Signal()
    stepped = Signal(int)
    removed = Signal()

    def __init__(self, background: Background) -> None:
        super().__init__()
        self._background = background
        self._shown: Detail | None = None
        self._turn = 0
        self._wants_full = False
        self.canvas, self.compare = CanvasView(), Compare()
        self.player = Player(background, self)
        self.player.framed.connect(self._show_frame)
        self.canvas.step_requested.connect(self.stepped)
        self.canvas.delete_requested.connect(self.removed)
        self.name = ElidedLabel("", "body-strong")
        self.where = label("", "small", "muted", numbers=True)
        self.before = icon_button("chevron-left", actions.tip("previous"), clicked=lambda: self.stepped.emit(-1))
        self.after = icon_button("chevron-right", actions.tip("next"), clicked=lambda: self.stepped.emit(1))
        self.full = icon_button("maximize", actions.tip("full-screen"), clicked=self.full_screen)
        self.back = icon_button("x", actions.with_keys(tr("Close"), "Esc"), clicked=self.closed.emit)
        head = surface("plain", "bottom")
        head.setFixedHeight(theme.grown(48))
        buttons = (self.before, self.after, self.full, self.back)
        head.setLayout(row(self.name, self.where, 8, *buttons, spacing=8, margins=(20, 0, 12, 0), stretch=0))
        self.unplayed = label("", "body", "warn", wrap=True)
        self.unplayed.setContentsMargins(20, 8, 20, 8)
        self.player.failed.connect(self._say_unplayed)
        self._say_unplayed("")
        self.stack = QStackedWidget()
        self.stack.addWidget(self.canvas)
        self.stack.addWidget(self.compare)
        self.setLayout(column(head, self.unplayed, self.stack, spacing=0, stretch=2))

    @property
    def shown(self) -> Detail | None:
        """The picture that is shown, None while several are compared."""
        return self._shown

    def show_picture(self, detail: Detail, place: int, count: int) -> None:
        """Show one of the list."""
        self._begin(single=True)
        self.where.setText(tr("{0} of {1}", figures.group(place + 1), figures.group(count)))
        self.before.setEnabled(place > 0)
        self.after.setEnabled(place < count - 1)
        if self._shown is not None and self._shown.id == detail.id:
            return
        self._shown = detail
        self.name.set_text(Path(detail.path).name)
        self.player.stop()
        turn = self._next()
        read_later(self._background, self, detail.path, partial(self._take, turn, detail))

    def _say_unplayed(self, why: str) -> None:
        self.unplayed.setText(why)
        self.unplayed.setVisible(bool(why))

    def _next(self) -> int:
        self._say_unplayed("")
        self._turn += 1
        return self._turn

    def _take(self, turn: int, detail: Detail, image: QImage) -> None:
        if turn == self._turn:
            self.canvas.set_image(image)
            self._try_full()
            if detail.frames > 1:
                self.player.play(Path(detail.path))

    def _show_frame(self, image: QImage) -> None:
        self.canvas.set_image(image)

    def show_compared(self, details: Sequence[Detail]) -> None:
        """Compare two or four."""
        self._begin(single=False)
        self._shown = None
        self.player.stop()
        names = [Path(one.path).name for one in details]
        self.name.set_text(tr("Compare"))
        self.where.setText("")
        self.compare.show_pictures(names)
        turn = self._next()
        for place, one in enumerate(details):
            read_later(self._background, self, one.path, partial(self._take_compared, turn, place))

    def _take_compared(self, turn: int, place: int, image: QImage) -> None:
        if turn == self._turn:
            self.compare.set_image(place, image)

    def _begin(self, *, single: bool) -> None:
        shown = self.canvas if single else self.compare
        self.stack.setCurrentWidget(shown)
        for part in (self.before, self.after, self.full):
            part.setVisible(single)
        shown.setFocus(Qt.FocusReason.OtherFocusReason)

    def forget(self) -> None:
        """Nothing is shown any more."""
        self._next()
        self._shown = None
        self.player.stop()
        self.canvas.clear()

    def full_screen_soon(self) -> None:
        """Once the picture is there."""
        self._wants_full = True
        self._try_full()

    def _try_full(self) -> None:
        if self._wants_full and not self.canvas.image().isNull():
            self._wants_full = False
            self.full_screen()

    def full_screen(self) -> None:
        """Show it on the whole screen."""
        if not self.canvas.image().isNull():
            full = FullScreen(self.canvas.image(), self.window())
            self.player.framed.connect(full.canvas.set_image)
            full.showFullScreen()

    def showEvent(self, event: QShowEvent) -> None:
        super().showEvent(event)
        self.player.set_running(True)

    def hideEvent(self, event: QHideEvent) -> None:
        super().hideEvent(event)
        self.player.set_running(False)
