"""Help: every shortcut, and where Halftone keeps its files."""

from PySide6.QtCore import Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QDialog, QGridLayout, QHBoxLayout, QWidget

from halftone import __version__
from halftone.gui.i18n import tr
from halftone.gui.widgets.common import button, card, column, label, row
from halftone.settings import places


def shortcuts() -> tuple[tuple[str, str], ...]:
    """Keys and what they do."""
    return (
        ("Ctrl+Enter", tr("Generate, or add to the queue while running")),
        ("Esc", tr("Cancel the current picture")),
        ("Ctrl+1, Ctrl+2, Ctrl+3", tr("Create, Health, Device")),
        ("Ctrl+5", tr("Train")),
        ("Ctrl+,", tr("Settings")),
        ("Ctrl+L", tr("Go to the prompt")),
        ("Ctrl+D", tr("New random seed")),
        ("Ctrl+S", tr("Save the picture as…")),
        ("Ctrl+R", tr("Reuse the settings of the selected picture")),
        ("Ctrl+H", tr("Check the health of the current model")),
        ("F6, F7", tr("Show or hide the left, the right panel")),
        ("F8", tr("Go to the newest message")),
        ("F11", tr("Picture in full screen")),
        ("← →", tr("Previous, next picture")),
        ("Space, 0, 1", tr("Fit the picture, 100 %")),
        ("Delete", tr("Move the picture to the bin")),
        (tr("B (hold)"), tr("Show what came out before the recovery")),
    )


class HelpWindow(QDialog):
    """A plain window beside the main one."""

    def __init__(self, parent: QWidget, pictures_folder: str | None) -> None:
        super().__init__(parent)
        self.setWindowTitle(tr("Halftone help"))
        keys = card()
        grid = QGridLayout(keys)
        grid.setContentsMargins(16, 12, 16, 12)
        grid.setHorizontalSpacing(20)
        grid.setVerticalSpacing(6)
        for index, (key, what) in enumerate(shortcuts()):
            grid.addWidget(label(key, "mono", "secondary"), index, 0, Qt.AlignmentFlag.AlignTop)
            grid.addWidget(label(what), index, 1)
        grid.setColumnStretch(1, 1)
        folder = pictures_folder or str(places.pictures_dir())
        files = card()
        files.setLayout(
            column(
                _place(tr("Pictures"), folder),
                _place(tr("Settings"), str(places.settings_file().parent)),
                _place(tr("Checks, history and kept latents"), str(places.data_dir())),
                _place(tr("Logs"), str(places.log_dir())),
                spacing=8,
                margins=(16, 12, 16, 12),
            )
        )
        self.setLayout(
            column(
                label(tr("Shortcuts"), "heading-s"),
                keys,
                8,
                label(tr("Where files go"), "heading-s"),
                files,
                8,
                row(
                    label(tr("Halftone {0}. Nothing leaves this computer.", __version__), "small", "muted"),
                    -1,
                    button(tr("Close"), clicked=self.close),
                ),
                spacing=8,
                margins=(20, 16, 20, 16),
            )
        )
        self.setMinimumWidth(520)


def _place(name: str, folder: str) -> QHBoxLayout:
    path = label(folder, "mono", "secondary", wrap=True)
    path.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
    opener = button(tr("Open"), icon="folder-open")
    opener.clicked.connect(lambda: QDesktopServices.openUrl(QUrl.fromLocalFile(folder)))
    words = column(label(name, "body-strong"), path, spacing=2)
    layout = row(words, opener)
    layout.setStretch(0, 1)
    return layout
