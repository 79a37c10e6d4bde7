"""A grid from the window: in few clicks, as one row of the queue, with a sheet at the end. And jobs that are edited."""

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QMenu, QMessageBox
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage
from tests.helpers import samples, scripted

from halftone.contract.messages import Generate, MemoryChanged
from halftone.contract.request import PictureRequest
from halftone.gui.create.create_page import QUEUE_WIDTH
from halftone.gui.create.grid_dialog import GridDialog
from halftone.gui.create.job_list import JobTimes, job_times, job_words, time_words
from halftone.gui.create.picture.picture_receipt import receipt_rows
from halftone.session.state import Job


def chosen(stage: Stage) -> GridDialog:
    """Click the arrow beside Generate, then Grid…"""
    stage.qtbot.mouseClick(stage.page.form.more, Qt.MouseButton.LeftButton)
    menu = next(one for one in stage.page.form.footer.findChildren(QMenu) if one.isVisible())
    entry = next(action for action in menu.actions() if action.text() == "Grid…")
    stage.qtbot.mouseClick(menu, Qt.MouseButton.LeftButton, pos=menu.actionGeometry(entry).center())
    found = stage.page.findChild(GridDialog)
    assert found is not None
    return found


def held(tmp_path: Path) -> dict[str, list[scripted.AnyAction]]:
    return {"generate": [scripted.Wait(path=str(tmp_path / "go")), *scripted.usual("generate")]}


def test_three_clicks_make_a_grid_of_guidance_and_steps(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot, held(tmp_path))
    stage.page.form.edit(prompt="a red sun", guidance=6.0, steps=20)
    dialog = chosen(stage)
    assert [one.values.text() for one in dialog.rows] == ["4, 6, 8", "10, 20, 30", ""]
    assert "9 pictures" in dialog.summary.text()
    qtbot.mouseClick(dialog.make, Qt.MouseButton.LeftButton)
    (job,) = stage.controller.state.jobs
    assert job.grid is not None
    assert job.grid.count == 9
    stage.wait(lambda: stage.controller.state.running is not None)
    assert "Grid, 1 of 9" in job_words(stage.controller.state.jobs[0]).batch
    (tmp_path / "go").touch()
    stage.idle()
    stage.wait(lambda: not stage.controller.state.sheets and not stage.controller.background.busy)
    notice = stage.controller.state.notices[-1]
    assert notice.kind == "grid-made"
    assert Path(notice.facts[1]).exists()
    assert len(stage.controller.state.history.pictures) == 10
    sheet = stage.controller.state.history.pictures[0]
    assert sheet.facts.sheet is not None
    rows = dict(receipt_rows(sheet.facts, sheet.request))
    assert (rows["Guidance"], rows["Steps"], rows["Pictures"]) == ("4, 6, 8", "10, 20, 30", "9")
    assert "NaN" not in rows
    stage.page.centre.pick(sheet)
    assert stage.page.centre.toolbar.upscale.isEnabled()
    assert not stage.page.centre.toolbar.vary.isEnabled(), "its request is that of its first picture"
    stage.page.acts.open_menu(sheet.facts.path, QPoint(0, 0))
    (menu,) = stage.page.findChildren(QMenu)
    assert not {"Repeat", "Make four variations"} & {action.text() for action in menu.actions()}
    menu.close()
    stage.close()


def test_a_grid_that_does_not_fit_is_made_all_the_same(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot, held(tmp_path))
    stage.controller.take(MemoryChanged(memory=samples.MEMORY))
    stage.idle()
    stage.page.form.edit(prompt="a red sun", size=(16384, 16384))
    chosen(stage).make.click()
    assert stage.controller.state.jobs == (), "it is asked about"
    box = next(box for box in stage.page.form.findChildren(QMessageBox) if box.isVisible())
    next(one for one in box.buttons() if one.text() == "Try anyway").click()
    (job,) = stage.controller.state.jobs
    assert job.grid is not None
    assert job.grid.count == 9
    stage.controller.session.queue.cancel(job.id)
    (tmp_path / "go").touch()
    stage.idle()
    stage.close()


def test_the_largest_picture_of_a_grid_has_to_fit(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot, held(tmp_path))
    stage.controller.take(MemoryChanged(memory=samples.MEMORY))
    stage.idle()
    stage.page.form.edit(prompt="a red sun", size=(256, 256))
    dialog = chosen(stage)
    dialog.rows[0].set("width", "256, 16384")
    dialog.rows[1].set("height", "256, 16384")
    dialog.make.click()
    assert stage.controller.state.jobs == ()
    box = next(box for box in stage.page.form.findChildren(QMessageBox) if box.isVisible())
    assert "16 384 × 16 384" in box.text() or "16384 × 16384" in box.text()
    next(one for one in box.buttons() if one.text() == "Try anyway").click()
    (job,) = stage.controller.state.jobs
    stage.controller.session.queue.cancel(job.id)
    (tmp_path / "go").touch()
    stage.idle()
    stage.close()


