"""What is told of a picture's memory is what the card counts, in each way of offloading; a little more than that is enough.

`test_card.py` runs this in a process of its own; every family and way: `python -m tests.bench.families.memory`.
"""

from pathlib import Path

import pytest
from tests.bench.families.memory import ENOUGH, NEAR, WAYS, Rig
from tests.bench.families.table import CASES, Case

CHOSEN = [case for case in CASES if case.name in ("SD 3.5 medium", "FLUX.1 schnell")]


@pytest.mark.parametrize("case", CHOSEN, ids=lambda case: case.name)
@pytest.mark.filterwarnings("ignore")  # what the libraries say while models are made and run
def test_what_is_told_is_what_the_card_counts(case: Case, tmp_path: Path) -> None:
    rig = Rig(case, tmp_path, idle=True)
    for way in WAYS:
        told = rig.told(way)
        made, _ = rig.make(way, round(ENOUGH * told))
        assert (made.shortages, bool(made.path), made.offload, made.tiled) == ((), True, way.offload, way.tiled)
        assert told == pytest.approx(made.peak_memory, rel=NEAR), way
