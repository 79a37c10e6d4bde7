"""Keeps what the gallery lists and searches, in SQLite: Halftone's own pictures, and those in watched folders.

All but favourites and collections can be made again from the pictures. The list is light, one short row a picture; words and
thumbnails stand in tables of their own, so that a hundred thousand pictures open at once.
"""

import os
import re
import sqlite3
from array import array
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from itertools import islice
from pathlib import Path
from types import TracebackType
from typing import Final, NamedTuple, Self

from halftone.contract.request import model_stem
from halftone.gallery.facts import ALL, CURED, FAVOURITE, OWN, RECOVERED, UPSCALED, VIDEO, Kind, Query, Result, Row, Shown
from halftone.gallery.history import Entry, History
from halftone.settings.databases import open_sound, renew_if_damaged
from halftone.settings.places import data_dir

_VERSION: Final = 1
_AT_ONCE: Final = 500
_KINDS: Final[dict[Kind, tuple[int, int]]] = {
    "picture": (VIDEO, 0),
    "video": (VIDEO, VIDEO),
    "upscaled": (UPSCALED, UPSCALED),
    "other": (OWN, 0),
}
_RESULTS: Final[dict[Result, tuple[int, int]]] = {
    "clean": (RECOVERED | OWN, OWN),
    "recovered": (RECOVERED, RECOVERED),
    "cured": (CURED, CURED),
}
"""Kind or result -> (the flags that say it, their values)."""
_TALLEST, _WIDEST = 0.4, 3.2
"""Aspects beyond these are shown cropped."""
_GRAM: Final = 3
"""Letters of a part of the search index: shorter words are looked for in the text itself."""
_NEWEST: Final = 1000
"""Pictures whose texts are read before the search index is asked: it goes through all hits of a frequent word."""
_SCHEMA: Final = """
CREATE TABLE IF NOT EXISTS shown (
    id INTEGER PRIMARY KEY AUTOINCREMENT,
    path BLOB NOT NULL UNIQUE,
    made REAL NOT NULL,
    day INTEGER NOT NULL,
    width INTEGER NOT NULL,
    height INTEGER NOT NULL,
    flags INTEGER NOT NULL,
    model TEXT NOT NULL,
    stamp INTEGER NOT NULL
);
CREATE INDEX IF NOT EXISTS shown_listed ON shown (made DESC, id DESC, day, width, height, flags);
CREATE TABLE IF NOT EXISTS words (id INTEGER PRIMARY KEY, text TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS lora (name TEXT NOT NULL, id INTEGER NOT NULL, PRIMARY KEY (name, id)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS thumbnail (id INTEGER PRIMARY KEY, image BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS mark (path BLOB NOT NULL, name TEXT NOT NULL, PRIMARY KEY (path, name)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS followed (name TEXT PRIMARY KEY, number INTEGER NOT NULL) WITHOUT ROWID;
CREATE VIRTUAL TABLE IF NOT EXISTS grams USING fts5(
    text, content = 'words', content_rowid = 'id', tokenize = 'trigram case_sensitive 1'
);
CREATE TRIGGER IF NOT EXISTS words_come AFTER INSERT ON words BEGIN
    INSERT INTO grams (rowid, text) VALUES (new.id, new.text);
END;
CREATE TRIGGER IF NOT EXISTS words_gone AFTER DELETE ON words BEGIN
    INSERT INTO grams (grams, rowid, text) VALUES ('delete', old.id, old.text);
END;
CREATE TRIGGER IF NOT EXISTS shown_gone AFTER DELETE ON shown BEGIN
    DELETE FROM words WHERE id = old.id;
    DELETE FROM lora WHERE id = old.id;
    DELETE FROM thumbnail WHERE id = old.id;
END;
"""
_WORD: Final = re.compile(r'(-?)(?:"([^"]*)"?|([^\s"]+))')


class Columns(NamedTuple):
    """Rows as columns. days: as of a Row; aspects: width / height, at most so far from
    a square that it can be shown in a line with others; 1 where it is not known."""

    ids: "array[int]"
    days: "array[int]"
    aspects: "array[float]"
    flags: "array[int]"


