"""“Run on the farm” in the queue, with a head and a node that run on a thread of the test."""

from pathlib import Path

import pytest
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage
from tests.helpers.farms import running_head
from tests.helpers.scripted import ENGINE, AnyAction, Fail, Picture, Touch, Wait, environment

from halftone.contract.request import PictureRequest
from halftone.farm import window_jobs
from halftone.farm.ledger import Ledger, head_mark
from halftone.gui.create.farm_jobs import FarmJobs
from halftone.gui.create.farm_panel import state_words
from halftone.gui.shell.help_window import HelpWindow
from halftone.session.events import Left
from halftone.session.state import Job, LeftQueue
from halftone.settings.folders import claimed
from halftone.settings.store import Settings

pytestmark = pytest.mark.timeout(300)


def stage_at(qtbot: QtBot, folder: Path) -> Stage:
    """A window whose queue waits, and whose pictures go to a folder."""
    stage = Stage(qtbot, settings=Settings(first_run_done=True, pictures_folder=str(folder)))
    stage.controller.session.queue.pause(True)
    return stage


def queued(stage: Stage, prompt: str, **fields: object) -> Job:
    request = PictureRequest(prompt=prompt, output=stage.controller.settings.pictures_folder, **fields)  # pyright: ignore[reportArgumentType]
    name = stage.controller.session.queue.generate(request)
    job = stage.controller.state.job(name)
    assert job is not None
    return job


def chosen(menu: QMenu, text: str) -> None:
    next(action for action in menu.actions() if action.text() == text).trigger()
    menu.close()


def words(stage: Stage) -> list[str]:
    farm = stage.page.farm
    return [state_words(entry, head=farm.jobs.head) for entry in farm.jobs.entries]


def play(monkeypatch: pytest.MonkeyPatch, actions: dict[str, list[AnyAction]]) -> None:
    """Let the workers of the nodes play a script."""
    for name, value in environment(actions).items():
        monkeypatch.setenv(name, value)


def test_without_a_head_the_jobs_stay_and_the_guide_says_how_to_start_one(qtbot: QtBot, tmp_path: Path) -> None:
    stage = stage_at(qtbot, tmp_path)
    job = queued(stage, "hills")
    stage.page.queue.farm_wanted.emit((job,))
    stage.wait(lambda: any(notice.kind == "no-farm" for notice in stage.controller.state.notices))
    assert [(job.title, job.leaving) for job in stage.controller.state.jobs] == [("hills", False)]
    assert stage.page.farm.isHidden()
    notice = stage.controller.state.notices[-1]
    stage.workspace.act(notice, "farm")
    help_window = stage.window.findChild(HelpWindow)
    assert help_window is not None
    assert help_window.entries["farm"].isChecked()


