"""A folder in the making: whole, or gone; leftovers of the killed are cleared, everything else is left alone."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from halftone.settings.folders import clear_leftovers, new_folder


def left_by_a_killed_process(target: Path) -> None:
    code = f"""
import os, signal
from pathlib import Path
from halftone.settings.folders import new_folder
with new_folder(Path({str(target)!r})) as part:
    (part / "half").write_text("x")
    os.abort() if os.name == "nt" else os.kill(os.getpid(), signal.SIGKILL)
"""
    subprocess.run([sys.executable, "-c", code], env={**os.environ, "PYTHONPATH": "app"}, check=False, capture_output=True)


def fill(part: Path) -> None:
    (part / "a").mkdir()
    (part / "a" / "b").write_text("content")


@pytest.mark.parametrize("empty", [True, False])
def test_a_folder_appears_whole(tmp_path: Path, empty: bool) -> None:
    target = tmp_path / "new"
    if empty:
        target.mkdir()
    with new_folder(target) as part:
        fill(part)
        assert not list(target.iterdir()) if empty else not target.exists()
    assert [path.relative_to(target).as_posix() for path in sorted(target.rglob("*"))] == ["a", "a/b"]
    assert os.listdir(tmp_path) == ["new"]


def test_or_not_at_all(tmp_path: Path) -> None:
    def stopped(part: Path) -> None:
        fill(part)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt), new_folder(tmp_path / "new") as part:
        stopped(part)
    assert os.listdir(tmp_path) == []


def test_what_came_there_meanwhile_stays(tmp_path: Path) -> None:
    def disturbed(part: Path) -> None:
        fill(part)
        (tmp_path / "new").mkdir()
        (tmp_path / "new" / "mine").touch()

    with pytest.raises(OSError, match="new"), new_folder(tmp_path / "new") as part:
        disturbed(part)
    assert [path.name for path in tmp_path.rglob("*")] == ["new", "mine"]


def test_the_next_run_clears_what_a_killed_one_left_and_nothing_else(tmp_path: Path) -> None:
    left_by_a_killed_process(tmp_path / "other")
    left = os.listdir(tmp_path)
    assert len(left) == 1
    assert left[0].startswith(".other.")
    (tmp_path / ".mine.halftone-part").mkdir()
    (tmp_path / ".new.part").mkdir()
    with new_folder(tmp_path / "running") as running, new_folder(tmp_path / "new") as part:
        assert running.is_dir()
        fill(part)
    assert sorted(os.listdir(tmp_path)) == [".mine.halftone-part", ".new.part", "new", "running"]


def marked(folder: Path, text: str) -> None:
    """Say another process number than the true one, as a machine or a container that shares the disk would."""
    next(folder.glob(".halftone-part")).write_text(text)


@pytest.mark.skipif(os.name == "nt", reason="a file that is locked cannot be written to there")
def test_who_fills_a_folder_is_known_by_a_lock_and_by_no_number(tmp_path: Path) -> None:
    left_by_a_killed_process(tmp_path / "other")
    marked(next(tmp_path.glob(".other.*")), str(os.getpid()))
    with new_folder(tmp_path / "running") as running:
        marked(running, "999999999")
        clear_leftovers(tmp_path)
        assert running.is_dir()
    assert os.listdir(tmp_path) == ["running"]
