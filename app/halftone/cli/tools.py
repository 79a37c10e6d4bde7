"""What every command needs at hand: the engine's maker and the log."""

import contextlib
import os
import sys
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Final, cast

from halftone.contract.engine import Engine
from halftone.settings.places import log_dir

JOB: Final = "command-line"
"""The one job of this process."""

_LOG_FORMAT: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class Tools:
    """Carried through typer's context. engine: None for the real one."""

    def __init__(self, engine: Callable[[], Engine] | None = None) -> None:
        self._engine = engine

    def make_engine(self) -> Engine:
        """The engine that computes; importing the real one loads torch."""
        if self._engine is not None:
            return self._engine()
        from halftone.worker.environment import prepare

        prepare()
        from halftone.engine.service import DiffusersEngine

        return cast("Engine", DiffusersEngine())


def log_file() -> Path:
    return log_dir() / "command-line.log"


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
    import logging.handlers

    root, level = logging.getLogger(), logging.getLogger().level
    handler = logging.handlers.RotatingFileHandler(log_file(), maxBytes=2**20, backupCount=2, encoding="utf-8", delay=True)
    handler.setFormatter(logging.Formatter(_LOG_FORMAT))
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
