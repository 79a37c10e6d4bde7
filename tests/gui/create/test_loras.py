"""The LoRAs of the form: added from a file or by name, weighed, removed, and sent with pictures and checks."""

from pathlib import Path
from typing import get_args

import msgspec
import pytest
from msgspec.structs import replace
from PySide6.QtCore import QCoreApplication, QEvent, QRect, Qt
from PySide6.QtGui import QFontMetrics
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage
from tests.helpers import samples
from tests.helpers.model_files import ramp, safetensors, write_folder

from halftone.contract.messages import Examine, Generate
from halftone.contract.request import Lora, PictureRequest
from halftone.contract.vocabulary import DType
from halftone.gui import theme
from halftone.gui.create.form.form_fields import NumberBox
from halftone.gui.create.rows.lora_row import LoraPart
from halftone.gui.health import health_view
from halftone.gui.i18n import say
from halftone.library import records
from halftone.library.models import describe
from halftone.session.pictures.draft import kept
from halftone.settings.store import Settings


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("Soft grain", "sepia"):
        (tmp_path / f"{name}.safetensors").write_bytes(safetensors({"lora_unet_a.lora_down.weight": ramp(2)}))
    (tmp_path / "vae.safetensors").write_bytes(safetensors({"decoder.conv_in.weight": ramp(2)}))
    return tmp_path


def weights(part: LoraPart) -> list[NumberBox]:
    return part.findChildren(NumberBox)


def test_one_is_added_weighed_and_removed(qtbot: QtBot, folder: Path) -> None:
    stage = Stage(qtbot)
    part = stage.page.form.lora_part
    assert part.row.value.text() == "None"
    part.row.click()
    part.add(str(folder / "Soft grain.safetensors"))
    stage.wait(lambda: len(part.items()) == 1)
    (box,) = weights(part)
    box.setValue(0.6)
    assert part.row.value.text() == "Soft grain 0.60"
    lora = Lora(path=str(folder / "Soft grain.safetensors"), weight=0.6)
    assert stage.page.form.request().loras == stage.controller.state.extras.loras == (lora,)
    part.add(str(folder / "sepia.safetensors"))
    stage.wait(lambda: part.row.value.text() == "2 in use")
    part.findChildren(type(part.add_button))
    part.remove(0)
    assert [kept.name for kept in part.items()] == ["sepia"]
    stage.close()


def test_a_weight_of_the_text_encoder_has_a_field_of_its_own(qtbot: QtBot, folder: Path) -> None:
    stage = Stage(qtbot)
    part = stage.page.form.lora_part
    part.row.click()
    grain = Lora(path=str(folder / "Soft grain.safetensors"), weight=0.8)
    part.set_items((grain,))
    assert [box.value() for box in weights(part)] == [0.8]
    part.set_items((replace(grain, encoder_weight=0.3),))
    QCoreApplication.sendPostedEvents(None, QEvent.Type.DeferredDelete)
    rest, encoder = weights(part)
    assert (rest.value(), encoder.value()) == (0.8, 0.3)
    encoder.setValue(0.5)
    assert part.items() == (replace(grain, encoder_weight=0.5),)
    assert stage.page.form.request().loras == part.items()
    stage.close()


@pytest.mark.parametrize(("name", "said"), [("vae", "is not a LoRA: it is a VAE."), ("none", "There is no LoRA at")])
def test_another_file_is_refused_in_a_sentence(qtbot: QtBot, folder: Path, name: str, said: str) -> None:
    stage = Stage(qtbot)
    part = stage.page.form.lora_part
    part.add(str(folder / f"{name}.safetensors"))
    stage.wait(lambda: said in part.note.text())
    assert part.note.isVisible()
    assert part.items() == ()
    stage.close()


