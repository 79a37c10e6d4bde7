"""Create over a real worker that plays a script: making, cancelling, keeping, recovering, history."""

import dataclasses
import time
from pathlib import Path

import msgspec
import pytest
from PIL import Image
from PySide6.QtCore import QEvent, QObject, QPoint, QPointF, Qt
from PySide6.QtGui import QColor, QGuiApplication, QMouseEvent
from PySide6.QtWidgets import QApplication, QFileDialog, QMenu, QWidget
from pytestqt.qtbot import QtBot
from tests.gui import lists
from tests.gui.stage import Stage, opened
from tests.helpers import model_files, samples, scripted

from halftone.contract.messages import Examine, Generate, JobCommand, JobStarted, PhaseChanged, SelfTest, StepDone
from halftone.contract.request import Numerics, PictureRequest
from halftone.gallery.history import History
from halftone.gui.create.form.model_menu import ModelMenu
from halftone.gui.create.job_list import QueuePanel, job_words
from halftone.gui.create.picture import picture_files
from halftone.gui.create.picture.picture_centre import PICTURE_SHARE
from halftone.gui.create.picture.progress_panel import TransportPanel, so_far
from halftone.gui.text import notice_message
from halftone.library import records
from halftone.library.models import describe
from halftone.session.state import Job
from halftone.settings.store import Settings

STARTED = (
    scripted.Say(event=JobStarted(kind="generate", plan=samples.PLAIN)),
    scripted.Say(event=PhaseChanged(phase="encode")),
    scripted.Say(event=PhaseChanged(phase="denoise", total=4)),
)


