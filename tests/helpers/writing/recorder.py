"""Every write of a process, as Python's audit hooks see it; those outside the allowed folders go to a file.

Two rules:

* Nobody writes outside the folder of the tests (`HALFTONE_TEST_FOLDER`) and Halftone's own (`HALFTONE_DATA`, temporary files, the
  launcher's `.halftone`).
* Halftone's readers of files (`READERS`) write outside its own folders only in the modules of `ASKED`. So nothing that watches,
  reads or lists the folders of other programs ever writes there.

Not seen: what Qt and Rust write without Python. Only the standard library is imported: it runs before anything else.
"""

import os
import sys
from collections.abc import Callable
from threading import get_ident
from types import FrameType
from typing import Any, Final

FILE: Final = "HALFTONE_TEST_WRITES"
"""The variable that names the file."""
OWN: Final = "HALFTONE_TEST_OWN"
TESTS: Final = "HALFTONE_TEST_FOLDER"
FOLDER: Final = os.path.dirname(os.path.abspath(__file__))
"""On PYTHONPATH, it makes a process record its writes."""
READERS: Final = ("halftone.library.", "halftone.gallery.", "halftone.health.", "halftone.measure.")
"""What looks at files of the user's and of other programs."""
ASKED: Final[tuple[str, ...]] = (
    "halftone.gallery.catalogue",  # databases of Halftone's own, which tests put anywhere
    "halftone.gallery.history",
    "halftone.library.index.store",
    "halftone.library.prompts.styles",  # the user's file of styles
    "halftone.library.training_data.training_runs",  # locks the mark of one of Halftone's runs
)
"""Modules of these that write where the user or the test asked, and why."""
_TOOLS: Final = ("halftone.settings.", "halftone.contract.")
"""They write for who calls them."""
_DATA: Final = "HALFTONE_DATA"
_WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_LAUNCHERS: Final = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(FOLDER))), ".halftone")
"""Where the launcher keeps the environment; it tries the disk there."""
CARD: Final = os.environ.get("HALFTONE_CARD_CACHE", os.path.join(os.path.expanduser("~"), ".cache", "halftone-tests"))
"""Where the accelerator in software is kept (`tests/accelerator/card.py`): the first test that needs it compiles it."""
_QUIET: Final = ("/dev/", "/proc/", "/sys/")
_CACHES: Final = ("__pycache__", ".hypothesis", ".pytest_cache", "torchinductor_")
_EMPTY: Final = (None, -1)


def _opened(path: Any, _mode: Any, flags: int) -> tuple[tuple[Any, Any], ...]:
    return ((path, None),) if flags & _WRITES else ()


def _connected(database: Any) -> tuple[tuple[Any, Any], ...]:
    text = os.fsdecode(database)
    reads = text in ("", ":memory:") or (text.startswith("file:") and ("mode=ro" in text or "immutable=1" in text))
    return () if reads else ((text.removeprefix("file:").partition("?")[0], None),)


_EVENTS: Final[dict[str, Callable[..., tuple[tuple[Any, Any], ...]]]] = {
    "open": _opened,
    "os.rename": lambda source, target, from_fd, to_fd: ((source, from_fd), (target, to_fd)),
    "os.remove": lambda path, fd: ((path, fd),),
    "os.rmdir": lambda path, fd: ((path, fd),),
    "os.mkdir": lambda path, _mode, fd: ((path, fd),),
    "os.truncate": lambda path, _length: ((path, None),),
    "os.link": lambda _source, target, _from_fd, to_fd: ((target, to_fd),),
    "os.symlink": lambda _source, target, fd: ((target, fd),),
    "os.chmod": lambda path, _mode, fd: ((path, fd),),
    "os.utime": lambda path, _times, _ns, fd: ((path, fd),),
    "sqlite3.connect": _connected,
}
"""Event -> the (path, folder it is relative to) that it changes."""


def record_here() -> None:
    """From now on, to the end of the process."""
    report = os.environ[FILE]
    busy: set[int] = set()
    """Threads whose write is being judged."""

    def hook(event: str, args: tuple[Any, ...]) -> None:
        paths = _EVENTS.get(event)
        if paths is None or get_ident() in busy:
            return
        for path, folder in paths(*args):
            if isinstance(path, int) or path is None:
                continue
            busy.add(get_ident())
            try:
                if complaint := judged(event, _whole(path, folder)):
                    with open(report, "a", encoding="utf-8") as file:
                        file.write(complaint + "\n")
            finally:
                busy.discard(get_ident())

    sys.addaudithook(hook)


def recorded(report: str | os.PathLike[str], before: int) -> str:
    """What the file names since it had that many bytes."""
    with open(report, "rb") as file:
        file.seek(before)
        return file.read().decode("utf-8").strip()


def judged(event: str, path: str) -> str:
    """What is wrong with a write, "" for nothing."""
    if path.startswith(_QUIET) or _inside(path, _LAUNCHERS) or any(cache in path for cache in _CACHES):
        return ""
    if any(_inside(path, os.environ[own]) for own in (OWN, _DATA) if os.environ.get(own)):
        return ""
    if _inside(path, CARD) or (event == "os.mkdir" and _inside(CARD, path)):
        return ""
    if event == "os.mkdir" and os.path.isdir(path):
        return ""  # it is there: nothing changes
    if event == "os.chmod" and _inside(os.environ[TESTS], path):
        return ""  # a test opens the way to its own folder for another user
    modules = _modules()
    if modules is None:
        return ""
    if not _inside(path, os.environ[TESTS]):
        return f"{event} {path} by {' < '.join(modules) or 'no module of Halftone'}: outside all folders of the tests"
    writer = next((module for module in modules if not module.startswith(_TOOLS)), "")
    if writer.startswith(READERS) and not writer.startswith(ASKED):
        return f"{event} {path} by {' < '.join(modules)}: nobody asked for it"
    return ""


def _whole(path: Any, folder: Any) -> str:
    text = os.fsdecode(path)
    if folder not in _EMPTY and not os.path.isabs(text):
        text = os.path.join(os.readlink(f"/proc/self/fd/{folder}"), text)
    return os.path.abspath(text)


def _inside(path: str, folder: str) -> bool:
    return path == folder or path.startswith(folder.rstrip(os.sep) + os.sep)


def _modules() -> list[str] | None:
    """Halftone's modules that are running, the innermost first; none where a test itself writes, None where pytest does."""
    found: list[str] = []
    frame: FrameType | None = sys._getframe(3)  # past the hook
    while frame is not None:
        name = str(frame.f_globals.get("__name__", ""))
        if name.startswith("_pytest.") and not found:
            return None
        if name.startswith(("tests.", "_pytest.")):
            break
        if name.startswith("halftone.") and name not in found:
            found.append(name)
        frame = frame.f_back
    return found
