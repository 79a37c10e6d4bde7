"""CSV files (Lightning's metrics.csv, TensorBoard's export) and the trainer_state.json of transformers."""

import csv
import json
import math
import re
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import accumulate
from operator import methodcaller
from pathlib import Path
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halftone.library.run_logs.lines import PIECE, Piece, blocks
from halftone.library.run_logs.series import Collector, Numbers, Quantity, exact_scale, numbers_of, quantity_of
from halftone.library.run_logs.text import WALLS, Reader, column_quantity
from halftone.settings.regular_files import read_regular

_STEPS: Final = ("global_step", "_step", "step", "iteration", "iter", "steps", "trainer/global_step", "epoch")
_EXPORT: Final = {"wall time", "step", "value"}
_DELIMITERS: Final = ",;\t"
_ENTRY: Final = re.compile(r"\{[^{}]{1,20000}\}")
_LAST: Final = 10**17
"""The last number that is a step."""
_EARLIEST: Final = 1e8
"""Seconds since 1970 above which a number is a time."""
_MOST: Final = 2**28
"""Bytes of a JSON file that is read whole."""


def is_table(path: Path) -> bool:
    return path.suffix.lower() in {".csv", ".tsv"}


def read_table(path: Path, into: Collector) -> None:
    """Columns with known names; none in other tables. OSError if it cannot be read."""
    table: _Table | None = None
    for block in blocks(path):
        text = block.text.replace("\r\n", "\n")
        number = block.number
        if table is None:
            head = PIECE.match(text)
            first, text = (head.group(1), text[head.end() :]) if head else (text, "")
            number += not head or head.group(2) != "\r"
            table = _table_of(first, path.stem, into)
        if table is None:
            return
        table.take(text, number)
        into.on_way(block.share)


def _table_of(first: str, stem: str, into: Collector) -> "_Table | None":
    """None where no column is known. stem: of the file's name, the name of the one column of an export."""
    delimiter = max(_DELIMITERS, key=first.count)
    names = _row(first, delimiter)
    if {name.lower() for name in names} == _EXPORT:
        names = ["wall_time" if name.lower() == "wall time" else name for name in names]
        names = [stem if name.lower() == "value" else name.lower() for name in names]
    return _Table(names, delimiter, into) if any(map(quantity_of, names)) else None


class _Column(NamedTuple):
    place: int
    name: str
    quantity: Quantity


class _Table:
    """Takes blocks of lines: by columns where all is plain, else line by line."""

    def __init__(self, names: list[str], delimiter: str, into: Collector) -> None:
        self._names = names
        self._delimiter = delimiter
        self._into = into
        self._reader = Reader(into)
        self._steps = [names.index(name) for name in _STEPS if name in names]
        self._walls = [names.index(name) for name in WALLS if name in names]
        self._kept = [_Column(at, name, known) for at, name in enumerate(names) if (known := column_quantity(name))]

    def take(self, text: str, number: int) -> None:
        plain = not ('"' in text or "\r" in text) and len(set(self._names)) == len(self._names)
        if not (plain and self._by_columns(text, number)):
            for found in PIECE.finditer(text):
                self._by_line(found.group(1), number)
                number += found.group(2) != "\r"

    def _by_line(self, text: str, number: int) -> None:
        if text.strip():
            row = zip(self._names, _row(text, self._delimiter), strict=False)
            self._reader.row({name: cell for name, cell in row if cell.strip()}, _STEPS, Piece("", number))

    def _by_columns(self, text: str, number: int) -> bool:
        """False, and nothing is read, where a cell is not what it should be."""
        lines = text.removesuffix("\n").split("\n")
        count = len(self._names)
        if set(map(methodcaller("count", self._delimiter), lines)) != {count - 1}:
            return False
        cells = self._delimiter.join(lines).split(self._delimiter)
        columns = [cells[at::count] for at in range(count)]
        try:
            steps = np.array(list(map(int, columns[self._steps[0]])), np.int64)
            walls = np.array(list(map(float, columns[self._walls[0]]))) if self._walls else np.full(len(lines), math.nan)
            found = [(column, _filled(columns[column.place])) for column in self._kept]
        except (ValueError, IndexError, OverflowError):
            return False
        if (np.abs(steps) > _LAST).any() or (walls <= _EARLIEST).any():
            return False
        for column, (at, values) in found:
            if len(at):
                exact = exact_scale(values) if column.name.endswith("log_scale") else values
                seats = self._reader.seat + 1 + at
                numbers = Numbers(steps[at], exact, number + at, seats, walls[at])
                self._into.put_many(column.name, column.quantity, numbers)
        self._reader.seat += len(lines)
        self._reader.has_steps = True
        return True


def _filled(column: Sequence[str]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """(rows with a cell that is not empty, their numbers). ValueError if one is no number."""
    at = np.fromiter(map(bool, column), np.bool_, len(column)).nonzero()[0]
    return at, numbers_of(list(filter(None, column)))


def _row(text: str, delimiter: str) -> list[str]:
    """The cells of one line; no log has one over several lines."""
    try:
        return [cell.strip() for cell in next(csv.reader([text], delimiter=delimiter), [])]
    except csv.Error:
        return []


def read_trainer_state(path: Path, into: Collector) -> bool:
    """The history in a trainer_state.json, whole or cut off; False where the file has none. OSError if it cannot be read."""
    if path.stat().st_size > _MOST:
        into.note("too-large")
        return True
    text = read_regular(path).decode("utf-8-sig", errors="replace")
    begin = text.find('"log_history"')
    if begin < 0:
        return False
    ends = list(accumulate(len(line) + 1 for line in text.split("\n")))
    reader = Reader(into)
    last = begin
    for found in _ENTRY.finditer(text, begin):
        last = found.end()
        with suppress(ValueError):
            entry = json.loads(found.group())
            reader.row(entry, _STEPS, Piece("", bisect_left(ends, _bad_place(found, entry) + 1) + 1))
    if "]" not in text[last:]:
        into.note("cut-off")
    return True


def _bad_place(found: re.Match[str], entry: Mapping[str, object]) -> int:
    """Place of an entry's first bad number in the text, else of its loss, else its beginning."""
    for name, value in entry.items():
        if quantity_of(name) and isinstance(value, float) and not math.isfinite(value):
            return found.start() + found.group().find(f'"{name}"')
    return found.start() + max(0, found.group().find('"loss"'))
