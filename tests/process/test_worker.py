"""The laws of the protocol through a real worker process, whose engine plays a script."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.helpers import samples
from tests.helpers.leftovers import ends
from tests.helpers.scripted import ENGINE, Crash, Fail, Hang, Picture, Print, Say, Steps, Throw, Touch, Wait, environment
from tests.helpers.workers import PATIENCE_SECONDS, paint, scripted

from halftone.client.command import worker_command, worker_environment
from halftone.contract.messages import (
    PROTOCOL,
    Cancel,
    Examine,
    Hello,
    JobEnded,
    JobStarted,
    Keep,
    Load,
    ModelChanged,
    PictureReady,
    PreviewReady,
    Refused,
    SelfTest,
    StepDone,
    Unload,
    WorkerLost,
)
from halftone.contract.wire import event_reader, pack
from halftone.worker.loop import EXIT_BAD_COMMANDS, EXIT_DEVICE_LOST

posix = pytest.mark.skipif(os.name == "nt", reason="Windows has no signals of this kind")
linux = pytest.mark.skipif(not hasattr(os, "pidfd_open"), reason="only Linux lets one wait for any process")


def test_hello_is_answered_with_ready() -> None:
    with scripted() as worker:
        ready = worker.ready()
        assert (ready.seq, ready.protocol, ready.pid) == (0, PROTOCOL, worker.pid)
        assert ready.devices == (samples.CPU,)


def test_a_picture_comes_with_its_steps_its_file_and_one_end(own_data: Path) -> None:
    with scripted() as worker:
        worker.send(paint("a"))
        end = worker.end("a")
        assert end.outcome == "done"
        assert isinstance(worker.of("a")[0], JobStarted)
        assert [event.step for event in worker.of("a") if isinstance(event, StepDone)] == [1, 2, 3, 4]
        (picture,) = [event for event in worker.of("a") if isinstance(event, PictureReady)]
        assert Path(picture.facts.path).read_bytes() == samples.png(64, 64)
        assert Path(picture.facts.path).parent == own_data / "pictures"
        assert worker.blobs[picture.seq] == samples.png()
        assert [event.seq for event in worker.told] == list(range(len(worker.told)))


def test_jobs_of_all_kinds_follow_one_another() -> None:
    with scripted() as worker:
        worker.send(SelfTest(job="a"))
        worker.send(Examine(job="b", model="fragile"))
        worker.send(paint("c"))
        assert [worker.end(job).outcome for job in "abc"] == ["done"] * 3
        assert [event.job for event in worker.told if isinstance(event, JobEnded)] == ["a", "b", "c"]


def test_load_and_unload() -> None:
    with scripted() as worker:
        worker.send(Load(model="pocket"))
        model = worker.until(ModelChanged).model
        assert model is not None
        assert model.id == "pocket"
        worker.send(Unload())
        assert worker.until(ModelChanged).model is None


def test_a_refusal_names_its_command() -> None:
    with scripted({"load": [Fail(code="model-missing", facts={"path": "x"})]}) as worker:
        worker.send(Load(model="x"))
        refused = worker.until(Refused)
        assert (refused.command, refused.error.code) == ("Load", "model-missing")


def test_cancel_ends_the_job_within_a_step(tmp_path: Path) -> None:
    (tmp_path / "1").touch()
    with scripted({"a": [Steps(wait_each=str(tmp_path)), Picture()]}) as worker:
        worker.send(paint("a"))
        worker.send(paint("b"))
        worker.until(StepDone)
        worker.send(Cancel(job="a"))
        worker.send(Cancel(job="b"))
        assert worker.end("b").outcome == "cancelled", "a job that waits ends at once, while the other still runs"
        (tmp_path / "2").touch()
        assert worker.end("a").outcome == "cancelled"
        assert max(event.step for event in worker.of("a") if isinstance(event, StepDone)) <= 2


def test_keep_gives_the_picture_so_far(tmp_path: Path) -> None:
    (tmp_path / "1").touch()
    with scripted({"a": [Steps(wait_each=str(tmp_path)), Picture()]}) as worker:
        worker.send(paint("a"))
        worker.until(StepDone)
        worker.send(Keep(job="a"))
        worker.send(paint("b"))  # the reader thread takes commands in their order: once b is filed, Keep was seen
        worker.send(Cancel(job="b"))
        worker.end("b")
        (tmp_path / "2").touch()
        assert worker.end("a").outcome == "done"
        assert any(isinstance(event, PictureReady) for event in worker.of("a"))


@pytest.mark.parametrize("hold_gil", [False, True], ids=["deaf", "deaf, and holding the interpreter"])
def test_a_job_that_hangs_is_killed_after_the_grace_and_ends_cancelled(*, hold_gil: bool) -> None:
    with scripted({"a": [Hang(hold_gil=hold_gil)]}, grace=0.2) as worker:
        worker.send(paint("a"))
        worker.until(JobStarted)
        worker.send(paint("b"))
        worker.send(Cancel(job="a"))
        lost = worker.until(WorkerLost)
        end = worker.end("a")
        assert (end.outcome, end.error) == ("cancelled", None)
        assert lost.signal in ("SIGKILL", None)
        worker.restart()
        assert worker.end("b").outcome == "done"


@pytest.mark.parametrize(
    ("crash", "code", "name"),
    [
        (Crash(how="exit", code=3), 3, None),
        (Crash(how="kill"), None, "SIGKILL"),
        (Crash(how="segfault"), None, "SIGSEGV"),
        (Crash(how="abort"), None, "SIGABRT"),
    ],
    ids=["exit", "kill", "segfault", "abort"],
)
def test_a_crash_costs_one_job(crash: Crash, code: int | None, name: str | None) -> None:
    with scripted({"a": [Steps(steps=2), crash]}) as worker:
        for job in "abc":
            worker.send(paint(job))
        lost = worker.until(WorkerLost)
        assert (lost.exit_code, lost.signal) == (code, name)
        end = worker.end("a")
        assert end.error is not None
        assert (end.outcome, end.error.code) == ("failed", "worker-lost")
        assert Path(str(end.error.facts["log"])).exists()
        assert worker.next_event(1.0) is None, "nothing comes while no worker runs"
        worker.restart()
        assert [worker.end(job).outcome for job in "bc"] == ["done", "done"]


@posix
def test_sigterm_ends_the_worker_and_ctrl_c_is_left_to_the_window() -> None:
    with scripted() as worker:
        pid = worker.ready().pid
        os.kill(pid, signal.SIGINT)
        worker.send(paint("a"))
        assert worker.end("a").outcome == "done"
        os.kill(pid, signal.SIGTERM)
        assert worker.until(WorkerLost).signal == "SIGTERM"


def test_a_crash_dump_goes_to_the_log() -> None:
    with scripted({"a": [Crash(how="segfault")]}) as worker:
        worker.send(paint("a"))
        lost = worker.until(WorkerLost)
        error = worker.end("a").error
        assert error is not None
        assert "Fatal Python error: Segmentation fault" in error.details
        assert "Segmentation fault" in Path(lost.log).read_text()


def test_stray_prints_go_to_the_log_and_corrupt_no_frame(tmp_path: Path) -> None:
    places: tuple[Print, ...] = (
        Print(text="stray from python\n"),
        Print(text="stray from native code\n", where="descriptor"),
        Print(text="stray from a child", where="child"),
    )
    with scripted({"a": [places[0], Steps(), places[1], places[2], Steps()]}) as worker:
        worker.send(paint("a"))
        assert worker.end("a").outcome == "done"
        assert [event.step for event in worker.of("a") if isinstance(event, StepDone)] == [1, 2, 3, 4] * 2
        log = (Path(os.environ["HALFTONE_DATA"]) / "logs" / "worker.log").read_text()
        assert all(place.text.strip() in log for place in places)


def test_big_frames_cross_unharmed() -> None:
    preview = PreviewReady(step=1, width=2048, height=2048)
    with scripted({"a": [Say(event=preview, blob_bytes=2048 * 2048 * 3)]}) as worker:
        worker.send(paint("a"))
        worker.end("a")
        (event,) = [event for event in worker.of("a") if isinstance(event, PreviewReady)]
        assert len(worker.blobs[event.seq]) == 2048 * 2048 * 3


def test_after_a_lost_device_the_next_worker_goes_on() -> None:
    fault = Throw(kind="runtime-error", text="CUDA error: an illegal memory access was encountered")
    with scripted({"a": [fault]}) as worker:
        worker.send(paint("a"))
        worker.send(paint("b"))
        error = worker.end("a").error
        assert error is not None
        assert error.code == "device-lost"
        assert worker.until(WorkerLost).exit_code == EXIT_DEVICE_LOST
        worker.restart()
        assert worker.end("b").outcome == "done"


def test_an_engine_that_cannot_be_imported_is_told() -> None:
    with scripted({}, "--engine", "no.such.module:make") as worker:
        refused = worker.until(Refused)
        assert (refused.command, refused.error.code) == ("Hello", "worker-start")


def test_quit_cancels_what_runs_and_waits(tmp_path: Path) -> None:
    worker = scripted({"a": [Touch(path=str(tmp_path / "here")), Wait(path=str(tmp_path / "never"))]})
    worker.start()
    worker.send(paint("a"))
    worker.send(paint("b"))
    worker.until(JobStarted)
    worker.close()
    ended = {event.job: event.outcome for event, _ in worker.events(0.0) if isinstance(event, JobEnded)}
    assert ended == {"a": "cancelled", "b": "cancelled"}
    assert worker.pid is None


class Raw:
    """A worker without a session: to misbehave towards it."""

    def __init__(self, tmp_path: Path, *options: str, script: dict[str, list[Hang | Wait]] | None = None) -> None:
        self.log = tmp_path / "raw.log"
        with self.log.open("wb") as stderr:
            self.process = subprocess.Popen(
                worker_command(self.log, "--engine", ENGINE, *options),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=worker_environment(environment(script or {})),
            )

    def ask(self, *frames: bytes) -> tuple[list[object], int]:
        """Write, close, and give what it said until it left, with its exit status."""
        out, _ = self.process.communicate(b"".join(frames), timeout=PATIENCE_SECONDS)
        return [event for event, _ in event_reader().feed(out)], self.process.returncode


def test_the_end_of_stdin_ends_the_worker(tmp_path: Path) -> None:
    assert Raw(tmp_path).ask() == ([], 0)


def test_the_end_of_stdin_cancels_what_runs(tmp_path: Path) -> None:
    events, code = Raw(tmp_path, script={"a": [Wait(path=str(tmp_path / "never"))]}).ask(pack(paint("a")))
    assert isinstance(events[-1], JobEnded) or isinstance(events[-2], JobEnded)
    assert code == 0


def test_a_job_that_hangs_does_not_outlive_its_window(tmp_path: Path) -> None:
    raw = Raw(tmp_path, "--grace", "0.2", script={"a": [Hang()]})
    assert raw.process.stdin is not None
    assert raw.process.stdout is not None
    raw.process.stdin.write(pack(paint("a")))
    raw.process.stdin.flush()
    assert b"JobStarted" in raw.process.stdout.read(40)
    raw.process.communicate(timeout=PATIENCE_SECONDS)
    assert raw.process.returncode == 1
    assert "leaving without it" in raw.log.read_text()


def test_another_protocol_is_refused(tmp_path: Path) -> None:
    events, code = Raw(tmp_path).ask(pack(Hello(protocol=PROTOCOL + 1)))
    (refused,) = events
    assert isinstance(refused, Refused)
    assert (refused.command, refused.error.code) == ("Hello", "protocol-mismatch")
    assert code == 0


@pytest.mark.parametrize(
    "garbage",
    [b"GET / HTTP/1.1\r\n\r\n", b"\xff" * 64, b"\x02\x00\x00\x00" + bytes(4) + b"\xa1x"],
    ids=["text", "lengths", "message"],
)
def test_commands_that_nobody_understands_end_the_worker(tmp_path: Path, garbage: bytes) -> None:
    events, code = Raw(tmp_path).ask(pack(Hello()), garbage)
    (refused,) = [event for event in events if isinstance(event, Refused)]
    assert refused.error.code == "internal"
    assert code == EXIT_BAD_COMMANDS


@linux
def test_a_worker_does_not_outlive_a_killed_window(tmp_path: Path) -> None:
    """A window that is killed in the middle of a job that hangs."""
    program = (
        "from halftone.contract.messages import JobStarted\n"
        "from tests.helpers.scripted import Hang\n"
        "from tests.helpers.workers import paint, scripted\n"
        "worker = scripted({'a': [Hang()]}, '--grace', '0.2')\n"
        "worker.start()\n"
        "worker.send(paint('a'))\n"
        "worker.until(JobStarted)\n"
        "print(worker.pid, flush=True)\n"
        "worker.end('a')\n"
    )
    window = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, env=worker_environment(environment({})))
    assert window.stdout is not None
    with window.stdout as told:
        pid = int(told.readline())
    window.kill()
    window.wait()
    assert ends(pid, PATIENCE_SECONDS)
