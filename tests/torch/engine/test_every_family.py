"""Every family of the table is recognised, loaded, and makes what its pipelines can make; the table itself also checks each."""

from pathlib import Path

import pytest
from tests.bench.families.run import run
from tests.bench.families.table import CASES, Case

ALIKE = ("SD 1.x", "SDXL", "Sana", "SDXL Turbo", "SDXL Lightning")
"""Networks of these are run by other tests; here they are only recognised."""
LARGE = ("Qwen-Image Edit",)
"""What brings every picture to a megapixel, and takes a minute here."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.filterwarnings("ignore")  # what the libraries say while tiny models are made and run
def test_every_family_runs(case: Case, tmp_path: Path) -> None:
    tasks = () if case.name in LARGE else ("text", "picture", "mask")
    columns = ("recognised",) if case.name in ALIKE else ("recognised", "loaded", *tasks)
    failed = {column: cell.said for column, cell in run(case, tmp_path, columns).items() if cell.ok is False}
    assert not failed
