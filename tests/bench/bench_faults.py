"""Found, named and cured: the fault bench as lines of the table of the numerical heart.

    PYTHONPATH=app:. OMP_NUM_THREADS=1 python tests/bench/bench_faults.py [--small]

Two seeds of every kind of fault in every family; tests/bench/faults/run.py runs parts of it and tells every case.
"""

import tempfile
from pathlib import Path

from tests.bench.common import Options, Row, alone, one_thread
from tests.bench.faults.families import FAMILIES
from tests.bench.faults.kinds import CONTROLS, KINDS
from tests.bench.faults.run import cases
from tests.bench.faults.table import goals


def rows(options: Options) -> list[Row]:
    """Of a small run nothing is judged: it has too few cases."""
    families, kinds, seeds = (("sd15",), ("sound", "value"), 1) if options.small else (tuple(FAMILIES), tuple(KINDS), 2)
    with one_thread(), tempfile.TemporaryDirectory(prefix="halftone-faults-") as folder:
        found = list(cases(families, kinds, range(seeds), Path(folder)))
    return [(what, measured, goal, None if options.small else met) for what, measured, goal, met in goals(found, CONTROLS)]


if __name__ == "__main__":
    alone(rows, __doc__)
