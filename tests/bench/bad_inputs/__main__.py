"""Bad inputs of every kind, generated: each works or is refused in one sentence of ours, in little time and memory.

    PYTHONPATH=app:. OMP_NUM_THREADS=1 python -m tests.bench.bad_inputs [--only KIND ...] [--seed N] [--count N] [--every N]

A kind is a module of this package with a function `cases(random) -> Iterator[Case]`; its cases depend on the seed alone. Each
case runs in a process of its own, with limits on processor time and memory. What is not ok is printed as it is found, the table
of verdicts at the end. Exit code 1 if there is any that is not ok. It needs a system that forks (Linux, macOS).
"""

import argparse
import importlib
import os
import pkgutil
import random
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import Any, Final

from tests.bench.bad_inputs.case import VERDICTS, Case
from tests.bench.bad_inputs.run import LARGEST, SECONDS, Outcome, run

_FRAME: Final = ("__main__", "case", "run")


def kinds() -> list[str]:
    """Names of the modules that generate cases."""
    found = (module.name for module in pkgutil.iter_modules([str(Path(__file__).parent)]))
    return sorted(name for name in found if name not in _FRAME and hasattr(_module(name), "cases"))


def cases_of(kind: str, seed: int, count: int | None = None, every: int = 1) -> Iterator[Case]:
    """The first `count` cases of a kind, or of every so many of them one; all of them for None."""
    return islice(islice(_module(kind).cases(random.Random(f"{seed} {kind}")), every - 1, None, every), count)


def _module(name: str) -> Any:
    return importlib.import_module(f"tests.bench.bad_inputs.{name}")


def table(found: Sequence[Outcome]) -> list[str]:
    """Verdicts by kind, with the most processor time and memory that a case took."""
    rows: list[tuple[str, ...]] = [("kind", "cases", *VERDICTS, "most s", "most MiB")]
    groups = {kind: [one for one in found if one.kind == kind] for kind in sorted({one.kind for one in found})}
    for kind, own in [*groups.items(), ("all", list(found))]:
        counts = Counter(one.answer.verdict for one in own)
        most = f"{max((one.seconds for one in own), default=0):.1f}", f"{max((one.peak for one in own), default=0) / 2**20:.0f}"
        rows.append((kind, str(len(own)), *(str(counts[verdict]) for verdict in VERDICTS), *most))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [" | ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]


def main(words: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", default=[], metavar="KIND", help=f"of {', '.join(kinds())}")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, help="cases of each kind; all if left out")
    parser.add_argument("--every", type=int, default=1, metavar="N", help="of every N cases only the last")
    parser.add_argument("--match", default="", metavar="WORDS", help="only cases whose name holds these words")
    parser.add_argument("--list", action="store_true", help="every case with its answer")
    options = parser.parse_args(words)
    found: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="halftone-bad-") as folder:
        os.environ["TMPDIR"] = tempfile.tempdir = folder
        os.environ["HALFTONE_DATA"] = str(Path(folder) / "data")
        for kind in options.only or kinds():
            for case in cases_of(kind, options.seed, options.count, options.every):
                if options.match in case.name:
                    found.append(run(case))
                    sys.stderr.write(f"{len(found)} {kind}\r" if sys.stderr.isatty() or len(found) % 50 == 0 else "")
                    if options.list or found[-1].answer.verdict != "ok":
                        _tell(found[-1])
    sys.stdout.write("\n".join(table(found)) + "\n")
    sys.stdout.write(f"limits of a case: {SECONDS:g} s of processor time, {LARGEST / 2**20:.0f} MiB\n")
    return int(not found or any(one.answer.verdict != "ok" for one in found))


def _tell(one: Outcome) -> None:
    answer = one.answer
    words = " ".join(filter(None, (answer.code, answer.text)))
    sys.stdout.write(f"{answer.verdict}: {one.kind}: {one.name}: {one.seconds:.1f} s: {words}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
