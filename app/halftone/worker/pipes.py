"""The worker's ends of the two pipes: frames get descriptors of their own, so that no stray print or read can touch them."""

import logging
import os
import queue
import stat
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Final

from halftone.contract.messages import AnyEvent
from halftone.contract.wire import pack

_CHUNK: Final = 1 << 16
BEHIND_BYTES: Final = 1 << 18
"""More than this waiting: the reader is slow. A step's events are far smaller, a preview is about as large."""
_HANDOVER_SECONDS: Final = 0.1

log = logging.getLogger(__name__)


def claim_pipes() -> tuple[int, int]:
    """Take stdin and stdout for frames: (descriptor to read from, descriptor to write to).

    Afterwards descriptor 1 equals descriptor 2, so that prints of Python and of native code go to the log, and descriptor 0 is
    empty. A reader that blocks in descriptor 0 itself would also stop the C runtime of Windows from loading some libraries.
    """
    frames_in, frames_out = os.dup(0), os.dup(1)
    if sys.platform == "win32":
        import msvcrt

        msvcrt.setmode(frames_in, os.O_BINARY)
        msvcrt.setmode(frames_out, os.O_BINARY)
    _empty_stdin()
    os.dup2(2, 1)
    return frames_in, frames_out


def end_with_parent() -> None:
    """End this process as soon as the program that holds the other end of its stdin is gone. A terminal or a file does not count.

    A killed program cannot end its processes itself.
    """
    try:
        mode = os.fstat(0).st_mode
    except OSError:  # there is no stdin
        return
    if not stat.S_ISFIFO(mode) and not stat.S_ISSOCK(mode):
        return
    parent = os.dup(0)
    _empty_stdin()

    def wait() -> None:
        for _ in chunks(parent):
            pass
        os._exit(0)

    threading.Thread(target=wait, name="halftone-parent", daemon=True).start()


def _empty_stdin() -> None:
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)


def chunks(descriptor: int) -> Iterator[bytes]:
    """What arrives, until the other end is closed."""
    while data := _read(descriptor):
        yield data


def _read(descriptor: int) -> bytes:
    try:
        return os.read(descriptor, _CHUNK)
    except OSError:  # Windows reports a closed pipe as an error
        log.info("the pipe of commands is gone")
        return b""


class FrameWriter:
    """Writes frames from a thread of its own, so that a slow reader never stops the computation.

    While the reader keeps up, `send` returns after the frame was written: events before a crash arrive, and a job that crashes
    the worker was announced, or it would be sent to the next one.

    on_broken: called once, from the writing thread, when the reader has gone; later frames are dropped.
    """

    def __init__(self, descriptor: int, on_broken: Callable[[], None]) -> None:
        self._descriptor = descriptor
        self._on_broken = on_broken
        self._frames: queue.SimpleQueue[bytes | None] = queue.SimpleQueue()
        self._state = threading.Condition()
        self._waiting = 0
        self._slow = False
        self._thread = threading.Thread(target=self._work, name="halftone-frames-out", daemon=True)
        self._thread.start()

    def send(self, event: AnyEvent, blob: bytes = b"") -> None:
        """Queue one frame. Raises TypeError or ValueError when the event holds what the wire cannot carry."""
        frame = pack(event, blob)
        with self._state:
            self._waiting += len(frame)
            self._frames.put(frame)
            if not self._slow:
                self._slow = not self._state.wait_for(lambda: self._waiting == 0, _HANDOVER_SECONDS)

    def is_behind(self) -> bool:
        """True while the reader has much to catch up with."""
        return self._waiting > BEHIND_BYTES

    def close(self, seconds: float) -> None:
        """Write what is queued, waiting for the reader no longer than `seconds`."""
        self._frames.put(None)
        self._thread.join(seconds)

    def _work(self) -> None:
        try:
            while (frame := self._frames.get()) is not None:
                self._write(memoryview(frame))
                self._written(len(frame))
        except OSError:
            log.info("the reader of events is gone")
            self._on_broken()

    def _written(self, size: int) -> None:
        with self._state:
            self._waiting -= size
            if self._waiting == 0:
                self._slow = False
                self._state.notify_all()

    def _write(self, frame: memoryview) -> None:
        while len(frame) > 0:
            written = os.write(self._descriptor, frame)
            frame = frame[written:]
