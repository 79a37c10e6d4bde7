"""What Create does with files: save a copy, move to the bin, show the folder."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

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


class Binned(NamedTuple):
    """Files that were moved to the bin, each with its place there ("" where the bin does not tell); error: why it ended early."""

    files: tuple[tuple[str, str], ...]
    error: str = ""


def moved_to_bin(paths: Sequence[str]) -> Binned:
    """Move files to the system's bin, until one cannot be."""
    moved: list[tuple[str, str]] = []
    for path in paths:
        file = QFile(path)
        if not file.moveToTrash():
            return Binned(tuple(moved), file.errorString())
        in_bin = file.fileName()
        moved.append((path, in_bin if in_bin != path else ""))
    return Binned(tuple(moved))


def tell_binned(controller: Controller, binned: Binned) -> None:
    """Take the files off the lists and say so, with an undo where the bin tells their places there."""
    if binned.files:
        paths = [path for path, _ in binned.files]
        for path in paths:
            controller.session.history.remove(path)
        controller.session.gallery.removed(paths)
        name = Path(paths[0]).name if len(paths) == 1 else tr("{0} pictures", len(paths))
        places = tuple(place for file in binned.files for place in file) if all(place for _, place in binned.files) else ()
        controller.take(Noted(kind="deleted", facts=(name, *places)))
    if binned.error:
        controller.take(Noted(kind="not-written", facts=(binned.error,)))


def move_to_bin(controller: Controller, path: str) -> bool:
    """Move a file to the system's bin and say so. False if it could not."""
    binned = moved_to_bin((path,))
    tell_binned(controller, binned)
    return bool(binned.files)


def restored(places: Sequence[str]) -> list[str]:
    """Bring files back from the bin; those that came. places: where each was, and where it is in the bin, in turn."""
    pairs = zip(places[::2], places[1::2], strict=True)
    return [path for path, in_bin in pairs if QFile.rename(in_bin, path)]


def copy_all(controller: Controller, sources: Sequence[str], folder: str) -> None:
    """Copy pictures into a folder off the UI thread, under other names where theirs are taken."""

    def work() -> None:
        for source in map(Path, sources):
            _copy(source, _free(Path(folder) / source.name))

    controller.background.run(
        work,
        lambda _done: controller.take(Noted(kind="saved-all", facts=(str(len(sources)), str(Path(folder) / "x"), folder))),
        lambda error: controller.take(not_written(error)),
    )


def _free(wanted: Path) -> Path:
    number, found = 1, wanted
    while found.exists():
        number += 1
        found = wanted.with_name(f"{wanted.stem}-{number}{wanted.suffix}")
    return found


def open_file(path: str) -> None:
    """Open a picture with the program that the system has for it."""
    QDesktopServices.openUrl(QUrl.fromLocalFile(path))


def show_folder(path: str) -> None:
    """Open the folder of a file in the system's file manager."""
    QDesktopServices.openUrl(QUrl.fromLocalFile(str(Path(path).parent)))
