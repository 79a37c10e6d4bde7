"""The prompt field: weights, completion and earlier prompts at the keys; nothing is taken that was not meant."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from PySide6.QtCore import Qt
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QLineEdit
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage

from halftone.gui import theme
from halftone.gui.create.form.prompt_edit import PromptEdit
from halftone.gui.create.form.prompt_history import PromptHistory, found
from halftone.gui.kit.stock_widgets import boxed, column
from halftone.library.prompts.completion import Known
from halftone.library.prompts.tag_files import Tags
from halftone.settings.store import Settings

CTRL, ALT, NONE = Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.AltModifier, Qt.KeyboardModifier.NoModifier
KNOWN = Known(("ink wash", "inkblot"), ("colour",), ("EasyNegative",), Tags([("long_hair", 900, ()), ("lotus", 10, ())]))


@pytest.fixture
def prompt(qtbot: QtBot) -> PromptEdit:
    theme.set_theme("dark")
    made = PromptEdit("Prompt", "", "")
    made.known = lambda: KNOWN
    made.resize(300, 100)
    qtbot.addWidget(made)
    made.show()
    made.activateWindow()
    made.setFocus()
    qtbot.waitUntil(made.hasFocus)
    return made


def press(prompt: PromptEdit, key: Qt.Key, modifiers: Qt.KeyboardModifier = NONE) -> None:
    QTest.keyClick(prompt, key, modifiers)


def test_an_arrow_with_ctrl_weighs_the_word_in_one_step_that_can_be_undone(prompt: PromptEdit) -> None:
    prompt.setPlainText("😀 a red sun")
    cursor = prompt.textCursor()
    cursor.setPosition(6)
    prompt.setTextCursor(cursor)
    press(prompt, Qt.Key.Key_Up, CTRL)
    assert (prompt.toPlainText(), prompt.textCursor().selectedText()) == ("😀 a (red:1.1) sun", "red")
    press(prompt, Qt.Key.Key_Up, CTRL)
    assert prompt.toPlainText() == "😀 a (red:1.2) sun"
    prompt.undo()
    assert prompt.toPlainText() == "😀 a (red:1.1) sun"
    prompt.undo()
    assert prompt.toPlainText() == "😀 a red sun"
    prompt.redo()
    press(prompt, Qt.Key.Key_Down, CTRL)
    assert prompt.toPlainText() == "😀 a red sun"


def test_what_could_be_meant_is_offered_and_taken_only_when_it_was_chosen(prompt: PromptEdit) -> None:
    QTest.keyClicks(prompt, "a <lora:in")
    assert prompt.popup.isVisible()
    assert [one.name for one in prompt.popup.offers.items] == ["ink wash", "inkblot"]
    assert prompt.popup.list.current() is None
    press(prompt, Qt.Key.Key_Return)
    assert prompt.toPlainText() == "a <lora:in\n", "Enter begins a line, as ever"
    press(prompt, Qt.Key.Key_Backspace)
    assert prompt.popup.isVisible()
    press(prompt, Qt.Key.Key_Down)
    press(prompt, Qt.Key.Key_Down)
    press(prompt, Qt.Key.Key_Return)
    assert prompt.toPlainText() == "a <lora:inkblot:1>"
    assert not prompt.popup.isVisible()
    prompt.undo()
    assert prompt.toPlainText() == "a <lora:in"


def test_tab_leaves_the_field_unless_something_was_chosen(qtbot: QtBot) -> None:
    theme.set_theme("dark")
    prompt, other = PromptEdit("Prompt", "", ""), QLineEdit()
    prompt.known = lambda: KNOWN
    both = boxed(column(prompt, other))
    qtbot.addWidget(both)
    both.show()
    both.activateWindow()
    prompt.setFocus()
    qtbot.waitUntil(prompt.hasFocus)
    QTest.keyClicks(prompt, "lo")
    assert [one.name for one in prompt.popup.offers.items] == ["long_hair", "lotus"]
    press(prompt, Qt.Key.Key_Up)
    press(prompt, Qt.Key.Key_Tab)
    assert prompt.toPlainText() == "lotus"
    QTest.keyClicks(prompt, ", lo")
    press(prompt, Qt.Key.Key_Tab)
    assert prompt.toPlainText() == "lotus, lo"
    assert other.hasFocus()
    assert not prompt.popup.isVisible()


def test_esc_closes_what_is_offered_and_cancels_nothing(prompt: PromptEdit) -> None:
    QTest.keyClicks(prompt, "__co")
    assert prompt.popup.isVisible()
    press(prompt, Qt.Key.Key_Escape)
    assert (prompt.popup.isVisible(), prompt.toPlainText()) == (False, "__co")
    press(prompt, Qt.Key.Key_Left)
    assert not prompt.popup.isVisible()


def test_a_click_takes_an_offer(prompt: PromptEdit) -> None:
    QTest.keyClicks(prompt, "easy")
    view = prompt.popup.list
    QTest.mouseClick(view.viewport(), Qt.MouseButton.LeftButton, pos=view.visualRect(prompt.popup.offers.index(0)).center())
    assert prompt.toPlainText() == "EasyNegative"


def test_alt_and_arrows_lead_through_earlier_prompts_and_back(prompt: PromptEdit) -> None:
    prompt.earlier = lambda: ("newest", "mine", "oldest")
    prompt.setPlainText("mine")
    seen: list[str] = []
    for key in (Qt.Key.Key_Up, Qt.Key.Key_Up, Qt.Key.Key_Up, Qt.Key.Key_Down, Qt.Key.Key_Down, Qt.Key.Key_Down):
        press(prompt, key, ALT)
        seen.append(prompt.toPlainText())
    assert seen == ["newest", "oldest", "oldest", "newest", "mine", "mine"]
    press(prompt, Qt.Key.Key_Up, ALT)
    QTest.keyClicks(prompt, "!")
    changed = prompt.toPlainText()
    press(prompt, Qt.Key.Key_Up, ALT)
    assert prompt.toPlainText() == "newest"
    press(prompt, Qt.Key.Key_Down, ALT)
    assert prompt.toPlainText() == changed, "what was changed is the draft now"


def test_the_search_finds_all_of_its_words() -> None:
    assert found(("a red sun", "a blue sea", "red sea"), "SEA red") == ["red sea"]


def test_earlier_prompts_come_from_the_pictures_that_were_made(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    for words in ("a red sun", "a boat", "a red sun"):
        stage.picture(words)
    form.prompt.setPlainText("draft")
    form.prompts.history_button.click()
    (menu,) = form.findChildren(PromptHistory)
    assert list(menu.prompts.items) == ["a red sun", "a boat"]
    QTest.keyClicks(menu.search, "boat")
    assert list(menu.prompts.items) == ["a boat"]
    QTest.keyClick(menu.search, Qt.Key.Key_Return)
    assert stage.controller.state.draft.prompt == "a boat"
    form.prompt.undo()
    assert form.prompt.toPlainText() == "draft"
    stage.idle()
    stage.close()


def test_names_come_from_the_files_of_the_settings(qtbot: QtBot, tmp_path: Path) -> None:
    (tmp_path / "colour.txt").write_text("red\n")
    tags = tmp_path / "tags.csv"
    tags.write_text('long_hair,0,900,"longhair"\n')
    stage = Stage(qtbot, settings=Settings(first_run_done=True, tags_file=str(tags), wildcard_folders=(str(tmp_path),)))
    words = stage.page.form.prompts.words
    words.known()
    stage.idle()
    known = words.known()
    assert (tuple(known.wildcards), len(known.tags)) == (("colour",), 2)
    stage.page.form.edit(draws=False)
    assert words.known().wildcards == ()
    assert not words.known().marked
    stage.page.form.edit(options={"prompt_syntax": 2})
    assert words.known().marked, "as in ComfyUI"
    stage.controller.session.settings.update(replace(stage.controller.settings, tags_file=str(tmp_path / "gone.csv")))
    words.known()
    stage.wait(lambda: "gone.csv" in stage.page.form.taken.text())
    assert len(words.known().tags) == 0
    stage.idle()
    stage.close()


def test_the_steps_say_when_their_number_has_no_effect(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    form.edit(sampler="Euler Karras")
    assert form.steps_note.isHidden()
    form.edit(sampler="DPM adaptive Karras")
    assert not form.steps_note.isHidden()
    assert form.steps_note.text() == "No effect: DPM adaptive Karras finds its steps while it runs."
    stage.idle()
    stage.close()


def test_the_negative_prompt_says_when_it_has_no_effect(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    form.edit(guidance=4.5)
    assert (form.prompts.no_effect.isHidden(), form.negative.isEnabled(), form.negative.toolTip()) == (True, True, "")
    form.edit(guidance=1.0)
    assert (form.prompts.no_effect.isHidden(), form.negative.isEnabled()) == (False, False)
    assert form.prompts.no_effect.text() == "No effect at guidance 1."
    assert not form.prompts.demo.isHidden()
    stage.idle()
    stage.close()
