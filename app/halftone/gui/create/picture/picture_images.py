"""Pictures decoded for the window, and the watch over the list of those that were made."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from PySide6.QtCore import QFileSystemWatcher, QObject, QTimer, Signal
from PySide6.QtGui import QImage, QImageReader

from halftone.contract.errors import HalftoneError
from halftone.gui.background import Background
from halftone.gui.create.picture.video_player import first_frame
from halftone.gui.views.thumbnails import small
from halftone.session.pictures.picture_list import thumbnails
from halftone.settings.picture_files import opened_picture
from halftone.settings.places import data_dir

_MOST_MEGABYTES: Final = 1200
"""Of one picture in memory; Qt's own limit ends at 8192 x 8192, which upscale models make of quite usual pictures."""
_SETTLE_MS: Final = 300
"""After the last sign of a change: a program that writes gives several."""


def read_image(path: str) -> QImage:
    """A picture file, or the first frame of a video, decoded. Runs on another thread."""
    QImageReader.setAllocationLimit(_MOST_MEGABYTES)
    if path.lower().endswith(".jxl"):
        return _jpeg_xl(path)
    return first_frame(Path(path)) if path.lower().endswith(".mp4") else QImage(path)


def _jpeg_xl(path: str) -> QImage:
    """Pillow decodes what Qt cannot."""
    try:
        with opened_picture(path) as picture:
            pixels = picture.convert("RGBA")
    except HalftoneError:
        return QImage()
    return QImage(pixels.tobytes(), *pixels.size, 4 * pixels.width, QImage.Format.Format_RGBA8888).copy()


def read_later(background: Background, page: QObject, path: str, ready: Callable[[QImage], None]) -> None:
    """Decode a picture file off the UI thread, for a page that may go before the answer comes."""
    background.run(lambda: read_image(path), ready, receiver=page)


def decoded(file: bytes) -> QImage:
    """A picture file in memory; a null image where there is none."""
    return QImage.fromData(file) if file else QImage()


def read_thumbnails(paths: Sequence[str]) -> dict[str, QImage]:
    """Small pictures from the history; from the file for one that stands there without, or not at all. Runs on another thread."""
    listed = thumbnails(paths)
    images = ((path, decoded(listed.get(path, b""))) for path in paths)
    found = ((path, read_image(path) if image.isNull() else image) for path, image in images)
    return {path: small(image) for path, image in found if not image.isNull()}


class HistoryWatch(QObject):
    """Tells when a picture was put on the list: by another program, a command in a terminal for one, or by this window.

    SQLite's log appears beside the list and goes again with each program that opens it; only the list's own stamp tells a
    new picture from somebody, this window too, who merely read it. Whose the picture is, its reader finds out.
    """

    changed = Signal()

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._file = data_dir() / "history.sqlite"
        self._seen = self._stamp()
        self._pause = QTimer(self)
        self._pause.setSingleShot(True)
        self._pause.setInterval(_SETTLE_MS)
        self._pause.timeout.connect(self._look)
        self._watcher = QFileSystemWatcher([str(self._file.parent)], self)
        self._watcher.directoryChanged.connect(self._pause.start)

    def _look(self) -> None:
        """The stamp is taken before anybody reads: what is written meanwhile counts as a change."""
        now = self._stamp()
        if now != self._seen:
            self._seen = now
            self.changed.emit()

    def _stamp(self) -> tuple[int, int]:
        try:
            found = self._file.stat()
        except OSError:
            return 0, 0
        return found.st_mtime_ns, found.st_size
