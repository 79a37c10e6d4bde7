"""Pictures made before: read from the list and decoded off the UI thread."""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec
from PySide6.QtCore import QFileSystemWatcher, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QImage

from halftone.contract.facts import PictureFacts
from halftone.contract.request import PictureRequest
from halftone.gallery.history import Entry, History, is_gone
from halftone.gui.background import Background
from halftone.gui.pages.create_side import Thumb
from halftone.settings.places import data_dir

_LIMIT = 120
_THUMB = 256
_SETTLE_MS = 300
"""After the last sign of a change: a program that writes gives several."""


@dataclass(frozen=True)
class Made:
    """A finished picture with the request it came from. failed: what the failing precision gave, for this session."""

    facts: PictureFacts
    request: PictureRequest
    thumb: Thumb
    failed: QImage

    @property
    def key(self) -> str:
        """Names the picture, whether it is a file or not."""
        return self.facts.path or f"unsaved {self.facts.seed} {self.facts.index}"

    @property
    def is_file(self) -> bool:
        return bool(self.facts.path)


def request_of(request: PictureRequest, facts: PictureFacts) -> PictureRequest:
    """What makes this one picture again, or another like it: its seed, and nothing of the latents it was rescued from."""
    return msgspec.structs.replace(request, seed=facts.seed, batch=1, resume_latents=None)


def unsaved(facts: PictureFacts, request: PictureRequest, failed: bytes) -> Made:
    """A picture that came out black and is no file: it is shown, but not put on the list."""
    thumb = Thumb("", QImage(), facts.state, datetime.now(UTC), request.prompt, request.loras)
    return Made(facts, request, thumb, QImage.fromData(failed) if failed else QImage())


def read_recent(*, forget: bool) -> list[Made]:
    """The latest pictures whose files are there, newest first. forget: take the others off the list. Runs on another thread."""
    with History() as history:
        if forget:
            history.forget_missing()
        entries = history.recent(_LIMIT)
    return [_made(entry) for entry in entries if entry.facts.path and not is_gone(entry.path)]


def remember(facts: PictureFacts, request: PictureRequest, thumbnail: bytes, failed: bytes) -> Made:
    """Put a picture on the list. Runs on another thread."""
    with History() as history:
        entry = history.add(facts, request, thumbnail)
    return _made(entry, failed)


def read_image(path: str) -> QImage:
    """A picture file, decoded. Runs on another thread."""
    return QImage(path)


def _made(entry: Entry, failed: bytes = b"") -> Made:
    image = QImage.fromData(entry.thumbnail) if entry.thumbnail else QImage()
    if image.isNull():
        image = QImage(entry.facts.path)
    if max(image.width(), image.height()) > _THUMB:
        keep, smooth = Qt.AspectRatioMode.KeepAspectRatio, Qt.TransformationMode.SmoothTransformation
        image = image.scaled(_THUMB, _THUMB, keep, smooth)
    thumb = Thumb(entry.facts.path, image, entry.facts.state, _moment(entry.made_at), entry.request.prompt, entry.request.loras)
    return Made(entry.facts, request_of(entry.request, entry.facts), thumb, QImage.fromData(failed) if failed else QImage())


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return datetime.now(UTC)


class HistoryWatch(QObject):
    """Tells when another program, a command in a terminal for one, put a picture on the list.

    SQLite's log appears beside the list and goes again with each program that writes; only the list's own stamp tells a
    new picture from somebody, this window too, who merely read it.
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

    def seen(self) -> None:
        """The list was just read or written by this window."""
        self._seen = self._stamp()

    def _look(self) -> None:
        if self._stamp() != self._seen:
            self.changed.emit()

    def _stamp(self) -> tuple[int, int]:
        try:
            found = self._file.stat()
        except OSError:
            return 0, 0
        return found.st_mtime_ns, found.st_size


class Shelf:
    """The pictures that this window knows, by path. page: answers are for it alone."""

    def __init__(self, background: Background, page: QObject) -> None:
        self._background = background
        self._page = page
        self._made: dict[str, Made] = {}
        self._read = False

    def get(self, path: str) -> Made | None:
        return self._made.get(path)

    def newest_of(self, model: str) -> QImage:
        """The newest picture that a model made, small; a null image where there is none."""
        return next((made.thumb.image for made in self._made.values() if made.request.model == model and made.is_file), QImage())

    def load(self, ready: Callable[[list[Made]], None]) -> None:
        """Read the list; pictures of this session keep what they know.

        Only the first time, those whose files are gone are forgotten: later one may lie in the bin and come back.
        """
        forget, self._read = not self._read, True

        def take(found: list[Made]) -> None:
            self._made = {made.facts.path: self._made.get(made.facts.path, made) for made in found}
            ready(list(self._made.values()))

        self._background.run(lambda: read_recent(forget=forget), take, receiver=self._page)

    def add(
        self, facts: PictureFacts, request: PictureRequest, thumbnail: bytes, failed: bytes, ready: Callable[[Made], None]
    ) -> None:
        def take(made: Made) -> None:
            self._made = {made.facts.path: made, **self._made}
            ready(made)

        self._background.run(lambda: remember(facts, request, thumbnail, failed), take, receiver=self._page)

    def image(self, path: str, ready: Callable[[QImage], None]) -> None:
        """The picture file, decoded."""
        self._background.run(lambda: read_image(path), ready, receiver=self._page)
