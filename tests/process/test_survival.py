"""A window and workers that are killed while a queue runs: every picture is made once, and none is lost or made twice."""

import contextlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Generator
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.helpers import samples
from tests.helpers.killed_window import expected_seeds, worker_pids
from tests.helpers.read_back import parse_parameters, read_picture
from tests.helpers.scripted import ROOT
from tests.helpers.writing import recorder

from halftone.contract.facts import DeviceFacts
from halftone.gallery.history import History
from halftone.library import records
from halftone.settings.places import pictures_dir

JOBS = 20
KILLS = 2
PATIENCE_SECONDS = 120.0

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")


@contextlib.contextmanager
def window(*words: str) -> Generator[subprocess.Popen[bytes]]:
    path = os.pathsep.join([str(ROOT), str(ROOT / "app"), recorder.FOLDER])
    command = [sys.executable, "-m", "tests.helpers.killed_window", str(JOBS), *words]
    process = subprocess.Popen(command, env=os.environ | {"PYTHONPATH": path}, cwd=ROOT)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def wait(condition: Callable[[], bool], seconds: float = PATIENCE_SECONDS) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


def made() -> list[int]:
    return [int(parse_parameters(read_picture(path).parameters or "").fields["Seed"]) for path in pictures_dir().glob("*.png")]


def check_all_once() -> None:
    seeds = made()
    assert Counter(seeds) == Counter(expected_seeds(JOBS))
    with History() as history:
        listed = Counter(entry.facts.path for entry in history.recent(1000))
    assert listed == Counter(str(path) for path in pictures_dir().glob("*.png"))


def survive(data: Path, kills: int, chance: random.Random, engine: tuple[str, ...], longest: float) -> tuple[int, int]:
    """Kill windows, then workers, at random moments of a queue. Returns how many of each were killed while pictures lacked."""
    windows = workers = 0
    total = len(expected_seeds(JOBS))
    for _ in range(kills):
        with window(*engine) as process:
            wait((data / "data" / "queued").exists)
            time.sleep(chance.uniform(0.05, longest))
            windows += len(made()) < total and process.poll() is None
            process.kill()
    with window(*engine) as process:
        for _ in range(kills):
            before = len(made())
            wait(lambda before=before: bool(worker_pids(data)) and (len(made()) > before or process.poll() is not None))
            time.sleep(chance.uniform(0.0, longest / 4))
            with contextlib.suppress(ProcessLookupError, IndexError):
                os.kill(_alive(data)[-1], signal.SIGKILL)
                workers += process.poll() is None
        wait(lambda: process.poll() is not None)
        assert process.returncode == 0
    return windows, workers


def _alive(data: Path) -> list[int]:
    return [pid for pid in worker_pids(data) if Path(f"/proc/{pid}").exists()]


def save_measured(device: DeviceFacts) -> None:
    records.save_selftest(replace(samples.self_test_report(), device=device))


@pytest.fixture
def measured(own_data: Path) -> Path:
    save_measured(samples.CPU)
    return own_data


@pytest.mark.timeout(1800)
@pytest.mark.skipif("HALFTONE_KILLS" not in os.environ, reason="takes minutes: HALFTONE_KILLS=10 runs it")
@pytest.mark.parametrize(("engine", "longest"), [(("tests.helpers.painter:make",), 2.0), ((), 8.0)], ids=["painted", "real"])
def test_a_queue_survives_many_kills(measured: Path, engine: tuple[str, ...], longest: float) -> None:
    kills = int(os.environ["HALFTONE_KILLS"])
    started = time.monotonic()
    if not engine:
        from halftone.measure.devices import find_device

        save_measured(find_device("auto"))
    windows, workers = survive(measured, kills, random.Random(), engine, longest)
    print(f"killed while pictures lacked: {windows} windows, {workers} workers; {time.monotonic() - started:.0f} s")
    check_all_once()


@pytest.mark.timeout(300)
def test_a_queue_survives_kills_of_the_window_and_of_the_worker(measured: Path) -> None:
    windows, workers = survive(measured, KILLS, random.Random(7), ("tests.helpers.painter:make",), 2.0)
    assert windows
    assert workers
    check_all_once()
