"""The largest memory that work took, as the system counts it."""

import mmap
import sys
from pathlib import Path

import pytest
import torch

from halftone.measure.giving_back import give_back
from halftone.measure.peak import PeakMemory, resident

CPU = torch.device("cpu")
MB = 2**20
linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems do not tell the peak of a part of a process's life")


@linux
def test_what_was_held_for_a_moment_counts_and_what_went_before_does_not() -> None:
    before = torch.ones(64 * MB)
    del before
    peak = PeakMemory(CPU)
    torch.ones(32 * MB, dtype=torch.float32)
    found = peak.read(weights=1000 * MB)
    assert found is not None
    assert 1000 * MB + 0.9 * 128 * MB < found < 1000 * MB + 1.2 * 128 * MB


@linux
def test_the_pages_of_a_mapped_file_are_no_growth(tmp_path: Path) -> None:
    file = tmp_path / "weights"
    file.write_bytes(bytes(128 * MB))
    peak = PeakMemory(CPU)
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
        assert sum(mapped[::4096]) == 0
        found = peak.read(weights=0)
    assert found is not None
    assert found < 32 * MB


@linux
def test_freed_memory_goes_back_to_the_system() -> None:
    """Many small tensors lie in arenas of the C library, which keeps them."""
    give_back()
    before = resident()["RssAnon"]
    held = [torch.ones(4096) for _ in range(4000)]
    grown = resident()["RssAnon"] - before
    last = torch.ones(4096)  # keeps the end of the arena
    del held
    give_back()
    assert grown > 50 * MB
    assert resident()["RssAnon"] - before < 0.2 * grown
    assert last.numel()


def test_a_device_that_does_not_tell_gives_nothing() -> None:
    assert PeakMemory(torch.device("meta")).read(weights=5) is None
