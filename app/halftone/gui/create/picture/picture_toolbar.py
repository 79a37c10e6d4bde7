"""The row above the canvas: zoom and variations at the left, what to do with the file at the right."""

from typing import Final, Literal

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QAbstractButton, QLayout, QMenu, QToolButton, QWidget

from halftone.gui import theme
from halftone.gui.create.rows.folded_row import below
from halftone.gui.i18n import tr
from halftone.gui.kit import figures
from halftone.gui.kit.stock_widgets import button, column, icon_button, label, row, set_icon, surface, vline

Manner = Literal["words", "menu", "icons"]
_MANNERS: Final[tuple[Manner, ...]] = ("words", "menu", "icons")
"""Words on all; words on what makes pictures, and a menu for the rest; icons only, and a menu with the words of all."""


class CanvasToolbar(QWidget):
    """In the first manner that fits. `acted` carries the key of what was pressed: "fit", "vary", "upscale" and so on."""

    acted = Signal(str)
    live_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(theme.current().px("layout.toolbar"))
        self._following = False
        self.left_panel = icon_button("panel-left-open", tr("Show panel (F6)"))
        self.left_panel.hide()
        self.fit = self._text_button("maximize", tr("Fit"), tr("Fit to window (Space)"), "fit")
        self.zoom = label("", "small", "secondary", numbers=True)
        self.zoom.setMinimumWidth(44)
        self.vary = self._text_button("shuffle", tr("Vary"), tr("Make four variations"), "vary")
        upscale_tip = tr("Upscale and save a copy")
        self.upscale = self._text_button("scaling", tr("Upscale"), upscale_tip, "upscale")
        self.start = self._text_button("image", tr("Image to image"), tr("Send to image to image"), "start")
        self.save = button(tr("Save as…"), "", "save", tip=tr("Save a copy (Ctrl+S)"))
        self.save.clicked.connect(lambda: self.acted.emit("save"))
        self.copy = icon_button("copy", tr("Copy"), clicked=lambda: self.acted.emit("copy"))
        self.show_file = icon_button("folder-open", tr("Show file"), clicked=lambda: self.acted.emit("show"))
        self.delete = icon_button("trash-2", tr("Move to bin (Delete)"), clicked=lambda: self.acted.emit("delete"))
        self.more = icon_button("ellipsis", tr("More"), clicked=self._open_menu)
        self.right_panel = icon_button("panel-right-open", tr("Show panel (F7)"))
        self.right_panel.hide()
        self.live = QToolButton()
        self.live.setProperty("kind", "quiet")
        self.live.setText(" " + tr("Live preview"))
        self.live.setFont(theme.current().font("small"))
        self.live.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        set_icon(self.live, "circle-dot", "accent")
        self.live.setIconSize(QSize(14, 14))
        self.live.setToolTip(tr("Show the running picture"))
        self.live.clicked.connect(self.live_requested)
        self.live.hide()
        self._line = row(
            *(self.left_panel, self.fit, self.zoom, vline(18), self.vary, self.upscale, self.start),
            -1,
            *(self.live, self.save, self.copy, self.show_file, self.delete, self.more, self.right_panel),
            spacing=6,
            margins=(14, 0, 10, 0),
        )
        frame = surface("plain", "bottom", layout=self._line)
        outside = column(frame, spacing=0)
        outside.setSizeConstraint(QLayout.SizeConstraint.SetNoConstraint)
        self.setLayout(outside)
        self.set_picture(False)

    def _text_button(self, icon: str, text: str, tip: str, key: str) -> QToolButton:
        made = icon_button(icon, tip, kind="quiet")
        made.setText(" " + text)
        made.setFont(theme.current().font("small"))
        made.clicked.connect(lambda _on=False: self.acted.emit(key))
        return made

    def set_picture(self, there: bool, *, has_file: bool = True, moves: bool = False) -> None:
        """Whether a picture is shown, whether it is a file, and whether it is a video."""
        self.fit.setEnabled(there)
        self.zoom.setVisible(there)
        for made in (self.vary, self.start, self.save, self.copy, self.show_file, self.delete):
            made.setEnabled(there and has_file)
        self.upscale.setEnabled(there and has_file and not moves)
        self._arrange()

    def set_live(self, *, running: bool, following: bool, preview: bool, step: int = 0) -> None:
        """running: a picture is being made; following: the canvas shows it, as soon as there is a preview of it; step: of
        which it is, 0 for none.
        """
        self.live.setVisible(running)
        live = following and preview
        self.live.setText(" " + _live_words(following=following, preview=preview, step=step))
        set_icon(self.live, "circle-dot" if live else "circle", "accent" if live else "text-secondary")
        if running and following:
            self.vary.setEnabled(False)
            self.upscale.setEnabled(False)
            self.start.setEnabled(False)
        self._following = running and following
        self._arrange()

    def set_zoom(self, zoom: float) -> None:
        self.zoom.setText(f"{round(zoom * 100)}{figures.HARD}%")

    # --- room -------------------------------------------------------------------------------------------------------

    def _arrange(self) -> None:
        for manner in _MANNERS:
            self._dress(manner)
            if self._line.sizeHint().width() <= self.width():
                return

    def _dress(self, manner: Manner) -> None:
        """While a preview is followed there is no file to act on."""
        for made in (self.fit, self.vary, self.upscale, self.start):
            words = manner == "words" or (manner == "menu" and made is not self.fit)
            beside, alone = Qt.ToolButtonStyle.ToolButtonTextBesideIcon, Qt.ToolButtonStyle.ToolButtonIconOnly
            made.setToolButtonStyle(beside if words else alone)
        self.save.setVisible(not self._following)
        for made in (self.copy, self.show_file, self.delete):
            made.setVisible(not self._following and manner == "words")
        self.more.setVisible(not self._following and manner != "words")
        self._line.invalidate()

    def minimumSizeHint(self) -> QSize:
        """What is shown now holds nobody back: narrower, it gives way."""
        return QSize(0, self.height())

    def resizeEvent(self, event: object) -> None:
        self._arrange()

    def _open_menu(self) -> None:
        """What has no word on the bar."""
        menu = QMenu(self)
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        entries: tuple[tuple[QAbstractButton, str], ...] = (
            (self.fit, tr("Fit to window (Space)")),
            (self.vary, tr("Make four variations")),
            (self.upscale, tr("Upscale…")),
            (self.start, tr("Send to image to image")),
            (self.copy, tr("Copy")),
            (self.show_file, tr("Show file")),
            (self.delete, tr("Move to bin")),
        )
        all_of_them = self.vary.toolButtonStyle() == Qt.ToolButtonStyle.ToolButtonIconOnly
        for made, words in entries if all_of_them else entries[4:]:
            if made is self.copy and all_of_them:
                menu.addSeparator()
            menu.addAction(words, made.click).setEnabled(made.isEnabled())
        below(menu, self.more)


def _live_words(*, following: bool, preview: bool, step: int) -> str:
    if following and not preview:
        return tr("Waiting for a preview")
    return tr("Live preview, step {0}", step) if following and step > 0 else tr("Live preview")
