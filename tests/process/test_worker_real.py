"""A real worker with the real engine and the bundled model: from Hello to a picture, cancelled and killed."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from tests.helpers.workers import Worker, paint

from halftone.contract.errors import say
from halftone.contract.messages import Cancel, JobStarted, PictureReady, StepDone, WorkerLost

pytestmark = pytest.mark.timeout(600)
MANY = 150
"""Far more steps than a test waits for."""


@pytest.fixture(scope="module")
def worker() -> Iterator[Worker]:
    """One for all that leave it alive: torch takes seconds to import."""
    with Worker() as running:
        running.ready()
        yield running


def steps(worker: Worker, job: str) -> list[int]:
    return [event.step for event in worker.of(job) if isinstance(event, StepDone)]


def test_hello_names_the_devices(worker: Worker) -> None:
    ready = worker.protocol.ready
    assert ready is not None
    assert ready.devices[-1].id == "cpu"
    assert ready.devices[0].torch_version


def test_a_picture_is_on_the_disk(worker: Worker, tmp_path: Path) -> None:
    path = tmp_path / "sun.png"
    worker.send(paint("picture", steps=2, seed=1, output=str(path)))
    end = worker.end("picture")
    assert (end.outcome, end.error) == ("done", None)
    assert isinstance(worker.of("picture")[0], JobStarted)
    assert steps(worker, "picture") == [1, 2]
    (ready,) = [event for event in worker.of("picture") if isinstance(event, PictureReady)]
    assert Path(ready.facts.path) == path
    assert worker.blobs[ready.seq][:4] == b"\x89PNG"
    with Image.open(path) as picture:
        assert picture.size == (ready.facts.width, ready.facts.height)
        assert len(picture.getcolors(maxcolors=2**24) or []) > 1


@pytest.fixture(scope="module")
def another() -> Iterator[Worker]:
    with Worker() as running:
        running.ready()
        yield running


@pytest.mark.parametrize("ending", ["png", "jpg", "webp"])
def test_the_same_request_gives_the_same_file(worker: Worker, another: Worker, tmp_path: Path, ending: str) -> None:
    """In one process, under another name, and in another process; all that a request may draw is drawn."""
    words = {"prompt": "a {red|green|blue} sun", "variation_seed": 5, "variation_strength": 0.3, "sampler": "Euler a"}
    (tmp_path / "other").mkdir()

    def made(by: Worker, job: str, place: str) -> bytes:
        path = tmp_path / place
        by.send(paint(job, steps=3, seed=11, output=str(path), **words))
        assert by.end(job).error is None
        return path.read_bytes()

    first = made(worker, f"first {ending}", f"a.{ending}")
    assert made(worker, f"second {ending}", f"other/b.{ending}") == first
    assert made(another, f"third {ending}", f"c.{ending}") == first
    if ending == "png":
        with Image.open(tmp_path / "a.png") as picture:
            told = json.loads(picture.info["halftone"])["made_with"]
        assert {"device", "backend", "torch", "diffusers", "transformers"} <= told.keys()


def test_cancel_ends_within_a_step_and_writes_nothing(worker: Worker, tmp_path: Path) -> None:
    worker.send(paint("cancelled", steps=MANY, output=str(tmp_path / "x.png")))
    worker.until(StepDone, lambda event: event.job == "cancelled")
    worker.send(Cancel(job="cancelled"))
    assert worker.end("cancelled").outcome == "cancelled"
    assert max(steps(worker, "cancelled")) < MANY
    assert list(tmp_path.iterdir()) == []


def test_a_killed_worker_costs_one_job_and_says_so(tmp_path: Path) -> None:
    """What the message for a stopped job is made of, and the jobs behind it in the next worker."""
    with Worker() as worker:
        worker.send(paint("killed", steps=MANY, output=str(tmp_path / "x.png")))
        worker.send(paint("next", steps=1, seed=3, output=str(tmp_path / "y.png")))
        worker.until(StepDone)
        worker.kill()
        assert worker.until(WorkerLost).job is None
        end = worker.end("killed")
        assert end.error is not None
        assert (end.outcome, end.error.code) == ("failed", "worker-lost")
        assert say(end.error).startswith("The engine stopped unexpectedly (the system ended it, often because memory ran out).")
        assert Path(str(end.error.facts["log"])).exists()
        assert list(tmp_path.iterdir()) == []
        worker.restart()
        assert worker.end("next").outcome == "done"
        assert [path.name for path in tmp_path.iterdir()] == ["y.png"]
