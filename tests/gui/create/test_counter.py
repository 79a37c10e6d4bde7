"""How long the prompt is, beside its title, and what of it is not followed."""

from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage

from halftone.gui.kit import figures


def test_a_long_prompt_is_read_in_chunks_and_nothing_is_cut(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    form.prompt.setPlainText("sun " * 80)
    stage.wait(lambda: bool(form.counter.text()))
    assert form.counter.text() == "80 / 150"
    assert (form.counter.property("tone"), form.counter.toolTip()) == ("muted", "")
    form.prompt.setPlainText("a (red:1.4) sun")
    assert form.counter.text() == "3 / 75"
    form.prompt.setPlainText("a red sun BREAK green hills")
    assert form.counter.text() == "77 / 150"
    stage.close()


def test_what_is_not_followed_is_told(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    form.prompt.setPlainText("a red sun <hypernet:film:1>")
    stage.wait(lambda: bool(form.counter.text()))
    assert form.counter.property("tone") == "warn"
    said = "Hypernetworks are not supported. Read as text: “<hypernet:film:1>”. Remove it from the prompt."
    assert form.counter.toolTip() == said
    stage.close()


def test_a_very_long_prompt_is_counted_beside_the_window(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    form.prompt.setPlainText("sun")
    stage.wait(lambda: form.counter.text() == "1 / 75")
    form.prompt.setPlainText("sun " * 4000)
    assert form.counter.text() == "1 / 75", "the window went on without waiting"
    stage.wait(lambda: form.counter.text().startswith(figures.group(4000)))
    form.prompt.setPlainText("sun " * 5000)
    form.prompt.setPlainText("sun")
    stage.wait(lambda: not stage.controller.background.busy)
    assert form.counter.text() == "1 / 75", "an older count comes too late"
    stage.close()
