"""Hostile code gets nowhere in the process that reads a pickle, even if it were run there."""

import os
import sys
from pathlib import Path

import pytest
from tests.helpers.confinement import attack
from tests.helpers.scripted import ROOT

from halftone.worker.confined.walls import ALL

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the ways are those of Linux")
_PLAIN = (
    "read a file", "read by a path with ..", "learn about a file", "learn about a file beside a descriptor", "list a folder",
    "write a new file", "write into the source", "make a symbolic link", "make a hard link", "make a folder",
    "make a named pipe", "change the source's rights", "change its times", "connect by TCP", "send by UDP",
    "connect to a Unix socket", "listen", "fork", "start a program", "run a shell", "start a thread", "signal the parent",
    "open the output's descriptor again", "load a library",
)  # fmt: skip
"""Ways that any process may go, and that harm nobody outside the test."""


@pytest.fixture(autouse=True)
def hostile_code_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", str(ROOT), os.pathsep)


def test_no_way_leads_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_TOKEN", "mine")
    attacked = attack(tmp_path)
    assert attacked.walls == ALL
    assert len(attacked.tried) >= 50
    assert [way for way, what in attacked.tried.items() if what == "escaped"] == []
    victim = tmp_path / "victim"
    assert sorted(path.name for path in victim.rglob("*")) == ["made", "secret"]
    assert (victim / "secret").read_text() == "mine"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["made.safetensors", "socket", "source.ckpt", "victim"]


def test_the_ways_are_real(tmp_path: Path) -> None:
    attacked = attack(tmp_path, free=True, ways=_PLAIN)
    assert attacked.walls == frozenset()
    assert attacked.tried == dict.fromkeys(attacked.tried, "escaped")
    assert attacked.tried.keys() == set(_PLAIN)
