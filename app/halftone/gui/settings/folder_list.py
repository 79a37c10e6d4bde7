"""Files and folders in the settings: one that is chosen, and a list of folders with a way to take each out."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, QUrl, Signal
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QWidget

from halftone.gui import theme
from halftone.gui.health import file_dialogs
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import ElidedLabel, boxed, button, clear, column, icon_button, row

WIDTH = 420


def show_place(place: Path) -> None:
    """Open a folder or a text with the program that the system has for it."""
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(place)))


class FoldersControl(QWidget):
    """`changed`: the folders as they are to be."""

    changed = Signal(tuple)

    def __init__(self) -> None:
        super().__init__()
        self._folders: tuple[str, ...] = ()
        self._list = column(spacing=4)
        self.add = button(tr("Add folder…"), "", "folder-open", clicked=self._ask)
        self.setFixedWidth(theme.grown(WIDTH))
        self.setLayout(column(self._list, row(-1, self.add), spacing=8))

    def set_value(self, folders: Sequence[str]) -> None:
        self._folders = tuple(folders)
        clear(self._list)
        for folder in self._folders:
            remove = icon_button("x", tr("Remove {0}", folder), size=14, clicked=partial(self._remove, folder))
            self._list.addWidget(boxed(row(ElidedLabel(folder, "small", "secondary"), remove, spacing=8, stretch=0)))

    def _remove(self, folder: str) -> None:
        self.add.setFocus(Qt.FocusReason.OtherFocusReason)
        self.changed.emit(tuple(one for one in self._folders if one != folder))

    def _ask(self) -> None:
        file_dialogs.ask_folder(self, Path(self._folders[-1] if self._folders else Path.home()), self._add)

    def _add(self, folder: str) -> None:
        self.changed.emit(tuple(dict.fromkeys((*self._folders, str(Path(folder))))))


class PathControl(QWidget):
    """A file, or a folder that can be shown. `changed`: the one that was chosen."""

    changed = Signal(str)

    def __init__(self, *, folder: bool) -> None:
        super().__init__()
        self._folder, self._path = folder, ""
        self.path = ElidedLabel("", "small", "secondary")
        self.choose = button(tr("Choose…"), "", "folder-open", clicked=self._ask)
        show = button(tr("Show"), "quiet", clicked=lambda: show_place(Path(self._path)))
        self.setFixedWidth(theme.grown(WIDTH))
        self.setLayout(row(self.path, *([show] if folder else []), self.choose, spacing=8, stretch=0))

    def set_value(self, path: str) -> None:
        """Show this one; "" for none."""
        self._path = path
        self.path.set_text(path)

    def _ask(self) -> None:
        if self._folder:
            file_dialogs.ask_folder(self, Path(self._path), self.changed.emit)
        else:
            file_dialogs.ask_file(self, tr("Choose a file…"), f"{tr('CSV files')} (*.csv)", self.changed.emit)
