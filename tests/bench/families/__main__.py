"""Every family runs: recognised, loaded, checked, and two steps of each thing that it can do, in one table.

    PYTHONPATH=app:. OMP_NUM_THREADS=1 python -m tests.bench.families [--only WORDS ...] [--columns WORDS ...]

"as diffusers": the worst difference, in dB, from plain calls of diffusers without a negative prompt and with an empty one.

The models are tiny, with random weights, made from the libraries' own classes; nothing is downloaded. Exit code 1 if a cell
did not pass; what happened stands below the table.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.bench.families.run import COLUMNS, Cell, run
from tests.bench.families.table import CASES

WIDE: Final = 40
"""Letters of a cell from which it stands below the table."""


def lines(found: Mapping[str, Mapping[str, Cell]], columns: Sequence[str] = COLUMNS) -> list[str]:
    """The table, then what did not pass or takes more room."""
    rows: list[tuple[str, ...]] = [("family", *columns)]
    more: list[str] = []
    for name, cells in found.items():
        whole = {column: cell.ok is not False and len(cell.said) < WIDE for column, cell in cells.items()}
        short = {column: cell.said if whole[column] else cell.said.partition(":")[0] for column, cell in cells.items()}
        rows.append((name, *("NO" if cells[column].ok is False else short[column] for column in columns)))
        more += [f"{name}, {column}: {cells[column].said}" for column in columns if not whole[column]]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    return [" | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows] + more


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="WORDS", help="families whose names hold one of these")
    parser.add_argument("--columns", nargs="+", default=[], metavar="WORDS", help="columns whose names hold one of these")
    asked = parser.parse_args(words)
    wanted = [word.lower() for word in asked.only]
    columns = tuple(column for column in COLUMNS if not asked.columns or any(word in column for word in asked.columns))
    found: dict[str, dict[str, Cell]] = {}
    with tempfile.TemporaryDirectory(prefix="halftone-families-") as folder:
        os.environ.setdefault("HALFTONE_DATA", folder)
        for number, case in enumerate(CASES):
            if wanted and not any(word in case.name.lower() for word in wanted):
                continue
            sys.stderr.write(f"{case.name} …\n")
            (own := Path(folder) / str(number)).mkdir()
            found[case.name] = run(case, own, columns)
    sys.stdout.write("\n".join(lines(found, columns)) + "\n")
    return int(any(cell.ok is False for cells in found.values() for cell in cells.values()))


if __name__ == "__main__":
    sys.exit(main())
