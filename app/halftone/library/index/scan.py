"""Brings the index up to date: walks the user's folders, reads what is new or changed, and forgets what is gone.

The first scan of a large library reads thousands of headers, and does so in several processes.
"""

import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import Final

import msgspec

from halftone.library.index.entries import Read, read
from halftone.library.index.store import Index
from halftone.library.index.walk import Found, Walk, is_inside, outermost

_ALONE: Final = 400
"""Files that are read sooner than further processes start."""
_AT_ONCE: Final = 100
"""Files of one task, and of one write."""
_MOST_PROCESSES: Final = 4
SETTLED: Final = 0.5
"""Seconds without a change after which a file counts as whole: programs that copy or fetch one write it all the time."""


class Scanned(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a scan of one root. files: all that are there now. offline: the folder is not there, and what the index knows
    of it stays. closed: folders that could not be read. growing: files that were left out because they are being written.
    places, contents: the folders and, of a patient scan, the files whose times show a change.
    """

    root: str
    files: int = 0
    read: int = 0
    gone: int = 0
    offline: bool = False
    closed: tuple[str, ...] = ()
    growing: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    contents: tuple[str, ...] = ()


def scan(
    index: Index,
    folders: Sequence[str],
    progress: Callable[[str, int, int], object] = lambda _root, _done, _all: None,
    *,
    patient: bool = False,
) -> tuple[Scanned, ...]:
    """Bring the index up to date with these folders; others stay, as another program may watch them.

    progress: gets root, files read, files to read. patient: leave files that are being written for a later scan.

    Raises sqlite3.Error.
    """
    roots = outermost(folders)
    walk = Walk(roots)
    return tuple(
        _scan(index, walk, root, lambda done, of, root=root: progress(root, done, of), patient=patient) for root in roots
    )


def _scan(index: Index, walk: Walk, root: str, progress: Callable[[int, int], object], *, patient: bool) -> Scanned:
    known = index.stamps(root)
    if is_offline(root):
        return Scanned(root=root, files=len(known), offline=True, places=(root,))
    changed: list[Found] = []
    growing: list[str] = []
    contents: list[str] = []
    walked = len(walk.folders)
    files = 0
    pop, encoding, errors = known.pop, sys.getfilesystemencoding(), sys.getfilesystemencodeerrors()
    for found in walk.files(root):
        files += 1
        path, _, stamp, beside = found
        if patient:
            contents.append(path)
            if beside:
                folder = path[: path.rindex(os.sep) + 1]
                contents += [folder + name for name in beside]
        if pop(path.encode(encoding, errors), None) != stamp:  # os.fsencode takes twice the time
            if patient and not is_settled(path):
                growing.append(path)
            else:
                changed.append(found)
    closed = tuple(folder for folder in walk.closed if is_inside(folder, root))
    gone = [path for path in known if not any(is_inside(os.fsdecode(path), folder) for folder in closed)]
    done = 0
    progress(done, len(changed))
    for rows in _read(changed):
        index.keep(root, rows, ())
        progress(done := done + len(rows), len(changed))
    if gone:
        index.keep(root, (), gone)
    return Scanned(
        root=root,
        files=files,
        read=len(changed),
        gone=len(gone),
        closed=closed,
        growing=tuple(growing),
        places=tuple(dict.fromkeys((root, *walk.folders[walked:]))),
        contents=tuple(contents),
    )


def _read(changed: Sequence[Found]) -> Iterator[list[tuple[int, Read]]]:
    """(stamp, what was read) of each, some at a time, in any order."""
    parts = [changed[start : start + _AT_ONCE] for start in range(0, len(changed), _AT_ONCE)]
    processes = min(_MOST_PROCESSES, os.cpu_count() or 1)
    if len(changed) < _ALONE or processes == 1:
        yield from map(_rows, parts)
        return
    spawn = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=spawn, initializer=_end_with_parent) as pool:
        yield from pool.map(_rows, parts)


def _rows(part: Sequence[Found]) -> list[tuple[int, Read]]:
    return [(found.stamp, read(found)) for found in part]


def _end_with_parent() -> None:
    """End this process as soon as the one that started it is gone: a killed process cannot stop its helpers."""
    parent = multiprocessing.parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(0)

    threading.Thread(target=wait, name="parent", daemon=True).start()


def is_settled(path: str) -> bool:
    """Whether a file was not written to for a moment."""
    try:
        return is_old(os.stat(path).st_mtime)
    except OSError:
        return True


def is_old(written: float) -> bool:
    """Whether a file last written at this time is whole by now. A time in the future is another clock's, and counts as old."""
    return abs(time.time() - written) > SETTLED


def is_offline(root: str) -> bool:
    """Whether a watched folder or file is not there now. The files of a drive that is away stay listed."""
    return not os.path.exists(root)
