"""The QProcess transport against a real worker process that plays a script."""

import contextlib
import os
import resource
import signal
from pathlib import Path

import msgspec
import psutil
import pytest
from pytestqt.qtbot import QtBot
from tests.gui.stage import PATIENCE, link
from tests.helpers import samples, scripted

from halftone.client.protocol import MAX_QUICK_DEATHS
from halftone.contract.messages import AnyEvent, Cancel, Generate, JobEnded, PictureReady, Ready, WorkerLost
from halftone.contract.request import PictureRequest
from halftone.gui.controller import Controller
from halftone.gui.process import HalftoneProcesses, WorkerLink
from halftone.gui.text import activity, notice_message
from halftone.library import records
from halftone.session.ports import Finished
from halftone.settings.store import Settings


class Ear:
    """Keeps what a link says."""

    def __init__(self, qtbot: QtBot, heard: WorkerLink) -> None:
        self._qtbot = qtbot
        self.events: list[AnyEvent] = []
        heard.arrived.connect(lambda event, _blob: self.events.append(event))

    def wait(self, kind: type[AnyEvent], count: int = 1) -> list[AnyEvent]:
        self._qtbot.waitUntil(lambda: len(self.of(kind)) >= count, timeout=PATIENCE)
        return self.of(kind)

    def of(self, kind: type[AnyEvent]) -> list[AnyEvent]:
        return [event for event in self.events if isinstance(event, kind)]


def generate(name: str = "a") -> Generate:
    return Generate(job=name, request=PictureRequest(prompt="hills"))


def test_a_picture(qtbot: QtBot) -> None:
    made = link()
    ear = Ear(qtbot, made)
    made.start()
    ear.wait(Ready)
    made.send(generate())
    ended = ear.wait(JobEnded)
    made.stop()
    assert [event.outcome for event in ended if isinstance(event, JobEnded)] == ["done"]
    assert len(ear.of(PictureReady)) == 1
    assert made.pid is None


def test_the_worker_gives_way_to_the_window(qtbot: QtBot) -> None:
    """A lower priority: its computing threads must not keep the window waiting where both want the processor."""
    made = link()
    ear = Ear(qtbot, made)
    made.start()
    ear.wait(Ready)
    own, worker = psutil.Process().nice(), psutil.Process(made.pid).nice()
    made.stop()
    if psutil.WINDOWS:
        assert worker == psutil.BELOW_NORMAL_PRIORITY_CLASS != own
    else:
        assert worker == min(19, own + 5)


def test_a_crash_costs_one_job_and_the_next_worker_makes_the_other(qtbot: QtBot) -> None:
    made = link({"a": [scripted.Crash(how="exit")]})
    ear = Ear(qtbot, made)
    made.start()
    ear.wait(Ready)
    made.send(generate("a"))
    made.send(generate("b"))
    ended = {event.job: event.outcome for event in ear.wait(JobEnded, 2) if isinstance(event, JobEnded)}
    made.stop()
    assert ended == {"a": "failed", "b": "done"}
    assert len(ear.of(WorkerLost)) == 1
    assert len(ear.of(Ready)) == 2


@pytest.mark.logs("did not stop in time")
def test_a_worker_that_is_deaf_to_cancel_is_killed(qtbot: QtBot, tmp_path: Path) -> None:
    here = tmp_path / "here"
    made = link({"a": [scripted.Touch(path=str(here)), scripted.Hang()]}, grace=0.1)
    ear = Ear(qtbot, made)
    made.start()
    made.send(generate("a"))
    qtbot.waitUntil(here.exists, timeout=PATIENCE)
    made.send(Cancel(job="a"))
    ended = ear.wait(JobEnded)
    ear.wait(Ready, 2)
    made.stop()
    assert [event.outcome for event in ended if isinstance(event, JobEnded)] == ["cancelled"]


