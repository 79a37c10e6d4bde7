"""The start picture on the canvas: painted on to change a part of it, and extended at its edges. All of it goes to the draft."""

from collections.abc import Callable
from functools import partial
from typing import Final

from msgspec.structs import replace
from PySide6.QtCore import QSize, Qt, QTimer, Signal
from PySide6.QtGui import QImage
from PySide6.QtWidgets import QLayout, QSlider

from halftone.contract.wording import either
from halftone.gui import theme
from halftone.gui.controller import Controller
from halftone.gui.create.kept_pictures import keep
from halftone.gui.create.picture.edit_canvas import BRUSH, EditCanvas
from halftone.gui.create.picture.painted_mask import is_empty
from halftone.gui.create.rows.start_picture_fields import read_whole
from halftone.gui.i18n import say, tr
from halftone.gui.kit.actions import ActionName, add_shortcut, keys_of, with_keys
from halftone.gui.kit.built_later import BuiltLater
from halftone.gui.kit.stock_widgets import button, column, icon_button, label, row, surface, vline
from halftone.gui.kit.switches import Segmented
from halftone.gui.kit.wheel import guard_wheel
from halftone.gui.text import problem
from halftone.session.events import Noted
from halftone.session.pictures.draft import masks
from halftone.session.pictures.outpainting import Sides, extended

_WRITE_MS: Final = 250
"""After the last stroke: a mask is written once for several."""
_NARROW: Final = 620
_WIDE: Final = 780
"""Pixels of the tools from which the word at the brush and the hint are there."""


def _keys_or(other: str, *names: ActionName) -> str:
    """The first key of each action, or what does the same with the mouse."""
    ways = either(*(key for name in names for key in keys_of(name)[:1]), other)
    return ways if isinstance(ways, str) else say(ways)