class Catalogue:
    """Opens or makes the list. Several programs may use it at once. A damaged file is set aside as soon as the damage shows; the
    new list begins with the readable marks, and gets its pictures from the history and the folders again.

    Raises sqlite3.Error.
    """

    def __init__(self, path: Path | None = None) -> None:
        self._path = path or data_dir() / "gallery.sqlite"
        self._database = open_sound(self._path, _VERSION, _SCHEMA, "mark")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._database.close()
        renew_if_damaged(self._path, _VERSION, _SCHEMA, "mark", error)

    @property
    def changed(self) -> bool:
        """Whether anything was written since it was opened."""
        return self._database.total_changes > 0

    # --- what is there ----------------------------------------------------------------------------------------------

    def follow(self, history: History, most: int | None = None) -> int:
        """List the pictures that the history got since it was last followed, about so many at most; the number of them."""
        (number,) = self._database.execute("SELECT max(number) FROM followed WHERE name = 'history'").fetchone()
        if number is not None and number > history.newest():  # it was begun anew
            self._followed_to(number := 0)
        count = 0
        for entries in history.since(number or 0, _AT_ONCE):
            self.add(map(shown_of, entries))
            self._followed_to(entries[-1].id)
            count += len(entries)
            if most is not None and count >= most:
                break
        return count

    def _followed_to(self, number: int) -> None:
        with self._database as database:
            database.execute("INSERT OR REPLACE INTO followed VALUES ('history', ?)", (number,))

    def add(self, pictures: Iterable[Shown]) -> None:
        """List pictures; one of a path that is listed takes its place, all or nothing."""
        with self._database as database:
            for one in pictures:
                database.execute("DELETE FROM shown WHERE path = ?", (os.fsencode(one.path),))
                number = database.execute(
                    "INSERT INTO shown (path, made, day, width, height, flags, model, stamp) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                    (
                        os.fsencode(one.path),
                        one.made,
                        day_of(one.made),
                        one.width,
                        one.height,
                        _flags(one),
                        one.model,
                        one.stamp,
                    ),
                ).lastrowid
                database.execute("INSERT INTO words VALUES (?, ?)", (number, one.text.casefold()))
                database.executemany("INSERT OR IGNORE INTO lora VALUES (?, ?)", ((name, number) for name in one.loras))
                if one.thumbnail:
                    database.execute("INSERT INTO thumbnail VALUES (?, ?)", (number, one.thumbnail))

    def drop(self, paths: Iterable[str]) -> None:
        """Take pictures off the list. Their marks stay: who brings a file back finds them."""
        with self._database as database:
            database.executemany("DELETE FROM shown WHERE path = ?", ((os.fsencode(path),) for path in paths))

    def stamps(self) -> dict[str, int]:
        """Path -> stamp of every picture in watched folders."""
        rows = self._database.execute("SELECT path, stamp FROM shown WHERE flags & ? = 0", (OWN,))
        return {os.fsdecode(path): stamp for path, stamp in rows}

    def own_paths(self) -> set[str]:
        """Paths of Halftone's own pictures."""
        return {os.fsdecode(path) for (path,) in self._database.execute("SELECT path FROM shown WHERE flags & ? != 0", (OWN,))}

    def keep_thumbnail(self, number: int, image: bytes) -> None:
        with self._database as database:
            database.execute("INSERT OR REPLACE INTO thumbnail VALUES (?, ?)", (number, image))

    # --- what is listed ---------------------------------------------------------------------------------------------

    def rows(self, query: Query = ALL, most: int = -1) -> list[Row]:
        """The pictures that a query finds, the newest first, at most so many: what is in sight need not wait for the rest."""
        return list(map(Row._make, self._found("shown.id, day, width, height, flags", query, most)))

    def columns(self, query: Query = ALL, most: int = -1) -> Columns:
        """The same as columns: a fifth of the time for a hundred thousand, and no object for each."""
        aspect = f"CASE WHEN width AND height THEN max({_TALLEST}, min({_WIDEST}, 1.0 * width / height)) ELSE 1.0 END"
        found = self._found(f"shown.id, day, {aspect}, flags", query, most)
        made = Columns(array("q"), array("l"), array("f"), array("B"))
        while part := list(islice(found, _AT_ONCE)):
            for column, values in zip(made, zip(*part, strict=True), strict=True):
                column.extend(values)
        return made

    def _found(self, what: str, query: Query, most: int) -> Iterator[tuple[int, ...]]:
        """A frequent word has enough hits among the newest pictures, so that the search index need not be asked."""
        if query.words and most > 0:
            newest = f"(SELECT * FROM shown ORDER BY made DESC, id DESC LIMIT {_NEWEST}) AS shown"
            rows = self._select(what, newest, _where(query, indexed=False), most).fetchall()
            if len(rows) == most:
                return iter(rows)
        return self._select(what, "shown", _where(query, indexed=True), most)

    def _select(self, what: str, table: str, where: tuple[list[str], list[str | int]], most: int) -> sqlite3.Cursor:
        conditions, values = where
        said = f" WHERE {' AND '.join(conditions)}" if conditions else ""
        return self._database.execute(
            f"SELECT {what} FROM {table}{said} ORDER BY made DESC, shown.id DESC LIMIT ?", (*values, most)
        )

    def marked(self, name: str = FAVOURITE) -> int:
        """How many of the listed pictures have a mark."""
        select = "SELECT count(*) FROM mark JOIN shown USING (path) WHERE name = ?"
        (number,) = self._database.execute(select, (name,)).fetchone()
        return number

    def count(self) -> int:
        """How many pictures there are."""
        (number,) = self._database.execute("SELECT count(*) FROM shown").fetchone()
        return number

    def paths(self, numbers: Sequence[int]) -> dict[int, str]:
        """Number -> path of these pictures, as far as they are listed."""
        return {number: os.fsdecode(path) for number, path in self._of("SELECT id, path FROM shown", numbers)}

    def numbers(self, paths: Iterable[str]) -> list[int]:
        """The numbers of those of these files that are listed."""
        select = "SELECT id FROM shown WHERE path = ?"
        found = (self._database.execute(select, (os.fsencode(path),)).fetchone() for path in paths)
        return [row[0] for row in found if row is not None]

    def facts(self, number: int) -> tuple[tuple[int, int], float]:
        """((width, height), when it was made) of a picture that is listed."""
        select = "SELECT width, height, made FROM shown WHERE id = ?"
        width, height, made = self._database.execute(select, (number,)).fetchone() or (0, 0, 0.0)
        return (width, height), made

    def thumbnails(self, numbers: Sequence[int]) -> dict[int, bytes]:
        """Number -> the bytes of a small PNG, for those of these pictures that have one."""
        return dict(self._of("SELECT id, image FROM thumbnail", numbers))

    def models(self) -> list[tuple[str, int]]:
        """(name, number of pictures) of every model, the most used first."""
        return self._database.execute(
            "SELECT model, count(*) AS n FROM shown WHERE model != '' GROUP BY model ORDER BY n DESC"
        ).fetchall()

    def loras(self) -> list[tuple[str, int]]:
        return self._database.execute("SELECT name, count(*) AS n FROM lora GROUP BY name ORDER BY n DESC").fetchall()

    def _of(self, select: str, numbers: Sequence[int]) -> Iterable[tuple[int, bytes]]:
        marks = ", ".join("?" * len(numbers))
        return self._database.execute(f"{select} WHERE id IN ({marks})", tuple(numbers))

    # --- favourites and collections ---------------------------------------------------------------------------------

    def mark(self, paths: Iterable[str], name: str = FAVOURITE, *, on: bool = True) -> None:
        """Put pictures among the favourites or into a collection, or take them out."""
        statement = "INSERT OR IGNORE INTO mark VALUES (?, ?)" if on else "DELETE FROM mark WHERE path = ? AND name = ?"
        with self._database as database:
            database.executemany(statement, ((os.fsencode(path), name) for path in paths))

    def marks_of(self, path: str) -> frozenset[str]:
        rows = self._database.execute("SELECT name FROM mark WHERE path = ?", (os.fsencode(path),))
        return frozenset(name for (name,) in rows)

    def collections(self) -> list[tuple[str, int]]:
        """(name, number of pictures that are listed) of every collection, by name."""
        statement = (
            "SELECT name, count(shown.id) FROM mark LEFT JOIN shown USING (path) WHERE name != ? GROUP BY name ORDER BY name"
        )
        return self._database.execute(statement, (FAVOURITE,)).fetchall()


