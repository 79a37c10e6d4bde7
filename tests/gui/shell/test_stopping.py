"""What Esc stops, and when it asks."""

from dataclasses import replace
from typing import Literal

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QMessageBox
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage
from tests.helpers import scripted

from halftone.contract.messages import Examine, Generate, JobCommand, Repair, SelfTest
from halftone.contract.request import PictureRequest
from halftone.gui.shell import stopping
from halftone.session.state import Job

PICTURE = Generate(job="a", request=PictureRequest(prompt="hills"))
CHECK = Examine(job="a", model="pocket")
COPY = Repair(job="a", model="pocket", output="copy")
MEASURE = SelfTest(job="a")


def job(command: JobCommand = PICTURE, *, halting: Literal["", "cancel", "keep"] = "") -> Job:
    return Job(id="a", command=command, title="", started=100.0, stopping=halting)


@pytest.mark.parametrize(("command", "page"), [(PICTURE, "create"), (CHECK, "health"), (COPY, "health"), (MEASURE, "device")])
def test_only_what_is_followed_on_the_page_is_stopped(command: JobCommand, page: str) -> None:
    running = job(command)
    stopped = [name for name in ("create", "health", "device", "settings") if stopping.on_page(name, running) is running]
    assert stopped == [page]
    assert stopping.on_page(page, None) is None


@pytest.mark.parametrize(
    ("running", "seconds", "way"),
    [
        (job(), 60.0, "cancel"),
        (job(), 61.0, "ask"),
        (job(CHECK), 61.0, "ask"),
        (job(halting="cancel"), 61.0, "cancel"),
        (job(halting="keep"), 61.0, "ask"),
    ],
)
def test_a_question_comes_before_much_work_is_lost(running: Job, seconds: float, way: str) -> None:
    assert stopping.way_to_stop(running, 100.0 + seconds) == way


@pytest.mark.parametrize("page", ["settings", "health", "device"])
def test_escape_on_another_page_leaves_the_picture_alone(qtbot: QtBot, page: str) -> None:
    stage = Stage(qtbot, {"generate": [scripted.Hang()]})
    stage.page.generate()
    stage.wait(lambda: stage.controller.state.running is not None)
    stage.controller.page_requested.emit(page)
    qtbot.keyClick(stage.window, Qt.Key.Key_Escape)
    running = stage.controller.state.running
    assert running is not None
    assert running.stopping == ""
    stage.close()


def test_the_question_is_answered_without_waiting(qtbot: QtBot) -> None:
    stage = Stage(qtbot, {"generate": [scripted.Hang()]}, grace=0.1)
    stage.page.generate()
    stage.wait(lambda: stage.controller.state.running is not None and stage.controller.state.running.started is not None)
    running = stage.controller.state.running
    assert running is not None
    assert running.started is not None
    stopping.stop(stage.window, stage.controller, replace(running, started=running.started - stopping.ASK_AFTER - 1))
    box = stage.window.findChild(QMessageBox)
    assert box is not None
    assert stage.controller.state.running is not None
    assert stage.controller.state.running.stopping == ""
    next(button for button in box.buttons() if button.text() == "Stop").click()
    assert stage.controller.state.running.stopping == "cancel"
    stage.close()
