"""Numbers in MLflow's files and ai-toolkit's database."""

import math
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Final

from halftone.contract.wording import Words
from halftone.library.run_logs.series import NUMBER, Collector, Point, number_of, quantity_of
from halftone.library.run_logs.settings import known_settings
from halftone.settings.regular_files import open_regular

_LINE: Final = re.compile(rf"(\d{{9,16}}) ({NUMBER})(?: (\d{{1,18}}))?\s*", re.IGNORECASE)
_LARGEST: Final = 2**28
"""Bytes of a database that is looked into."""
_PATIENCE: Final = 2_000
"""Millions of instructions of SQLite that a database may take."""
_SQLITE: Final = b"SQLite format 3\0"


def is_metric(path: Path) -> bool:
    """A file of numbers of MLflow: metrics/NAME in the folder of a run, of lines "time number step"."""
    if "metrics" not in path.parts[:-1] or path.suffix in {".json", ".yaml", ".csv", ".tsv"}:
        return False
    with open_regular(path) as file:
        return bool(_LINE.fullmatch(file.readline(200).decode("ascii", "replace")))


def read_metric(path: Path, into: Collector) -> None:
    """Read one number over the steps; its name is that of the file. OSError if it cannot be read."""
    parts = path.parts
    tag = "/".join(parts[len(parts) - parts[::-1].index("metrics") :])
    quantity = quantity_of(tag)
    if quantity is None:
        return
    with path.open(encoding="ascii", errors="replace") as file:
        for number, line in enumerate(file, 1):
            if found := _LINE.fullmatch(line[:200]):
                wall = int(found.group(1))
                step = int(found.group(3) or number)
                point = Point(step, number_of(found.group(2)), number, number, wall / 1000 if wall > 10**11 else wall)
                into.put(tag, quantity, point)


def is_parameter(path: Path) -> bool:
    """A file of MLflow with one setting: params/NAME beside metrics."""
    return path.parent.name == "params" and os.path.isdir(path.parent.parent / "metrics")


def read_parameter(path: Path, into: Collector) -> None:
    """OSError if it cannot be read."""
    with path.open(encoding="utf-8", errors="replace") as file:
        into.settings += known_settings([(path.name, file.read(1000).strip())], into.file)


def is_database(path: Path) -> bool:
    if path.suffix.lower() not in {".db", ".sqlite", ".sqlite3"}:
        return False
    with open_regular(path) as file:
        return file.read(len(_SQLITE)) == _SQLITE


def read_database(path: Path, into: Collector) -> None:
    """Read a copy of ai-toolkit's table, as SQLite writes beside an open file; other databases give nothing. Raises OSError."""
    if path.stat().st_size > _LARGEST:
        return into.note("too-large")
    with tempfile.TemporaryDirectory(prefix="halftone-") as folder:
        copy = Path(folder, "copy.db")
        shutil.copyfile(path, copy)
        with suppress(FileNotFoundError):
            shutil.copyfile(f"{path}-wal", f"{copy}-wal")
        try:
            with closing(sqlite3.connect(copy)) as base:
                left = iter(range(_PATIENCE))  # nothing in the file may run for ever
                base.set_progress_handler(lambda: next(left, None) is None, 1_000_000)
                base.execute("PRAGMA trusted_schema=OFF")
                base.text_factory = lambda data: data.decode("utf-8", "replace")
                for seat, (step, key, value, wall) in enumerate(_rows(base), 1):
                    _take(into, seat, step, key, value, wall)
        except (sqlite3.Error, ValueError, OverflowError):
            into.note("damaged", Words("the database is incomplete"))
    return None


def _rows(base: sqlite3.Connection) -> Iterator[tuple[object, object, object, object]]:
    """(step, name, number, wall time), by step; only of plain tables with these columns."""
    made = dict(base.execute("SELECT name, sql FROM sqlite_master WHERE type = 'table' AND name IN ('metrics', 'steps')"))
    plain = {name for name, sql in made.items() if str(sql).upper().startswith("CREATE TABLE")}
    columns = {row[1] for row in base.execute("PRAGMA table_info(metrics)")} if "metrics" in plain else set()
    if not {"step", "key", "value_real", "value_text"} <= columns:
        return
    with_walls = "steps" in plain and {"step", "wall_time"} <= {row[1] for row in base.execute("PRAGMA table_info(steps)")}
    walls = "(SELECT wall_time FROM steps WHERE steps.step = metrics.step)" if with_walls else "NULL"
    yield from base.execute(f"SELECT step, key, value_real, {walls} FROM metrics WHERE value_text IS NULL ORDER BY step")


def _take(into: Collector, seat: int, step: object, key: object, value: object, wall: object) -> None:
    """SQLite stores NaN as NULL; ai-toolkit writes a loss of exactly 0 for one that is not finite."""
    if not isinstance(step, int) or not isinstance(key, str) or not isinstance(value, float | int | None):
        return
    quantity = quantity_of(key)
    if quantity is None:
        return
    number = math.nan if value is None or (quantity == "loss" and value == 0) else float(value)
    into.put(key, quantity, Point(step, number, 0, seat, float(wall) if isinstance(wall, float | int) else math.nan))