def test_a_refusal_goes_with_the_next_change(qtbot: QtBot, folder: Path) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    part = form.lora_part

    def refuse() -> None:
        part.take(str(folder / "vae.safetensors"))
        stage.wait(lambda: "is not a LoRA" in part.note.text())
        assert part.note.isVisible()

    refuse()
    form.steps.set_value(form.steps.value() + 1)
    assert not part.note.isVisible()
    refuse()
    write_folder(folder / "other")
    stage.controller.session.models.select(str(folder / "other"))
    stage.wait(lambda: stage.controller.settings.last_model == str(folder / "other"))
    assert not part.note.isVisible()
    stage.idle()
    stage.close()


def test_one_that_does_not_fit_is_named_in_full_and_can_be_removed(qtbot: QtBot, folder: Path) -> None:
    place = "lora_unet_down_blocks_1_attentions_0_transformer_blocks_0_attn2_to_k"
    wide = {f"{place}.lora_down.weight": ramp(4, 2048), f"{place}.lora_up.weight": ramp(640, 4)}
    (folder / "An add-on with a rather long name.safetensors").write_bytes(safetensors(wide))
    stage = Stage(qtbot)
    form = stage.page.form
    fitting = Lora(path=str(folder / "sepia.safetensors"))
    form.edit(loras=(fitting, Lora(path=str(folder / "An add-on with a rather long name.safetensors"))))
    footer = form.footer
    stage.wait(lambda: not footer.remove_link.isHidden())
    assert not form.generate_button.isEnabled()
    stage.idle()
    assert footer.why_not.text() == form.refusal() == form.lora_part.note.text()
    assert form.lora_part.note.isHidden(), "the reason stands once in the window"
    place = QRect(0, 0, footer.why_not.width(), 9999)
    lines = QFontMetrics(theme.current().font("small")).boundingRect(place, int(Qt.TextFlag.TextWordWrap), form.refusal())
    assert footer.why_not.height() == lines.height() > theme.grown(18), "all lines are shown"
    stage.wait(lambda: footer.height() == footer.sizeHint().height())
    wide_one = form.lora_part.items()[1]
    form.lora_part.set_items((fitting, replace(wide_one, weight=0.5)))
    stage.idle()
    footer.remove_link.click()
    assert form.lora_part.items() == (fitting,), "it is removed with another weight too"
    stage.wait(lambda: not form.refusal())
    assert footer.remove_link.isHidden()
    assert form.generate_button.isEnabled()
    stage.idle()
    stage.close()


def test_a_prompt_that_names_one_as_a1111_does(qtbot: QtBot, folder: Path) -> None:
    stage = Stage(qtbot, settings=Settings(first_run_done=True, model_folders=(str(folder),)))
    form = stage.page.form
    stage.wait(lambda: set(form.lora_part.known) == {"Soft grain", "sepia"})
    form.prompt.setPlainText("a sun <lora:sepia:0.4>")
    jobs: list[PictureRequest] = []
    form.submitted.connect(lambda request, _endless: jobs.append(request))
    assert form.submit()
    assert (jobs[0].prompt, [(lora.name, lora.weight) for lora in jobs[0].loras]) == ("a sun", [("sepia", 0.4)])
    assert form.prompt.toPlainText() == "a sun"
    assert jobs[0].lora_folders is None
    form.prompt.setPlainText("{a sun <lora:Soft grain>|b} <lora:sepia:0.4>")
    assert form.submit()
    assert (jobs[1].prompt, jobs[1].lora_folders) == ("{a sun <lora:Soft grain>|b}", (str(folder),))
    assert [lora.name for lora in jobs[1].loras] == ["sepia", "sepia"], "the second one was named again"
    form.prompt.setPlainText("a sun <lora:nothing:1>")
    assert not form.submit()
    said = f"No LoRA nothing in {folder}. Found: sepia, Soft grain."
    assert form.lora_part.note.text().startswith(said)
    assert form.lora_part.note.isVisible()
    form.prompt.setPlainText("a sun <lora:nothin:1>")
    assert not form.lora_part.note.isVisible(), "it is of a prompt that is not there any more"
    form.prompt.setPlainText("a sun <lora:sepia:1,5>")
    assert not form.submit()
    assert form.lora_part.note.text().startswith("The weight of the LoRA sepia cannot be 1,5. Use a number")
    stage.idle()
    stage.close()


