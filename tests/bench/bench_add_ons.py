"""Cures with ControlNets, adapters and LoRAs, as lines of the table of the numerical heart.

    PYTHONPATH=app:. OMP_NUM_THREADS=1 python tests/bench/bench_add_ons.py [--small]

tests/bench/faults/add_ons.py runs parts of it and tells every case.
"""

import os
import tempfile
from pathlib import Path

from tests.bench.common import Options, Row, alone, one_thread
from tests.bench.faults.add_ons import ADD_ONS, FAMILIES, PLACES, WAYS, cases, goals


def rows(options: Options) -> list[Row]:
    """Judge nothing of a small run: it has too few cases."""
    names, places, add_ons, ways = (
        (("sd15",), ("stream",), ("control",), WAYS[:1]) if options.small else (tuple(FAMILIES), PLACES, ADD_ONS, WAYS)
    )
    before = os.environ.get("HALFTONE_DATA")
    try:
        with one_thread(), tempfile.TemporaryDirectory(prefix="halftone-add-ons-") as folder:
            found = list(cases(names, places, add_ons, Path(folder), ways))
    finally:
        os.environ.pop("HALFTONE_DATA", None)
        os.environ.update({} if before is None else {"HALFTONE_DATA": before})
    return [(what, measured, goal, None if options.small else met) for what, measured, goal, met in goals(found)]


if __name__ == "__main__":
    alone(rows, __doc__)