def test_why_there_is_no_grid_stays_to_be_read(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    form.edit(prompt="a red sun")
    dialog = chosen(stage)
    dialog.rows[0].set("prompt", "sun, moon")
    form.edit(prompt="a star")
    dialog.make.click()
    assert stage.controller.state.jobs == ()
    assert "sun" in form.taken.text()
    stage.idle()
    stage.close()


def test_cancel_stops_the_whole_grid(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot, held(tmp_path))
    stage.page.form.edit(prompt="a red sun")
    chosen(stage).make.click()
    stage.wait(lambda: stage.controller.state.running is not None)
    stage.controller.session.queue.remove_with_undo(stage.controller.state.jobs[0].key)
    stage.idle()
    assert stage.controller.state.sheets == ()
    stage.close()


def test_the_dialog_says_what_is_wrong(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.page.form.edit(prompt="a red sun")
    dialog = chosen(stage)
    dialog.rows[0].values.setText("five")
    assert not dialog.make.isEnabled()
    assert "Guidance" in dialog.summary.text()
    dialog.rows[0].set("prompt", "sun, moon")
    dialog.rows[2].set("sampler", "")
    assert not dialog.make.isEnabled(), "the sampler has no values"
    dialog.rows[2].set("", "")
    assert dialog.make.isEnabled()
    assert dialog.axes()[0].values == ("sun", "moon")
    dialog.reject()
    assert stage.controller.state.jobs == ()
    stage.close()


def test_a_waiting_job_is_edited_and_replaced(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot, held(tmp_path))
    for prompt in ("one", "two", "three"):
        stage.page.form.prompt.setPlainText(prompt)
        stage.page.generate()
    stage.page.form.prompt.setPlainText("draft")
    queue, state = stage.page.queue, lambda: stage.controller.state
    queue.list.doubled.emit(state().jobs[1])
    assert stage.page.form.prompt.toPlainText() == "two"
    assert queue.note.isVisible()
    stage.page.form.prompt.setPlainText("two, changed")
    stage.page.generate()
    assert [job.title for job in state().jobs] == ["one", "two, changed", "three"]
    assert not queue.note.isVisible()
    stage.wait(lambda: stage.page.form.prompt.toPlainText() == "draft")
    queue.list.doubled.emit(state().jobs[2])
    (tmp_path / "go").touch()
    stage.wait(lambda: [job.title for job in state().jobs] == ["three"])
    assert state().running is None, "what is edited waits"
    queue.edit_cancelled.emit()
    stage.idle()
    assert stage.page.form.prompt.toPlainText() == "draft"
    stage.close()


def test_jobs_are_repeated_and_cleared_with_undo(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot, held(tmp_path))
    for prompt in ("one", "two"):
        stage.page.form.prompt.setPlainText(prompt)
        stage.page.generate()
    panel, state = stage.page.queue, lambda: [job.title for job in stage.controller.state.jobs]
    panel._repeat(stage.controller.state.jobs[0])
    assert state() == ["one", "two", "one"]
    panel._clear()
    assert state() == ["one"]
    stage.workspace.act(stage.controller.state.notices[-1], "undo")
    assert state() == ["one", "two", "one"]
    (tmp_path / "go").touch()
    stage.idle()
    stage.wait(lambda: len(stage.controller.state.history.pictures) == 3)
    panel._repeat_last()
    stage.idle()
    stage.wait(lambda: len(stage.controller.state.history.pictures) == 4)
    stage.close()


@pytest.mark.parametrize("size", [(1440, 900), (1024, 640)])
def test_a_queue_in_which_something_waits_can_be_read(qtbot: QtBot, tmp_path: Path, size: tuple[int, int]) -> None:
    stage = Stage(qtbot, held(tmp_path))
    stage.window.resize(*size)
    stage.wait(lambda: stage.page.centre.width() > 300)
    before = stage.page.splitter.sizes()
    for prompt in ("one", "two"):
        stage.page.form.prompt.setPlainText(prompt)
        stage.page.generate()
    stage.wait(lambda: stage.page.right.width() >= QUEUE_WIDTH)
    assert stage.page.centre.width() >= 360
    (tmp_path / "go").touch()
    stage.idle()
    stage.wait(lambda: stage.page.splitter.sizes() == before)
    stage.close()


def job(name: str, *, started: float | None = None) -> Job:
    return Job(id=name, command=Generate(job=name, request=PictureRequest(prompt="a")), title="a", started=started)


@pytest.mark.parametrize(
    ("takes", "left", "times"),
    [
        ({"b": 5.0, "c": 7.0}, 3.0, [JobTimes(3.0, 5.0), JobTimes(8.0, 7.0)]),
        ({"b": None, "c": 7.0}, 3.0, [JobTimes(3.0, None), JobTimes(None, 7.0)]),
        ({"b": 5.0, "c": 7.0}, None, [JobTimes(None, 5.0), JobTimes(None, 7.0)]),
    ],
)
def test_a_waiting_job_says_when_it_begins(takes: dict[str, float | None], left: float | None, times: list[JobTimes]) -> None:
    found = job_times((job("a", started=0.0), job("b"), job("c")), takes, left)
    assert [found["b"], found["c"]] == times


def test_times_in_words(qtbot: QtBot) -> None:
    assert time_words(JobTimes(None, None)) == ""
    assert "starts in" in time_words(JobTimes(4.0, 5.0))
    assert "starts" not in time_words(JobTimes(None, 5.0))
