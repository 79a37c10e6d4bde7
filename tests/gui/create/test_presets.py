"""Presets in the window: saved with ticks, applied, renamed, deleted, and taken back."""

from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage

from halftone.contract.request import Lora
from halftone.gui.create.form.preset_menu import PresetDialog, tick_words
from halftone.session.pictures.presets import FIELDS, Preset, presets_file, read_presets, save_preset


@pytest.fixture
def stage(qtbot: QtBot) -> Stage:
    made = Stage(qtbot)
    made.idle()
    return made


def names(stage: Stage) -> list[str]:
    menu = stage.page.form.prompts.presets.menu_of(read_presets(presets_file()))
    return [action.text() for action in menu.actions() if not action.isSeparator()]


def test_what_is_ticked_is_saved_and_fills_the_form_again(stage: Stage) -> None:
    form, presets = stage.page.form, stage.page.form.prompts.presets
    form.edit(prompt="a sea", steps=11, guidance=3.0)
    presets.ask([])
    (dialog,) = stage.window.findChildren(PresetDialog)
    assert not dialog.save.isEnabled(), "no name yet"
    assert dialog.ticks["steps"].isChecked()
    assert not dialog.ticks["prompt"].isChecked()
    assert "refiner" not in dialog.ticks, "the model has none"
    dialog.ticks["guidance"].setChecked(False)
    dialog.name.setText("Quick")
    dialog.save.click()
    stage.idle()
    assert form.taken.text() == "Preset Quick saved."
    assert names(stage) == ["Quick", "Save as preset…", "Rename", "Delete"]

    form.edit(prompt="a sun", steps=30, guidance=5.0)
    presets.apply(read_presets(presets_file())[0])
    stage.idle()
    draft = stage.controller.state.draft
    assert (draft.prompt, draft.steps, draft.guidance) == ("a sun", 11, 5.0)
    assert form.taken.text() == "Preset Quick applied."
    assert "Undo: Quick" in names(stage)
    presets.undo()
    assert stage.controller.state.draft.steps == 30
    assert "Undo: Quick" not in names(stage)
    stage.idle()
    stage.close()


def test_a_preset_is_renamed_deleted_and_brought_back(stage: Stage) -> None:
    presets = stage.page.form.prompts.presets
    save_preset(Preset(name="R&B", values={"steps": 7}), presets_file())
    assert names(stage)[0] == "R&&B"
    presets.rename(read_presets(presets_file())[0], " Blues ")
    stage.idle()
    assert names(stage)[0] == "Blues"
    presets.undo()
    stage.idle()
    assert names(stage)[0] == "R&&B"
    presets.delete(read_presets(presets_file())[0])
    stage.idle()
    assert read_presets(presets_file()) == ()
    presets.undo()
    stage.idle()
    assert read_presets(presets_file()) == (Preset(name="R&B", values={"steps": 7}),)
    stage.close()


def test_a_name_in_use_is_refused_and_offers_nothing_to_undo(stage: Stage) -> None:
    presets = stage.page.form.prompts.presets
    for name in ("One", "Two"):
        save_preset(Preset(name=name, values={"steps": 7}), presets_file())
    presets.rename(read_presets(presets_file())[0], "Two")
    stage.idle()
    assert stage.page.form.taken.text() == "Preset name cannot be Two. Use a name that no preset has."
    assert names(stage) == ["One", "Two", "Save as preset…", "Rename", "Delete"]
    stage.close()


def test_undo_keeps_what_was_changed_since(stage: Stage) -> None:
    form, presets = stage.page.form, stage.page.form.prompts.presets
    form.edit(prompt="a sea", steps=30)
    presets.apply(Preset(name="Quick", values={"steps": 11}))
    stage.idle()
    form.edit(prompt="a sun")
    presets.undo()
    assert (stage.controller.state.draft.prompt, stage.controller.state.draft.steps) == ("a sun", 30)
    stage.idle()
    stage.close()


def test_a_preset_says_what_of_it_is_not_here(stage: Stage) -> None:
    form = stage.page.form
    values = {"loras": [{"path": "/l/ink.safetensors"}], "model": "/models/gone.safetensors", "tempo": 3}
    form.prompts.presets.apply(Preset(name="Ink", values=values))
    stage.wait(lambda: form.taken.text() == "Preset Ink applied. Not found: gone.safetensors, ink.safetensors, tempo.")
    assert stage.controller.settings.last_model == "pocket"
    assert stage.controller.state.draft.loras == (Lora(path="/l/ink.safetensors"),)
    form.edit(loras=())
    stage.idle()
    stage.close()


def test_a_file_that_is_no_list_of_presets_is_told_and_left_alone(stage: Stage) -> None:
    form = stage.page.form
    Path(presets_file()).write_text("no json")
    form.prompts.presets.click()
    stage.wait(lambda: "it holds no presets" in form.taken.text())
    form.prompts.presets.save("a", frozenset(("steps",)))
    stage.idle()
    assert presets_file().read_text() == "no json"
    stage.close()


def test_every_field_that_can_be_kept_has_a_name() -> None:
    assert set(tick_words()) == set(FIELDS)
