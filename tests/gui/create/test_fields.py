"""Size, seed and the request that the form makes."""

from pathlib import Path

import msgspec
import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QMessageBox
from pytestqt.qtbot import QtBot
from tests.gui import lists
from tests.gui.stage import Stage, opened
from tests.helpers import model_files, samples

from halftone.contract.facts import ModelFacts, PictureFacts
from halftone.contract.limits import GUIDANCE_RANGE
from halftone.contract.messages import MemoryChanged
from halftone.contract.request import Numerics, PictureRequest
from halftone.gui.create.form.form_fields import SeedField, SizeField, SliderField, preset_size
from halftone.gui.create.form.model_menu import ModelMenu
from halftone.gui.create.form.sampler_fields import SamplerField
from halftone.gui.create.form.time_estimate import size_warning
from halftone.health.pictures.requests import check_request
from halftone.library.samplers import FLOW_SAMPLERS, SAMPLERS
from halftone.session.events import Replaced
from halftone.session.pictures.draft import Seed, with_defaults_of
from halftone.session.pictures.history import with_times
from halftone.session.pictures.picture_time import Shape, Times


@pytest.mark.parametrize(
    ("ratio", "native", "size"),
    [
        ("1:1", (1024, 1024), (1024, 1024)),
        ("3:2", (1024, 1024), (1280, 832)),
        ("2:3", (1024, 1024), (832, 1280)),
        ("16:9", (1024, 1024), (1344, 768)),
        ("1:1", (128, 128), (128, 128)),
        ("3:2", (128, 128), (160, 104)),
    ],
)
def test_presets_keep_about_the_number_of_pixels(ratio: str, native: tuple[int, int], size: tuple[int, int]) -> None:
    assert preset_size(ratio, native) == size
    pixels = native[0] * native[1]
    assert abs(size[0] * size[1] - pixels) / pixels < 0.07


def test_the_size_field_names_its_preset(qtbot: QtBot) -> None:
    field = SizeField()
    qtbot.addWidget(field)
    field.set_native(512, 512)
    field.set_value((512, 512))
    assert field.presets.value() == "1:1"
    field.presets.button("3:2").click()
    assert field.value() == (640, 448) or field.presets.value() == "3:2"
    field.swap()
    assert field.presets.value() == "2:3"
    field.width_box.setValue(1001)
    assert field.presets.value() == "custom"
    assert field.problem()
    assert not field.problem_label.isHidden()
    field.width_box.stepBy(1)
    assert field.width_box.value() == 1008
    field.width_box.setValue(1001)
    field.width_box.stepBy(-1)
    assert field.width_box.value() == 1000


