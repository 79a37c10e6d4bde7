"""A worker that the system ends, or whose window goes: what it finished before is in the history."""

import os
import signal
from pathlib import Path

import pytest
from tests.helpers.scripted import Picture, Steps, Touch, Wait
from tests.helpers.workers import paint, scripted

from halftone.contract.messages import PictureReady, WorkerLost
from halftone.gallery.history import History

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")


def listed() -> list[str]:
    with History() as history:
        return [Path(entry.facts.path).name for entry in history.recent()]


@posix
@pytest.mark.parametrize("name", ["SIGKILL", "SIGTERM"])
def test_a_picture_is_in_the_history_before_the_window_hears_of_it(name: str, tmp_path: Path) -> None:
    """So it is there whatever becomes of the window and of the worker."""
    first = Picture(path=str(tmp_path / "first.png"))
    with scripted({"a": [Steps(), first, Wait(path=str(tmp_path / "never"))]}) as running:
        running.send(paint("a"))
        running.until(PictureReady)
        assert listed() == ["first.png"]
        assert running.pid is not None
        os.kill(running.pid, getattr(signal, name))
        assert running.until(WorkerLost).signal == name
    assert listed() == ["first.png"]


@posix
def test_the_end_of_the_windows_terminal_does_not_end_the_worker(tmp_path: Path) -> None:
    ready, go = tmp_path / "ready", tmp_path / "go"
    with scripted({"a": [Touch(path=str(ready)), Wait(path=str(go)), Picture(path=str(tmp_path / "a.png"))]}) as running:
        running.send(paint("a"))
        while not ready.exists():
            os.sched_yield()
        assert running.pid is not None
        os.kill(running.pid, signal.SIGHUP)
        go.touch()
        assert running.end("a").outcome == "done"
    assert listed() == ["a.png"]
