"""A finished picture made larger from the window: asked, followed, listed with what made it, and compared with what it was."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage
from tests.gui.stage import opened as opened_part
from tests.helpers.model_files import ramp, safetensors
from tests.helpers.scripted import Fail, Say

from halftone.contract.messages import JobCommand, PhaseChanged, Upscale
from halftone.contract.request import UpscaleRequest
from halftone.gallery.history import History
from halftone.gui.create.grid_dialog import GridDialog
from halftone.gui.create.job_list import JobWords, job_words
from halftone.gui.create.picture.picture_receipt import receipt_rows
from halftone.gui.create.picture.picture_text import receipt
from halftone.settings.store import Settings


def settings(folder: Path) -> Settings:
    """With a folder that holds one upscale model."""
    folder.mkdir(exist_ok=True)
    (folder / "4x-Sharp.safetensors").write_bytes(safetensors({"body.0.weight": ramp(4, 4)}))
    return Settings(first_run_done=True, upscaler_folders=(str(folder),))


def opened(stage: Stage) -> QMenu:
    """The menu of models."""
    (menu,) = (one for one in stage.page.findChildren(QMenu) if one.isVisible())
    return menu


def words(menu: QMenu) -> list[str]:
    return [action.text() for action in menu.actions()]


def test_the_button_makes_the_shown_picture_larger(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot, settings=settings(tmp_path / "up"))
    centre = stage.page.centre
    assert not centre.toolbar.upscale.isEnabled()
    stage.picture("a red sun")
    source = centre.shown
    assert source is not None
    centre.toolbar.upscale.click()
    menu = opened(stage)
    stage.wait(lambda: words(menu) == ["4x-Sharp", "", "Choose from your models", "Choose a file…"])
    menu.actions()[0].trigger()
    menu.close()
    stage.wait(lambda: centre.shown is not None and centre.shown.facts.upscaled is not None)
    stage.idle()
    made = centre.shown
    assert made is not None
    assert made.facts.upscaled is not None
    assert (made.facts.seed, made.request.prompt) == (source.facts.seed, "a red sun")
    assert receipt(made.facts)[2:] == ("Clean", "4 × with 4x-Sharp. Hold B to compare.")
    rows = dict(receipt_rows(made.facts, made.request))
    assert (rows["Upscaled"], rows["Source"]) == ("4 ×", source.facts.path)
    assert "Steps" not in rows
    assert not centre.canvas._before.isNull(), "what it was, for holding B"
    assert stage.page.history.paths()[:2] == [made.facts.path, source.facts.path]
    with History() as history:
        assert history.recent()[0].facts.upscaled == made.facts.upscaled
    stage.page.reuse_settings()
    assert stage.page.form.request().seed == source.facts.seed
    stage.close()


def test_the_menu_opens_at_once_however_long_the_folders_take(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot, settings=settings(tmp_path / "up"))
    stage.picture()
    button = stage.page.centre.toolbar.upscale
    button.click()
    menu = opened(stage)
    assert words(menu) == ["Looking for upscale models…", "", "Choose from your models", "Choose a file…"]
    assert not menu.actions()[0].isEnabled()
    stage.wait(lambda: words(menu)[0] == "4x-Sharp")
    menu.close()
    stage.idle()
    (tmp_path / "up" / "4x-Sharp.safetensors").rename(tmp_path / "up" / "2x-Soft.safetensors")
    button.click()
    menu = opened(stage)
    assert words(menu)[0] == "4x-Sharp", "what the last look found"
    stage.wait(lambda: words(menu)[0] == "2x-Soft")
    menu.close()
    button.click()
    opened(stage).close()
    stage.idle()
    stage.close()


def test_it_is_followed_while_it_runs_and_failure_is_told(qtbot: QtBot, tmp_path: Path) -> None:
    tile = Say(event=PhaseChanged(phase="upscale", done=3, total=12))
    script = {"upscale": [tile, Fail(code="upscaler-not-one", facts={"path": "x", "detail": "it is a folder"})]}
    stage = Stage(qtbot, script, settings=settings(tmp_path / "up"))
    stage.picture()
    centre = stage.page.centre
    seen: list[tuple[str, bool, bool]] = []

    def look() -> None:
        job = stage.controller.state.running_kind("Upscale")
        if job is not None and job.done == 3:
            panel = centre.transport
            seen.append((f"{panel.title.text()} {panel.left.text()}", panel.isVisible(), panel.keep.isVisible()))

    stage.controller.changed.connect(look)
    assert centre.shown is not None
    stage.page.acts.upscaling.start(centre.shown.facts.path, str(tmp_path))
    stage.wait(lambda: bool(stage.controller.state.notices))
    stage.idle()
    assert seen[0] == ("Upscaling tile 3 of 12", True, False)
    assert stage.controller.state.notices[-1].kind == "failed"
    assert not centre.transport.isVisible()
    assert centre.shown is not None
    stage.close()


def test_the_second_pass_offers_what_the_folders_hold(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot, settings=settings(tmp_path / "up"))
    part = stage.page.form.hires_part
    part.row.click()
    stage.wait(lambda: part.upscaler.count() == 3)
    assert [part.upscaler.itemText(index) for index in range(3)] == ["Latent", "Lanczos", "4x-Sharp"]
    assert part.upscaler.currentIndex() == 0
    stage.close()


def test_a_video_is_not_made_larger(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.page.centre.toolbar.set_picture(True, moves=True)
    assert not stage.page.centre.toolbar.upscale.isEnabled()
    assert stage.page.centre.toolbar.save.isEnabled()
    stage.close()


def test_one_press_makes_and_enlarges(qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(qtbot, settings=settings(tmp_path / "up"))
    form, sharp = stage.page.form, str(tmp_path / "up" / "4x-Sharp.safetensors")
    part = opened_part(form.upscale_part)
    assert part.row.value.text() == "Off"
    stage.wait(lambda: part.known() == {"4x-Sharp": sharp})
    (tmp_path / "no.safetensors").write_bytes(b"no")
    part.choose(str(tmp_path / "no.safetensors"))
    stage.wait(lambda: "no.safetensors" in part.note.text())
    part.choose(sharp)
    stage.wait(lambda: part.file() == sharp)
    assert (part.row.value.text(), part.used()) == ("4x-Sharp", True)
    form.prompt.setPlainText("a red sun")
    queue = stage.controller.session.queue
    submit, asked = queue.submit, list[UpscaleRequest]()

    def noted(command: JobCommand, *rest: Any, **more: Any) -> str:
        if isinstance(command, Upscale):
            asked.append(command.request)
        return submit(command, *rest, **more)

    monkeypatch.setattr(queue, "submit", noted)
    stage.page.generate()
    stage.wait(lambda: len(stage.page.history.paths()) == 2)
    stage.idle()
    history = stage.controller.state.history
    enlarged = [made.facts.upscaled.source for made in history.pictures if made.facts.upscaled is not None]
    plain = [made.facts.path for made in history.pictures if made.facts.upscaled is None]
    assert enlarged == plain, "the picture is there twice"
    other = replace(stage.controller.settings, save_metadata=False, picture_format="webp")
    stage.controller.session.settings.update(other)
    stage.page.generate()
    stage.wait(lambda: len(asked) == 2)
    assert asked[1].saving == stage.controller.settings.saving != asked[0].saving
    stage.idle()
    part.set_file(None)
    count = len(stage.controller.state.history.pictures)
    stage.page.generate()
    stage.idle()
    assert len(stage.controller.state.history.pictures) == count + 1
    stage.close()


def test_each_picture_of_a_grid_is_upscaled(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot, settings=settings(tmp_path / "up"))
    queue, sharp = stage.controller.session.queue, str(tmp_path / "up" / "4x-Sharp.safetensors")
    stage.page.form.edit(upscaler=sharp, prompt="a red sun", steps=1)
    queue.pause(True)
    stage.page.open_grid()
    dialog = stage.window.findChild(GridDialog)
    assert dialog is not None
    dialog.rows[0].set("steps", "1, 2")
    dialog.rows[1].set("", "")
    assert dialog.summary.text().endswith("then upscale")
    dialog.make.click()
    (grid,) = stage.controller.state.jobs
    assert job_words(grid).batch.endswith("then upscale")
    queue.cancel(grid.key)
    stage.page.queue._repeat(grid)
    chained = set[JobWords]()
    stage.controller.worker_event.connect(
        lambda _event, _blob: chained.update(job_words(job) for job in stage.controller.state.jobs if job.chained)
    )
    queue.pause(False)
    stage.wait(lambda: not stage.controller.state.jobs)
    stage.idle()
    assert {(words.line, words.batch) for words in chained} == {("Upscale, 4x-Sharp", "set under Finish")}
    history = stage.controller.state.history
    enlarged = {made.facts.upscaled.source for made in history.pictures if made.facts.upscaled is not None}
    assert len(enlarged) == 2, "the sheet of the grid is not upscaled"
    stage.close()


def test_a_job_that_is_edited_keeps_its_upscale_model(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot, settings=settings(tmp_path / "up"))
    form, sharp, queue = stage.page.form, str(tmp_path / "up" / "4x-Sharp.safetensors"), stage.controller.session.queue
    queue.pause(True)
    form.edit(upscaler=sharp, prompt="a red sun")
    stage.page.generate()
    form.edit(upscaler=None)
    (job,) = stage.controller.state.jobs
    assert job.upscaler == sharp
    stage.page._edit(job)
    assert form.upscaler == sharp
    form.edit(upscaler=None)
    stage.page.generate()
    stage.wait(lambda: [job.upscaler for job in stage.controller.state.jobs] == [""])
    stage.close()
