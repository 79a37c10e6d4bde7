"""Plays a video on loop: its frames are decoded a few at a time off the UI thread, and handed over when each is due."""

import logging
from collections import deque
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from PySide6.QtCore import QObject, Qt, QTimer, Signal
from PySide6.QtGui import QImage

from halftone.contract.errors import HalftoneError
from halftone.gui.background import Background
from halftone.gui.i18n import tr
from halftone.gui.text import problem
from halftone.metadata.video import read_frames

if TYPE_CHECKING:
    from halftone.metadata.video import Pixels

_AT_ONCE: Final = 6
"""Frames that are decoded in one go; at most twice as many are held, however long the video is."""
_SHORTEST: Final = 0.01
_log = logging.getLogger(__name__)

Frame = tuple[QImage, float]


class _Reel:
    """A video file that is read again and again. Only one thread uses it at a time."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._frames: Iterator[tuple[Pixels, float]] | None = None
        self._empty = True

    def read(self) -> list[Frame]:
        """The next frames and for how many seconds each is shown; fewer at the end, after which it begins again.

        Raises OSError, and HalftoneError video-codec or video-damaged.
        """
        if self._frames is None:
            self._frames = read_frames(self._path)
        found: list[Frame] = []
        for pixels, seconds in self._frames:
            self._empty = False
            found.append((as_image(pixels), seconds))
            if len(found) == _AT_ONCE:
                return found
        self._frames = None
        if self._empty:
            raise HalftoneError("video-damaged", path=self._path.name)
        return found


def as_image(pixels: "Pixels") -> QImage:
    """(height, width, 3) bytes as a picture of its own."""
    height, width = pixels.shape[:2]
    return QImage(pixels.tobytes(), width, height, 3 * width, QImage.Format.Format_RGB888).copy()


def first_frame(path: Path) -> QImage:
    """Return a null image where the file cannot be read: who plays it hears why. Not for the UI thread."""
    try:
        frame = next(iter(read_frames(path)), None)
    except (OSError, HalftoneError) as error:
        _log.info("the video has no first frame: %s", error)
        return QImage()
    return QImage() if frame is None else as_image(frame[0])


class Player(QObject):
    """`framed`: the picture that is due; `failed`: why the video cannot be played. While it is paused nothing is decoded."""

    framed = Signal(QImage)
    failed = Signal(str)

    def __init__(self, background: Background, parent: QObject) -> None:
        super().__init__(parent)
        self._background = background
        self._reel: _Reel | None = None
        self._asking: _Reel | None = None
        self._waiting: deque[Frame] = deque()
        self._running = True
        self._timer = QTimer(self, singleShot=True, timerType=Qt.TimerType.PreciseTimer)
        self._timer.timeout.connect(self._show)

    @property
    def playing(self) -> bool:
        return self._reel is not None

    def play(self, path: Path) -> None:
        """From its beginning, again and again."""
        self.stop()
        self._reel = _Reel(path)
        self._ask()

    def stop(self) -> None:
        self._reel = None
        self._asking = None
        self._waiting.clear()
        self._timer.stop()

    def set_running(self, running: bool) -> None:
        """Whether anybody can see it."""
        self._running = running
        if running and self._reel is not None and not self._timer.isActive():
            self._show()

    def _ask(self) -> None:
        reel = self._reel
        if reel is None or self._asking is reel:
            return
        self._asking = reel
        self._background.run(reel.read, partial(self._take, reel), partial(self._failed, reel), receiver=self)

    def _take(self, reel: _Reel, frames: list[Frame]) -> None:
        if reel is not self._reel:
            return
        self._asking = None
        self._waiting.extend(frames)
        if not self._timer.isActive():
            self._show()

    def _failed(self, reel: _Reel, error: Exception) -> None:
        """Leave what is shown, and say why it does not move."""
        _log.info("the video cannot be played", exc_info=error)
        if reel is self._reel:
            self.stop()
            why = problem(error)
            self.failed.emit(why if isinstance(error, HalftoneError) else tr("The video could not be read: {0}.", why))

    def _show(self) -> None:
        if not self._running or self._reel is None:
            return
        if self._waiting:
            image, seconds = self._waiting.popleft()
            self._timer.start(round(1000 * max(seconds, _SHORTEST)))
            self.framed.emit(image)
        if len(self._waiting) <= _AT_ONCE:
            self._ask()