def test_stop_leaves_no_process_even_when_the_worker_hangs(qtbot: QtBot, tmp_path: Path) -> None:
    here = tmp_path / "here"
    made = link({"a": [scripted.Touch(path=str(here)), scripted.Hang()]})
    made.start()
    made.send(generate("a"))
    qtbot.waitUntil(here.exists, timeout=PATIENCE)
    made.stop()
    assert made.pid is None
    assert made.protocol.open_jobs == ()


def test_a_worker_that_never_gets_ready_is_given_up_and_the_user_is_told(qtbot: QtBot) -> None:
    made = link({"devices": [scripted.Crash(how="exit")]})
    controller = Controller(made, Settings(first_run_done=True))
    controller.session.start()
    qtbot.waitUntil(lambda: bool(controller.state.notices), timeout=PATIENCE)
    assert made.hopeless
    assert [notice.kind for notice in controller.state.notices] == ["worker-lost"]
    assert controller.state.worker == "lost"
    controller.session.stop()
    qtbot.waitUntil(lambda: not controller.background.busy, timeout=PATIENCE)


def test_a_self_test_that_kills_the_worker_is_not_started_again_by_itself(qtbot: QtBot) -> None:
    made = link({"selftest": [scripted.Crash(how="exit")]})
    ear = Ear(qtbot, made)
    controller = Controller(made, Settings(first_run_done=True))
    controller.session.start()
    ear.wait(Ready, 2)
    assert controller.state.jobs == ()
    controller.session.devices.measure()
    ear.wait(Ready, 3)
    assert len(ear.of(JobEnded)) == 2, "measured again when the user asks, and only then"
    controller.session.stop()
    qtbot.waitUntil(lambda: not controller.background.busy, timeout=PATIENCE)


def test_a_worker_that_dies_again_and_again_stays_down_until_the_user_wants_it_back(qtbot: QtBot) -> None:
    records.save_selftest(msgspec.structs.replace(samples.self_test_report(), device=samples.CPU))
    made = link({"generate": [scripted.Crash(how="exit")]})
    controller = Controller(made, Settings(first_run_done=True))
    controller.session.start()
    for _ in range(MAX_QUICK_DEATHS + 1):
        controller.session.queue.generate(PictureRequest(prompt="hills"))
    qtbot.waitUntil(lambda: made.hopeless and controller.state.notices[-1].kind == "worker-lost", timeout=PATIENCE)
    left = len(controller.state.jobs)
    assert left == MAX_QUICK_DEATHS, "only the job that killed one worker after another is given up"
    assert [act.key for act in notice_message(controller.state.notices[-1]).actions] == ["restart"]
    controller.session.restart()
    assert controller.state.worker == "starting"
    qtbot.waitUntil(lambda: len(controller.state.jobs) < left, timeout=PATIENCE)
    controller.session.queue.clear_waiting()
    controller.session.stop()
    qtbot.waitUntil(lambda: not controller.background.busy, timeout=PATIENCE)


def test_a_restart_replaces_a_worker_that_never_gets_ready(qtbot: QtBot, tmp_path: Path) -> None:
    here = tmp_path / "here"
    made = link({"devices": [scripted.Touch(path=str(here)), scripted.Hang()]})
    controller = Controller(made, Settings(first_run_done=True))
    controller.session.start()
    qtbot.waitUntil(here.exists, timeout=PATIENCE)
    first = made.pid
    here.unlink()
    controller.session.restart()
    qtbot.waitUntil(lambda: here.exists() and made.pid not in (None, first), timeout=PATIENCE)
    assert controller.state.worker == "starting"
    controller.session.stop()
    qtbot.waitUntil(lambda: not controller.background.busy, timeout=PATIENCE)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signals")
