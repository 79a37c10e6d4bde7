"""A model that lacks a small file is said in one card; the file comes only on a click, and the model is used once it is there."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QProcess
from PySide6.QtWidgets import QPushButton
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage
from tests.helpers import scripted
from tests.helpers.hub import WHOLE, Hub, save_flux, serving

from halftone.contract.errors import Fact
from halftone.gui.kit.message_bars import MessageBar
from halftone.library.files.small_files import T5
from halftone.settings.disk import size_text
from halftone.settings.store import Settings


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with serving() as server:
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}")
        monkeypatch.setenv("HF_HUB_OFFLINE", "0")
        yield server


def card(stage: Stage) -> MessageBar:
    bar = stage.workspace.lacking_card.bar
    assert bar is not None
    return bar


def processes(stage: Stage) -> list[QProcess]:
    """Those that fetch or make something; the worker is one of the link's."""
    return [process for process in stage.controller.findChildren(QProcess) if process.parent() is not stage.link]


def click(stage: Stage, words: str) -> None:
    found = [button for button in card(stage).findChildren(QPushButton) if button.text().strip() == words]
    assert len(found) == 1, card(stage).message
    found[0].click()


def opened(stage: Stage, path: Path) -> None:
    """Choose a model and see its card."""
    stage.controller.session.models.select(str(path))
    stage.wait(lambda: stage.workspace.lacking_card.bar is not None)


def test_the_file_comes_on_a_click_and_the_model_is_used(qtbot: QtBot, tmp_path: Path, hub: Hub) -> None:
    stage = Stage(qtbot)
    assert stage.workspace.lacking_card.bar is None
    path = save_flux(tmp_path / "flux.safetensors")
    opened(stage, path)
    said = card(stage).message.spoken.replace("\u200b", "")
    for words in ("flux needs 1 small file", "tokenizer.json (1.4", f"{hub.server_port}/google-t5/t5-base", str(T5.place.parent)):
        assert words in said
    hub.status = 404
    click(stage, "Fetch 1 small file (1.4\u00a0MB)")
    assert "Fetching tokenizer.json" in card(stage).message.text
    stage.wait(lambda: not stage.controller.state.lacking.fetching)
    assert card(stage).message.title.startswith(f"http://127.0.0.1:{hub.server_port}/google-t5/t5-base has no tokenizer.json.")
    hub.status = 200
    click(stage, "Try again")
    stage.wait(lambda: stage.controller.settings.last_model == str(path))
    assert (T5.place.read_bytes(), stage.workspace.lacking_card.bar, stage.controller.state.lacking.model) == (WHOLE, None, None)
    assert stage.controller.model is not None
    assert stage.controller.model.family == "FLUX"


def test_the_card_says_how_much_came(qtbot: QtBot, tmp_path: Path, hub: Hub) -> None:
    stage = Stage(qtbot)
    opened(stage, save_flux(tmp_path / "flux.safetensors"))
    hub.halved.clear()
    click(stage, "Fetch 1 small file (1.4\u00a0MB)")
    shown = stage.workspace.lacking_card
    stage.wait(lambda: shown.came.text() == f"{size_text(len(WHOLE) // 2)} of {size_text(len(WHOLE))}")
    assert shown.came.isVisible()
    hub.halved.set()
    stage.wait(lambda: shown.bar is None)
    assert not shown.came.isVisible()
    stage.close()


def test_nothing_is_fetched_without_a_click_and_cancelling_ends_it(qtbot: QtBot, tmp_path: Path, hub: Hub) -> None:
    stage = Stage(qtbot)
    opened(stage, save_flux(tmp_path / "flux.safetensors"))
    stage.idle()
    hub.held.clear()  # a server that does not answer
    click(stage, "Fetch 1 small file (1.4\u00a0MB)")
    stage.wait(lambda: bool(hub.asked))
    click(stage, "Cancel")
    assert (stage.controller.state.lacking.fetching, stage.controller.state.lacking.error) == (False, None)
    stage.wait(lambda: not processes(stage))
    click(stage, "Fetch 1 small file (1.4\u00a0MB)")
    stage.close()  # with the window, while it is fetched
    assert all(process.state() == QProcess.ProcessState.NotRunning for process in processes(stage))
    assert not T5.place.exists()


def test_a_file_of_the_user_s_own_is_copied(qtbot: QtBot, tmp_path: Path, hub: Hub) -> None:
    folder = tmp_path / "models"
    folder.mkdir()
    path, other = save_flux(folder / "flux.safetensors"), save_flux(folder / "other.safetensors")
    mine = tmp_path / "mine.json"
    mine.write_bytes(WHOLE[:20])
    stage = Stage(qtbot, settings=Settings(first_run_done=True, model_folders=(str(folder),)))
    assert set(stage.controller.state.models.waiting) == {str(path), str(other)}
    opened(stage, path)
    stage.controller.session.small_files.take(str(mine))
    stage.wait(lambda: stage.controller.state.lacking.error is not None)
    assert card(stage).message.title == (
        f"{mine} cannot be used as tokenizer.json: it is cut off, or is not a tokenizer. "
        "Choose the tokenizer.json of google-t5/t5-base, or download it."
    )
    mine.write_bytes(WHOLE)
    stage.controller.session.small_files.take(str(mine))
    stage.wait(lambda: stage.controller.model is not None and stage.controller.model.id == str(path))
    assert (T5.place.read_bytes(), mine.read_bytes(), hub.asked) == (WHOLE, WHOLE, [])
    assert not stage.controller.state.models.waiting
    assert str(other) in {facts.id for facts in stage.controller.models}


def test_a_file_that_went_away_is_said_when_the_model_runs(qtbot: QtBot, tmp_path: Path) -> None:
    T5.place.parent.mkdir(parents=True)
    T5.place.write_bytes(WHOLE)
    path = str(save_flux(tmp_path / "flux.safetensors"))
    facts: dict[str, Fact] = {"path": path, "files": "tokenizer.json", "folder": str(T5.place.parent)}
    script = {"generate": [scripted.Fail(code="model-needs-files", facts=facts)]}
    stage = Stage(qtbot, script, settings=Settings(first_run_done=True, model_folders=(path,), last_model=path))
    assert stage.workspace.lacking_card.bar is None
    T5.place.unlink()
    stage.page.form.prompt.setPlainText("a red sun")
    stage.page.generate()
    stage.wait(lambda: stage.workspace.lacking_card.bar is not None)
    assert "needs 1 small file" in card(stage).message.title
    stage.idle()


def test_the_model_in_use_says_what_it_lacks(qtbot: QtBot, tmp_path: Path) -> None:
    path = save_flux(tmp_path / "flux.safetensors")
    stage = Stage(qtbot)
    stage.controller.session.settings.update(Settings(first_run_done=True, model_folders=(str(path),), last_model=str(path)))
    stage.wait(lambda: stage.workspace.lacking_card.bar is not None)
    part = stage.page.form.model_part
    assert (part.note.text(), stage.page.form.refusal()) == ("A small file is missing",) * 2
    card(stage).closed.emit()
    assert stage.workspace.lacking_card.bar is None
    part.note_link.click()
    assert "needs 1 small file" in card(stage).message.title
