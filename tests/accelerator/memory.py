"""What is told of a picture's memory is what the card counts, in each way of offloading; a little more than that is enough.

`test_card.py` runs this in a process of its own; every family and way: `python -m tests.bench.families.memory`.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Final

import pytest
from tests.bench.families.memory import ENOUGH, NEAR, WAYS, Rig
from tests.bench.families.table import CASES

from halftone.health.forecasts.memory_forecast import Way

GROUP: Final = (Way("group"),)
CHOSEN: Final[tuple[tuple[str, Sequence[Way]], ...]] = (
    ("SD 3.5 medium", WAYS),
    ("FLUX.1 schnell", WAYS),
    ("FLUX.2 klein", GROUP),
    ("Kandinsky 2.2", GROUP),
    ("PixArt-α", GROUP),
    ("SDXL refiner", (Way("sequential"),)),
    ("LTX-Video image to video", (Way("none", tiled=True),)),
    ("Qwen-Image Edit", (Way("none", tiled=True),)),
)


@pytest.mark.parametrize(("name", "ways"), CHOSEN, ids=lambda value: value if isinstance(value, str) else "")
@pytest.mark.filterwarnings("ignore")  # what the libraries say while models are made and run
def test_what_is_told_is_what_the_card_counts(name: str, ways: Sequence[Way], tmp_path: Path) -> None:
    rig = Rig(next(case for case in CASES if case.name == name), tmp_path, idle=True)
    for way in ways:
        told = rig.told(way)
        made, _ = rig.make(way, round(ENOUGH * told))
        assert (made.shortages, bool(made.path), made.offload, made.tiled) == ((), True, way.offload, way.tiled)
        assert told == pytest.approx(made.peak_memory, rel=NEAR), way
