"""Keeps the index in SQLite. It can be made again at any time: a damaged file is deleted, not mended."""

import contextlib
import logging
import os
import sqlite3
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import msgspec

from halftone import __version__
from halftone.contract.facts import ModelFacts
from halftone.library.index.descriptions import NOTHING
from halftone.library.index.entries import Entry, Read
from halftone.library.index.facts import Hashes, Weights
from halftone.settings.places import cache_dir
from halftone.settings.private import make_private

_VERSION: Final = zlib.crc32(f"7 {__version__}".encode()) >> 1
"""Another one for each version of Halftone, as it may recognise files otherwise: then all are read again."""
_BUSY_SECONDS: Final = 10.0
_SCHEMA: Final = (
    "CREATE TABLE IF NOT EXISTS file (path BLOB PRIMARY KEY, root BLOB NOT NULL, stamp INTEGER NOT NULL, entry BLOB NOT NULL, "
    "facts BLOB) "
    "WITHOUT ROWID",
    "CREATE INDEX IF NOT EXISTS file_root ON file (root, stamp)",
    "CREATE TABLE IF NOT EXISTS hash (path BLOB PRIMARY KEY, stamp INTEGER NOT NULL, sha256 TEXT NOT NULL, "
    "weights TEXT NOT NULL) WITHOUT ROWID",
    "CREATE TABLE IF NOT EXISTS health (path BLOB PRIMARY KEY, stamp INTEGER NOT NULL, weights BLOB NOT NULL) WITHOUT ROWID",
)
_SEP: Final = os.fsencode(os.sep)
_entry = msgspec.msgpack.Decoder(Entry)
_facts = msgspec.msgpack.Decoder(ModelFacts)
_weights = msgspec.msgpack.Decoder(Weights)

log = logging.getLogger(__name__)

Stamped = tuple[int, Entry]