def test_waiting_jobs_go_to_the_farm_and_their_pictures_come_into_the_history(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    here, go = tmp_path / "it runs", tmp_path / "go"
    pictures = tmp_path / "pictures"
    pictures.mkdir()
    stage = stage_at(qtbot, pictures)
    two = queued(stage, "hills", batch=2, seed=7)
    first = f"window-{two.id}-0@1"
    play(monkeypatch, {first: [Touch(path=str(here)), Wait(path=str(go)), Picture()]})
    with running_head("--engine", ENGINE):
        menu = stage.page.queue.more_menu()
        chosen(menu, "Run all waiting on the farm")
        stage.wait(lambda: not stage.controller.state.jobs)
        stage.wait(lambda: not stage.page.farm.isHidden() and here.exists())
        stage.wait(lambda: any(word.startswith("On the farm: ") for word in words(stage)))
        assert {entry.title for entry in stage.page.farm.jobs.entries} == {"hills"}
        go.touch()
        stage.wait(lambda: len(stage.page.history.paths()) == 2)
    stage.wait(stage.page.farm.isHidden)
    assert sorted(path.name for path in pictures.iterdir()) == ["00001-7.png", "00002-8.png"]


def test_cancel_reaches_a_picture_that_runs_on_a_node(qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = tmp_path / "it runs"
    stage = stage_at(qtbot, tmp_path)
    job = queued(stage, "hills")
    play(monkeypatch, {"generate": [Touch(path=str(here)), Wait(path=str(tmp_path / "never")), Picture()]})
    with running_head("--engine", ENGINE):
        stage.page.farm.jobs.send((job,))
        stage.wait(lambda: here.exists() and bool(stage.page.farm.jobs.entries))
        chosen(stage.page.farm.entry_menu(stage.page.farm.jobs.entries[0]), "Cancel")
        stage.wait(stage.page.farm.isHidden)
        with Ledger() as ledger:
            stage.wait(lambda: [one.outcome for one in ledger.attempts()] == ["cancelled"])
    assert not list(tmp_path.glob("*.png"))


def test_a_picture_that_failed_says_why_and_can_be_tried_again_or_removed(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = stage_at(qtbot, tmp_path)
    job = queued(stage, "hills")
    play(monkeypatch, {"generate": [Fail(code="out-of-memory", facts={})]})
    farm = stage.page.farm
    with running_head("--engine", ENGINE):
        farm.jobs.send((job,))
        stage.wait(lambda: [entry.state for entry in farm.jobs.entries] == ["failed"])
        assert words(stage)[0].startswith("Failed: ")
        chosen(farm.entry_menu(farm.jobs.entries[0]), "Try again")
        with Ledger() as ledger:
            stage.wait(lambda: [one.outcome for one in ledger.attempts()] == ["failed", "failed"])
        stage.wait(lambda: [entry.state for entry in farm.jobs.entries] == ["failed"])
    chosen(farm.entry_menu(farm.jobs.entries[0]), "Remove")
    stage.wait(farm.isHidden)
    assert window_jobs.look().entries == ()


def test_a_job_that_the_farm_cannot_make_stays_with_the_reason(qtbot: QtBot, tmp_path: Path) -> None:
    stage = stage_at(qtbot, tmp_path)
    good = queued(stage, "hills")
    session = stage.controller.session
    upscaled = session.queue.generate(PictureRequest(prompt="sea"), upscaler="/models/up.safetensors")
    with running_head("--engine", ENGINE, count=0):
        stage.page.queue.farm_wanted.emit(tuple(stage.controller.state.jobs))
        stage.wait(lambda: any(notice.kind == "not-farmed" for notice in stage.controller.state.notices))
        assert [(job.id, job.leaving) for job in stage.controller.state.jobs] == [(upscaled, False)]
        notice = stage.controller.state.notices[-1]
        assert [(name, error.code) for name, error in notice.refused] == [("sea", "farm-refused")]
        stage.wait(lambda: [entry.title for entry in stage.page.farm.jobs.entries] == [good.title])
        assert words(stage) == ["On the farm: waiting"]
    stage.wait(lambda: words(stage) == ["Waiting: no head runs"])
    stage.page.farm.jobs.cancel_all()
    stage.wait(stage.page.farm.isHidden)


def test_what_the_farm_has_already_is_not_offered_again(qtbot: QtBot, tmp_path: Path) -> None:
    """A window that was killed right after it handed a job in left it in the file of its queue, too."""
    stage = stage_at(qtbot, tmp_path)
    filed, own = queued(stage, "hills"), queued(stage, "sea")
    with claimed(head_mark()):
        assert window_jobs.send((filed,)) == {filed.id: None}
    stage.controller.take(Left(queue=LeftQueue(jobs=(filed, own))))
    stage.wait(lambda: stage.controller.state.left.jobs == (own,))
    window_jobs.cancel_entry(filed.id)
    assert window_jobs.look().entries == ()


def test_what_was_left_before_the_page_was_there_is_looked_up_as_well(qtbot: QtBot, tmp_path: Path) -> None:
    """The queue of a killed window is read while the window is still being built."""
    stage = stage_at(qtbot, tmp_path)
    filed, own = queued(stage, "hills"), queued(stage, "sea")
    stage.controller.take(Left(queue=LeftQueue(jobs=(filed, own))))
    stage.wait(lambda: not stage.controller.background.busy)
    with claimed(head_mark()):
        assert window_jobs.send((filed,)) == {filed.id: None}
    late = FarmJobs(stage.controller, stage.page)
    stage.wait(lambda: stage.controller.state.left.jobs == (own,))
    stage.wait(lambda: [entry.title for entry in late.entries] == ["hills"])
    late.cancel_all()
    stage.wait(lambda: late.entries == ())


def test_a_job_that_is_removed_while_it_is_handed_in_is_cancelled(qtbot: QtBot, tmp_path: Path) -> None:
    stage = stage_at(qtbot, tmp_path)
    job = queued(stage, "hills")
    with running_head("--engine", ENGINE, count=0), Ledger() as ledger:
        stage.page.farm.jobs.send((job,))
        assert [one.leaving for one in stage.controller.state.jobs] == [True]
        stage.controller.session.queue.remove_with_undo(job.key)
        stage.wait(lambda: [one.state for one in ledger.beginning("window-", "waiting", "cancelled")] == ["cancelled"])
        stage.wait(lambda: not stage.controller.background.busy)
    assert stage.page.farm.isHidden()
