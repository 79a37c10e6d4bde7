"""CSV files (Lightning's metrics.csv, TensorBoard's export) and the trainer_state.json of transformers."""

import csv
import json
import math
import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from itertools import accumulate
from pathlib import Path
from typing import Final

from halftone.library.run_logs.lines import Piece, pieces
from halftone.library.run_logs.series import Collector, quantity_of
from halftone.library.run_logs.text import Reader

_STEPS: Final = ("global_step", "_step", "step", "iteration", "iter", "steps", "trainer/global_step", "epoch")
_EXPORT: Final = {"wall time", "step", "value"}
_DELIMITERS: Final = ",;\t"
_ENTRY: Final = re.compile(r"\{[^{}]{1,20000}\}")
_MOST: Final = 2**28
"""Bytes of a JSON file that is read whole."""


def is_table(path: Path) -> bool:
    return path.suffix.lower() in {".csv", ".tsv"}


def read_table(path: Path, into: Collector) -> None:
    """Columns that are known by their names; a table without one gives nothing. OSError if it cannot be read."""
    source = pieces(path)
    first = next(source, None)
    if first is None:
        return
    delimiter = max(_DELIMITERS, key=first.text.count)
    names = _row(first.text, delimiter)
    if {name.lower() for name in names} == _EXPORT:
        names = ["wall_time" if name.lower() == "wall time" else name for name in names]
        names = [path.stem if name.lower() == "value" else name.lower() for name in names]
    if not any(map(quantity_of, names)):
        return
    reader = Reader(into)
    for piece, row in _rows(source, delimiter):
        record = {name: cell for name, cell in zip(names, row, strict=False) if cell.strip()}
        reader.row(record, _STEPS, piece)


def _rows(source: Iterator[Piece], delimiter: str) -> Iterator[tuple[Piece, list[str]]]:
    for piece in source:
        if piece.text.strip():
            yield piece, _row(piece.text, delimiter)


def _row(text: str, delimiter: str) -> list[str]:
    """The cells of one line; no log has one over several lines."""
    try:
        return [cell.strip() for cell in next(csv.reader([text], delimiter=delimiter), [])]
    except csv.Error:
        return []


def read_trainer_state(path: Path, into: Collector) -> bool:
    """The history in a trainer_state.json, also of one that is cut off; False where the file holds none.

    OSError if it cannot be read.
    """
    if path.stat().st_size > _MOST:
        into.note("too-large")
        return True
    text = path.read_text("utf-8-sig", errors="replace")
    begin = text.find('"log_history"')
    if begin < 0:
        return False
    ends = list(accumulate(len(line) + 1 for line in text.split("\n")))
    reader = Reader(into)
    last = begin
    for found in _ENTRY.finditer(text, begin):
        last = found.end()
        entry = _entry(found.group())
        if entry is not None:
            reader.row(entry, _STEPS, Piece("", bisect_left(ends, _bad_place(found, entry) + 1) + 1))
    if "]" not in text[last:]:
        into.note("cut-off")
    return True


def _entry(text: str) -> Mapping[str, object] | None:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _bad_place(found: re.Match[str], entry: Mapping[str, object]) -> int:
    """Where in the text the first bad number of an entry stands, else its loss, else its beginning."""
    for name, value in entry.items():
        if quantity_of(name) and isinstance(value, float) and not math.isfinite(value):
            return found.start() + found.group().find(f'"{name}"')
    return found.start() + max(0, found.group().find('"loss"'))
