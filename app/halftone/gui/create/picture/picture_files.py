"""What Create does with files: save a copy, move to the bin, show the folder."""

import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

from PySide6.QtCore import QFile, Qt, QUrl
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFileDialog, QWidget

from halftone.contract.errors import HalftoneError
from halftone.gui.controller import Controller
from halftone.gui.i18n import say, tr
from halftone.gui.text import problem
from halftone.metadata.picture import output_error
from halftone.session.events import Noted
from halftone.settings.atomic import write_atomically
from halftone.settings.disk import system_words


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
    """What moving to the bin came to. things: the first file of each that moved; files: every file that moved, with its place in
    the bin, "" where the system does not say; left: every file that could not be moved, with a reason that a notice takes.
    """

    things: tuple[str, ...] = ()
    files: tuple[tuple[str, str], ...] = ()
    left: tuple[tuple[str, str], ...] = ()


def moved_to_bin(things: Iterable[Sequence[str]]) -> Binned:
    """Move things to the system's bin: each is a file and those that describe it, which stay with a file that cannot be moved."""
    first: list[str] = []
    files: list[tuple[str, str]] = []
    left: list[tuple[str, str]] = []
    for thing in things:
        for path in thing:
            file = QFile(path)
            if file.moveToTrash():
                in_bin = file.fileName()
                files.append((path, in_bin if in_bin != path else ""))
                continue
            left.append((path, _why_not_moved(file)))
            if path == thing[0]:
                break
        else:
            first.append(thing[0])
    return Binned(tuple(first), tuple(files), tuple(left))


def _why_not_moved(file: QFile) -> str:
    path = file.fileName()
    if not os.path.lexists(path):
        return "gone" if os.path.isdir(os.path.dirname(path)) else "away"
    return file.errorString() if os.access(os.path.dirname(path), os.W_OK) else "no-right"


def say_binned(
    controller: Controller, binned: Binned, kind: Literal["deleted", "models-deleted"], words: Callable[[int], str]
) -> None:
    """Say what moved, with an undo where the places in the bin are known, and what did not and why. words: counts the things."""
    if binned.things:
        count = len(binned.things)
        name = Path(binned.things[0]).name if count == 1 else words(count)
        places = tuple(place for file in binned.files for place in file) if all(place for _, place in binned.files) else ()
        controller.take(Noted(kind=kind, facts=(name, *places)))
    if binned.left:
        controller.take(Noted(kind="not-deleted", facts=_named(binned.left)))


def _named(left: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(fact for path, why in left for fact in (Path(path).name, why))


def pictures_binned(controller: Controller, binned: Binned) -> None:
    """Take pictures off the lists and say what was moved. Those that are gone leave the lists, too."""
    gone = tuple(path for path, why in binned.left if why == "gone")
    if off := (*binned.things, *gone):
        controller.session.history.remove(frozenset(off))
        controller.session.gallery.removed(off)
    if gone:
        controller.take(Noted(kind="pictures-gone", facts=tuple(Path(path).name for path in gone)))
    binned = binned._replace(left=tuple(one for one in binned.left if one[1] != "gone"))
    say_binned(controller, binned, "deleted", lambda count: tr("{0} pictures", count))


def move_to_bin(controller: Controller, path: str) -> bool:
    """Move a picture to the system's bin and say so. False if it could not."""
    binned = moved_to_bin([(path,)])
    pictures_binned(controller, binned)
    return bool(binned.things) or any(why == "gone" for _, why in binned.left)


class Restored(NamedTuple):
    """The files that came back from the bin, and those that did not, with a reason that a notice takes."""

    paths: tuple[str, ...]
    left: tuple[tuple[str, str], ...]


def restored(places: Sequence[str]) -> Restored:
    """Bring files back from the bin. places: where each was, and where it is in the bin, in turn."""
    came: list[str] = []
    left: list[tuple[str, str]] = []
    for path, in_bin in zip(places[::2], places[1::2], strict=True):
        file = QFile(in_bin)
        if file.rename(path):
            came.append(path)
        elif not os.path.lexists(in_bin):
            left.append((path, "not-in-bin"))
        else:
            left.append((path, "name-taken" if os.path.lexists(path) else file.errorString()))
    return Restored(tuple(came), tuple(left))


def restore(
    controller: Controller, places: Sequence[str], then: Callable[[tuple[str, ...]], object] = lambda _paths: None
) -> None:
    """Bring files back from the bin off the UI thread, and say which did not come. then: gets those that did."""

    def done(found: Restored) -> None:
        if found.left:
            controller.take(Noted(kind="not-restored", facts=_named(found.left)))
        if found.paths:
            then(found.paths)

    controller.background.run(lambda: restored(places), done)


def copy_all(controller: Controller, sources: Sequence[str], folder: str) -> None:
    """Copy pictures into a folder off the UI thread, under other names where theirs are taken. Says what was saved, what not."""

    def work() -> list[tuple[str, str]]:
        left: list[tuple[str, str]] = []
        for source in map(Path, sources):
            try:
                _copy(source, _free(Path(folder) / source.name))
            except OSError as error:
                left.append((str(source), "gone" if not os.path.lexists(source) else say(system_words(error))))
        return left

    def done(left: list[tuple[str, str]]) -> None:
        if saved := len(sources) - len(left):
            controller.take(Noted(kind="saved-all", facts=(str(saved), str(Path(folder) / "x"), folder)))
        if left:
            controller.take(Noted(kind="not-saved", facts=_named(left)))

    controller.background.run(work, done)


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
