"""A list of folders in the settings: each with a way to take it out, and a button that adds one."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFileDialog, QWidget

from halftone.gui.health import file_dialogs
from halftone.gui.i18n import tr
from halftone.gui.kit.stock_widgets import ElidedLabel, boxed, button, clear, column, icon_button, row

WIDTH = 420


class FoldersControl(QWidget):
    """`changed`: the folders as they are to be."""

    changed = Signal(tuple)

    def __init__(self) -> None:
        super().__init__()
        self._folders: tuple[str, ...] = ()
        self._list = column(spacing=4)
        self.add = button(tr("Add folder…"), "", "folder-open", clicked=self._ask)
        self.setFixedWidth(WIDTH)
        self.setLayout(column(self._list, row(-1, self.add), spacing=8))

    def set_folders(self, folders: Sequence[str]) -> None:
        """Show these."""
        self._folders = tuple(folders)
        clear(self._list)
        for folder in self._folders:
            self._list.addWidget(self._line(folder))

    def _line(self, folder: str) -> QWidget:
        remove = icon_button("x", tr("Remove {0}", folder), size=14, clicked=partial(self._remove, folder))
        return boxed(row(ElidedLabel(folder, "small", "secondary"), remove, spacing=8, stretch=0))

    def _remove(self, folder: str) -> None:
        self.add.setFocus(Qt.FocusReason.OtherFocusReason)
        self.changed.emit(tuple(one for one in self._folders if one != folder))

    def _ask(self) -> None:
        file_dialogs.ask_folder(self, Path(self._folders[-1] if self._folders else Path.home()), self._add)

    def _add(self, folder: str) -> None:
        self.changed.emit(tuple(dict.fromkeys((*self._folders, str(Path(folder))))))


class FileControl(QWidget):
    """One file. `changed`: the one that was chosen."""

    changed = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.path = ElidedLabel("", "small", "secondary")
        self.choose = button(tr("Choose…"), "", "folder-open", clicked=self._ask)
        self.setFixedWidth(WIDTH)
        self.setLayout(row(self.path, self.choose, spacing=8, stretch=0))

    def set_file(self, path: str) -> None:
        """Show this one; "" for none."""
        self.path.set_text(path)

    def _ask(self) -> None:
        dialog = QFileDialog(self, tr("Choose a styles file"))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.setFileMode(QFileDialog.FileMode.ExistingFile)
        dialog.setNameFilter(f"{tr('Styles files')} (*.csv)")
        dialog.fileSelected.connect(lambda path: self.changed.emit(str(Path(path))))
        dialog.open()
