"""The worker process: a reader thread files commands, a writer thread sends events, this thread computes."""

import argparse
import contextlib
import faulthandler
import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from typing import Final

from halftone.contract.errors import ErrorFacts
from halftone.contract.messages import AnyEvent, JobEnded, JobStarted, Keep, Quit
from halftone.contract.wire import WireError, command_reader
from halftone.contract.wording import Words
from halftone.gallery.made import Recorder
from halftone.measure.giving_back import give_back
from halftone.settings.slots import hold_worker_lock
from halftone.settings.streams import LOG_FORMAT, log_words, unfailing
from halftone.worker.engines import ENGINE, engine_maker
from halftone.worker.environment import give_way
from halftone.worker.pipes import FrameWriter, chunks, claim_pipes
from halftone.worker.runner import MEMORY_SECONDS, JobRunner

GRACE_SECONDS: Final = 10.0

EXIT_DEVICE_LOST: Final = 70
EXIT_BAD_COMMANDS: Final = 65
_FLUSH_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a worker on this process' stdin and stdout until Quit, the end of stdin, or a lost device."""
    frames_in, frames_out = claim_pipes()  # before anything is imported that might print
    options = _options(arguments)
    _keep_house()
    if options.give_way:
        give_way()
    alive = hold_worker_lock(options.alive) if options.alive else None
    code = _Worker(frames_in, frames_out, options).run()
    if alive is not None:
        alive.close()
    return code


class _Worker:
    def __init__(self, frames_in: int, frames_out: int, options: argparse.Namespace) -> None:
        self._frames_in = frames_in
        self._grace = float(options.grace)
        self._log_path = log_words(str(options.log))
        self._commands_broke = False
        self._writer = FrameWriter(frames_out, on_broken=self._leave)
        self._recorder = None if options.unlisted else Recorder()
        self._training: str | None = None
        """The job that runs, if it is a training."""
        self._ending = False
        """Whether we leave as soon as that is saved."""
        self._ended = False
        self._runner = JobRunner(
            engine_maker(str(options.engine)),
            self._send,
            log_path=self._log_path,
            is_behind=self._writer.is_behind,
            watch_memory=MEMORY_SECONDS,
        )

    def run(self) -> int:
        """The exit status."""
        log.info("worker %d starts", os.getpid())
        signal.signal(signal.SIGTERM, self._end)
        threading.Thread(target=self._read, name="halftone-commands", daemon=True).start()
        self._runner.run(give_back)
        self._writer.close(_FLUSH_SECONDS)
        log.info("worker %d leaves", os.getpid())
        if self._ended:  # whoever started us is to see what ended us
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            signal.raise_signal(signal.SIGTERM)
        if self._commands_broke:
            return EXIT_BAD_COMMANDS
        return EXIT_DEVICE_LOST if self._runner.device_lost else 0

    def _send(self, event: AnyEvent, blob: bytes) -> None:
        """A picture is on the list before the window hears of it: the window may be gone by then."""
        if self._recorder is not None:
            self._recorder.hear(event, blob)
        if isinstance(event, JobStarted):
            self._training = event.job if event.kind == "train" else None
        elif isinstance(event, JobEnded):
            self._training = None
        self._writer.send(event, blob)
        if isinstance(event, JobEnded) and self._ending:
            self._leave()

    def _end(self, _number: int, _frame: object) -> None:
        """The system ends us: as where nobody listens any more, but a training first saves what it has learnt."""
        self._ended = True
        if self._training is None or self._ending:
            self._leave()
            return
        self._ending = True
        self._runner.submit(Keep(job=self._training))

    def _read(self) -> None:
        reader = command_reader()
        with contextlib.suppress(WireError):  # the reader keeps it
            for data in chunks(self._frames_in):
                for command, _ in reader.feed(data):
                    if self._recorder is not None:
                        self._recorder.expect(command)
                    self._runner.submit(command)
                    if isinstance(command, Quit):
                        self._leave_in_time()
                if reader.error is not None:
                    break
        if reader.error is not None:
            self._commands_broke = True
            log.error("the commands cannot be read: %s", reader.error)
            facts = ErrorFacts(
                code="internal",
                facts={"detail": Words("a command could not be read: {0}", (str(reader.error),)), "log": self._log_path},
            )
            self._runner.refuse("", facts)
        self._leave()

    def _leave(self) -> None:
        """Nobody listens any more: cancel, and leave after the step, in any case within the grace time."""
        self._runner.submit(Quit())
        self._leave_in_time()

    def _leave_in_time(self) -> None:
        timer = threading.Timer(self._grace, _hard_exit)
        timer.daemon = True
        timer.start()


def _hard_exit() -> None:
    log.warning("the step did not end in time; leaving without it")
    os._exit(1)


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m halftone.worker", description="Computes for the window. Speaks frames, not text."
    )
    parser.add_argument("--engine", default=ENGINE, help="module:callable that makes the engine")
    parser.add_argument("--log", default="the log", help="the file that stderr goes to, so that errors can name it")
    parser.add_argument("--grace", type=float, default=GRACE_SECONDS, help="seconds to finish a step after the window has gone")
    parser.add_argument("--alive", default="", help="beginning of the name of a file that stays locked while this process lives")
    parser.add_argument("--give-way", action="store_true", help="let the window go first where both want the processor")
    parser.add_argument("--unlisted", action="store_true", help="keep the pictures out of this user's history: they go elsewhere")
    return parser.parse_args(arguments)


def _keep_house() -> None:
    """Log to stderr, tell crashes there, and leave Ctrl+C to the window."""
    sys.stdout, sys.stderr = unfailing(1), unfailing(2)  # their disk may be full: that ends no job
    logging.basicConfig(level=logging.INFO, format=LOG_FORMAT, stream=sys.stderr)
    faulthandler.enable()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if hasattr(signal, "SIGHUP"):  # of the window's terminal: the window says what is to be done
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    if sys.platform == "win32":
        import ctypes

        no_dialogs = 0x0001 | 0x0002 | 0x8000  # SEM_FAILCRITICALERRORS, SEM_NOGPFAULTERRORBOX, SEM_NOOPENFILEERRORBOX
        ctypes.windll.kernel32.SetErrorMode(no_dialogs)