@pytest.mark.parametrize("moment", ["at once", "while it looks for devices"])
def test_a_worker_that_is_killed_while_it_starts_is_followed_by_another(qtbot: QtBot, tmp_path: Path, moment: str) -> None:
    records.save_selftest(msgspec.structs.replace(samples.self_test_report(), device=samples.CPU))
    here, on = tmp_path / "here", tmp_path / "on"
    made = link({"devices": [scripted.Touch(path=str(here)), scripted.Wait(path=str(on))]})
    controller = Controller(made, Settings(first_run_done=True))
    controller.session.start()
    if moment == "while it looks for devices":
        qtbot.waitUntil(here.exists, timeout=PATIENCE)
    assert made.pid is not None
    os.kill(made.pid, signal.SIGKILL)
    on.touch()
    qtbot.waitUntil(lambda: controller.state.worker == "ready", timeout=PATIENCE)
    assert activity(controller.state, "")[0] == "Ready"
    controller.session.stop()
    qtbot.waitUntil(lambda: not controller.background.busy, timeout=PATIENCE)


def test_the_button_of_an_old_message_does_not_touch_a_worker_that_is_ready(qtbot: QtBot) -> None:
    made = link()
    controller = Controller(made, Settings(first_run_done=True))
    controller.session.start()
    qtbot.waitUntil(lambda: controller.state.worker == "ready", timeout=PATIENCE)
    before = made.pid
    controller.session.restart()
    assert (controller.state.worker, made.pid) == ("ready", before)
    controller.session.stop()
    qtbot.waitUntil(lambda: not controller.background.busy, timeout=PATIENCE)


def test_a_start_that_fails_at_once_leaves_the_next_worker_whole(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    """QProcess reports it within `start`, so that the next worker is there before that returns."""
    made = link()
    launch = made._worker.launch
    launches = iter([launch()._replace(program="")])
    monkeypatch.setattr(made._worker, "launch", lambda: next(launches, None) or launch())
    ear = Ear(qtbot, made)
    made.start()
    ear.wait(Ready)
    made.send(generate())
    ear.wait(JobEnded)
    made.stop()
    assert len(ear.of(Ready)) == 1, "it was greeted once"


def test_a_worker_that_refuses_to_start_is_not_started_again_and_again(qtbot: QtBot) -> None:
    made = link({"devices": [scripted.Fail(code="device-lost", facts={"device": "cpu", "detail": "gone"})]})
    controller = Controller(made, Settings(first_run_done=True))
    controller.session.start()
    qtbot.waitUntil(lambda: bool(controller.state.notices), timeout=PATIENCE)
    assert [notice.kind for notice in controller.state.notices] == ["worker-refused"]
    assert controller.state.worker == "refused"
    assert not made.protocol.may_restart
    assert [act.key for act in notice_message(controller.state.notices[-1]).actions] == ["restart", "copy"]
    first = made.pid
    controller.session.restart()
    qtbot.waitUntil(lambda: len(controller.state.notices) > 1, timeout=PATIENCE)
    assert (controller.state.worker, made.pid == first) == ("refused", False), "another one was asked"
    controller.session.stop()
    qtbot.waitUntil(lambda: not controller.background.busy, timeout=PATIENCE)


@pytest.mark.qt_log_ignore("Cannot create pipe")
@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files in /proc")
def test_a_process_that_cannot_start_ends_after_it_was_asked_for(qtbot: QtBot) -> None:
    """No file can be opened, so there are no pipes to it."""
    processes = HalftoneProcesses()
    seen: list[Finished | str] = []
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
    used: list[int] = []
    resource.setrlimit(resource.RLIMIT_NOFILE, (len(os.listdir("/proc/self/fd")) + 1, limit[1]))
    try:
        with contextlib.suppress(OSError):
            while True:
                used.append(os.open(os.devnull, os.O_RDONLY))
        processes.start("update", ended=seen.append)
        seen.append("asked for")
    finally:
        for one in used:
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, limit)
    qtbot.waitUntil(lambda: len(seen) == 2)
    assert seen[0] == "asked for"
    assert isinstance(seen[1], Finished)
    assert seen[1].code == -1
    assert b"Too many open files" in seen[1].errors
