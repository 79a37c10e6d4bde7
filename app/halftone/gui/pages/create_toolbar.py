"""The row above the canvas: zoom and variations at the left, what to do with the file at the right."""

from PySide6.QtCore import QSize, Qt, Signal
from PySide6.QtWidgets import QToolButton, QWidget

from halftone.gui import theme
from halftone.gui.i18n import tr
from halftone.gui.widgets import figures
from halftone.gui.widgets.common import button, column, icon_button, label, row, set_icon, surface, vline


class CanvasToolbar(QWidget):
    """40 high. `acted` carries "fit", "vary", "upscale", "start", "save", "copy", "show" or "delete"."""

    acted = Signal(str)
    live_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(theme.current().px("layout.toolbar"))
        self._text_buttons: list[tuple[QToolButton, str]] = []
        self.left_panel = icon_button("panel-left-open", tr("Show the left panel (F6)"))
        self.left_panel.hide()
        self.fit = self._text_button("maximize", tr("Fit"), tr("Fit the picture into the window (Space)"), "fit")
        self.zoom = label("", "small", "secondary", numbers=True)
        self.zoom.setMinimumWidth(44)
        self.vary = self._text_button("shuffle", tr("Vary"), tr("Four pictures that are like this one"), "vary")
        upscale_tip = tr("Make it larger with an upscale model, as a new file")
        self.upscale = self._text_button("scaling", tr("Upscale"), upscale_tip, "upscale")
        self.start = self._text_button("image", tr("Start from it"), tr("Use as start picture"), "start")
        self.save = button(tr("Save as…"), "", "save", tip=tr("Save a copy of the picture (Ctrl+S)"))
        self.save.clicked.connect(lambda: self.acted.emit("save"))
        self.copy = icon_button("copy", tr("Copy the picture"), clicked=lambda: self.acted.emit("copy"))
        self.show_file = icon_button("folder-open", tr("Show file"), clicked=lambda: self.acted.emit("show"))
        self.delete = icon_button("trash-2", tr("Move to the bin (Delete)"), clicked=lambda: self.acted.emit("delete"))
        self.right_panel = icon_button("panel-right-open", tr("Show the right panel (F7)"))
        self.right_panel.hide()
        self.live = QToolButton()
        self.live.setProperty("kind", "quiet")
        self.live.setText(" " + tr("Live preview"))
        self.live.setFont(theme.current().font("small"))
        self.live.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        set_icon(self.live, "circle-dot", "accent")
        self.live.setIconSize(QSize(14, 14))
        self.live.setToolTip(tr("Follow the picture that is being made"))
        self.live.clicked.connect(self.live_requested)
        self.live.hide()
        frame = surface("plain", "bottom")
        frame.setLayout(
            row(
                self.left_panel,
                self.fit,
                self.zoom,
                vline(18),
                self.vary,
                self.upscale,
                self.start,
                -1,
                self.live,
                self.save,
                self.copy,
                self.show_file,
                self.delete,
                self.right_panel,
                spacing=6,
                margins=(14, 0, 10, 0),
            )
        )
        self.setLayout(column(frame, spacing=0))
        self.set_picture(False)

    def _text_button(self, icon: str, text: str, tip: str, key: str) -> QToolButton:
        made = icon_button(icon, tip, kind="quiet")
        made.setText(" " + text)
        made.setFont(theme.current().font("small"))
        made.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextBesideIcon)
        made.clicked.connect(lambda _on=False: self.acted.emit(key))
        self._text_buttons.append((made, text))
        return made

    def set_picture(self, there: bool, *, has_file: bool = True, moves: bool = False) -> None:
        """Whether a picture is shown, whether it is a file, and whether it is a video."""
        self.fit.setEnabled(there)
        self.zoom.setVisible(there)
        for made in (self.vary, self.start, self.save, self.copy, self.show_file, self.delete):
            made.setEnabled(there and has_file)
        self.upscale.setEnabled(there and has_file and not moves)

    def set_live(self, *, running: bool, following: bool, preview: bool) -> None:
        """running: a picture is being made; following: the canvas shows it, as soon as there is a preview of it."""
        self.live.setVisible(running)
        live = following and preview
        self.live.setText(" " + (tr("Last picture, no preview yet") if following and not preview else tr("Live preview")))
        set_icon(self.live, "circle-dot" if live else "circle", "accent" if live else "text-secondary")
        if running and following:
            self.vary.setEnabled(False)
            self.upscale.setEnabled(False)
            self.start.setEnabled(False)
        for made in (self.save, self.copy, self.show_file, self.delete):
            made.setVisible(not (running and following))

    def set_zoom(self, zoom: float) -> None:
        self.zoom.setText(f"{round(zoom * 100)}{figures.HARD}%")

    def set_narrow(self, narrow: bool) -> None:
        style = Qt.ToolButtonStyle.ToolButtonIconOnly if narrow else Qt.ToolButtonStyle.ToolButtonTextBesideIcon
        for made, _ in self._text_buttons:
            made.setToolButtonStyle(style)
