"""What every command needs at hand: a worker in this process, and the log."""

import contextlib
import os
import sys
from collections.abc import Callable, Generator
from functools import cached_property
from typing import TYPE_CHECKING, Final

from halftone.cli.terminal.control_characters import say
from halftone.contract.engine import Engine
from halftone.contract.wording import Words
from halftone.settings.disk import system_words
from halftone.settings.places import log_dir

if TYPE_CHECKING:
    from halftone.session.workers.in_process import LocalWorker

JOB: Final = "command-line"
"""The one job of this process."""

_LOG_NAME: Final = "command-line.log"


class Tools:
    """Carried through typer's context. engine: None for the real one. quiet: nobody reads what is said meanwhile."""

    def __init__(self, engine: Callable[[], Engine] | None = None, *, quiet: bool = False) -> None:
        self._engine = engine
        self._quiet = quiet

    @cached_property
    def worker(self) -> "LocalWorker":
        """What computes, the same for all jobs; its first command loads torch."""
        from halftone.session.workers.in_process import LocalWorker

        return LocalWorker(log_path(), self._engine, self._say_so)

    def _say_so(self) -> None:
        if not self._quiet and sys.stderr.isatty():
            sys.stderr.write("Loading the engine (takes some seconds) …\n")
            sys.stderr.flush()


def log_path() -> Words | str:
    """The file that keeps the log, as an error names it."""
    try:
        return str(log_dir() / _LOG_NAME)
    except OSError as error:
        return Words("no file, because its folder cannot be made ({0})", (system_words(error),))


_told_lost: set[str] = set()


def _say_lost(why: str) -> None:
    """Once in a process: each part of a command opens the log anew."""
    if not _told_lost:
        _told_lost.add(why)
        say(f"The log cannot be written ({why[:1].lower()}{why[1:]}), so Halftone continues without it.", err=True)


@contextlib.contextmanager
def kept_stdout() -> Generator[None]:
    """What libraries print meanwhile, even native ones, goes to stderr: stdout belongs to the one object."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with contextlib.redirect_stdout(sys.stderr):
            yield
    finally:
        os.dup2(kept, 1)
        os.close(kept)


@contextlib.contextmanager
def kept_log() -> Generator[None]:
    """Everything goes into the log file meanwhile, so that stderr stays for what the user should read."""
    import logging

    from halftone.settings.streams import LogFile

    root, level = logging.getLogger(), logging.getLogger().level
    try:
        handler = LogFile(log_dir() / _LOG_NAME, most=2**20, backups=2, lost=_say_lost)
    except OSError:
        handler = logging.NullHandler()  # a disk that takes no log is no reason to refuse the work
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    logging.captureWarnings(True)
    try:
        yield
    finally:
        logging.captureWarnings(False)
        root.setLevel(level)
        root.removeHandler(handler)
        handler.close()