class PictureEditor(BuiltLater):
    """`changed`: editing begins or ends. What is painted is written off this thread; `flush` waits for it."""

    changed = Signal()

    def __init__(self, controller: Controller) -> None:
        super().__init__()
        self._controller = controller
        self.active = False
        self._image: str | None = None
        self._mask: str | None = None
        """The mask of the draft, as it was read or written last."""
        self._turn = 0
        self._unkept = False
        """Whether something was painted that is in no file yet."""
        self._timer = QTimer(self, singleShot=True, interval=_WRITE_MS)
        self._timer.timeout.connect(self._write)
        controller.draft_changed.connect(self._follow)
        controller.model_selected.connect(self._follow)
        self.hide()

    # --- building ---------------------------------------------------------------------------------------------------

    def build(self) -> None:
        canvas = self.canvas = EditCanvas()
        self.tool = Segmented([("paint", tr("Paint")), ("erase", tr("Erase"))])
        self.tool.set_value("paint")
        self.tool.set_tip("paint", with_keys(tr("Paint the area to regenerate"), *keys_of("brush")))
        self.tool.set_tip("erase", with_keys(tr("Erase from the mask"), _keys_or(tr("right button"), "eraser")))
        self.brush = guard_wheel(QSlider(Qt.Orientation.Horizontal))
        self.brush.setRange(*BRUSH)
        self.brush.setValue(canvas.brush)
        self.brush.setMinimumWidth(60)
        self.brush.setMaximumWidth(140)
        self.brush.setToolTip(with_keys(tr("Brush size"), _keys_or(tr("Ctrl+wheel"), "brush-smaller", "brush-larger")))
        self.brush.setAccessibleName(tr("Brush size"))
        self.undo = icon_button("undo-2", with_keys(tr("Undo"), *keys_of("undo-stroke")), clicked=partial(canvas.change, "undo"))
        self.redo = icon_button("redo-2", with_keys(tr("Redo"), *keys_of("redo-stroke")), clicked=partial(canvas.change, "redo"))
        changes = (
            icon_button("paint-bucket", tr("Fill the mask"), clicked=partial(canvas.change, "fill")),
            icon_button("contrast", tr("Invert the mask"), clicked=partial(canvas.change, "invert")),
            icon_button("trash-2", tr("Clear the mask"), clicked=partial(canvas.change, "clear")),
        )
        self.words = label(tr("Brush"), "small", "secondary")
        self.words.setBuddy(self.brush)
        self.hint = label(tr("Paint the area to regenerate."), "small", "muted")
        self.size_label = label("", "small", "secondary", numbers=True)
        self.size_label.setToolTip(tr("Size of the result. Drag the edges to outpaint."))
        self.done = button(tr("Stop editing"), size="compact", tip=with_keys(tr("Back to the picture. The mask is kept."), "Esc"))
        self.done.clicked.connect(self.close_editor)
        tools = row(
            *(self.tool, self.words, self.brush, vline(18), self.undo, self.redo, *changes),
            *(vline(18), self.size_label, -1, self.hint, self.done),
            spacing=6,
            margins=(14, 0, 10, 0),
        )
        bar = surface("plain", "bottom")
        bar.setFixedHeight(theme.current().px("layout.toolbar"))
        bar.setLayout(tools)
        outside = column(bar, canvas, spacing=0, stretch=1)
        outside.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        self.setLayout(outside)
        self._connect()

    def _connect(self) -> None:
        canvas = self.canvas
        self.tool.chosen.connect(lambda tool: canvas.set_erasing(tool == "erase"))
        canvas.erasing_changed.connect(lambda on: self.tool.set_value("erase" if on else "paint"))
        self.brush.valueChanged.connect(canvas.set_brush)
        canvas.brush_changed.connect(self.brush.setValue)
        canvas.painted.connect(self._painted)
        canvas.extended.connect(self._extended)
        canvas.left.connect(self.close_editor)
        add_shortcut(self, partial(canvas.change, "undo"), *keys_of("undo-stroke"), inside=True)
        add_shortcut(self, partial(canvas.change, "redo"), *keys_of("redo-stroke"), inside=True)
        self._show_tools()

    def minimumSizeHint(self) -> QSize:
        return QSize(0, self.canvas.minimumHeight() if self.built else 0)

    def resizeEvent(self, event: object) -> None:
        if self.built:
            self._show_tools()

    # --- what is edited ---------------------------------------------------------------------------------------------

    def open_editor(self) -> None:
        """Edit the start picture of the draft."""
        if self._controller.state.draft.image is not None:
            self.make()
            self.active = True
            self._image = None
            self._follow()
            self.changed.emit()
            self.canvas.setFocus(Qt.FocusReason.OtherFocusReason)

    def close_editor(self) -> None:
        """End the editing; the draft keeps all of it."""
        if self.active:
            self.flush()
            self.active = False
            self.canvas.clear()
            self.changed.emit()

    def _follow(self) -> None:
        """Show the start picture of the draft as it is now."""
        if not self.active:
            return
        draft = self._controller.state.draft
        if draft.image is None:
            self._forget()
            self.close_editor()
            return
        self.canvas.set_extends(masks(self._controller.model))
        if draft.image != self._image:
            self._image, self._mask = draft.image, draft.mask
            self._forget()
            self.canvas.clear()
            self._read(draft.image, draft.mask, self._begin)
        elif draft.mask != self._mask:
            self._mask = draft.mask
            self._forget()
            self._read(None, draft.mask, lambda _picture, mask: self.canvas.set_mask(mask))
        else:
            self.canvas.set_sides(draft.start.outpaint)
        self._show_tools()

    def _forget(self) -> None:
        """Forget what was painted: it belongs to another picture, or another mask took its place."""
        self._timer.stop()
        self._unkept = False

    def _read(self, image: str | None, mask: str | None, ready: Callable[[QImage, QImage], object]) -> None:
        """Read both on another thread; an answer that nobody waits for any more is dropped."""
        self._turn += 1
        turn = self._turn

        def read() -> tuple[QImage, QImage]:
            return read_whole(image) if image else QImage(), read_whole(mask) if mask else QImage()

        def taken(found: tuple[QImage, QImage]) -> None:
            if turn == self._turn and self.active:
                ready(*found)
                self._show_tools()

        self._controller.background.run(read, taken, receiver=self)

    def _begin(self, picture: QImage, mask: QImage) -> None:
        if not picture.isNull():  # the row says what is wrong with it
            self.canvas.edit(picture, mask)
            self.canvas.set_sides(self._controller.state.draft.start.outpaint)

    # --- what becomes of it -----------------------------------------------------------------------------------------

    def _painted(self) -> None:
        self._turn += 1
        self._unkept = True
        self._timer.start()
        self._show_tools()

    def _write(self) -> None:
        """Keep the mask in a file, written by another thread; what is painted meanwhile is written with the next one."""
        kept = partial(self._kept, self._turn)
        self._controller.background.run(
            partial(_file_of, QImage(self.canvas.painting.image)), kept, self._not_kept, receiver=self
        )

    def _kept(self, turn: int, path: str | None) -> None:
        if turn == self._turn and self.active:
            self._put(path)

    def flush(self) -> None:
        """Write now what was painted last: a picture is to be made with it."""
        if self.active and self._unkept:
            self._turn += 1
            try:
                self._put(_file_of(self.canvas.painting.image))
            except OSError as error:
                self._not_kept(error)

    def _put(self, path: str | None) -> None:
        self._timer.stop()
        self._unkept = False
        self._mask = path
        self._controller.session.drafting.edit(mask=path)

    def _not_kept(self, error: Exception) -> None:
        if not isinstance(error, OSError):
            raise error
        self._controller.take(Noted(kind="not-written", facts=(problem(error),)))

    def _extended(self, sides: Sides) -> None:
        start = self._controller.state.draft.start
        self._controller.session.drafting.edit(start=replace(start, outpaint=sides))

    def _show_tools(self) -> None:
        canvas = self.canvas
        self.words.setVisible(self.width() >= _NARROW)
        self.hint.setVisible(self.width() >= _WIDE and self._mask is None and not canvas.painting.can_undo)
        self.undo.setEnabled(canvas.painting.can_undo)
        self.redo.setEnabled(canvas.painting.can_redo)
        picture = canvas.image()
        width, height = extended((picture.width(), picture.height()), canvas.sides)
        self.size_label.setText("" if picture.isNull() else f"{width} × {height}")


def _file_of(mask: QImage) -> str | None:
    """The file of a painted mask, None where nothing is painted. Raises OSError."""
    return None if is_empty(mask) else keep(mask)
