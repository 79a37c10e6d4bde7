"""Every family of the table is recognised, loaded, and makes what its pipelines can make; the table itself also checks each."""

from pathlib import Path

import pytest
from tests.bench.families.run import run
from tests.bench.families.table import CASES, Case

ALIKE = ("SD 1.x", "SDXL", "Sana", "SDXL Turbo", "SDXL Lightning")
"""Networks of these are run by other tests; here they are only recognised."""


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
@pytest.mark.filterwarnings("ignore")  # what the libraries say while tiny models are made and run
def test_every_family_runs(case: Case, tmp_path: Path) -> None:
    columns = ("recognised",) if case.name in ALIKE else ("recognised", "loaded", "text", "picture", "mask")
    failed = {column: cell.said for column, cell in run(case, tmp_path, columns).items() if cell.ok is False}
    assert not failed
