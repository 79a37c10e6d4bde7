"""Opens Halftone's own SQLite files: for their owner alone, with a version, and anew where one is damaged."""

import contextlib
import logging
import os
import sqlite3
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from halftone.contract.wording import Words
from halftone.settings.private import make_private

BUSY_SECONDS: Final = 5.0

log = logging.getLogger(__name__)


class NewerDatabaseError(sqlite3.OperationalError):
    """A newer Halftone wrote the file; it stays unchanged."""


def open_database(path: Path, version: int, schema: str) -> sqlite3.Connection:
    """Open or make a database. schema: statements that change nothing where all is there. Raises sqlite3.Error."""
    with contextlib.suppress(OSError):  # SQLite itself says why
        make_private(path)
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return _opened(path, version, schema)
        except sqlite3.OperationalError as error:
            # the change to WAL does not wait for another program that makes the same file
            if getattr(error, "sqlite_errorcode", 0) != sqlite3.SQLITE_BUSY or time.monotonic() > until:
                raise
            time.sleep(0.02)


def _opened(path: Path, version: int, schema: str) -> sqlite3.Connection:
    database = sqlite3.connect(path, timeout=BUSY_SECONDS)
    try:
        found = database.execute("PRAGMA user_version").fetchone()[0]
        if found not in (0, version):
            raise NewerDatabaseError(f"{path.name} belongs to a newer Halftone: it has version {found}, this one knows {version}")
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        # writing the version again would look like a change to who watches the file
        number = f"PRAGMA user_version = {version};" if found != version else ""
        database.executescript(f"BEGIN {'IMMEDIATE' if number else ''}; {schema} {number} COMMIT;")
    except BaseException:
        database.close()
        raise
    return database


def open_sound(path: Path, version: int, schema: str, kept: str) -> sqlite3.Connection:
    """Open or make a database; a damaged one is set aside, and the new one begins with the readable rows of the table `kept`.

    Raises sqlite3.Error and OSError.
    """
    try:
        return open_database(path, version, schema)
    except sqlite3.DatabaseError as error:
        if not is_damage(error):
            raise
        return _begun_anew(path, version, schema, kept, error)


def renew_if_damaged(path: Path, version: int, schema: str, kept: str, error: object) -> None:
    """Begin a database anew where this error shows damage, unless another program did so already."""
    if not isinstance(error, sqlite3.DatabaseError) or not is_damage(error):
        return
    with contextlib.suppress(sqlite3.Error, OSError), contextlib.closing(open_sound(path, version, schema, kept)) as database:
        with contextlib.suppress(sqlite3.DatabaseError):
            if database.execute("PRAGMA quick_check(1)").fetchone() == ("ok",):
                return
        database.close()
        _begun_anew(path, version, schema, kept, error).close()


def is_damage(error: sqlite3.DatabaseError) -> bool:
    """Whether the file is damaged, or no database at all; https://www.sqlite.org/rescode.html."""
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB)


def database_words(error: Exception) -> Words:
    """Why a database cannot be used, and what to do."""
    if isinstance(error, NewerDatabaseError):
        return Words("A newer Halftone wrote this file. Update this one.")
    match getattr(error, "sqlite_errorcode", 0) & 0xFF:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return Words("Another program holds this file. Try again in a moment.")
        case sqlite3.SQLITE_FULL:
            return Words("The disk is full. Free some space.")
        case sqlite3.SQLITE_CANTOPEN | sqlite3.SQLITE_READONLY | sqlite3.SQLITE_PERM | sqlite3.SQLITE_AUTH:
            return Words("The file cannot be opened. Check the rights to its folder.")
        case _:
            return Words("The file cannot be used. Start Halftone again.")


def set_aside(path: Path) -> Path:
    """Move the file away with its write-ahead log, which holds the latest rows until SQLite tidies up."""
    number = 1
    while os.path.exists(aside := path.with_name(f"{path.stem}-damaged-{number}{path.suffix}")):
        number += 1
    for companion in ("-wal", "-shm"):
        with contextlib.suppress(FileNotFoundError):
            path.with_name(path.name + companion).rename(aside.with_name(aside.name + companion))
    path.rename(aside)
    return aside


def _begun_anew(path: Path, version: int, schema: str, kept: str, error: sqlite3.DatabaseError) -> sqlite3.Connection:
    aside = set_aside(path)
    database = open_database(path, version, schema)
    saved = 0
    with database:
        for row in _readable(aside, kept):
            places = ", ".join("?" * len(row))
            saved += database.execute(f"INSERT OR IGNORE INTO {kept} VALUES ({places})", row).rowcount
    log.warning("%s was damaged (%s). It was set aside as %s; %d marks were saved.", path.name, error, aside.name, saved)
    return database


def _readable(path: Path, table: str) -> Iterator[tuple[object, ...]]:
    """The rows of a damaged table up to the first that cannot be read."""
    with contextlib.suppress(sqlite3.Error), contextlib.closing(sqlite3.connect(path)) as database:
        for row in database.execute(f"SELECT * FROM {table}"):
            if isinstance(row[0], bytes):  # the path
                yield row
