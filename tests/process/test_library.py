"""The process that watches the model folders for the window: it says what it found, notices changes, and ends with its reader."""

import os
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.helpers.headers import header, write_sparse
from tests.helpers.scripted import ROOT
from tests.helpers.writing import recorder

from halftone.library.index.scan import scan
from halftone.library.index.store import Index
from halftone.session.models.index_messages import Message, Progress, Scan, messages

EMBEDDING = header("emb_params[2,768]")
_LONG = 60.0


class Watcher:
    """`halftone index --watch` of one folder."""

    def __init__(self, folder: Path) -> None:
        environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT / "app"), recorder.FOLDER))}
        command = [sys.executable, "-P", "-m", "halftone", "index", "--watch", "--", str(folder)]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, env=environment)
        self._heard: queue.Queue[Message] = queue.Queue()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        for line in self.process.stderr:
            for message in messages(line):
                self._heard.put(message)

    def files(self, wanted: int) -> None:
        """Wait for a scan that found so many files."""
        while True:
            match self._heard.get(timeout=_LONG):
                case Scan() as found if found.roots[0].files == wanted:
                    return
                case Scan() | Progress():
                    continue
                case other:
                    raise AssertionError(other)

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        self._reader.join()
        assert self.process.stderr is not None
        self.process.stderr.close()


@pytest.fixture
def watcher(tmp_path: Path) -> Iterator[Watcher]:
    folder = tmp_path / "models"
    folder.mkdir()
    write_sparse(folder / "one.safetensors", EMBEDDING)
    made = Watcher(folder)
    yield made
    made.end()


def names(folder: Path) -> set[str]:
    with Index() as index:
        return {entry.name for entry in index.entries([str(folder)])}


def test_changes_are_noticed(watcher: Watcher, tmp_path: Path) -> None:
    folder = tmp_path / "models"
    watcher.files(1)
    (folder / "new").mkdir()
    write_sparse(folder / "new" / "two.safetensors", EMBEDDING)
    watcher.files(2)
    (folder / "one.safetensors").rename(folder / "other.safetensors")
    watcher.files(2)
    (folder / "new" / "two.safetensors").unlink()
    watcher.files(1)
    assert names(folder) == {"other"}


def test_a_file_that_is_being_written_is_listed_once_it_is_whole(watcher: Watcher, tmp_path: Path) -> None:
    watcher.files(1)
    content = (tmp_path / "models" / "one.safetensors").read_bytes()
    with (tmp_path / "models" / "two.safetensors").open("wb") as file:
        for part in (content[:100], content[100:200], content[200:]):
            file.write(part)
            file.flush()
    watcher.files(2)
    with Index() as index:
        assert all(entry.error is None for entry in index.entries([str(tmp_path / "models")]))


def test_a_folder_that_goes_away_and_comes_back(watcher: Watcher, tmp_path: Path) -> None:
    watcher.files(1)
    (tmp_path / "models").rename(tmp_path / "away")
    write_sparse(tmp_path / "away" / "two.safetensors", EMBEDDING)
    (tmp_path / "away").rename(tmp_path / "models")
    watcher.files(2)


_STARTS = """
import subprocess, sys, time
subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stderr=sys.stderr)
time.sleep(600)
"""


@pytest.mark.parametrize("task", ["--watch", "--hash", "--weights"])
def test_a_process_ends_with_the_window_that_started_it(task: str, tmp_path: Path) -> None:
    """Its processes, too, while they still read many files or one long file."""
    folder = tmp_path / "models"
    folder.mkdir()
    if task == "--watch":
        for number in range(20_000):
            write_sparse(folder / f"{number}.safetensors", EMBEDDING)
    else:
        write_sparse(folder / "long.safetensors", header("weight[2000000,20000]"))
        with Index() as index:
            scan(index, [str(folder)])
    words = {"--watch": [str(folder)], "--hash": [], "--weights": [str(folder / "long.safetensors")]}[task]
    command = [sys.executable, "-P", "-m", "halftone", "index", task, "--", *words]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join((str(ROOT / "app"), recorder.FOLDER))}
    with subprocess.Popen([sys.executable, "-c", _STARTS, *command], stderr=subprocess.PIPE, env=environment) as window:
        assert window.stderr is not None
        window.stderr.readline()
        started = psutil.Process(window.pid).children(recursive=True)
        window.kill()
        assert started
        _, alive = psutil.wait_procs(started, timeout=5.0)
        for process in alive:
            process.kill()
    assert not alive
