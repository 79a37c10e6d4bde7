"""The card in software, and Halftone on it: each in a process of its own, as a device of torch stays for the life of one."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.accelerator import card

REPOSITORY = Path(__file__).parents[2]


@pytest.mark.skipif(bool(card.missing()), reason=card.missing())
@pytest.mark.timeout(900)  # it may have to be compiled
@pytest.mark.parametrize("files", [("promises.py",), ("waits.py", "memory.py")], ids="+".join)
def test_on_the_card(files: tuple[str, ...], tmp_path: Path) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *(f"tests/accelerator/{file}" for file in files)]
    done = subprocess.run(
        command, cwd=REPOSITORY, env={**os.environ, "HALFTONE_TEST_DEVICE": "card"}, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout[-6000:] + done.stderr[-2000:]
    assert " skipped" not in done.stdout.splitlines()[-1]
