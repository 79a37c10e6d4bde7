"""Embeddings that the prompts name: found in the folders, counted, shown, and sent with the picture."""

from pathlib import Path

import msgspec
import pytest
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage, opened
from tests.helpers.model_files import ramp, safetensors, write_folder

from halftone.contract.request import PictureRequest
from halftone.gui.models.picker import ModelPicker
from halftone.settings.store import Settings

WIDTH = 128
"""Of the words of the bundled model."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "deep").mkdir()
    for name, shape in (("easynegative", (8, WIDTH)), ("deep/bad-hands", (2, WIDTH)), ("xl", (2, 1280))):
        (tmp_path / f"{name}.safetensors").write_bytes(safetensors({"emb_params": ramp(*shape)}))
    return tmp_path


def test_they_are_counted_shown_and_sent(qtbot: QtBot, folder: Path) -> None:
    stage = Stage(qtbot, settings=Settings(first_run_done=True, embedding_folders=(str(folder),)))
    form = stage.page.form
    stage.wait(lambda: bool(stage.controller.state.embeddings.fitting) and bool(form.counter.text()))
    assert form.words_note.isHidden()
    form.prompt.setPlainText("a sun, (Bad-Hands:0.5), xl")
    form.negative.setPlainText("easynegative")
    stage.wait(lambda: form.counter.text() == "8 / 75")
    assert form.words_note.isVisible()
    assert form.words_note.text() == "Embeddings in use: bad-hands, easynegative"
    assert sorted(Path(path).stem for path in form.request().inversions) == ["bad-hands", "easynegative"]
    form.prompt.setPlainText("a sun")
    form.negative.setPlainText("")
    assert form.words_note.isHidden()
    assert form.request().inversions == ()
    stage.close()


def test_folders_that_are_set_later_are_looked_through(qtbot: QtBot, folder: Path) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    form.prompt.setPlainText("easynegative")
    stage.controller.session.settings.update(msgspec.structs.replace(stage.controller.settings, embedding_folders=(str(folder),)))
    stage.wait(form.words_note.isVisible)
    assert form.words_note.toolTip() == str(folder / "easynegative.safetensors")
    stage.close()


def test_the_file_of_an_earlier_picture_is_used_while_it_is_there_and_fits(qtbot: QtBot, folder: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    mine, gone = elsewhere / "easynegative.safetensors", elsewhere / "gone.safetensors"
    mine.write_bytes(safetensors({"emb_params": ramp(3, WIDTH)}))
    stage = Stage(qtbot, settings=Settings(first_run_done=True, embedding_folders=(str(folder / "deep"),)))
    form = stage.page.form
    form.set_request(PictureRequest(prompt="easynegative, gone, bad-hands", inversions=(str(mine), str(gone), "bad-hands")))
    stage.wait(lambda: len(form.request().inversions) == 2)
    assert form.request().inversions == (str(mine), str(folder / "deep" / "bad-hands.safetensors"))
    stage.close()


def test_one_is_chosen_from_the_library(qtbot: QtBot, folder: Path) -> None:
    stage = Stage(qtbot, settings=Settings(first_run_done=True, embedding_folders=(str(folder),)))
    form = stage.page.form
    part = opened(form.embedding_part)
    stage.wait(lambda: {one.name for one in stage.controller.state.embeddings.fitting} == {"easynegative", "bad-hands"})
    form.prompt.setPlainText("a sun")
    part.library_button.click()
    picker = stage.page.findChild(ModelPicker)
    assert picker is not None
    assert picker.rows.query.kinds == ("embedding",)
    picker.chosen.emit(str(folder / "deep" / "bad-hands.safetensors"))
    assert form.prompt.toPlainText() == "a sun, bad-hands"
    picker.close()
    part.add_file("negative", str(folder / "easynegative.safetensors"))
    assert form.negative.toPlainText() == "easynegative"
    part.add_file("negative", str(folder / "xl.safetensors"))
    assert form.negative.toPlainText() == "easynegative"
    assert part.note.text() == "xl does not fit Pocket (demo)."
    assert part.note.isVisible()
    form.prompt.setPlainText("a sun")
    assert part.note.isHidden(), "the form has changed since"
    part.add_file("negative", str(folder / "xl.safetensors"))
    (folder / "xl.safetensors").unlink()
    stage.controller.session.embeddings.look()
    stage.wait(part.note.isHidden)
    (folder / "xl.safetensors").write_bytes(safetensors({"emb_params": ramp(2, 1280)}))
    part.add_file("negative", str(folder / "xl.safetensors"))
    assert part.note.isVisible()
    write_folder(folder / "other")
    stage.controller.session.models.select(str(folder / "other"))
    stage.wait(part.note.isHidden)
    stage.idle()
    stage.close()


def test_in_comfyuis_syntax_a_known_one_is_sent_and_an_unknown_one_is_refused(qtbot: QtBot, folder: Path) -> None:
    stage = Stage(qtbot, settings=Settings(first_run_done=True, embedding_folders=(str(folder),)))
    form, sent = stage.page.form, list[PictureRequest]()
    stage.wait(lambda: bool(stage.controller.state.embeddings.fitting))
    form.edit(options={"prompt_syntax": 2})
    form.prompt.setPlainText("a sun")
    form.embedding_part.add("prompt", "bad-hands")
    assert "embedding:bad-hands" in form.prompt.toPlainText()
    assert form.submit(send=sent.append)
    assert [Path(path).stem for path in sent[0].inversions] == ["bad-hands"]
    form.prompt.setPlainText("a sun, (embedding:dog.pt:1.2)")
    assert not form.submit(send=sent.append)
    assert "no embedding dog" in form.taken.text()
    form.edit(options={})
    assert form.submit(send=sent.append), "elsewhere it is a word"
    stage.close()