def shown_of(entry: Entry) -> Shown:
    """A picture of the history as the gallery lists it."""
    facts, request = entry.facts, entry.request
    prompt, negative = facts.prompt or request.prompt, facts.negative or request.negative
    loras = tuple(lora.name for lora in (*request.loras, *facts.loras))
    model = model_stem(request.model)
    return Shown(
        path=facts.path,
        made=_moment(entry.made_at),
        width=facts.width,
        height=facts.height,
        model=model,
        loras=loras,
        text="\n".join((prompt, negative, model, *loras, str(facts.seed), Path(facts.path).name)),
        recovered=facts.state == "recovered",
        cured=bool(facts.cures),
        video=facts.frames > 1,
        upscaled=facts.upscaled is not None,
        thumbnail=entry.thumbnail,
    )


def day_of(made: float) -> int:
    """The day of a moment in local time, as `date.toordinal` has it."""
    try:
        return date.fromtimestamp(made).toordinal()
    except (OverflowError, ValueError, OSError):  # a file may have any time
        return 1


def _moment(text: str) -> float:
    try:
        return datetime.fromisoformat(text).timestamp()
    except (ValueError, OverflowError):
        return 0.0


def _flags(one: Shown) -> int:
    says = (one.recovered, RECOVERED), (one.video, VIDEO), (one.upscaled, UPSCALED), (one.own, OWN), (one.cured, CURED)
    return sum(flag for said, flag in says if said)


