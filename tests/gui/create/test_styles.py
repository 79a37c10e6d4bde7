"""The rows of styles and of variations."""

from pathlib import Path

import msgspec
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage, opened
from tests.helpers.pictures import picture_facts

from halftone.contract.request import PictureRequest, Style
from halftone.gui.create.picture.picture_receipt import receipt_rows
from halftone.library.prompts.styles import own_file, read_styles
from halftone.settings.store import Settings

FILM = Style(name="Film", prompt="{prompt}, film grain", negative="cartoon")


def test_a_style_is_chosen_shown_applied_and_taken_back(qtbot: QtBot, tmp_path: Path) -> None:
    file = tmp_path / "styles.csv"
    file.write_text('name,prompt,negative_prompt\nFilm,"{prompt}, film grain",cartoon\nOil,oil,\n,broken,\n', "utf-8-sig")
    stage = Stage(qtbot, settings=Settings(first_run_done=True, styles_file=str(file), wildcard_folders=(str(tmp_path),)))
    form, part = stage.page.form, opened(stage.page.form.style_part)
    form.prompt.setPlainText("a red sun")
    part.row.setChecked(True)
    part.add_button.click()
    stage.wait(lambda: bool(part.findChildren(QMenu)))
    (menu,) = part.findChildren(QMenu)
    assert [action.text() for action in menu.actions()] == ["Film", "Oil"]
    assert menu.actions()[0].toolTip() == "{prompt}, film grain\nNegative prompt: cartoon"
    assert part.note.text() == "Unreadable lines in the styles file: 4"
    menu.actions()[0].trigger()
    menu.close()
    assert part.result.text() == "Becomes: a red sun, film grain\nNegative prompt: cartoon"
    assert part.row.value.text() == "Film"
    request = form.request()
    assert (request.prompt, request.styles, request.wildcards, request.draws) == ("a red sun", (FILM,), (str(tmp_path),), True)
    part.draws.setChecked(False)
    form.set_request(PictureRequest(prompt="x", styles=(msgspec.structs.replace(FILM, name="Other"),)))
    assert part.row.value.text() == "Other"
    assert part.draws.isChecked()
    assert part.result.text().startswith("Becomes: x, film grain")
    stage.close()


def test_the_present_prompt_is_kept_as_a_style(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form, part = stage.page.form, opened(stage.page.form.style_part)
    part.save_button.click()
    assert part.note.text() == "Write a prompt first."
    form.prompt.setPlainText("a {red|green} sun")
    form.negative.setPlainText("ink")
    part.save(" Mine ")
    stage.idle()
    assert read_styles(own_file()).styles == (Style(name="Mine", prompt="a {red|green} sun", negative="ink"),)
    assert part.note.text() == "Saved style Mine."
    stage.close()


def test_a_variation_becomes_the_request_and_comes_back(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form, part = stage.page.form, opened(stage.page.form.variation_part)
    plain = form.request()
    wanted = msgspec.structs.replace(plain, variation_seed=9, variation_strength=0.3, seed_size=(64, 128))
    form.set_request(wanted)
    assert form.request() == wanted
    assert part.row.value.text() == "0.3, 64 × 128"
    part.wide.setValue(60)
    assert part.problem() == "Noise width and height must be multiples of 8."
    assert part.note.text() == part.problem()
    form.set_request(plain)
    assert (form.request(), part.row.value.text(), part.problem()) == (plain, "", "")
    part.seed.roll()
    assert form.request().variation_seed is not None
    assert form.submit()
    assert form.request().variation_seed is None
    stage.idle()
    stage.close()


def test_the_receipt_tells_what_was_drawn() -> None:
    request = PictureRequest(prompt="a {red|green} sun", styles=(FILM,), variation_strength=0.25)
    picture = picture_facts(prompt="a red sun, film grain", negative="cartoon", variation_seed=1234)
    rows = dict(receipt_rows(picture, request))
    assert (rows["Prompt"], rows["Written as"]) == ("a red sun, film grain", "a {red|green} sun")
    assert (rows["Styles"], rows["Variation"]) == ("Film", "1\u202f234 · 0.25")
    assert "Written as" not in dict(receipt_rows(picture_facts(), PictureRequest(prompt="a")))
