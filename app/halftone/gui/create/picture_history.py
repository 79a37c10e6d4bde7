"""Pictures made before: read from the list and decoded off the UI thread."""

import logging
import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from PySide6.QtCore import QFileSystemWatcher, QObject, Qt, QTimer, Signal
from PySide6.QtGui import QImage, QImageReader

from halftone.contract.facts import PictureFacts
from halftone.contract.request import PictureRequest
from halftone.gallery.history import Entry, History
from halftone.gui.background import Background
from halftone.gui.create.history_panel import Thumb
from halftone.gui.create.picture.video_player import first_frame
from halftone.health.pictures.frame_lists import video_seconds
from halftone.health.pictures.painted_masks import forget_painted_masks
from halftone.library.prompts.drawn_prompts import again, as_made
from halftone.settings.places import data_dir
from halftone.settings.store import load

_log = logging.getLogger(__name__)

_LIMIT = 120
_THUMB = 256
_MOST_MEGABYTES = 1200
"""Of one picture in memory; Qt's own limit ends at 8192 x 8192, which upscale models make of quite usual pictures."""
_SETTLE_MS = 300
"""After the last sign of a change: a program that writes gives several."""


@dataclass(frozen=True)
class Made:
    """A finished picture with the request it came from. failed: what the failing precision gave, for this session."""

    facts: PictureFacts
    request: PictureRequest
    thumb: Thumb
    failed: QImage
    whole: bool = True
    """Made from its first step on: of one that was gone on with, only the rest was timed."""

    @property
    def key(self) -> str:
        """Names the picture, whether it is a file or not."""
        return self.facts.path or f"unsaved {self.facts.seed} {self.facts.index}"

    @property
    def is_file(self) -> bool:
        return bool(self.facts.path)


def request_of(request: PictureRequest, facts: PictureFacts) -> PictureRequest:
    """What makes this one picture again, or another like it: its seed, and nothing of the latents it was rescued from."""
    return again(request, facts)


def unsaved(facts: PictureFacts, request: PictureRequest, failed: bytes) -> Made:
    """A picture that came out black and is no file: it is shown, but not put on the list."""
    thumb = Thumb("", QImage(), facts.state, datetime.now(UTC), request.prompt, as_made(request, facts).loras)
    return Made(facts, request, thumb, QImage.fromData(failed) if failed else QImage())


@dataclass(frozen=True)
class Listed:
    """Pictures whose files are there, newest first, and the highest number on the list that was looked at."""

    made: list[Made]
    newest: int


def tidy_up() -> None:
    """Take pictures off the list whose files are gone, and remove painted masks that nothing names: at the start only, as one in
    the bin may still come back.
    """
    with History() as history:
        history.forget_missing()
    try:
        forget_painted_masks(load().form)
    except OSError as error:
        _log.info("old masks stay: %s", error)


def read_listed(known: Mapping[str, Made], after: int = 0) -> Listed:
    """The latest pictures above a number; those that are known are not decoded again. Runs on another thread."""
    with History() as history:
        entries = history.recent(_LIMIT, after=after)
    there = [entry for entry in entries if entry.facts.path and not entry.gone]
    made = [known.get(entry.facts.path) or _made(entry) for entry in there]
    return Listed(made, max((entry.id for entry in entries), default=after))


def remember(facts: PictureFacts, request: PictureRequest, thumbnail: bytes, failed: bytes) -> Made:
    """A picture that was just made, from the list, where the worker put it; put there now if it is not. One that cannot be listed
    is shown all the same. Runs on another thread.
    """
    try:
        with History() as history:
            found = history.find(facts.path)
            entry = found if found is not None and found.facts == facts else history.add(facts, request, thumbnail)
    except (OSError, sqlite3.Error) as error:
        _log.warning("The history could not be kept: %s", error)
        entry = Entry(id=0, made_at="", facts=facts, request=request, thumbnail=thumbnail)
    return _made(entry, failed)


def read_image(path: str) -> QImage:
    """A picture file, or the first frame of a video, decoded. Runs on another thread."""
    QImageReader.setAllocationLimit(_MOST_MEGABYTES)
    return first_frame(Path(path)) if path.lower().endswith(".mp4") else QImage(path)


def _made(entry: Entry, failed: bytes = b"") -> Made:
    image = QImage.fromData(entry.thumbnail) if entry.thumbnail else QImage()
    if image.isNull():
        image = read_image(entry.facts.path)
    if max(image.width(), image.height()) > _THUMB:
        keep, smooth = Qt.AspectRatioMode.KeepAspectRatio, Qt.TransformationMode.SmoothTransformation
        image = image.scaled(_THUMB, _THUMB, keep, smooth)
    thumb = Thumb(
        entry.facts.path,
        image,
        entry.facts.state,
        _moment(entry.made_at),
        entry.request.prompt,
        as_made(entry.request, entry.facts).loras,
        video_seconds(entry.facts),
    )
    shown = QImage.fromData(failed) if failed else QImage()
    return Made(entry.facts, request_of(entry.request, entry.facts), thumb, shown, entry.request.resume_latents is None)


def _moment(text: str) -> datetime:
    try:
        return datetime.fromisoformat(text)
    except ValueError:
        return datetime.now(UTC)


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
        """The stamp is taken before anybody reads: what is written meanwhile is told again."""
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


def _not_read(error: Exception) -> None:
    """Another program holds the list, or its folder is gone: what is shown stays, and the next change reads it again."""
    _log.info("the history cannot be read now", exc_info=error)


class Shelf:
    """The pictures that this window knows, by path. page: answers are for it alone."""

    def __init__(self, background: Background, page: QObject) -> None:
        self._background = background
        self._page = page
        self._made: dict[str, Made] = {}  # replaced, never changed: other threads read it
        self._newest = 0

    def get(self, path: str) -> Made | None:
        return self._made.get(path)

    def newest_of(self, model: str) -> QImage:
        """The newest picture that a model made, small; a null image where there is none."""
        return next((made.thumb.image for made in self._made.values() if made.request.model == model and made.is_file), QImage())

    def start(self, ready: Callable[[list[Made]], None]) -> None:
        """Read the list for the first time, without what is no longer there."""
        self._read(ready, first=True)

    def load(self, ready: Callable[[list[Made]], None]) -> None:
        """Read the whole list again; pictures of this session keep what they know."""
        self._read(ready, first=False)

    def _read(self, ready: Callable[[list[Made]], None], *, first: bool) -> None:
        before = self._made

        def work() -> Listed:
            if first:
                tidy_up()
            return read_listed(before)

        def take(found: Listed) -> None:
            self._newest = max(self._newest, found.newest)
            listed = {made.facts.path: self._made.get(made.facts.path, made) for made in found.made}
            meanwhile = {path: made for path, made in self._made.items() if path not in before and path not in listed}
            shown = {**meanwhile, **listed}
            self._made = {**shown, **{path: made for path, made in self._made.items() if path not in shown}}
            ready(list(shown.values()))

        self._background.run(work, take, _not_read, receiver=self._page)

    def load_new(self, ready: Callable[[list[Made]], None]) -> None:
        """Read what was put on the list since it was last read; `ready` only hears of pictures that another program made."""
        known, after = self._made, self._newest

        def take(found: Listed) -> None:
            self._newest = max(self._newest, found.newest)
            new = {made.facts.path: made for made in found.made if made.facts.path not in self._made}
            self._made = {**new, **self._made}
            if new:
                ready(list(new.values()))

        self._background.run(lambda: read_listed(known, after), take, _not_read, receiver=self._page)

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
