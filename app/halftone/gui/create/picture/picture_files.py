"""What Create does with files: save a copy, move to the bin, show the folder."""

from pathlib import Path

from PySide6.QtCore import QFile, Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFileDialog, QWidget

from halftone.contract.errors import HalftoneError
from halftone.gui.controller import Controller
from halftone.gui.i18n import tr
from halftone.gui.text import problem
from halftone.metadata.picture import output_error
from halftone.session.events import Noted
from halftone.settings.atomic import write_atomically


def save_as(parent: QWidget, controller: Controller, source: Path) -> None:
    """Ask where, then copy the picture with its settings inside."""
    dialog = QFileDialog(parent, tr("Save as"))
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
    dialog.setNameFilter(tr("Pictures ({0})", "*" + source.suffix))
    dialog.setDefaultSuffix(source.suffix.lstrip("."))
    dialog.selectFile(source.name)
    dialog.fileSelected.connect(lambda target: copy_to(controller, source, Path(target)))
    dialog.open()


def copy_to(controller: Controller, source: Path, target: Path) -> None:
    """Copy a picture file off the UI thread; says where it went, or why it could not."""
    controller.background.run(
        lambda: _copy(source, target),
        lambda _done: controller.take(Noted(kind="saved", facts=(target.name, str(target)))),
        lambda error: controller.take(not_written(error)),
    )


def _copy(source: Path, target: Path) -> None:
    data = source.read_bytes()
    try:
        write_atomically(target, data)
    except OSError as error:
        raise output_error(error, target, len(data)) from error


def not_written(error: Exception) -> Noted:
    """The message that a file could not be written."""
    known = error.as_facts() if isinstance(error, HalftoneError) else None
    return Noted(kind="not-written", facts=(problem(error),), error=known)


def move_to_bin(controller: Controller, path: str) -> bool:
    """Move a file to the system's bin and say so, with an undo where the bin tells its place there. False if it could not."""
    file = QFile(path)
    if not file.moveToTrash():
        controller.take(Noted(kind="not-written", facts=(file.errorString(),)))
        return False
    name, in_bin = Path(path).name, file.fileName()
    controller.take(Noted(kind="deleted", facts=(name, path, in_bin) if in_bin and in_bin != path else (name,)))
    return True


def open_file(path: str) -> None:
    """Open a picture with the program that the system has for it."""
    QDesktopServices.openUrl(QUrl.fromLocalFile(path))


def show_folder(path: str) -> None:
    """Open the folder of a file in the system's file manager."""
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(Path(path).parent)))
