"""One set-up at a time, and no folder deleted while a program runs from it."""

import contextlib
import errno
import os
import re
import shutil
import sys
from collections.abc import Generator
from typing import IO

from installer import places, versions
from installer.words import Reporter

LOCK = "setup.lock"
OURS = re.compile(r"env-[0-9a-f]{8}|current\.\d+|probe-ü [0-9a-f]{8}(-renamed)?|uv-[\d.]+-staging-\d+")


def try_lock(file: IO[bytes]) -> bool:
    """The system's own lock: it dies with its process, however that ends, so there is no stale one to judge."""
    try:
        if sys.platform == "win32":
            import msvcrt

            file.seek(0)
            msvcrt.locking(file.fileno(), msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        return not is_held(error)
    return True


def is_held(error: OSError) -> bool:
    """Whether someone has the lock. All else means that this file system has none; going on is better than waiting for ever."""
    return error.errno in (errno.EAGAIN, errno.EACCES, errno.EDEADLK)


@contextlib.contextmanager
def only_one(home: str, reporter: Reporter, pause: float = 0.5) -> Generator[None]:
    """Hold the set-up lock of a home folder, waiting for another launcher to finish first."""
    import threading

    with open(os.path.join(home, LOCK), "a+b") as file:
        said = False
        while not try_lock(file):
            if not said:
                reporter.line("Another Halftone set-up is running; waiting for it to finish (Ctrl-C stops waiting).")
                said = True
            threading.Event().wait(pause)
        yield  # Closing the file gives the lock back.


def in_use(env: str) -> bool:
    """Does a program run from this environment? See `start.hold`."""
    mark = os.path.join(env, places.IN_USE)
    try:
        if sys.platform == "win32":
            os.rename(mark, mark + "-not")
            os.rename(mark + "-not", mark)
        else:
            import fcntl

            with open(mark, "rb") as file:
                fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
    except FileNotFoundError:
        return False
    except OSError as error:
        return sys.platform == "win32" or is_held(error)
    return False


def remove(folder: str) -> None:
    """Delete an environment so that an interruption cannot leave a half-deleted one that looks whole: its stamp goes first."""
    with contextlib.suppress(OSError):
        os.unlink(os.path.join(folder, places.STAMP))
    remove_tree(folder)


def remove_tree(folder: str) -> None:
    """Delete a folder, and the bytecode of what was in it where packages keep it: by its whole path below a folder for all."""
    shutil.rmtree(folder, ignore_errors=True)
    if sys.pycache_prefix:
        path = os.path.splitdrive(os.path.abspath(folder))[1].lstrip("/\\")
        shutil.rmtree(os.path.join(sys.pycache_prefix, path), ignore_errors=True)


def sweep(home: str, keep: str | None) -> None:
    """Delete what earlier set-ups left: environments no longer current, and all that an interrupted one had begun.

    Call with the lock held; then whatever is not current, not in use and not of another version belongs to nobody. HALFTONE_HOME
    may hold other things of its owner, so only names that the launcher itself makes are touched.
    """
    spared = versions.spared(home, keep)
    for name in os.listdir(home):
        path = os.path.join(home, name)
        if not OURS.fullmatch(name) or path == keep or path in spared or (os.path.isdir(path) and in_use(path)):
            continue
        if os.path.isdir(path):
            remove(path)
        else:
            with contextlib.suppress(OSError):
                os.unlink(path)
