"""The list of finished pictures, in SQLite. No picture file is ever touched from here."""

import contextlib
import logging
import os
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Final, Self, TypeVar

import msgspec

from halftone.contract.facts import PictureFacts
from halftone.contract.request import PictureRequest
from halftone.gallery.processes import PREFIX, is_running
from halftone.settings.databases import is_damage, open_database, set_aside
from halftone.settings.places import data_dir

log = logging.getLogger(__name__)

_VERSION: Final = 1
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS picture (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path TEXT NOT NULL UNIQUE,
    made_at TEXT NOT NULL,
    facts BLOB NOT NULL,
    request BLOB NOT NULL,
    thumbnail BLOB NOT NULL
);
"""
_SAVING: Final = """
CREATE TABLE IF NOT EXISTS saving (
    path TEXT NOT NULL PRIMARY KEY,
    job TEXT NOT NULL,
    number INTEGER NOT NULL,
    facts BLOB NOT NULL,
    request BLOB NOT NULL,
    thumbnail BLOB NOT NULL
);
"""
"""Pictures of jobs that are not over. Each is written here before its file: whoever dies in between leaves a file that is known.
An older Halftone does not look at this table."""
_facts = msgspec.msgpack.Decoder(PictureFacts)
_request = msgspec.msgpack.Decoder(PictureRequest)

Row = tuple[str, str, bytes, bytes, bytes]
"""Path, moment, facts, request, thumbnail."""
_ROW_TYPES: Final = (str, str, bytes, bytes, bytes)
_MOST_ROWS: Final = 1_000_000
Found = TypeVar("Found")


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One finished picture. made_at: ISO 8601 with offset; thumbnail: a PNG file's bytes, may be empty."""

    id: int
    made_at: str
    facts: PictureFacts
    request: PictureRequest
    thumbnail: bytes

    @property
    def path(self) -> Path:
        return Path(self.facts.path)

    @property
    def gone(self) -> bool:
        """Whether the file is not there although its folder is."""
        return is_gone(self.path)


