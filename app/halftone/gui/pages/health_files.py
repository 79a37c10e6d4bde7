"""File dialogs that do not stop the window: they call back when something was chosen."""

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QWidget

from halftone.gui.i18n import tr


def _open(dialog: QFileDialog, chosen: Callable[[str], object]) -> QFileDialog:
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.fileSelected.connect(chosen)
    dialog.open()
    return dialog


def ask_save(owner: QWidget, title: str, place: Path, kind: str, ending: str, chosen: Callable[[str], object]) -> QFileDialog:
    """Where to write. place: proposed file; kind: words of the filter, "" for a folder name; ending: added when left out."""
    dialog = QFileDialog(owner, title, str(place))
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setFileMode(QFileDialog.FileMode.AnyFile)
    if kind:
        dialog.setNameFilter(kind)
        dialog.setDefaultSuffix(ending)
    dialog.selectFile(place.name)
    return _open(dialog, chosen)


def ask_model(owner: QWidget, chosen: Callable[[str], object]) -> QFileDialog:
    """A model to open: a diffusers folder."""
    dialog = QFileDialog(owner, tr("Open a model folder"))
    dialog.setFileMode(QFileDialog.FileMode.Directory)
    return _open(dialog, chosen)


def ask_folder(owner: QWidget, start: Path, chosen: Callable[[str], object]) -> QFileDialog:
    """A folder that exists."""
    dialog = QFileDialog(owner, tr("Choose folder"), str(start))
    dialog.setFileMode(QFileDialog.FileMode.Directory)
    dialog.setOption(QFileDialog.Option.ShowDirsOnly, True)
    return _open(dialog, chosen)