def test_the_form_takes_all_that_the_terminal_takes(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    form.guidance.set_value(200.0)
    form.steps.set_value(400)
    form.batch.setValue(200)
    form.size_field.set_value((16384, 8))
    asked = form.request()
    assert (asked.guidance, asked.steps, asked.batch, asked.width, asked.height) == (200.0, 400, 200, 16384, 8)
    assert form.refusal() == ""
    form.guidance.set_value(0.0)
    assert form.request().guidance == 0.0, "a distilled model runs without guidance"
    form.prompt.setPlainText("hills")
    check_request(form.request())
    stage.close()


@pytest.mark.parametrize(("typed", "taken", "note"), [("200", 200.0, ""), ("2000", 1000.0, "Using 1\u202f000")])
def test_a_number_beyond_its_limit_is_told(qtbot: QtBot, typed: str, taken: float, note: str) -> None:
    field = SliderField("Guidance", "", (1, 30), GUIDANCE_RANGE, 0.1)
    qtbot.addWidget(field)
    field.show()
    field.spin.setFocus()
    field.spin.selectAll()
    qtbot.keyClicks(field.spin, typed)
    assert field.spin.lineEdit().text() == typed
    qtbot.keyClick(field.spin, Qt.Key.Key_Return)
    assert field.value() == taken
    qtbot.waitUntil(lambda: field.note.isHidden() == (note == ""))
    assert note in field.note.text()
    field.spin.selectAll()
    QApplication.clipboard().setText("1000")
    field.spin.lineEdit().paste()
    qtbot.keyClick(field.spin, Qt.Key.Key_Return)
    assert field.note.isHidden(), "the limit itself is no number beyond it"
    field.slider.setValue(50)
    assert field.note.isHidden()
    assert field.value() == 5.0


def test_a_batch_beyond_its_limit_is_told_not_cut(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    form.batch.setFocus()
    form.batch.selectAll()
    qtbot.keyClicks(form.batch, "5000")
    assert form.batch.lineEdit().text() == "5000"
    qtbot.keyClick(form.batch, Qt.Key.Key_Return)
    stage.wait(lambda: not form.batch_note.isHidden())
    assert form.batch_note.text() == "Batch: 1 to 1\u202f000. Using 1\u202f000."
    assert form.request().batch == 1000
    form.batch.setValue(2)
    assert form.batch_note.isHidden()
    stage.close()


def test_a_size_far_above_the_models_own_is_warned_of_with_what_was_measured(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.controller.session.settings.choose_precision("float16")
    form, pocket = stage.page.form, stage.controller.model
    assert pocket is not None
    assert form.size_note.isHidden()
    form.size_field.set_value((4096, 4096))
    assert not form.size_note.isHidden()
    assert form.size_note.text() == "4096 × 4096 has 1\u202f024 times the native pixels. This may take very long."

    def learn(picture: tuple[PictureFacts, PictureRequest]) -> None:
        stage.controller.take(Replaced(part=with_times(stage.controller.state.history, picture)))

    made = msgspec.structs.replace(samples.picture_facts("/a.png"), width=128, height=128, steps=12, seconds=2.0)
    form.steps.set_value(24)
    asked = form.request()
    learn((msgspec.structs.replace(made, path="/b.png", seconds=1.0), msgspec.structs.replace(asked, device="cuda:0")))
    learn((msgspec.structs.replace(made, path="/c.png", seconds=1.0), msgspec.structs.replace(asked, resume_latents="x")))
    learn((made, asked))
    assert "About 1\u00a0h\u00a09\u00a0min or longer. Estimated from 2\u00a0s at 128 × 128, 12 steps." in form.size_note.text()
    assert form.estimate.text() == "About 1\u00a0h\u00a09\u00a0min, estimated", "one time, not two"
    learn((msgspec.structs.replace(made, width=4096, height=4096, steps=24), asked))
    assert form.size_note.isHidden(), "what was measured stands above the button"
    form.size_field.set_value((248, 248))
    assert form.size_note.isHidden()
    stage.close()


@pytest.mark.parametrize(
    ("measured", "wanted", "said"),
    [
        (
            ((2048, 2048, 30),),
            (2048, 2048, 10),
            "About 20\u00a0s. Estimated from 1\u00a0min at 2048 × 2048, 30 steps.",
        ),
        (
            ((4096, 2048, 10),),
            (2048, 2048, 10),
            "About 30\u00a0s. Estimated from 1\u00a0min at 4096 × 2048, 10 steps.",
        ),
        (
            ((2048, 2048, 10),),
            (4096, 2048, 10),
            "About 2\u00a0min or longer. Estimated from 1\u00a0min at 2048 × 2048, 10 steps.",
        ),
        (((1024, 1024, 10), (4096, 2048, 10)), (2048, 2048, 10), "Estimated from 1\u00a0min at 1024 × 1024"),
    ],
)
def test_a_computed_time_is_longer_only_for_more_pixels(
    measured: tuple[tuple[int, int, int], ...], wanted: tuple[int, int, int], said: str
) -> None:
    model, times = msgspec.structs.replace(samples.POCKET, native_width=512, native_height=512), Times()
    for width, height, steps in measured:
        made = samples.picture_facts("/a.png")
        times.learn(msgspec.structs.replace(made, width=width, height=height, steps=steps, seconds=60.0), model.id)
    assert said in size_warning(model, Shape(*wanted), times)


def test_a_model_that_tells_no_size_is_not_warned_of() -> None:
    model = msgspec.structs.replace(samples.POCKET, native_width=0, native_height=0)
    assert size_warning(model, Shape(4096, 4096, 10), Times()) == ""


OTHER = msgspec.structs.replace(
    samples.POCKET, id="/other", name="Other", native_width=512, native_height=512, default_steps=28, default_guidance=6.0
)


def choose(stage: Stage, model: ModelFacts) -> None:
    """As when this model is selected."""
    stage.controller.session.drafting.put(with_defaults_of(stage.controller.state.draft, model))
    stage.page.form.follow(model)


def test_what_the_user_set_stays_when_the_model_changes_and_is_told(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form, pocket = stage.page.form, stage.controller.model
    assert pocket is not None
    form.guidance.set_value(20.0)
    form.sampler.set_value("Euler a SGM Uniform")
    choose(stage, OTHER)
    assert (form.guidance.value(), form.sampler.value()) == (20.0, "Euler a SGM Uniform")
    assert (form.size_field.value(), form.steps.value()) == ((512, 512), 28.0), "what was not touched follows the model"
    assert not form.own_values.isHidden()
    assert form.own_values.words.text() == "Other recommends Guidance 6.0."
    form.own_values.take.click()
    assert form.guidance.value() == 6.0
    assert form.own_values.isHidden()
    stage.close()


def test_a_value_for_an_earlier_model_is_told_of_until_it_is_taken_or_fits(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    form.guidance.set_value(20.0)
    choose(stage, OTHER)
    choose(stage, msgspec.structs.replace(OTHER, id="/twin", name="Twin"))
    assert form.own_values.words.text() == "Twin recommends Guidance 6.0."
    assert not form.own_values.isHidden()
    choose(stage, msgspec.structs.replace(OTHER, id="/fits", default_guidance=20.0))
    assert form.own_values.isHidden()
    stage.close()


def test_a_twin_with_the_same_values_needs_no_word(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form, pocket = stage.page.form, stage.controller.model
    assert pocket is not None
    form.guidance.set_value(20.0)
    choose(stage, msgspec.structs.replace(pocket, id="/twin"))
    assert form.guidance.value() == 20.0
    assert form.own_values.isHidden()
    stage.close()


def test_seed_lock_and_dice(qtbot: QtBot) -> None:
    field = SeedField(lambda: 99)
    qtbot.addWidget(field)
    assert field.value().number is None
    field.edit.setText("2 718 281")
    assert field.value().number == 2718281
    field.set_value(field.value().next)
    assert field.value().number is None
    field.lock.setChecked(True)
    assert field.value().number == 99
    field.set_value(field.value().next)
    assert field.value().number == 99
    field.roll()
    assert field.value().number not in (None, 99)


def test_a_size_that_cannot_fit_is_asked_about_once(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form, controller = stage.page.form, stage.controller
    controller.take(MemoryChanged(memory=samples.MEMORY))
    stage.idle()
    form.size_field.set_value((2048, 2048))
    assert form.size_note.property("tone") == "warn"
    form.size_field.set_value((16384, 16384))
    told = form.size_note.text()
    assert told.startswith("16384 × 16384 needs about ")
    assert "of memory; 7.5\u00a0GB is free. Largest that fits: " in told
    assert form.footer.fits.text().startswith("Does not fit")
    assert form.size_note.property("tone") == "danger"
    assert not form.submit()
    answer(stage, "Cancel")
    assert controller.state.jobs == ()
    assert not form.submit()
    answer(stage, "Try anyway")
    assert len(controller.state.jobs) == 1
    assert form.submit(), "it was answered"
    stage.idle()
    stage.close()


def answer(stage: Stage, words: str) -> None:
    """Press the button with these words in the question that stands."""
    box = next(box for box in stage.page.form.findChildren(QMessageBox) if box.isVisible())
    next(one for one in box.buttons() if one.text() == words).click()
    stage.wait(lambda: not box.isVisible())


def test_what_numerics_opens_is_in_sight_and_says_how_long_it_holds(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.window.resize(1024, 640)
    form, shown = stage.page.form, stage.page.form.area.viewport()
    form.area.verticalScrollBar().setValue(0)
    form.numerics_part.row.click()
    precision = form.numerics_part.precision
    stage.wait(lambda: precision.mapTo(shown, precision.rect().bottomLeft()).y() < shown.height())
    assert "this session only" in precision.toolTip()
    opened(form.numerics_part).precision.button("float16").click()
    form.submit()
    assert form.request().numerics.precision == "float16", "it holds for the picture after that, as it says"
    stage.idle()
    stage.close()


def test_a_typed_seed_stays(qtbot: QtBot) -> None:
    field = SeedField()
    qtbot.addWidget(field)
    qtbot.keyClicks(field.edit, "421")
    assert field.lock.isChecked()
    field.set_value(field.value().next)
    assert field.value().number == 421
    field.edit.selectAll()
    qtbot.keyClick(field.edit, Qt.Key.Key_Delete)
    assert not field.lock.isChecked()
    assert field.value().number is None


def test_a_sampler_takes_the_schedules_that_it_has(qtbot: QtBot) -> None:
    field = SamplerField()
    qtbot.addWidget(field)
    assert field.value() is None
    field.follow(SAMPLERS)
    assert not field.schedule.isEnabled(), "the model's own has its own"
    field.set_value("DPM++ 2M Karras")
    assert field.schedule.isEnabled()
    field.method.setCurrentText("Heun")
    assert field.value() == "Heun Karras", "the schedule stays where the method has it"
    field.method.setCurrentText("TCD")
    assert field.value() == "TCD"
    assert field.schedule.findText("Karras") < 0, "not there where the method has it not"
    field.set_value("dpmpp_2m_karras")
    assert field.value() == "DPM++ 2M Karras", "as another program names it"


def test_a_sampler_that_does_not_go_with_the_model_is_told(qtbot: QtBot) -> None:
    field = SamplerField()
    qtbot.addWidget(field)
    field.follow(SAMPLERS)
    field.set_value("DDIM")
    field.follow(FLOW_SAMPLERS)
    assert field.value() is None
    assert field.note.text() == "DDIM is not supported. Using the model default."
    assert not field.note.isHidden()
    assert field.method.findText("DDIM") < 0
    field.method.activated.emit(0)
    assert field.note.isHidden()
    field.set_value("Heun")
    assert field.value() == "Heun"
    assert field.note.isHidden()


def test_a_huge_seed_is_held_to_what_a_generator_takes(qtbot: QtBot) -> None:
    field = SeedField()
    qtbot.addWidget(field)
    field.edit.setText("9" * 25)
    assert field.value().number == 2**64 - 1


def test_the_largest_seed_is_accepted_as_it_is_shown(qtbot: QtBot) -> None:
    field = SeedField()
    qtbot.addWidget(field)
    field.set_value(Seed(2**64 - 1, locked=True))
    assert field.edit.hasAcceptableInput()
    assert field.value().number == 2**64 - 1


def test_the_form_becomes_a_request_and_a_request_fills_the_form(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    wanted = PictureRequest(
        prompt="two trees", negative="text", width=160, height=104, steps=12, guidance=3.5, sampler="Euler", seed=7, batch=2
    )
    form.set_request(wanted)
    made = form.request()
    assert (made.prompt, made.negative, made.width, made.height) == ("two trees", "text", 160, 104)
    assert (made.steps, made.guidance, made.sampler, made.seed, made.batch) == (12, 3.5, "Euler", 7, 2)
    opened(form.numerics_part).precision.button("float32").click()
    assert form.request().numerics == Numerics(precision="float32")
    assert form.numerics_part.row.value.text() == "FP32"
    stage.close()


def test_generate_is_refused_with_the_reason_as_its_tooltip(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    form.size_field.width_box.setValue(1001)
    assert not form.generate_button.isEnabled()
    assert form.generate_button.toolTip() == "Use a multiple of 8, for example 1000."
    assert not form.submit()
    form.size_field.width_box.setValue(128)
    assert form.generate_button.isEnabled()
    stage.close()


def test_an_empty_prompt_takes_the_example(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.page.generate()
    stage.idle()
    assert stage.page.form.prompt.toPlainText() == "a red sun over green hills"
    stage.close()


def test_the_estimate_is_what_pictures_of_this_size_took(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.controller.session.settings.choose_precision("float16")
    form = stage.page.form
    assert form.estimate.text() == "Time unknown"
    stage.picture()
    facts = stage.latest
    form.size_field.set_value((facts.width, facts.height))
    form.steps.set_value(facts.steps)
    assert form.estimate.text().startswith("About ")
    assert form.estimate.toolTip() == "Measured at this size."
    stage.close()


def test_the_estimate_is_of_the_precision_that_is_chosen(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    stage.controller.session.settings.choose_precision("float16")
    form = stage.page.form
    stage.picture()
    facts = stage.latest
    form.size_field.set_value((facts.width, facts.height))
    form.steps.set_value(facts.steps)
    assert form.estimate.text().startswith("About ")
    stage.controller.session.settings.choose_precision("float32")
    assert form.estimate.text() == "Time unknown"
    assert form.estimate.toolTip() == "No similar picture in FP32 yet."
    stage.controller.session.settings.choose_precision("float16")
    assert form.estimate.text().startswith("About ")
    stage.close()


def test_a_model_whose_file_is_gone_can_be_located(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    controller = stage.controller
    controller.session.settings.update(msgspec.structs.replace(controller.settings, last_model="/nowhere/model.safetensors"))
    controller.session.models.refresh()
    stage.wait(lambda: stage.controller.model_error is not None)
    form = stage.page.form
    assert form.model_part.note.text() == "File not found"
    assert form.model_part.note_link.text() == "Locate…"
    assert not form.generate_button.isEnabled()
    assert form.generate_button.toolTip() == "File not found"
    stage.close()


def test_the_list_of_models_takes_one_off(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot)
    model_files.write_folder(tmp_path / "mine")
    stage.controller.session.models.select(str(tmp_path / "mine"))
    stage.wait(lambda: len(stage.controller.models) == 2)
    form = stage.page.form
    form.model_part.row.click()
    menu = form.findChild(ModelMenu)
    assert menu is not None
    crosses = [menu.list.cross_of(menu.choices.index(row)) for row in range(2)]
    assert [cross.isEmpty() for cross in crosses] == [True, False], "the demo model stays"
    lists.click_cross(menu.list, str(tmp_path / "mine"))
    assert len(stage.controller.models) == 1
    assert (tmp_path / "mine").is_dir()
    stage.idle()
    stage.close()


def test_keyboard_focus_shows_a_ring_and_the_mouse_does_not(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    ring = stage.workspace._ring
    assert ring.isHidden()
    from PySide6.QtCore import Qt

    stage.page.form.generate_button.setFocus(Qt.FocusReason.ShortcutFocusReason)
    QApplication.processEvents()
    assert ring.widget() is stage.page.form.generate_button
    stage.page.form.generate_button.clearFocus()
    QApplication.processEvents()
    assert ring.isHidden()
    stage.close()