class History:
    """Opens or makes the list. Several programs may use it at once. A damaged file is set aside as soon as the damage shows, and
    a new one begins with the readable pictures.

    Raises sqlite3.OperationalError when the list cannot be opened, NewerDatabaseError for a newer one.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or data_dir() / "history.sqlite"
        try:
            self._database = _opened(self._path)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):  # locked for too long, no right to write: the list itself is sound
                raise
            self._database = _begun_anew(self._path, error)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._database.close()

    def add(self, facts: PictureFacts, request: PictureRequest, thumbnail: bytes) -> Entry:
        """Remember a picture; the same path again replaces what was remembered. Raises sqlite3.Error."""
        made_at = _now()
        row = (facts.path, made_at, msgspec.msgpack.encode(facts), msgspec.msgpack.encode(request), thumbnail)
        number = self._try(lambda database: _insert(database, row))
        return Entry(id=number or 0, made_at=made_at, facts=facts, request=request, thumbnail=thumbnail)

    def expect(self, job: str, facts: PictureFacts, request: PictureRequest, thumbnail: bytes) -> None:
        """Note a picture that is about to be saved. job: the one that makes it. Raises sqlite3.Error."""
        row = (facts.path, job, facts.index, msgspec.msgpack.encode(facts), msgspec.msgpack.encode(request), thumbnail)

        def insert(database: sqlite3.Connection) -> None:
            with database:
                database.execute("INSERT OR REPLACE INTO saving VALUES (?, ?, ?, ?, ?, ?)", row)

        self._try(insert)

    def settle(self) -> int:
        """List the pictures whose files were written by a process that died before it listed them; return how many."""
        unlisted = (
            "SELECT path, facts, request, thumbnail FROM saving WHERE path NOT IN (SELECT path FROM picture) ORDER BY number"
        )
        rows = self._try(lambda database: database.execute(unlisted).fetchall())
        found = [row for row in rows if os.path.exists(row[0])]
        now = _now()
        for path, facts, request, thumbnail in found:
            self._try(lambda database, row=(path, now, facts, request, thumbnail): _insert(database, row))
        return len(found)

    def last_of(self, job: str) -> Entry | None:
        """The last picture that a job finished, also of a job whose process died; None where there is none. It lists that."""
        self.settle()
        statement = (
            "SELECT picture.id, made_at, picture.facts, picture.request, picture.thumbnail FROM saving JOIN picture USING (path)"
            " WHERE job = ? ORDER BY number DESC LIMIT 1"
        )
        row = self._try(lambda database: database.execute(statement, (job,)).fetchone())
        return None if row is None else _entry(row)

    def forget_jobs(self, jobs: Iterable[str]) -> None:
        """Drop what was noted for jobs that are over. Raises sqlite3.Error."""
        over = [(job,) for job in jobs]

        def delete(database: sqlite3.Connection) -> None:
            with database:
                database.executemany("DELETE FROM saving WHERE job = ?", over)

        self._try(delete)

    def killed_processes(self) -> list[str]:
        """The processes that noted pictures and were killed before these were listed."""
        statement = "SELECT DISTINCT job FROM saving WHERE job LIKE ?"
        rows = self._try(lambda database: database.execute(statement, (f"{PREFIX}%",)).fetchall())
        return [job for (job,) in rows if not is_running(job)]

    def find(self, path: str) -> Entry | None:
        """The picture at this path, None where it is not listed."""
        statement = "SELECT id, made_at, facts, request, thumbnail FROM picture WHERE path = ?"
        row = self._try(lambda database: database.execute(statement, (path,)).fetchone())
        return None if row is None else _entry(row)

    def recent(self, limit: int = 200, *, after: int = 0, thumbnails: bool = True) -> list[Entry]:
        """The latest pictures, the newest first, with an id above `after`. Whether a file is there, `Entry.gone` tells.

        thumbnails: False leaves them empty, which reads a long list many times as fast.
        """
        thumbnail = "thumbnail" if thumbnails else "x'' AS thumbnail"
        statement = f"SELECT id, made_at, facts, request, {thumbnail} FROM picture WHERE id > ? ORDER BY id DESC LIMIT ?"
        rows = self._try(lambda database: database.execute(statement, (after, limit)).fetchall())
        return [entry for row in rows if (entry := _entry(row)) is not None]

    def since(self, after: int, at_once: int) -> Iterator[list[Entry]]:
        """All pictures with an id above `after`, the oldest first, some at a time."""
        statement = "SELECT id, made_at, facts, request, thumbnail FROM picture WHERE id > ? ORDER BY id LIMIT ?"
        while rows := self._try(lambda database, after=after: database.execute(statement, (after, at_once)).fetchall()):
            if entries := [entry for row in rows if (entry := _entry(row)) is not None]:
                yield entries
            after = rows[-1][0]

    def newest(self) -> int:
        """The highest id that any picture had, also one that was removed; 0 where there was none."""
        statement = "SELECT max(seq) FROM sqlite_sequence WHERE name = 'picture'"
        return self._try(lambda database: database.execute(statement).fetchone())[0] or 0

    def requests(self) -> list[bytes]:
        """The stored requests of all pictures, those too that this version does not understand."""
        rows = self._try(lambda database: database.execute("SELECT request FROM picture").fetchall())
        return [request for (request,) in rows]

    def forget_missing(self) -> int:
        """Remove pictures from the list whose file is gone."""
        rows = self._try(lambda database: database.execute("SELECT id, path FROM picture").fetchall())
        gone = [(number,) for number, path in rows if isinstance(path, str) and is_gone(Path(path))]

        def delete(database: sqlite3.Connection) -> None:
            with database:
                database.executemany("DELETE FROM picture WHERE id = ?", gone)

        self._try(delete)
        return len(gone)

    def _try(self, work: Callable[[sqlite3.Connection], Found]) -> Found:
        """Run work on the list; where a page turns out to be damaged, on the rest of it."""
        try:
            return work(self._database)
        except sqlite3.DatabaseError as error:
            if not is_damage(error):
                raise
            self._database.close()
            self._database = self._mended(work, error)
            return work(self._database)

    def _mended(self, work: Callable[[sqlite3.Connection], object], error: sqlite3.DatabaseError) -> sqlite3.Connection:
        """Another program may have begun a new list already: then that is used."""
        try:
            database = _opened(self._path)
        except sqlite3.DatabaseError as again:
            if not is_damage(again):
                raise
            return _begun_anew(self._path, again)
        try:
            work(database)
        except sqlite3.DatabaseError:
            database.close()
            return _begun_anew(self._path, error)
        return database


def _now() -> str:
    return datetime.now(UTC).astimezone().isoformat(timespec="seconds")


def is_gone(path: Path) -> bool:
    """Whether the file is missing although its folder is there (a drive that is away is no loss)."""
    return os.path.isdir(path.parent) and not os.path.exists(path)


def _insert(database: sqlite3.Connection, row: Row) -> int | None:
    with database:
        statement = "INSERT OR REPLACE INTO picture (path, made_at, facts, request, thumbnail) VALUES (?, ?, ?, ?, ?)"
        return database.execute(statement, row).lastrowid


def _begun_anew(path: Path, error: sqlite3.DatabaseError) -> sqlite3.Connection:
    """A new list with the readable rows; the damaged one stays beside it under another name. Raises OSError."""
    aside = set_aside(path)
    database = _opened(path)
    saved = 0
    for row in _readable(aside):
        _insert(database, row)
        saved += 1
    log.warning("The picture history was damaged (%s). It was set aside as %s; %d pictures were saved.", error, aside.name, saved)
    return database


def _readable(path: Path) -> Iterator[Row]:
    """The rows of a damaged list, read by number, so that an unreadable one stops no other."""
    try:
        database = sqlite3.connect(path)
    except sqlite3.Error:
        return
    with contextlib.closing(database):
        for number in range(1, _newest(database) + 1):
            statement = "SELECT path, made_at, facts, request, thumbnail FROM picture WHERE id = ?"
            try:
                row = database.execute(statement, (number,)).fetchone()
            except sqlite3.Error:
                continue
            if row is not None and tuple(map(type, row)) == _ROW_TYPES:
                yield row


def _newest(database: sqlite3.Connection) -> int:
    """The highest number in a damaged list, 0 where nothing can be read."""
    for statement in ("SELECT seq FROM sqlite_sequence WHERE name = 'picture'", "SELECT MAX(id) FROM picture"):
        with contextlib.suppress(sqlite3.Error):
            found = database.execute(statement).fetchone()
            if found is not None and isinstance(found[0], int):
                return min(found[0], _MOST_ROWS)
    return 0


def _opened(path: Path) -> sqlite3.Connection:
    return open_database(path, _VERSION, _SCHEMA + _SAVING)


def _entry(row: tuple[int, str, bytes, bytes, bytes]) -> Entry | None:
    """None for an entry of an older version that is no longer understood."""
    number, made_at, facts, request, thumbnail = row
    try:
        found = Entry(
            id=number, made_at=made_at, facts=_facts.decode(facts), request=_request.decode(request), thumbnail=thumbnail
        )
    except (msgspec.MsgspecError, TypeError, ValueError, RecursionError) as error:
        log.info("picture %d of the history is left out: %s", number, error)
        return None
    return found