class Index:
    """Opens or makes the index. Several programs may use it at once. Raises sqlite3.Error where it can be neither."""

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or cache_dir() / "models.sqlite"
        try:
            self._database = _opened(self._path)
        except sqlite3.DatabaseError as error:
            if isinstance(error, sqlite3.OperationalError):  # locked, or no right to write
                raise
            log.warning("The index of models was damaged (%s) and is made again.", error)
            for end in ("", "-wal", "-shm"):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(f"{self._path}{end}")
            self._database = _opened(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._database.close()

    def entries(self, roots: Iterable[str]) -> Iterator[Entry]:
        """All files below these roots, as the last scan found them."""
        return (entry for _, entry in self.stamped(roots, {}).values())

    def stamped(self, roots: Iterable[str], known: Mapping[bytes, Stamped]) -> dict[bytes, Stamped]:
        """Path -> (stamp, entry) of all files below these roots. known: an earlier answer; what did not change comes from it."""
        found: dict[bytes, Stamped] = {}
        query = self._database.execute
        for root in roots:
            for path, stamp in query("SELECT path, stamp FROM file WHERE root = ? ORDER BY path", (os.fsencode(root),)):
                before = known.get(path)
                if before is not None and before[0] == stamp:
                    found[path] = before
                elif row := query("SELECT stamp, entry FROM file WHERE path = ?", (path,)).fetchone():
                    found[path] = row[0], _unpacked(path, row[1])
        return found

    def stamps(self, root: str) -> dict[bytes, int]:
        """Path -> stamp of all files below a root."""
        return dict(self._database.execute("SELECT path, stamp FROM file WHERE root = ?", (os.fsencode(root),)))

    def facts(self, folders: Iterable[str]) -> dict[str, ModelFacts]:
        """Path -> facts of all models, and files that are used with one, below these folders; they may have changed since."""
        found: dict[str, ModelFacts] = {}
        query = "SELECT path, facts FROM file WHERE facts IS NOT NULL AND (path = ?1 OR (path > ?2 AND path < ?3))"
        for folder in map(os.fsencode, folders):
            inside = folder.rstrip(_SEP) + _SEP
            for path, blob in self._database.execute(query, (folder, inside, inside[:-1] + bytes((inside[-1] + 1,)))):
                found[os.fsdecode(path)] = _facts.decode(blob)
        return found

    def keep(self, root: str, rows: Iterable[tuple[int, Read]], gone: Iterable[bytes]) -> None:
        """Write (stamp, what was read) of new and changed files, and leave out those that are gone, all or nothing."""
        folder = os.fsencode(root)
        values = (
            (os.fsencode(read.entry.path), folder, stamp, _packed(read.entry), _packed_facts(read.facts)) for stamp, read in rows
        )
        with self._database as database:
            database.executemany("INSERT OR REPLACE INTO file VALUES (?, ?, ?, ?, ?)", values)
            database.executemany("DELETE FROM file WHERE path = ?", ((path,) for path in gone))

    def forget(self, roots: Iterable[str]) -> None:
        """Forget the files of these roots: they are no longer watched."""
        with self._database as database:
            database.executemany("DELETE FROM file WHERE root = ?", ((os.fsencode(root),) for root in roots))

    def hashes(self) -> dict[str, Hashes]:
        """Path -> hashes of every file that was read as a whole and is as it was then."""
        query = "SELECT path, sha256, weights FROM hash JOIN file USING (path, stamp)"
        return {os.fsdecode(path): Hashes(whole, weights) for path, whole, weights in self._database.execute(query)}

    def unhashed(self) -> list[tuple[str, int]]:
        """(path, stamp) of the files that were not read as a whole yet; the smallest would be last to matter, so by path."""
        query = (
            "SELECT file.path, file.stamp FROM file LEFT JOIN hash USING (path, stamp) WHERE hash.sha256 IS NULL ORDER BY path"
        )
        return [(os.fsdecode(path), stamp) for path, stamp in self._database.execute(query)]

    def keep_hashes(self, path: str, stamp: int, hashes: Hashes) -> None:
        with self._database as database:
            row = (os.fsencode(path), stamp, hashes.sha256, hashes.weights)
            database.execute("INSERT OR REPLACE INTO hash VALUES (?, ?, ?, ?)", row)

    def weights(self) -> dict[str, Weights]:
        """Path -> health of the weights of every file that was looked at and is as it was then."""
        query = "SELECT path, weights FROM health JOIN file USING (path, stamp)"
        found = ((os.fsdecode(path), _weights_of(blob)) for path, blob in self._database.execute(query))
        return {path: weights for path, weights in found if weights is not None}

    def keep_weights(self, path: str, look: Callable[[], Weights]) -> None:
        """Look at a file, and keep what is found for it as it was before."""
        stamp = self._database.execute("SELECT stamp FROM file WHERE path = ?", (os.fsencode(path),)).fetchone()
        found = look()
        if stamp is not None:
            with self._database as database:
                row = (os.fsencode(path), stamp[0], msgspec.msgpack.encode(found))
                database.execute("INSERT OR REPLACE INTO health VALUES (?, ?, ?)", row)


def _weights_of(blob: bytes) -> Weights | None:
    """None where another version of Halftone wrote them otherwise."""
    try:
        return _weights.decode(blob)
    except msgspec.MsgspecError:
        return None


def _packed(entry: Entry) -> bytes:
    """A name that is not Unicode cannot be written; its path is the key, and what an eye reads is written without it."""
    try:
        return msgspec.msgpack.encode(entry)
    except UnicodeEncodeError:
        name = entry.name.encode("utf-8", "replace").decode()
        return msgspec.msgpack.encode(msgspec.structs.replace(entry, path="", name=name, error=None, description=NOTHING))


def _packed_facts(facts: ModelFacts | None) -> bytes | None:
    try:
        return None if facts is None else msgspec.msgpack.encode(facts)
    except UnicodeEncodeError:
        return None


def _unpacked(path: bytes, blob: bytes) -> Entry:
    entry = _entry.decode(blob)
    return entry if entry.path else msgspec.structs.replace(entry, path=os.fsdecode(path))


def _opened(path: Path) -> sqlite3.Connection:
    with contextlib.suppress(OSError):  # SQLite itself says why
        make_private(path)
    database = sqlite3.connect(path, timeout=_BUSY_SECONDS)
    try:
        version = database.execute("PRAGMA user_version").fetchone()[0]
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("PRAGMA synchronous = NORMAL")
        if version != _VERSION:
            with database:
                database.execute("BEGIN IMMEDIATE")  # another process may do the same now
                if database.execute("PRAGMA user_version").fetchone()[0] != _VERSION:
                    database.execute("DROP TABLE IF EXISTS file")  # what was read of whole files stays: that took hours
                    for statement in _SCHEMA:
                        database.execute(statement)
                    database.execute(f"PRAGMA user_version = {_VERSION}")
    except BaseException:
        database.close()
        raise
    return database