def _where(query: Query, *, indexed: bool) -> tuple[list[str], list[str | int]]:
    """(conditions, values) of a query. indexed: look words up in the search index instead of reading each picture's text."""
    conditions, values = list[str](), list[str | int]()

    def need(condition: str, *more: str | int) -> None:
        conditions.append(condition)
        values.extend(more)

    for word, wanted in words_of(query.words):
        among = "IN" if wanted else "NOT IN"
        if not indexed:
            need(f"instr((SELECT text FROM words WHERE words.id = shown.id), ?) {'>' if wanted else '='} 0", word)
        elif len(word) >= _GRAM:
            need(f"shown.id {among} (SELECT rowid FROM grams WHERE grams MATCH ?)", '"' + word.replace('"', '""') + '"')
        else:
            need(f"shown.id {among} (SELECT id FROM words WHERE instr(text, ?) > 0)", word)
    if query.model:
        need("model = ?", query.model)
    if query.lora:
        need("shown.id IN (SELECT id FROM lora WHERE name = ?)", query.lora)
    if query.kind is not None:
        need("flags & ? = ?", *_KINDS[query.kind])
    if query.result is not None:
        need("flags & ? = ?", *_RESULTS[query.result])
    if query.own:
        need("flags & ? != 0", OWN)
    if query.days is not None:
        need("day BETWEEN ? AND ?", *query.days)
    if query.mark is not None:
        need("path IN (SELECT path FROM mark WHERE name = ?)", query.mark)
    return conditions, values


def words_of(text: str) -> list[tuple[str, bool]]:
    """(a word or a phrase, whether it must be found) of what was typed: `one "two words" -without`."""
    found = ((phrase or word, not minus) for minus, phrase, word in _WORD.findall(text.casefold()))
    return [(word.strip(), wanted) for word, wanted in found if word.strip()]
