"""The numerical heart in one table: that it is cheap, and that it is exact.

    PYTHONPATH=app:. python tests/bench/heart.py [--only NAME ... | --all] [--device cuda:0] [--small]

Every part is a module bench_NAME of this folder with a function `rows(options)`, and runs alone too. Exit code 1 if a goal is
missed. `--small` shrinks every size to seconds: then the times prove nothing but that the benches run, and none is judged.
"""

import importlib
import os
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Final

from tests.bench.common import Options, Row, bench_parser, finish

PARTS: Final = ("probe", "check", "sentinel", "cure", "scan", "repair", "header")
"""In the order of the table."""
LONG: Final = ("resume", "faults", "add_ons")
"""Parts that take from a quarter to half an hour each, run on request."""
ON_DEVICE: Final = ("probe",)
"""Parts that run on the device that was asked for; the others on the CPU."""


def run(names: Sequence[str], options: Options) -> list[tuple[str, Row]]:
    """(on what, row) of each part."""
    found: list[tuple[str, Row]] = []
    for name in names:
        rows: Callable[[Options], list[Row]] = importlib.import_module(f"tests.bench.bench_{name}").rows
        sys.stderr.write(f"{name} …\n")
        found += [(options.device if name in ON_DEVICE else "cpu", row) for row in rows(options)]
    return found


def main(words: Sequence[str] | None = None) -> int:
    parser = bench_parser(__doc__)
    parser.add_argument("--only", nargs="+", choices=(*PARTS, *LONG), default=PARTS, metavar="NAME")
    parser.add_argument("--all", action="store_true", help=f"also {' and '.join(LONG)}, which take the better part of an hour")
    arguments = parser.parse_args(words)
    names = (*PARTS, *LONG) if arguments.all else arguments.only
    with tempfile.TemporaryDirectory(prefix="halftone-heart-") as folder:
        os.environ.setdefault("HALFTONE_DATA", folder)
        return finish(lambda options: run(names, options), arguments)


if __name__ == "__main__":
    sys.exit(main())
