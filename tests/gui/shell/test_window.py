"""The shell over a real worker that plays a script."""

import subprocess
import sys
from pathlib import Path
from typing import cast

import msgspec
import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QLabel, QMessageBox, QPushButton
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage
from tests.helpers import samples, scripted

from halftone.client.command import worker_environment
from halftone.contract.messages import Generate, Ready
from halftone.contract.request import Numerics, PictureRequest
from halftone.gui import theme
from halftone.gui.controller import PageName
from halftone.gui.device.device_page import DevicePage
from halftone.gui.device_names import names_apart, short_name
from halftone.gui.gallery.gallery_page import GalleryPage
from halftone.gui.kit.actions import choose_keys
from halftone.gui.kit.message_bars import MessageBar
from halftone.gui.models.models_page import ModelsPage
from halftone.gui.settings.program_section import ProgramSection
from halftone.gui.settings.settings_page import SettingsPage
from halftone.gui.shell.help_window import shortcuts
from halftone.gui.shell.message_list import MessagesWindow
from halftone.gui.shell.topbar import chip_part, memory_text
from halftone.session.events import Noted, Replaced
from halftone.session.update_state import Updating, refusal
from halftone.settings import store
from halftone.settings.store import Settings


def test_the_window_never_loads_torch_or_numpy() -> None:
    code = (
        "import sys, halftone.gui.main, halftone.gui.shell.workspace\n"
        "heavy = {'torch', 'diffusers', 'transformers', 'numpy', 'av', 'PIL', 'tomlkit', 'tokenizers'} & set(sys.modules)\n"
        "sys.exit(', '.join(sorted(heavy)) or 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=worker_environment())
    assert done.returncode == 0, done.stderr


def test_pages_tabs_and_keys(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    window, workspace = stage.window, stage.workspace
    assert stage.shows("create")
    workspace.top.tabs["health"].click()
    assert stage.shows("health")
    assert workspace.top.tabs["health"].isChecked()
    workspace.top.chip.click()
    assert stage.shows("device")
    workspace.top.settings.click()
    assert stage.shows("settings")
    assert not workspace.top.tabs["create"].isChecked()
    keys: tuple[tuple[Qt.Key, PageName], ...] = (
        (Qt.Key.Key_6, "device"),
        (Qt.Key.Key_3, "models"),
        (Qt.Key.Key_1, "create"),
        (Qt.Key.Key_2, "gallery"),
        (Qt.Key.Key_4, "health"),
    )
    for key, page in keys:
        qtbot.keyClick(window, key, Qt.KeyboardModifier.ControlModifier)
        assert stage.shows(page)
    stage.close()


def test_the_chip_says_which_page_it_opens(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    chip = stage.workspace.top.chip
    assert chip.accessibleName().startswith("Device: A · 9\u00a0GB, FP16 slow")
    assert chip.toolTip() == "Device (Ctrl+6)"
    stage.close()


def test_settings_open_at_the_first_section_and_links_at_the_one_they_mean(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    top, status = stage.workspace.top, stage.workspace.status
    page = stage.workspace.page("settings")
    assert isinstance(page, SettingsPage)
    top.settings.click()
    assert page.nav["General"].isChecked()
    top.tabs["create"].click()
    status.precision.click()
    assert page.nav["Numerics"].isChecked()
    page.nav["Folders"].click()
    top.tabs["create"].click()
    top.settings.click()
    assert page.nav["Folders"].isChecked(), "the gear comes back to where one was"
    stage.close()


def test_another_language_keeps_the_page_and_the_section(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    controller, workspace = stage.controller, stage.workspace
    for section, language, word in (("General", "zh_CN", "常规"), ("Appearance", "en", "Appearance")):
        workspace.top.settings.click()
        page = workspace.page("settings")
        assert isinstance(page, SettingsPage)
        page.nav[section].click()
        controller.session.settings.update(msgspec.structs.replace(controller.settings, language=language))
        stage.wait(lambda before=page: workspace.page("settings") is not before)
        made = workspace.page("settings")
        assert isinstance(made, SettingsPage)
        stage.wait(made.isVisible)
        assert made.nav[section].isChecked()
        assert made.nav[section].accessibleName() == word
    stage.idle()
    stage.close()


def test_another_text_size_grows_everything_and_keeps_the_place(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    try:
        workspace = stage.workspace
        workspace.top.settings.click()
        page = workspace.page("settings")
        assert isinstance(page, SettingsPage)
        page.nav["Appearance"].click()
        before = workspace.top.height(), page.nav["General"].sizeHint().height()
        section = page.section("Appearance")
        assert isinstance(section, ProgramSection)
        section.rows["text_size"].focus_control()
        section.change("text_size", 200)
        stage.wait(lambda: workspace.page("settings") is not page)
        made = workspace.page("settings")
        assert isinstance(made, SettingsPage)
        stage.wait(made.isVisible)
        assert made.nav["Appearance"].isChecked()
        assert made.focused_field() in ("text_size", ""), "the window may not be active"
        assert workspace.top.height() == 2 * before[0]
        assert made.nav["General"].sizeHint().height() > 1.5 * before[1]
        assert theme.current().font("body").pixelSize() == 26
        stage.idle()
    finally:
        theme.set_text_size(100)
        stage.close()


def test_new_keys_act_at_once_and_stand_in_tooltips_and_in_the_list(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    controller, workspace = stage.controller, stage.workspace
    try:
        before = workspace.top
        chosen = {"page-health": "F3", "guide": "", "page-settings": "Ctrl+7", "search": "Ctrl+J", "eraser": "", "brush": "F4"}
        controller.session.settings.update(msgspec.structs.replace(controller.settings, shortcuts=chosen))
        stage.wait(lambda: workspace.top is not before)
        assert workspace.top.tabs["health"].toolTip().endswith("(F3)")
        assert ("F3", "Health") in shortcuts()
        assert "Guide to this page" not in [words for _, words in shortcuts()]
        stage.wait(workspace.top.isVisible)
        qtbot.keyClick(stage.window, Qt.Key.Key_4, Qt.KeyboardModifier.ControlModifier)
        assert stage.shows("create"), "the old key is free"
        qtbot.keyClick(stage.window, Qt.Key.Key_F3)
        assert stage.shows("health")
        qtbot.keyClick(stage.window, Qt.Key.Key_7, Qt.KeyboardModifier.ControlModifier)
        page = workspace.page("settings")
        assert isinstance(page, SettingsPage)
        assert stage.shows("settings")
        qtbot.keyClick(stage.window, Qt.Key.Key_J, Qt.KeyboardModifier.ControlModifier)
        assert page.search.hasFocus()
        searches = page.search, cast("ModelsPage", workspace.page("models")).search
        filters = cast("GalleryPage", workspace.page("gallery")).filters
        assert all(search.toolTip().endswith("(Ctrl+J)") for search in (*searches, filters.search))
        assert "Ctrl+J" in [one.text() for one in filters.search.findChildren(QLabel)]
        editor = workspace.create_page.centre.editor
        editor.make()
        assert editor.tool.button("paint").toolTip().endswith("(F4)")
        assert editor.tool.button("erase").toolTip() == "Erase from the mask (right button)"
        assert editor.brush.toolTip() == "Brush size ([, ] or Ctrl+wheel)"
        stage.idle()
    finally:
        choose_keys({})
        stage.close()


def test_the_focus_ring_closes_around_a_tab_as_high_as_the_bar(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    tab = stage.workspace.top.tabs["create"]
    stage.workspace.top.help.setFocus(Qt.FocusReason.OtherFocusReason)
    tab.setFocus(Qt.FocusReason.ShortcutFocusReason)
    image = stage.window.grab().toImage()
    ratio = image.devicePixelRatio()
    at = tab.mapTo(stage.window, tab.rect().center())
    top = tab.mapTo(stage.window, QPoint(0, 0)).y()
    ring = theme.current().color("focus").rgb()
    for rows in (range(top, top + 4), range(top + tab.height() - 3, top + stage.workspace.top.height())):
        assert ring in {image.pixelColor(round(at.x() * ratio), round(y * ratio)).rgb() for y in rows}
    stage.close()


def test_a_first_start_opens_on_the_device_measures_and_checks_the_demo_model(qtbot: QtBot) -> None:
    stage = Stage(qtbot, settings=Settings(first_run_done=False), measured=False)
    assert stage.shows("device")
    stage.wait(lambda: stage.controller.state.self_test is not None)
    stage.idle()
    model = stage.controller.model
    assert model is not None
    device = stage.workspace.page("device")
    assert isinstance(device, DevicePage)
    stage.wait(device.first_picture.isEnabled)
    device.first_picture.click()
    assert stage.shows("create")
    assert stage.controller.settings.first_run_done
    assert stage.page.form.prompt.toPlainText()
    stage.wait(lambda: len(stage.page.history.paths()) == 1)
    stage.idle()
    stage.close()


def test_a_later_start_takes_what_was_measured_before(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    assert stage.controller.state.self_test is not None
    assert stage.controller.state.jobs == ()
    assert stage.shows("create")
    stage.close()


def test_the_job_ring_and_the_activity_follow_a_job(qtbot: QtBot, tmp_path: Path) -> None:
    go = tmp_path / "go"
    stage = Stage(qtbot, {"generate": [scripted.Wait(path=str(go)), *scripted.usual("generate")]})
    assert stage.workspace.top.ring.isHidden()
    stage.page.generate()
    stage.wait(lambda: not stage.workspace.top.ring.isHidden())
    assert "Loading" in stage.workspace.status.activity.text()
    go.touch()
    stage.idle()
    assert stage.workspace.top.ring.isHidden()
    assert "Ready" in stage.workspace.status.activity.text()
    stage.close()


def test_a_failed_job_is_told_and_can_be_tried_again(qtbot: QtBot) -> None:
    stage = Stage(qtbot, {"generate": [scripted.Fail(code="device-lost", facts={"device": "cpu", "detail": "gone"})]})
    stage.page.generate()
    stage.wait(lambda: stage.workspace.toasts.shown is not None)
    bar = stage.workspace.toasts.shown
    assert bar is not None
    assert bar.message.level == "danger"
    assert "cpu stopped responding: gone." in bar.message.spoken
    assert [act.key for act in bar.message.actions] == ["retry", "copy"]
    bar.acted.emit("retry")
    stage.wait(lambda: len(stage.controller.state.notices) == 2)
    stage.close()


def test_a_full_disk_offers_another_folder(qtbot: QtBot) -> None:
    facts = {"need": "3 MB", "free": "0 MB", "folder": "/full"}
    stage = Stage(qtbot, {"generate": [scripted.Fail(code="disk-full", facts=dict(facts))]})
    stage.page.generate()
    stage.wait(lambda: stage.workspace.toasts.shown is not None)
    bar = stage.workspace.toasts.shown
    assert bar is not None
    assert bar.message.spoken == "Not enough disk space. 3 MB needed, 0 MB free in /full."
    assert bar.message.actions[0].key == "choose-folder"
    stage.close()


def listed(stage: Stage) -> list[str]:
    """The titles in the list of messages, newest first."""
    window = stage.window.findChild(MessagesWindow)
    assert window is not None
    return [bar.message.title for bar in window.findChildren(MessageBar) if bar.isVisible()]


def test_that_the_engine_is_slow_is_withdrawn_once_it_is_ready(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    toasts, ready = stage.workspace.toasts, Ready(version="0.1.0", protocol=1, pid=1, devices=(samples.CPU,))
    stage.controller.take(Noted(kind="copied"))
    stage.workspace.show_messages()
    stage.workspace.focus_message()
    stage.controller.take(Noted(kind="worker-late"))
    stage.wait(lambda: listed(stage) == ["The engine is slow to start.", "Copied."])
    stage.controller.take(ready)
    stage.wait(lambda: listed(stage) == ["Copied."])
    assert toasts.shown is not None
    toasts.shown.closed.emit()
    assert toasts.shown is None, "it waited to be shown, and is not true any more"
    stage.controller.take(Noted(kind="worker-late"))
    assert toasts.shown is not None
    stage.controller.take(ready)
    assert toasts.shown is None
    stage.close()


def test_f8_goes_to_the_newest_message(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.controller.take(Noted(kind="removed", facts=("hills",)))
    qtbot.keyClick(stage.window, Qt.Key.Key_F8)
    bar = stage.workspace.toasts.shown
    assert bar is not None
    assert stage.window.focusWidget() is bar.first_button()
    stage.close()


def test_what_stood_in_the_form_is_there_at_the_next_start(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    form.prompt.setPlainText('two trees \u2028 and "a" hill')
    form.negative.setPlainText("text")
    form.size_field.set_value((160, 104))
    form.steps.set_value(9)
    stage.window.close()
    stage.wait(lambda: not stage.controller.background.busy)
    again = Stage(qtbot, settings=store.load())
    form = again.page.form
    again.wait(lambda: form.prompt.toPlainText() != "")
    assert form.prompt.toPlainText() == stage.page.form.prompt.toPlainText()
    assert form.negative.toPlainText() == "text"
    assert form.size_field.value() == (160, 104)
    assert form.steps.value() == 9
    again.idle()
    again.close()


def test_a_form_that_cannot_be_read_is_left_empty(qtbot: QtBot) -> None:
    stage = Stage(qtbot, settings=Settings(first_run_done=True, form='{"prompt": 3'))
    stage.idle()
    assert stage.page.form.prompt.toPlainText() == ""
    assert stage.page.form.generate_button.isEnabled()
    stage.close()


def test_closing_with_work_asks(qtbot: QtBot, tmp_path: Path) -> None:
    go = tmp_path / "go"
    stage = Stage(qtbot, {"generate": [scripted.Wait(path=str(go)), *scripted.usual("generate")]})
    stage.page.generate()
    stage.page.generate()
    stage.wait(lambda: stage.controller.state.running is not None)
    assert not stage.window.close()
    box = stage.window.findChild(QMessageBox)
    assert box is not None
    assert box.text() == "Finish 2 jobs first, or stop now?"
    finish = next(button for button in box.buttons() if button.text() == "Finish, then close")
    finish.click()
    go.touch()
    stage.wait(lambda: not stage.window.isVisible())
    stage.wait(lambda: len(stage.controller.state.history.known) == 2)
    stage.wait(lambda: stage.link.pid is None)


def test_the_question_at_the_close_follows_the_work_and_goes_with_it(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot, {"generate": [scripted.Wait(path=str(tmp_path / "go")), *scripted.usual("generate")]})
    stage.page.generate()
    stage.page.generate()
    stage.wait(lambda: stage.controller.state.running is not None)
    assert not stage.window.close()
    box = stage.window.findChild(QMessageBox)
    assert box is not None
    said: list[str] = []
    stage.controller.changed.connect(lambda: said.append(box.text()) if stage.controller.state.jobs else None)
    (tmp_path / "go").touch()
    stage.wait(lambda: not stage.window.isVisible())
    assert said[-1] == "Finish 1 job first, or stop now?"
    stage.wait(lambda: stage.link.pid is None)


def answer(stage: Stage, words: str) -> None:
    """Try to close the window, and answer its question."""
    assert not stage.window.close()
    box = stage.window.findChild(QMessageBox)
    assert box is not None
    next(button for button in box.buttons() if button.text() == words).click()


def test_that_the_window_will_close_is_seen_and_can_be_taken_back(qtbot: QtBot, tmp_path: Path) -> None:
    go = tmp_path / "go"
    stage = Stage(qtbot, {"generate": [scripted.Wait(path=str(go)), *scripted.usual("generate")]})
    stage.page.generate()
    stage.page.generate()
    stage.wait(lambda: stage.controller.state.running is not None)
    note = stage.workspace.closing_note
    assert note.isHidden()
    answer(stage, "Finish, then close")
    assert not note.isHidden()
    assert note.words.text() == "Halftone closes when these 2 jobs are done."
    stage.workspace.top.settings.click()
    assert note.isVisible(), "it is seen on every page"
    note.stay.click()
    assert note.isHidden()
    go.touch()
    stage.idle()
    assert stage.window.isVisible()
    stage.close()


def test_a_job_that_follows_from_the_last_one_is_waited_for(qtbot: QtBot, tmp_path: Path) -> None:
    go = tmp_path / "go"
    stage = Stage(qtbot, {"generate": [scripted.Wait(path=str(go)), *scripted.usual("generate")]})
    controller = stage.controller
    more: list[str] = []
    request = PictureRequest(prompt="hills")
    follow = lambda _ended: more or more.append(controller.session.queue.generate(request))  # noqa: E731 - as a cure follows from a check
    controller.job_ended.connect(follow)
    controller.session.queue.generate(request)
    stage.wait(lambda: controller.state.running is not None)
    answer(stage, "Finish, then close")
    go.touch()
    stage.wait(lambda: not stage.window.isVisible())
    stage.wait(lambda: len(controller.state.history.known) == 2)
    stage.wait(lambda: stage.link.pid is None)
    stage.idle()
    assert [ended.outcome for ended in (controller.state.ended,) if ended is not None] == ["done"]
    assert not controller.state.jobs


def test_a_message_from_before_the_workspace_is_shown_when_it_is_there(qtbot: QtBot) -> None:
    stage = Stage(qtbot, early=[Noted(kind="models-gone", facts=("gone",))])
    shown = stage.workspace.toasts.shown
    assert shown is not None
    assert shown.message.title == "Model not found: gone."
    stage.close()


def test_finish_then_close_ends_an_endless_run_and_a_pause(qtbot: QtBot, tmp_path: Path) -> None:
    go = tmp_path / "go"
    stage = Stage(qtbot, {"generate": [scripted.Wait(path=str(go)), *scripted.usual("generate")]})
    stage.controller.session.queue.generate(PictureRequest(prompt="hills"), endless=True)
    stage.controller.session.queue.generate(PictureRequest(prompt="trees"))
    stage.controller.session.queue.pause(True)
    stage.wait(lambda: stage.controller.state.running is not None)
    assert not stage.window.close()
    box = stage.window.findChild(QMessageBox)
    assert box is not None
    next(button for button in box.buttons() if button.text() == "Finish, then close").click()
    go.touch()
    stage.wait(lambda: not stage.window.isVisible())
    stage.wait(lambda: len(stage.controller.state.history.known) == 2)
    stage.wait(lambda: stage.link.pid is None)
    stage.idle()


def updating(stage: Stage, what: Updating) -> None:
    stage.controller.session.store.take(Replaced(part=what))


def test_closing_while_an_update_is_installed_asks_and_waits(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.idle()
    updating(stage, Updating(stage="installing", step="unpack"))
    assert not stage.window.close()
    box = stage.window.findChild(QMessageBox)
    assert box is not None
    assert box.text() == "Finish the update first, or stop it now?"
    next(button for button in box.buttons() if button.text() == "Finish, then close").click()
    note = stage.workspace.closing_note
    assert (note.isHidden(), note.words.text()) == (False, "Halftone closes when the update is installed.")
    updating(stage, Updating(stage="done"))
    stage.wait(lambda: not stage.window.isVisible())
    stage.wait(lambda: stage.link.pid is None)


def test_an_update_that_fails_leaves_the_window_open(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.idle()
    updating(stage, Updating(stage="installing"))
    answer(stage, "Finish, then close")
    updating(stage, Updating(stage="failed", error=refusal("busy", ())))
    assert stage.workspace.closing_note.isHidden()
    stage.idle()
    assert stage.window.isVisible()
    stage.close()


def test_stop_and_close_lets_the_worker_leave(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot, {"generate": [scripted.Wait(path=str(tmp_path / "never"))]})
    stage.page.generate()
    stage.wait(lambda: stage.controller.state.running is not None)
    assert not stage.window.close()
    box = stage.window.findChild(QMessageBox)
    assert box is not None
    next(button for button in box.buttons() if button.text() == "Stop and close").click()
    assert stage.window.isVisible(), "the worker has a moment to leave"
    stage.wait(lambda: not stage.window.isVisible())
    assert stage.link.pid is None
    stage.idle()


def test_stop_and_close_leaves_nothing_of_a_copy_behind(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot, {"repair": [scripted.Hang()]})
    model = stage.controller.model
    assert model is not None
    stage.controller.session.checks.repair(model, str(tmp_path / "copy"))
    stage.wait(lambda: stage.controller.state.running is not None)
    part = tmp_path / ".copy.0123abcd.halftone-part"
    part.mkdir()
    (part / ".halftone-part").write_text(str(stage.link.pid))
    (part / "weights.safetensors").write_bytes(b"half")
    stage.window.close()
    box = stage.window.findChild(QMessageBox)
    assert box is not None
    next(button for button in box.buttons() if button.text() == "Stop and close").click()
    stage.wait(lambda: not stage.window.isVisible())
    assert list(tmp_path.iterdir()) == []


def test_a_message_stays_above_the_strip_below_the_first_picture(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.page.centre.next_steps.show()
    stage.wait(stage.page.centre.next_steps.isVisible)
    stage.controller.take(Noted(kind="copied"))
    bar = stage.workspace.toasts.shown
    assert bar is not None
    bottom = bar.mapToGlobal(bar.rect().bottomLeft()).y()
    assert bottom < stage.page.centre.next_steps.mapToGlobal(stage.page.centre.next_steps.rect().topLeft()).y()
    stage.close()


def test_a_narrow_window_drops_the_name_and_the_memory(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.window.resize(1440, 900)
    wide = stage.workspace.top.chip.sizeHint().width()
    assert not stage.workspace.top.name.isHidden()
    stage.window.resize(1024, 640)
    assert stage.workspace.top.name.isHidden()
    assert stage.workspace.top.chip.sizeHint().width() < wide
    assert stage.window.minimumSize().width() == 1024
    stage.close()


def test_the_nan_check_off_is_said_until_it_is_on_again(qtbot: QtBot) -> None:
    stage = Stage(qtbot, settings=Settings(first_run_done=True, numerics=Numerics(nan_check="off")))
    assert not stage.workspace.status.unwatched.isHidden()
    assert not stage.page.centre.unwatched.isHidden()
    stage.page.centre.unwatched.bar.acted.emit("on")
    assert stage.controller.settings.numerics.nan_check == "every-step"
    assert stage.workspace.status.unwatched.isHidden()
    assert stage.page.centre.unwatched.isHidden()
    stage.close()


def test_language_and_theme_change_at_once_and_keep_the_form(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.page.form.prompt.setPlainText("two trees")
    controller = stage.controller
    controller.session.settings.update(msgspec.structs.replace(controller.settings, language="zh_CN", theme="light"))
    stage.wait(lambda: stage.workspace.top.tabs["create"].text() == "创作")
    assert stage.workspace.create_page.form.prompt.toPlainText() == "two trees"
    controller.session.settings.update(msgspec.structs.replace(controller.settings, language="en", theme="dark"))
    stage.wait(lambda: stage.workspace.top.tabs["create"].text() == "Create")
    stage.idle()
    stage.close()


def test_another_language_ends_the_editing_of_what_waits(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    controller, queue = stage.controller, stage.controller.session.queue
    queue.pause(True)
    name = queue.generate(PictureRequest(prompt="waits", model=controller.settings.last_model))
    stage.page.form.prompt.setPlainText("two trees")
    job = controller.state.job(name)
    assert job is not None
    stage.page.queue.edit_wanted.emit(job)
    stage.wait(lambda: controller.state.draft.prompt == "waits")
    controller.session.settings.update(msgspec.structs.replace(controller.settings, language="zh_CN"))
    stage.wait(lambda: stage.workspace.top.tabs["create"].text() == "创作")
    assert [job.held for job in controller.state.jobs] == [False]
    assert stage.workspace.create_page.form.prompt.toPlainText() == "two trees"
    queue.cancel(name)
    stage.idle()
    stage.close()


@pytest.mark.parametrize(
    ("name", "short"),
    [
        ("NVIDIA GeForce RTX 3060", "RTX 3060"),
        ("AMD Radeon RX 7900 XTX", "RX 7900 XTX"),
        ("Intel(R) Core(TM) i7-9700 CPU @ 3.00GHz", "Core i7-9700"),
        ("Processor", "Processor"),
    ],
)
def test_short_names_of_devices(name: str, short: str) -> None:
    assert short_name(msgspec.structs.replace(samples.CPU, name=name)) == short


def test_devices_of_one_name_are_told_apart_by_number() -> None:
    twins = [msgspec.structs.replace(samples.CPU, id=f"cuda:{number}", name="NVIDIA GeForce RTX 3060") for number in (0, 1)]
    assert names_apart([*twins, samples.CPU]) == {
        "cuda:0": "RTX 3060 #0",
        "cuda:1": "RTX 3060 #1",
        samples.CPU.id: short_name(samples.CPU),
    }


def test_memory_on_the_chip_is_in_whole_gigabytes() -> None:
    assert memory_text(msgspec.structs.replace(samples.CPU, memory_total=11_900_000_000)) == "12\u00a0GB"
    assert memory_text(msgspec.structs.replace(samples.CPU, memory_total=None)) == ""


def test_every_state_of_a_dtype_has_a_shape_of_its_own() -> None:
    parts = [chip_part("float16", state) for state in ("works", "wrong", "slow", "missing", None)]
    assert len({part.icon for part in parts}) == len({part.text for part in parts}) == 5


def test_one_click_shows_the_demo_model_overflow(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot, {"generate": [scripted.Wait(path=str(tmp_path / "go")), *scripted.usual("generate")]})
    stage.controller.take(Noted(kind="fragile-made"))
    bar = stage.workspace.toasts.shown
    assert bar is not None
    button = bar.findChild(QPushButton)
    assert button is not None
    assert button.text().strip() == "Try it in FP16"
    button.click()
    job = stage.controller.state.jobs[0]
    assert isinstance(job.command, Generate)
    assert job.command.request.numerics.precision == "float16"
    assert stage.shows("create")
    (tmp_path / "go").touch()
    stage.idle()
    stage.close()
