"""The row above the canvas: zoom and variations at the left, what to do with the file at the right."""

from typing import Final, Literal

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QAbstractButton, QLayout, QMenu, QToolButton, QWidget

from halftone.gui import theme
from halftone.gui.create.rows.folded_row import below
from halftone.gui.i18n import tr
from halftone.gui.kit import actions, figures
from halftone.gui.kit.actions import ActionName
from halftone.gui.kit.stock_widgets import button, column, icon_button, label, row, set_icon, surface, vline

Manner = Literal["words", "menu", "short", "icons", "least"]
_MANNERS: Final[tuple[Manner, ...]] = ("words", "menu", "short", "icons", "least")
"""Words on all; words on what makes pictures, and a menu for the rest; the same without the longest words; icons only, and a menu
with the words of all; the same without the zoom and without words on what saves and what shows the preview.
"""


class CanvasToolbar(QWidget):
    """The toolbar, 40 pixels high, in the first manner that fits.

    `acted` carries "fit", "vary", "upscale", "start", "inpaint", "save", "copy", "show" or "delete".
    """

    acted = Signal(str)
    live_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(theme.current().px("layout.toolbar"))
        self._following = self._has_picture = False
        self.left_panel = icon_button("panel-left-open", actions.tip("left-panel", tr("Show panel")))
        self.left_panel.hide()
        self.fit = self._text_button("maximize", tr("Fit"), actions.tip("fit"), "fit")
        self.zoom = label("", "small", "secondary", numbers=True)
        self.zoom.setMinimumWidth(theme.grown(44))
        self.vary = self._text_button("shuffle", tr("Vary"), actions.tip("vary"), "vary")
        upscale_tip = tr("Upscale and save a copy")
        self.upscale = self._text_button("scaling", tr("Upscale"), upscale_tip, "upscale")
        self.start = self._text_button("image", tr("Image to image"), actions.tip("start"), "start")
        self.inpaint = self._text_button("brush", tr("Inpaint"), "", "inpaint")
        self.save = button(tr("Save as…"), "", "save", tip=actions.tip("save", tr("Save a copy")))
        self.save.clicked.connect(lambda: self.acted.emit("save"))
        self.copy = icon_button("copy", actions.tip("copy"), clicked=lambda: self.acted.emit("copy"))
        self.show_file = icon_button("folder-open", actions.tip("show"), clicked=lambda: self.acted.emit("show"))
        self.delete = icon_button("trash-2", actions.tip("delete"), clicked=lambda: self.acted.emit("delete"))
        self.more = icon_button("ellipsis", tr("More"), clicked=self._open_menu)
        self.right_panel = icon_button("panel-right-open", actions.tip("right-panel", tr("Show panel")))
        self.right_panel.hide()
        self.live = QToolButton()
        self.live.setProperty("kind", "quiet")
        self.live.setText(" " + tr("Live preview"))
        self.live.setFont(theme.current().font("small"))
        self.live.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        set_icon(self.live, "circle-dot", "accent")
        self.live.setIconSize(QSize(14, 14))
        self.live.clicked.connect(self.live_requested)
        self.live.hide()
        self._line = row(
            *(self.left_panel, self.fit, self.zoom, vline(18), self.vary, self.upscale, self.start, self.inpaint),
            -1,
            *(self.live, self.save, self.copy, self.show_file, self.delete, self.more, self.right_panel),
            spacing=6,
            margins=(14, 0, 10, 0),
        )
        frame = surface("plain", "bottom")
        frame.setLayout(self._line)
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

    def set_picture(
        self, there: bool, *, has_file: bool = True, moves: bool = False, sheet: bool = False, masks: bool = True
    ) -> None:
        """Whether a picture is shown, whether it is a file, a video or the sheet of a grid. masks: the model can inpaint."""
        self.fit.setEnabled(there)
        self._has_picture = there
        for made in (self.start, self.save, self.copy, self.show_file, self.delete):
            made.setEnabled(there and has_file)
        self.vary.setEnabled(there and has_file and not sheet)
        self.upscale.setEnabled(there and has_file and not moves)
        self.inpaint.setEnabled(there and has_file and not moves and masks)
        self.inpaint.setToolTip(actions.tip("inpaint") if masks else tr("Not supported by this model."))
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
            self.inpaint.setEnabled(False)
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
        beside, alone = Qt.ToolButtonStyle.ToolButtonTextBesideIcon, Qt.ToolButtonStyle.ToolButtonIconOnly
        least = manner == "least"
        self.zoom.setVisible(self._has_picture and not least)
        self.live.setToolButtonStyle(alone if least else beside)
        self.save.set_words("" if least else tr("Save as…"))
        self.save.setAccessibleName(tr("Save as…"))
        for made in (self.fit, self.vary, self.upscale, self.start, self.inpaint):
            left_out = {"menu": (self.fit,), "short": (self.fit, self.start)}.get(manner, ())
            words = manner not in ("icons", "least") and made not in left_out
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
        makes: dict[ActionName, QToolButton] = {
            "fit": self.fit,
            "vary": self.vary,
            "upscale": self.upscale,
            "start": self.start,
            "inpaint": self.inpaint,
        }
        files: dict[ActionName, QAbstractButton] = {"copy": self.copy, "show": self.show_file, "delete": self.delete}
        alone = Qt.ToolButtonStyle.ToolButtonIconOnly
        bare: dict[ActionName, QToolButton] = {name: made for name, made in makes.items() if made.toolButtonStyle() == alone}
        if bare.keys() - {"fit"}:
            for name, made in bare.items():
                actions.add_entry(menu, name, made.click, enabled=made.isEnabled())
            menu.addSeparator()
        for name, made in files.items():
            actions.add_entry(menu, name, made.click, enabled=made.isEnabled())
        below(menu, self.more)


def _live_words(*, following: bool, preview: bool, step: int) -> str:
    if following and not preview:
        return tr("Waiting for a preview")
    return tr("Live preview, step {0}", step) if following and step > 0 else tr("Live preview")
