"""Notices changes below the watched folders by looking at the times of folders and files.

A new, removed or renamed file changes the time of its folder; looking at folders costs next to nothing. A file that is written
over changes only itself; looking at all files costs some microseconds each. Both looks are spaced so that they take no more than
a fixed share of the time: slow network drives are looked at less often.
"""

import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from halftone.library.index.scan import Scanned, is_settled, scan
from halftone.library.index.store import Index

FOLDERS: Final = 0.3, 0.004
FILES: Final = 1.0, 0.012
"""Least seconds between two looks, and the share of the time that looking may take."""
_LOOK: Final = 0.1
_ALIVE: Final = 30.0


class Stamps:
    """The times and sizes of some paths. cost: seconds of the last look; known: what they were when a scan saw the paths."""

    def __init__(
        self,
        paths: Sequence[str],
        least: float,
        share: float,
        clock: Callable[[], float] = time.monotonic,
        known: Iterable[int | None] = (),
    ) -> None:
        self.paths = paths
        self._least = least
        self._share = share
        self._clock = clock
        self._known = list(known)
        self._due = 0.0
        if not self._known:
            self.changed()

    def changed(self) -> bool:
        """Whether one of them changed since the last look; always False before it is time for another."""
        began = self._clock()
        if self._known and began < self._due:
            return False
        known, self._known = self._known, [stamp_of(path) for path in self.paths]
        ended = self._clock()
        self.cost = ended - began
        self._due = ended + max(self._least, self.cost / self._share)
        return known != self._known


def stamp_of(path: str) -> int | None:
    """A number that changes with the time or the size of a file or folder, None where there is none."""
    try:
        facts = os.stat(path)
    except OSError:
        return None
    return facts.st_mtime_ns * 31 + facts.st_size


def is_due(seen: Iterable[Stamps], growing: Iterable[str]) -> bool:
    """Whether it is time for another scan: something changed, or a file is no longer written to."""
    return any(stamps.changed() for stamps in seen) or any(map(is_settled, growing))


def watch(
    index: Index,
    folders: Sequence[str],
    progress: Callable[[str, int, int], object],
    scanned: Callable[[tuple[Scanned, ...]], object],
    alive: Callable[[], object],
) -> None:
    """Scan now, and again whenever something changes, for ever.

    scanned: gets the first scan and each that found a change; alive: is called now and then, and may end the watch with an error.
    """
    known: tuple[tuple[str, ...], tuple[int, ...]] | None = None
    seen = Stamps((), *FOLDERS), Stamps((), *FILES)
    while True:
        found = scan(index, folders, progress, patient=True)
        places = tuple(place for one in found for place in one.places)
        now = places, tuple(one.files for one in found)  # a file that goes while it is written was never read
        if now != known or any(one.read or one.gone for one in found):
            scanned(found)
            known = now
            growing = {path for one in found for path in one.growing}
            contents = tuple(path for one in found for path in one.contents if path not in growing)
            seen = Stamps(places, *FOLDERS), Stamps(contents, *FILES)
            continue  # what changed while this scan ran is found by the next
        _wait(seen, tuple(path for one in found for path in one.growing), alive)


def _wait(seen: Sequence[Stamps], growing: Sequence[str], alive: Callable[[], object]) -> None:
    """Return when something changed, or a file is no longer written to."""
    due = 0.0
    while not is_due(seen, growing):
        if (now := time.monotonic()) >= due:
            alive()
            due = now + _ALIVE
        time.sleep(_LOOK)