def test_checks_are_made_with_them_and_belong_to_them(qtbot: QtBot, folder: Path) -> None:
    report = msgspec.structs.replace(samples.check_report(), model=describe("pocket"), device=samples.CPU)
    for precision in get_args(DType):
        records.save_report(msgspec.structs.replace(report, precision=precision))
    stage = Stage(qtbot)
    controller, part = stage.controller, stage.page.form.lora_part
    model = controller.model
    assert model is not None
    assert controller.session.checks.report(model) is not None
    part.set_items((Lora(path=str(folder / "sepia.safetensors"), weight=0.5),))
    assert controller.session.checks.report(model) is None, "with the LoRA it was not checked"
    assert say(controller.session.checks.badge(model).reason) == "Not checked with these extras yet."
    assert stage.page.form.model_part.note.text() == "Not checked with these extras yet."
    controller.session.checks.check(model)
    command = next(job.command for job in controller.state.jobs)
    assert isinstance(command, Examine)
    assert command.inputs.loras == part.items()
    assert health_view.model_tags(model, controller.state.extras_of(model))[0] == "LoRA: sepia 0.50"
    stage.idle()
    part.set_items(())
    assert controller.session.checks.report(model) is not None
    stage.close()


def test_a_check_does_not_outlive_the_file_of_its_lora(qtbot: QtBot, folder: Path) -> None:
    file = folder / "sepia.safetensors"
    loras = (Lora(path=str(file), weight=0.5),)
    report = msgspec.structs.replace(samples.check_report(), model=describe("pocket"), device=samples.CPU, loras=loras)
    for precision in get_args(DType):
        records.save_report(msgspec.structs.replace(report, precision=precision))
    stage = Stage(qtbot)
    controller, part = stage.controller, stage.page.form.lora_part
    part.set_items(loras)
    assert controller.session.checks.report(controller.model) is not None
    file.write_bytes(file.read_bytes() + b"other")
    assert controller.session.checks.report(controller.model) is None
    part.set_items(())
    stage.close()


def test_they_come_back_with_the_settings_of_a_picture(qtbot: QtBot, folder: Path) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    form.lora_part.set_items((Lora(path=str(folder / "sepia.safetensors"), weight=1.2),))
    left = kept(stage.controller.state.draft)
    form.lora_part.set_items(())
    stage.picture("hills")
    form.set_request(PictureRequest(prompt="sea", loras=(Lora(path=str(folder / "sepia.safetensors"), weight=-0.5),)))
    assert form.lora_part.row.value.text() == "sepia -0.50"
    assert '"weight":1.2' in left
    made = Generate(job="a", request=form.request())
    assert made.request.loras[0].weight == -0.5
    stage.close()


def test_folders_of_loras_that_are_set_later_are_looked_through(qtbot: QtBot, folder: Path) -> None:
    stage = Stage(qtbot)
    part = stage.page.form.lora_part
    stage.controller.session.settings.update(msgspec.structs.replace(stage.controller.settings, lora_folders=(str(folder),)))
    stage.wait(lambda: bool(part.known))
    assert set(part.known) == {"Soft grain", "sepia"}
    stage.close()


def test_what_names_a_lora_is_not_counted_as_part_of_the_prompt(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    form.prompt.setPlainText("a red sun")
    stage.wait(lambda: bool(form.counter.text()))
    counted = form.counter.text()
    form.prompt.setPlainText("a red sun <lora:very long name of a thing:0.75>")
    assert form.counter.text() == counted
    form.prompt.setPlainText("a red sun and more")
    assert form.counter.text() != counted
    stage.close()
