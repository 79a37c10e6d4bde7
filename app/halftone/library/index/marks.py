"""What the user keeps about model files: favourites, notes, and when they were used.

It is kept apart from the index, which may be deleted at any time.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from halftone.library.index.entries import Entry
from halftone.library.index.facts import Mark, MarkChange
from halftone.settings.databases import open_sound, renew_if_damaged
from halftone.settings.places import data_dir

_VERSION: Final = 1
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS mark (path BLOB PRIMARY KEY, fingerprint TEXT NOT NULL, favourite INTEGER NOT NULL, "
    "note TEXT NOT NULL, used REAL NOT NULL) WITHOUT ROWID;"
)

_ADD: Final = "INSERT OR IGNORE INTO mark VALUES (?, ?, ?, ?, ?)"
_CHANGE: Final = (
    "UPDATE mark SET fingerprint = ?, favourite = COALESCE(?, favourite), note = COALESCE(?, note), used = COALESCE(?, used) "
    "WHERE path = ?"
)


class Kept(NamedTuple):
    """fingerprint: of the file when it was marked; "" where it was not known."""

    fingerprint: str
    mark: Mark


class Marks:
    """Opens or makes the database of marks. A damaged file is set aside as soon as the damage shows; a new one begins with the
    readable marks. Raises sqlite3.Error where it can be neither opened nor made.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or data_dir() / "model-marks.sqlite"
        self._database = open_sound(self._path, _VERSION, _SCHEMA, "mark")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._database.close()
        renew_if_damaged(self._path, _VERSION, _SCHEMA, "mark", error)

    def all(self) -> dict[str, Kept]:
        rows = self._database.execute("SELECT path, fingerprint, favourite, note, used FROM mark")
        return {
            os.fsdecode(path): Kept(fingerprint, Mark(favourite=bool(favourite), note=note, used=used))
            for path, fingerprint, favourite, note, used in rows
        }

    def keep(self, rows: Iterable[tuple[str, str, Mark, MarkChange]]) -> None:
        """Write (path, fingerprint, mark, change) of each, all or nothing. mark: for a file without one; elsewhere only the
        change is made, as another window may have changed the rest. A mark that says nothing is removed.
        """
        with self._database as database:
            for path, fingerprint, mark, change in rows:
                key = os.fsencode(path)
                database.execute(_ADD, (key, fingerprint, mark.favourite, mark.note, mark.used))
                database.execute(_CHANGE, (fingerprint, change.favourite, change.note, change.used, key))
                database.execute("DELETE FROM mark WHERE path = ? AND NOT favourite AND note = '' AND used = 0", (key,))


def marks_of(entries: Iterable[Entry], kept: Mapping[str, Kept]) -> dict[str, Mark]:
    """Path -> mark. A file without one takes that of a file with its fingerprint which is no longer there: it was moved."""
    found = list(entries)
    here = {entry.path for entry in found}
    moved = {one.fingerprint: one.mark for path, one in kept.items() if one.fingerprint and path not in here}
    marks = {path: one.mark for path, one in kept.items()}
    return marks | {
        entry.path: moved[entry.fingerprint] for entry in found if entry.path not in kept and entry.fingerprint in moved
    }
