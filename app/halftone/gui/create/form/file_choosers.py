"""Menus and dialogs of the Create form for what is used beside a model: known files, a file, a folder, a picture."""

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtWidgets import QFileDialog, QMenu, QWidget

from halftone.gui.i18n import tr

_PICTURES = "*.png *.jpg *.jpeg *.webp *.bmp *.tif *.tiff"
Chosen = Callable[[str], object]


def add_known(menu: QMenu, known: Mapping[str, str], chosen: Chosen) -> None:
    """An entry for each. known: name -> path."""
    for name, path in sorted(known.items(), key=lambda pair: pair[0].casefold()):
        menu.addAction(name.replace("&", "&&"), partial(chosen, path)).setToolTip(path)


def add_choosing(
    menu: QMenu, title: str, words: str, chosen: Chosen, *, folders: bool = True, endings: str = "*.safetensors"
) -> None:
    """Entries for any file, and any folder. title: of the dialog; words: what its files are."""
    owner = menu.parent()
    assert isinstance(owner, QWidget)
    if not menu.isEmpty():
        menu.addSeparator()
    menu.addAction(tr("Choose a file…"), partial(_ask, owner, title, f"{words} ({endings})", chosen))
    if folders:
        menu.addAction(tr("Choose a folder…"), partial(_ask, owner, title, "", chosen))


def ask_picture(owner: QWidget, chosen: Chosen) -> None:
    _ask(owner, tr("Choose a picture"), f"{tr('Pictures')} ({_PICTURES})", chosen)


def ask_folder(owner: QWidget, title: str, chosen: Chosen) -> None:
    """title: of the dialog."""
    _ask(owner, title, "", chosen)


def ask_weights(owner: QWidget, title: str, words: str, chosen: Chosen) -> None:
    """title: of the dialog; words: what its files are."""
    _ask(owner, title, f"{words} (*.safetensors)", chosen)


def _ask(owner: QWidget, title: str, kinds: str, chosen: Chosen) -> None:
    """kinds: the filter of the files, "" for a folder."""
    dialog = QFileDialog(owner, title)
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setFileMode(QFileDialog.FileMode.ExistingFile if kinds else QFileDialog.FileMode.Directory)
    if kinds:
        dialog.setNameFilter(kinds)
    dialog.fileSelected.connect(lambda path: chosen(str(Path(path))))
    dialog.open()