def own_bin(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A home with a bin of its own. Its place has to be there: Qt makes the bin, not what it lies in."""
    (folder / "share").mkdir()
    monkeypatch.setenv("XDG_DATA_HOME", str(folder / "share"))
    monkeypatch.setenv("HOME", str(folder))


def test_the_canvas_is_empty_at_first_and_an_example_starts(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    page = stage.page
    assert page.centre.canvas.isHidden()
    assert len(page.centre.empty.cards) == 4
    page.centre.empty.cards[1].click()
    stage.idle()
    stage.wait(lambda: not page.centre.canvas.isHidden())
    assert page.form.prompt.toPlainText() == page.centre.empty.cards[1].prompt
    assert page.centre.empty.isHidden()
    assert not page.centre.receipt.isHidden()
    assert page.centre.receipt.word.text() == "Clean"
    assert not page.centre.next_steps.isHidden()
    stage.picture("another one")
    assert page.centre.next_steps.isHidden()
    stage.close()


def test_while_generating_the_panel_follows_and_generate_adds_to_the_queue(qtbot: QtBot, tmp_path: Path) -> None:
    steps = scripted.Steps(wait_each=str(tmp_path))
    stage = Stage(qtbot, {"generate": [*STARTED, steps, scripted.Say(event=PhaseChanged(phase="decode")), scripted.Picture()]})
    page = stage.page
    page.generate()
    stage.wait(lambda: stage.controller.state.running is not None)
    page.generate()
    assert page.form.generate_button.text() == "Add to queue"
    assert not page.centre.transport.isHidden()
    assert page.centre.empty._content.isHidden(), "the invitation was taken"
    assert page.centre.toolbar.live.text().strip() == "Waiting for a preview"
    for number in (1, 2, 3):
        (tmp_path / str(number)).touch()
    stage.wait(lambda: page.centre.transport.title.text() == "Step 3 of 4")
    assert page.centre.transport.left.text().startswith("about 1\u00a0s left")
    assert page.centre.transport.speed.text() == "4.00 steps/s"
    assert page.centre.transport.finite.text() == "3 of 3 steps finite"
    stage.wait(lambda: not page.centre.canvas.image().isNull())
    shown = page.centre.toolbar.live.text().strip()
    assert shown in [f"Live preview, step {step}" for step in (1, 2, 3)]
    assert [job.running for job in page.queue.model.items] == [True, False]
    (tmp_path / "4").touch()
    stage.idle()
    assert page.form.generate_button.text() == "Generate"
    assert page.centre.transport.isHidden()
    assert page.queue.isHidden()
    stage.close()


def test_escape_cancels_and_the_last_picture_comes_back(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot, {"generate": scripted.usual("generate")})
    stage.picture()
    stage.close()
    second = Stage(qtbot, {"generate": [*STARTED, scripted.Wait(path=str(tmp_path / "never"))]})
    page = second.page
    second.wait(lambda: page.centre.shown is not None)
    page.generate()
    second.wait(lambda: second.controller.state.running is not None and second.controller.state.running.phase == "denoise")
    qtbot.keyClick(second.window, Qt.Key.Key_Escape)
    second.idle()
    assert second.controller.state.ended is not None
    assert second.controller.state.ended.outcome == "cancelled"
    assert not page.centre.receipt.isHidden()
    assert second.controller.state.notices == ()
    second.close()


class Paints(QObject):
    """Counts how often a widget is painted."""

    def __init__(self, widget: QWidget) -> None:
        super().__init__(widget)
        self.count = 0
        widget.installEventFilter(self)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:  # noqa: N802
        self.count += event.type() == QEvent.Type.Paint
        return super().eventFilter(watched, event)


def test_no_old_picture_is_in_sight_while_another_is_made_or_after_it_failed(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot, {"generate": scripted.usual("generate")})
    stage.picture()
    stage.close()
    failing = [*STARTED, scripted.Wait(path=str(tmp_path / "go")), scripted.Fail(code="picture-silent", facts={"path": "x"})]
    second = Stage(qtbot, {"generate": failing})
    page = second.page
    second.wait(lambda: page.centre.sight == "picture" and page.centre.canvas.isVisible())
    paints = Paints(page.centre.canvas)
    page.generate()
    assert (page.centre.sight, page.centre.canvas.isVisible(), page.centre.empty.isVisible()) == ("dots", False, True)
    assert not page.centre.toolbar.save.isEnabled()
    (tmp_path / "go").touch()
    second.idle()
    qtbot.wait(50)
    assert paints.count == 0
    assert page.history.paths()
    page.pick(page.history.paths()[0])
    assert page.centre.sight == "picture", "what is small of it is there at once"
    second.close()


def test_stop_and_keep_decodes_what_there_is(qtbot: QtBot, tmp_path: Path) -> None:
    steps = scripted.Steps(steps=4, wait_each=str(tmp_path))
    stage = Stage(qtbot, {"generate": [*STARTED, steps, scripted.Picture(stopped_of=9)]})
    page = stage.page
    page.generate()
    (tmp_path / "1").touch()
    stage.wait(lambda: page.centre.transport.title.text() == "Step 1 of 4")
    page.centre.transport.keep.click()
    assert not page.centre.transport.keep.isEnabled()
    for number in (2, 3, 4):
        (tmp_path / str(number)).touch()
    stage.idle()
    assert len(stage.controller.state.history.known) == 1
    assert page.centre.receipt.sentence.text() == "No NaN in 4 steps, stopped at step 4 of 9"
    stage.close()


def test_time_goes_on_while_no_step_is_done(qtbot: QtBot) -> None:
    panel = TransportPanel()
    qtbot.addWidget(panel)
    job = Job(id="a", command=Generate(job="a", request=PictureRequest(prompt="hills")), title="hills")
    started = time.monotonic() - 90
    panel.show_job(dataclasses.replace(job, started=started, phase="denoise"), None)
    assert (panel.title.text(), panel.left.text()[-6:]) == ("Denoising, first step", "so far")
    panel.show_job(dataclasses.replace(job, started=started, phase="denoise", total=12), None)
    assert panel.left.text().endswith("so far, estimating")
    panel.show()
    assert panel._clock.isActive()
    panel.left.setText("")
    panel._clock.timeout.emit()
    assert panel.left.text().endswith("so far, estimating")
    steps = tuple(StepDone(step=number, steps=12, peak=1.0, finite=True, seconds=20.0) for number in (1, 2, 3))
    panel.show_job(dataclasses.replace(job, started=started, phase="denoise", total=12, done=3, steps=steps), None)
    panel.left.setText("")
    panel._clock.timeout.emit()
    assert panel.left.text().startswith("about 3\u00a0min left, 1\u00a0min\u00a0"), "a long step goes on as well"
    assert panel.left.text().endswith("so far")
    panel.hide()
    assert not panel._clock.isActive()
    assert so_far(dataclasses.replace(job, started=1.0), 1.9) == ""


@pytest.mark.parametrize("width", [1024, 1180, 1320, 1400, 1600])
def test_nothing_of_the_banner_is_cut_off(qtbot: QtBot, width: int) -> None:
    stage = Stage(qtbot, {"generate": [*STARTED, scripted.Picture(state="recovered")]})
    banner = stage.page.centre.banner
    stage.window.resize(width, 800)
    stage.picture()
    stage.wait(lambda: not banner.isHidden())
    stage.wait(lambda: banner._inside.width() <= banner._area.viewport().width())
    assert banner._narrow is (width < 1440), "the evidence stands beside the words where there is space for both"


def test_a_recovered_picture_says_what_happened(qtbot: QtBot) -> None:
    stage = Stage(qtbot, {"generate": [*STARTED, scripted.Picture(state="recovered")]})
    page = stage.page
    stage.picture()
    stage.wait(lambda: not page.centre.banner.isHidden())
    message = page.centre.banner.message
    assert message is not None
    assert message.title == "This picture came out black. Halftone recovered it."
    assert [act.key for act in message.actions] == ["fix", "health", "copy", "fold"]
    assert page.centre.receipt.word.text() == "Recovered"
    assert dict(message.details)["Where"].startswith("vae")
    assert stage.workspace.status.activity.text().strip() == "1 picture recovered"
    closed = page.centre.banner.height()
    assert closed <= page.centre.height() // 2
    page.centre.banner.fold.setChecked(True)
    stage.wait(lambda: page.centre.banner.height() > closed)
    page.centre.banner.fold.setChecked(False)
    stage.wait(lambda: page.centre.banner.height() == closed)
    page._banner_act("fold")
    assert page.centre.banner.isHidden()
    page.centre.receipt.click()
    page.centre.sheet.message_requested.emit()
    assert not page.centre.banner.isHidden()
    stage.close()


def test_the_banner_follows_a_cure_and_a_change_of_model(qtbot: QtBot, tmp_path: Path) -> None:
    report = msgspec.structs.replace(
        samples.check_report(describe("pocket")), verdict="fixable", plan=samples.RESCALED, applied=True
    )
    stage = Stage(qtbot, {"generate": [*STARTED, scripted.Picture(state="recovered")]})
    page, controller = stage.page, stage.controller
    opened(page.form.numerics_part).precision.button("float16").click()
    stage.picture()
    stage.wait(lambda: not page.centre.banner.isHidden())

    def keys() -> list[str]:
        message = page.centre.banner.message
        return [act.key for act in message.actions] if message is not None else []

    assert controller.model is not None
    message = page.centre.banner.message
    assert message is not None
    assert message.actions[0].tip == f"Fix {controller.model.name}"
    controller.session.checks.apply(report)
    stage.idle()
    assert controller.session.checks.badge(controller.model).state == "cured"
    assert keys() == ["health", "copy", "fold"]
    model_files.write_folder(tmp_path / "other")
    controller.session.models.select(str(tmp_path / "other"))
    stage.wait(lambda: controller.settings.last_model == str(tmp_path / "other"))
    assert keys() == ["use-model", "copy", "fold"]
    page._banner_act("use-model")
    assert controller.settings.last_model == "pocket"
    assert keys() == ["health", "copy", "fold"]
    stage.close()


def test_a_fix_is_about_the_precision_the_picture_was_made_in(qtbot: QtBot) -> None:
    stage = Stage(qtbot, {"generate": [*STARTED, scripted.Picture(state="recovered")]})
    form, controller = stage.page.form, stage.controller
    asked: list[Examine] = []

    def look() -> None:
        job = controller.state.running
        if job is not None and isinstance(job.command, Examine) and job.command not in asked:
            asked.append(job.command)

    controller.changed.connect(look)
    opened(form.numerics_part).precision.button("bfloat16").click()
    assert controller.precision[0] == "bfloat16"
    stage.picture()
    opened(form.numerics_part).precision.button("settings").click()
    assert controller.precision[0] != "bfloat16"
    stage.wait(lambda: not stage.page.centre.banner.isHidden())
    stage.page._banner_act("fix")
    stage.idle()
    assert {command.numerics.precision for command in asked} == {"bfloat16"}
    assert opened(form.numerics_part).precision.value() == "bfloat16", "the form shows what the check was about"
    assert form.request().numerics.precision == "bfloat16"
    stage.close()


def test_the_badge_is_about_the_precision_that_generate_will_use(qtbot: QtBot) -> None:
    report = samples.check_report(describe("pocket"))
    records.save_report(report)
    assert report.precision == "float16"
    stage = Stage(qtbot)
    controller, precision = stage.controller, opened(stage.page.form.numerics_part).precision
    assert controller.precision[0] == "float32"
    assert controller.session.checks.badge(controller.model).state == "unchecked"
    assert stage.workspace.status.activity.text() == " Ready. Halftone uses FP32 here."
    precision.button("float16").click()
    assert stage.workspace.status.activity.text() == " Ready. The next picture runs in FP16."
    assert controller.session.checks.badge(controller.model).state == "healthy"
    assert "FP16" in stage.workspace.status.precision.accessibleName()
    precision.button("settings").click()
    assert controller.session.checks.badge(controller.model).state == "unchecked"
    stage.close()


def test_copy_details_names_the_layer_and_neither_prompt_nor_path(qtbot: QtBot) -> None:
    stage = Stage(qtbot, {"generate": [*STARTED, scripted.Picture(state="recovered")]})
    stage.picture("a secret prompt")
    stage.page._banner_act("copy")
    copied = QGuiApplication.clipboard().text()
    assert samples.GUARDED.module in copied
    assert "Halftone 0.1.0" in copied
    assert "secret" not in copied
    assert stage.latest.path not in copied
    stage.close()


def test_recover_quietly_shows_no_banner_but_the_receipt_says_it(qtbot: QtBot) -> None:
    settings = Settings(first_run_done=True, numerics=Numerics(on_black="quiet"))
    stage = Stage(qtbot, {"generate": [*STARTED, scripted.Picture(state="recovered")]}, settings=settings)
    stage.picture()
    assert stage.page.centre.banner.isHidden()
    assert stage.page.centre.receipt.word.text() == "Recovered"
    stage.close()


def test_a_bad_step_that_was_repaired_is_told_as_such(qtbot: QtBot, tmp_path: Path) -> None:
    steps = scripted.Steps(nan_at=2, wait_each=str(tmp_path))
    stage = Stage(qtbot, {"generate": [*STARTED, steps, scripted.Picture()]})
    stage.page.generate()
    for number in (1, 2, 3):
        (tmp_path / str(number)).touch()
    panel = stage.page.centre.transport
    stage.wait(lambda: panel.title.text() == "Step 3 of 4")
    assert panel.finite.text() == "3 of 3 steps finite, step 2 repaired"
    assert panel.finite.property("tone") == "warn"
    (tmp_path / "4").touch()
    stage.idle()
    stage.wait(lambda: not stage.page.centre.banner.isHidden())
    message = stage.page.centre.banner.message
    assert message is not None
    assert message.title == "Recovered from NaN at step 2."
    assert dict(message.details)["What happened"] == "UNet, third up block: rescaled for this picture."
    stage.close()


def test_a_broken_picture_is_not_kept_and_the_banner_says_why(qtbot: QtBot) -> None:
    stage = Stage(qtbot, {"generate": [*STARTED, scripted.Picture(state="not-recovered")]})
    stage.page.generate()
    stage.idle()
    stage.wait(lambda: not stage.page.centre.banner.isHidden())
    message = stage.page.centre.banner.message
    assert message is not None
    assert message.level == "danger"
    assert message.title == "This picture could not be recovered."
    assert stage.page.history.paths() == []
    assert not stage.page.centre.toolbar.save.isEnabled()
    stage.close()


def test_a_picture_of_one_colour_is_shown_as_it_is_and_stays(qtbot: QtBot) -> None:
    stage = Stage(qtbot, {"generate": [*STARTED, scripted.Picture(state="not-recovered", kept=True)]})
    stage.picture()
    page = stage.page
    stage.wait(lambda: page.centre.canvas.image().width() == 64)
    assert page.centre.canvas.image().pixelColor(1, 1) == QColor(200, 80, 40)
    assert page.centre.toolbar.save.isEnabled()
    assert page.centre.toolbar.delete.isEnabled()
    stage.close()
    again = Stage(qtbot)
    again.wait(lambda: len(again.page.history.paths()) == 1)
    again.idle()
    again.close()


def test_of_a_picture_that_is_not_there_none_is_invented(qtbot: QtBot) -> None:
    stage = Stage(qtbot, {"generate": [*STARTED, scripted.Picture(state="not-recovered")]})
    stage.page.generate()
    stage.idle()
    stage.wait(lambda: not stage.page.centre.banner.isHidden())
    assert stage.page.centre.canvas.image().isNull()
    assert stage.page.centre.receipt.isVisible()
    stage.close()


def test_a_picture_stopped_by_setting_says_so(qtbot: QtBot) -> None:
    settings = Settings(first_run_done=True, numerics=Numerics(on_black="stop"))
    stopped = msgspec.structs.replace(samples.GUARDED, action="stopped", cure="none", why="setting", sound_in_float32=True)
    stage = Stage(qtbot, {"generate": [*STARTED, scripted.Picture(state="not-recovered", events=(stopped,))]}, settings=settings)
    stage.page.generate()
    stage.idle()
    stage.wait(lambda: not stage.page.centre.banner.isHidden())
    message = stage.page.centre.banner.message
    assert message is not None
    assert message.title == "This picture came out black. Halftone stopped, as your settings say."
    assert message.actions[0].key == "fix"
    stage.close()


def test_ask_first_decodes_again_only_when_told(qtbot: QtBot) -> None:
    stage = Stage(qtbot, {"generate": [*STARTED, scripted.Picture(state="asking")]})
    stage.page.generate()
    stage.idle()
    stage.wait(lambda: not stage.page.centre.banner.isHidden())
    message = stage.page.centre.banner.message
    assert message is not None
    assert [act.key for act in message.actions] == ["recover", "recover-fix", "leave"]
    stage.page._banner_act("recover")
    job = stage.controller.state.jobs[0]
    assert isinstance(job.command, Generate)
    assert job.command.request.numerics.on_black == "recover"
    stage.idle()
    stage.close()


def test_vary_makes_four_pictures_whose_noise_is_turned_a_little(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.picture()
    seed = stage.latest.seed
    stage.page.centre.toolbar.vary.click()
    job = stage.controller.state.jobs[0]
    assert isinstance(job.command, Generate)
    asked = job.command.request
    assert (asked.seed, asked.variation_seed, asked.variation_strength, asked.batch) == (seed, None, 0.2, 4)
    stage.idle()
    stage.close()


def test_variations_of_a_rescued_picture_are_pictures_of_their_own(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    kept = msgspec.structs.replace(samples.picture_facts("", "asking"), latents="/kept/latents.safetensors")
    stage.controller.session.queue.recover(kept, PictureRequest(prompt="hills"))
    stage.idle()
    stage.wait(lambda: len(stage.page.history.paths()) == 1)
    stage.page.acts.from_toolbar("vary")
    command = stage.controller.state.jobs[0].command
    assert isinstance(command, Generate)
    assert (command.request.resume_latents, command.request.batch, command.request.seed) == (None, 4, 7)
    stage.idle()
    stage.close()


def test_until_stopped_goes_on_until_it_is_cancelled(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.page.form.submit(endless=True)
    stage.wait(lambda: len(stage.controller.state.history.known) >= 3)
    job = stage.controller.state.jobs[0]
    assert isinstance(job.command, Generate)
    assert job.command.request.seed is None
    stage.controller.session.queue.cancel(job.id)
    stage.idle()
    stage.close()


def test_a_picture_made_in_a_terminal_appears_in_the_open_window(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot)
    page = stage.page
    stage.picture()
    shown, own = page.centre.shown, page.history.paths()
    assert shown is not None
    page.form.prompt.setFocus()
    path = tmp_path / "there.png"
    Image.new("RGB", (64, 64)).save(path)
    with History() as elsewhere:
        elsewhere.add(msgspec.structs.replace(shown.facts, path=str(path)), shown.request, b"")
    stage.wait(lambda: page.history.paths() == [str(path), *own])
    assert page.centre.shown is shown
    assert stage.window.focusWidget() is page.form.prompt
    stage.close()


def test_history_is_there_after_a_restart_and_pictures_can_be_walked(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.picture("one")
    stage.picture("two")
    stage.close()
    again = Stage(qtbot)
    page = again.page
    again.wait(lambda: len(page.history.paths()) == 2)
    again.wait(lambda: page.centre.shown is not None)
    assert page.centre.shown is not None
    assert page.centre.shown.request.prompt == "two"
    page.centre.canvas.setFocus()
    qtbot.keyClick(page.centre.canvas, Qt.Key.Key_Right)
    assert page.centre.shown.request.prompt == "one"
    page.reuse_settings()
    assert page.form.prompt.toPlainText() == "one"
    again.idle()
    again.close()


def test_a_deleted_picture_goes_to_the_bin_and_comes_back(qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_bin(tmp_path, monkeypatch)
    stage = Stage(qtbot)
    stage.picture()
    path = Path(stage.latest.path)
    stage.page.acts.delete()
    if path.exists():
        stage.idle()
        stage.close()
        pytest.skip("no bin here")
    notice = stage.controller.state.notices[-1]
    assert notice.kind == "deleted"
    assert stage.page.history.paths() == []
    stage.workspace.act(notice, "undo")
    stage.wait(path.exists)
    stage.wait(lambda: stage.page.history.paths() == [str(path)])
    stage.idle()
    stage.close()


def test_a_picture_whose_file_is_gone_leaves_the_list(qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_bin(tmp_path, monkeypatch)
    stage = Stage(qtbot)
    stage.picture()
    Path(stage.latest.path).unlink()
    stage.page.acts.delete()
    assert stage.page.history.paths() == []
    said = notice_message(stage.controller.state.notices[-1])
    assert (said.title, said.text) == (f"Removed from the list: {Path(stage.latest.path).name}.", "The file no longer exists.")
    stage.idle()
    stage.close()


def test_a_restored_picture_is_selected_again(qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_bin(tmp_path, monkeypatch)
    stage = Stage(qtbot)
    page = stage.page
    for _ in range(3):
        stage.picture()
    binned = page.history.paths()[1]
    page.pick(binned)
    page.acts.delete_listed(binned)
    notice = stage.controller.state.notices[-1]
    if notice.kind != "deleted":
        pytest.skip("no bin here")
    assert page.centre.marked != binned
    stage.workspace.act(notice, "undo")
    stage.wait(lambda: binned in page.history.paths())
    stage.wait(lambda: page.centre.marked == binned)
    assert page.history.list.currentIndex() == page.history.model.index_of(binned)
    stage.idle()
    stage.close()


def test_a_picture_in_the_bin_comes_back_though_the_list_was_read_meanwhile(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_bin(tmp_path, monkeypatch)
    stage = Stage(qtbot)
    page = stage.page
    stage.picture()
    shown, (binned,) = page.centre.shown, page.history.paths()
    assert shown is not None
    page.acts.delete()
    notice = stage.controller.state.notices[-1]
    if notice.kind != "deleted":
        pytest.skip("no bin here")
    other = tmp_path / "there.png"
    Image.new("RGB", (64, 64)).save(other)
    with History() as elsewhere:
        elsewhere.add(msgspec.structs.replace(shown.facts, path=str(other)), shown.request, b"")
    stage.wait(lambda: page.history.paths() == [str(other)])
    stage.workspace.act(notice, "undo")
    stage.wait(lambda: page.history.paths() == [str(other), binned])
    assert page.centre.shown is not None
    assert page.centre.shown.facts.path == binned
    stage.close()


def test_a_picture_that_comes_back_counts_once_in_the_estimate(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_bin(tmp_path, monkeypatch)
    stage = Stage(qtbot)
    stage.controller.session.settings.choose_precision("float16")
    page = stage.page
    stage.picture()
    stage.picture()
    facts = stage.latest
    page.form.size_field.set_value((facts.width, facts.height))
    page.form.steps.set_value(facts.steps)
    page.acts.delete()
    notice = stage.controller.state.notices[-1]
    if notice.kind != "deleted":
        pytest.skip("no bin here")
    stage.workspace.act(notice, "undo")
    stage.wait(lambda: len(page.history.paths()) == 2)
    stage.idle()
    assert page.form.estimate.toolTip() == "Measured on 2 pictures of this size."
    stage.close()


def test_a_model_wears_its_own_pictures_only(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot)
    stage.picture()
    row = stage.page.form.model_part.row
    assert not row.image.isNull()
    model_files.write_folder(tmp_path / "other")
    stage.controller.session.models.select(str(tmp_path / "other"))
    stage.wait(lambda: stage.controller.settings.last_model == str(tmp_path / "other"))
    assert row.image.isNull()
    stage.controller.session.models.select("pocket")
    assert not row.image.isNull()
    row.click()
    menu = stage.page.findChild(ModelMenu)
    assert menu is not None
    pictures = [stage.page.form.model_part.picture_of(choice.facts.id) for choice in menu.choices.items]
    assert [picture.isNull() for picture in pictures] == [False, True]
    names = [model.name for model in stage.controller.models]
    tips = [menu.choices.index(row).data(Qt.ItemDataRole.ToolTipRole) for row in range(2)]
    assert [tip.splitlines()[0] for tip in tips] == names, "a name that is cut off stands in the tooltip"
    menu.close()
    stage.idle()
    stage.close()


def test_a_right_click_on_a_picture_offers_what_there_is_to_do_with_it(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.picture("one")
    stage.picture("two")
    page = stage.page
    lists.right_click(page.history.list, page.history.paths()[1])
    assert page.centre.shown is not None
    assert page.centre.shown.request.prompt == "one"
    menu = page.findChild(QMenu)
    assert menu is not None
    actions = {action.text(): action for action in menu.actions()}
    makes = ["Reuse settings", "Repeat", "Make four variations", "Send to image to image", "Inpaint", "Upscale…"]
    assert list(actions) == ["Open", "Show file", "Copy", *makes, "Save as…", "Move to bin"]
    actions["Reuse settings"].trigger()
    assert page.form.prompt.toPlainText() == "one"
    actions["Copy"].trigger()
    stage.wait(lambda: [notice.kind for notice in stage.controller.state.notices] == ["copied"])
    assert QGuiApplication.clipboard().image().width() == 64
    menu.close()
    stage.idle()
    stage.close()


def test_the_menu_of_a_picture_acts_on_it_whatever_is_finished_meanwhile(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    own_bin(tmp_path, monkeypatch)
    stage = Stage(qtbot)
    stage.picture("one")
    stage.picture("two")
    page = stage.page
    path = page.history.paths()[1]
    lists.right_click(page.history.list, path)
    menu = page.findChild(QMenu)
    assert menu is not None
    actions = {action.text(): action for action in menu.actions()}
    stage.picture("three")
    assert page.centre.shown is not None
    assert page.centre.shown.request.prompt == "three"
    actions["Reuse settings"].trigger()
    assert page.form.prompt.toPlainText() == "one"
    actions["Save as…"].trigger()
    dialog = page.findChild(QFileDialog)
    assert dialog is not None
    assert [Path(name).name for name in dialog.selectedFiles()] == [Path(path).name]
    dialog.reject()
    actions["Move to bin"].trigger()
    if Path(path).exists():
        menu.close()
        stage.idle()
        stage.close()
        pytest.skip("no bin here")
    assert stage.controller.state.notices[-1].facts[0] == Path(path).name
    assert len(page.history.paths()) == 2
    assert path not in page.history.paths()
    assert page.centre.shown.request.prompt == "three", "what is shown stays"
    menu.close()
    stage.idle()
    stage.close()


def test_save_as_copies_the_file(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot)
    stage.picture()
    source = Path(stage.latest.path)
    picture_files.copy_to(stage.controller, source, tmp_path / "copy.png")
    stage.wait(lambda: bool(stage.controller.state.notices))
    assert (tmp_path / "copy.png").read_bytes() == source.read_bytes()
    assert stage.controller.state.notices[-1].kind == "saved"
    picture_files.copy_to(stage.controller, source, source)
    stage.wait(lambda: len(stage.controller.state.notices) == 2)
    assert stage.controller.state.notices[-1].kind == "saved"
    assert (tmp_path / "copy.png").read_bytes() == source.read_bytes()
    picture_files.copy_to(stage.controller, source, tmp_path / "none" / "copy.png")
    stage.wait(lambda: len(stage.controller.state.notices) == 3)
    error = stage.controller.state.notices[-1].error
    assert error is not None
    assert error.code == "output-folder-missing"
    stage.close()


def test_waiting_jobs_move_go_and_come_back(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot, {"generate": [scripted.Wait(path=str(tmp_path / "go")), *scripted.usual("generate")]})
    for prompt in ("one", "two", "three"):
        stage.page.form.prompt.setPlainText(prompt)
        stage.page.generate()
    controller = stage.controller
    two, three = (job.id for job in controller.state.jobs[1:])
    queue = stage.page.queue.list
    lists.click(queue, three)
    qtbot.keyClick(queue, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    assert [job.title for job in controller.state.jobs] == ["one", "three", "two"]
    lists.click(queue, two)
    qtbot.keyClick(queue, Qt.Key.Key_Delete)
    assert [job.title for job in controller.state.jobs] == ["one", "three"]
    stage.workspace.act(controller.state.notices[-1], "undo")
    assert [job.title for job in controller.state.jobs] == ["one", "three", "two"]
    stage.page.queue.pause.click()
    (tmp_path / "go").touch()
    stage.wait(lambda: [job.title for job in controller.state.jobs] == ["three", "two"])
    stage.page.queue.pause.click()
    stage.idle()
    stage.close()


@pytest.mark.parametrize("size", [(1440, 900), (1024, 640)])
def test_nothing_moves_sideways_when_a_job_begins(qtbot: QtBot, tmp_path: Path, size: tuple[int, int]) -> None:
    stage = Stage(qtbot, {"generate": [scripted.Wait(path=str(tmp_path / "go")), *scripted.usual("generate")]})
    stage.window.resize(*size)
    stage.wait(lambda: stage.page.centre.width() > 300)
    before = stage.page.splitter.sizes()
    stage.page.generate()
    stage.wait(stage.page.queue.isVisible)
    QApplication.processEvents()
    assert stage.page.splitter.sizes() == before
    (tmp_path / "go").touch()
    stage.idle()
    stage.close()


@pytest.mark.parametrize("size", [(1440, 900), (1024, 640)])
def test_the_picture_keeps_its_share_beside_all_that_can_be_opened(qtbot: QtBot, size: tuple[int, int]) -> None:
    stage = Stage(qtbot, {"generate": [*STARTED, scripted.Steps(nan_at=2), scripted.Picture(state="recovered")]})
    stage.window.resize(*size)
    stage.picture()
    centre = stage.page.centre
    stage.wait(lambda: centre.banner.isVisible() and centre.canvas.isVisible())
    centre.banner.fold.setChecked(True)
    centre.receipt.setChecked(True)
    stage.wait(lambda: centre.sheet.height() > 80)
    assert centre.sheet.isVisible()
    assert centre.canvas.height() >= round(centre.height() * PICTURE_SHARE)
    alone = centre.banner.height()
    centre.receipt.setChecked(False)
    QApplication.processEvents()
    assert centre.banner.height() >= alone
    stage.close()


def drag(qtbot: QtBot, panel: QueuePanel, job: str, to: int) -> None:
    """Drag a job to a height of the list, and let it go there."""
    view = panel.list.viewport()
    grip = lists.place(panel.list, job)
    there = QPoint(grip.x(), to)
    qtbot.mousePress(view, Qt.MouseButton.LeftButton, pos=grip)
    for at in (grip + QPoint(0, 30), there):
        move = QMouseEvent(
            QEvent.Type.MouseMove, QPointF(at), QPointF(view.mapToGlobal(at)), Qt.MouseButton.NoButton,
            Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier,
        )  # fmt: skip
        QApplication.sendEvent(view, move)
    assert panel.list.target is not None, "a line shows where it would go"
    qtbot.mouseRelease(view, Qt.MouseButton.LeftButton, pos=there)
    assert panel.list.target is None


def test_waiting_jobs_are_dragged_to_another_place(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot, {"generate": [scripted.Wait(path=str(tmp_path / "go")), *scripted.usual("generate")]})
    for prompt in ("one", "two", "three", "four"):
        stage.page.form.prompt.setPlainText(prompt)
        stage.page.generate()
    panel, state = stage.page.queue, lambda: [job.title for job in stage.controller.state.jobs]
    stage.wait(lambda: panel.isVisible() and panel.list.height() > 200)
    jobs = {job.title: job.id for job in stage.controller.state.jobs}
    bottom = panel.list.height() - 3
    drag(qtbot, panel, jobs["two"], bottom)
    assert state() == ["one", "three", "four", "two"]
    drag(qtbot, panel, jobs["two"], 2)
    assert state() == ["one", "two", "three", "four"], "nothing goes before the running one"
    drag(qtbot, panel, jobs["three"], panel.list.visualRect(panel.model.index_of(jobs["three"])).bottom())
    assert state() == ["one", "two", "three", "four"], "let go over itself, it stays"
    lists.click(panel.list, jobs["four"])
    assert state() == ["one", "two", "three", "four"], "a click moves nothing"
    qtbot.keyClick(panel.list, Qt.Key.Key_Up, Qt.KeyboardModifier.AltModifier)
    current = panel.list.current()
    assert current is not None
    assert current.title == "four", "it can be moved on with the keys"
    lists.click_cross(panel.list, jobs["four"])
    assert state() == ["one", "two", "three"]
    stage.controller.session.queue.clear_waiting()
    (tmp_path / "go").touch()
    stage.idle()
    stage.close()


GENERATE = Generate(job="a", request=PictureRequest(prompt="a sun", width=512, height=768, batch=3))


@pytest.mark.parametrize(
    ("command", "title", "words"),
    [
        (GENERATE, "a sun", ("a sun", "pocket, 512 × 768", "batch 3, random seed")),
        (Generate(job="a", request=PictureRequest(prompt="", seed=7)), "", ("Picture", "pocket", "seed 7")),
        (Examine(job="a", model="pocket"), "Pocket", ("Pocket", "Check", "")),
        (SelfTest(job="a", device="cpu"), "", ("Measure device", "", "")),
    ],
)
def test_a_job_says_what_it_is_once(command: JobCommand, title: str, words: tuple[str, ...]) -> None:
    assert job_words(Job(id="a", command=command, title=title)) == words


def test_fixing_a_model_checks_it_cures_it_and_says_so(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    controller = stage.controller
    pocket = controller.model
    assert pocket is not None
    report = samples.check_report(pocket, fragile=True)
    plan = msgspec.structs.replace(report.plan, verified=True)
    controller.session.checks.apply(msgspec.structs.replace(report, device=samples.CPU, plan=plan))
    stage.idle()
    kinds = [notice.kind for notice in controller.state.notices]
    assert kinds in (["cure-applied"], ["cure-failed"])
    stage.close()
