"""The ControlNets of the form: added, given a picture, sent with pictures and checks, refused where they do not fit."""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from PySide6.QtWidgets import QAbstractButton, QComboBox, QLabel, QWidget
from pytestqt.qtbot import QtBot
from tests.gui.health import kit
from tests.gui.stage import Stage
from tests.helpers import samples
from tests.helpers.controls import picture
from tests.helpers.model_files import ramp, safetensors, write_json

from halftone.contract.messages import Examine
from halftone.contract.request import Control, PictureRequest
from halftone.gui.create.form.form_fields import NumberBox
from halftone.gui.create.picture.picture_receipt import receipt_rows
from halftone.gui.health import health_view
from halftone.gui.health.finding_and_cure_cards import copy_refusal
from halftone.library.files.folder import read_json
from halftone.session.pictures.draft import kept
from halftone.settings.places import resources


@pytest.fixture
def net(tmp_path: Path) -> Path:
    """One that fits the demo model, as far as its configuration tells."""
    unet = read_json(resources() / "pocket" / "unet" / "config.json")
    folder = tmp_path / "edges"
    folder.mkdir()
    config = {name: unet[name] for name in ("block_out_channels", "cross_attention_dim")}
    write_json(folder / "config.json", {"_class_name": "ControlNetModel", **config})
    (folder / "diffusion_pytorch_model.safetensors").write_bytes(safetensors({"conv_in.weight": ramp(2)}))
    return folder


def choose(part: QWidget, data: str) -> None:
    """Choose an entry of the list that has it."""
    box = next(box for box in part.findChildren(QComboBox) if box.findData(data) >= 0)
    box.setCurrentIndex(box.findData(data))


def test_one_is_added_given_a_picture_and_sent(qtbot: QtBot, net: Path, tmp_path: Path) -> None:
    stage = Stage(qtbot)
    form, controller = stage.page.form, stage.controller
    part = form.control_part
    assert (part.row.value.text(), form.refusal()) == ("None", "")
    part.row.click()
    part.add(str(net))
    stage.wait(lambda: len(part.items()) == 1)
    assert form.refusal() == part.note.text() == "Choose a picture for edges."
    assert not form.generate_button.isEnabled()
    assert not form.submit()
    part.give(0, str(tmp_path / "pose.png"))
    assert form.generate_button.isEnabled()
    scale, start, end = part.findChildren(NumberBox)[-3:]
    scale.setValue(0.7)
    start.setValue(0.1)
    end.setValue(0.8)
    choose(part, "canny")
    choose(part, "crop")
    choose(part, "prompt")
    low, high = part.findChildren(NumberBox)[-6:-4]
    assert (low.value(), high.value()) == (100, 200)
    low.setValue(60)
    fields: dict[str, Any] = {
        "scale": 0.7,
        "start": 0.1,
        "end": 0.8,
        "preprocessor": "canny",
        "threshold_a": 60.0,
        "resize": "crop",
        "mode": "prompt",
    }
    wanted = Control(path=str(net), image=str(tmp_path / "pose.png"), **fields)
    assert form.request().controls == controller.state.extras.controls == (wanted,)
    assert part.row.value.text() == "edges 0.70"
    model = controller.model
    assert model is not None
    controller.session.checks.check(model)
    command = next(job.command for job in controller.state.jobs)
    assert isinstance(command, Examine)
    assert command.inputs.controls == (wanted,)
    assert health_view.model_tags(model, controller.state.extras_of(model))[0] == "ControlNet: edges 0.70"
    stage.idle()
    part.remove(0)
    assert (part.row.value.text(), form.request().controls) == ("None", ())
    stage.close()


def test_what_does_not_fit_is_refused_in_a_sentence(qtbot: QtBot, net: Path, tmp_path: Path) -> None:
    (tmp_path / "lora.safetensors").write_bytes(safetensors({"lora_unet_a.lora_down.weight": ramp(2)}))
    write_json(net / "config.json", {**read_json(net / "config.json"), "cross_attention_dim": 768})
    stage = Stage(qtbot)
    part = stage.page.form.control_part
    for path, said in (
        (tmp_path / "lora.safetensors", " as a ControlNet: it is a LoRA."),
        (tmp_path / "none", "There is no ControlNet at"),
        (net, "The ControlNet edges does not fit Pocket"),
    ):
        part.add(str(path))
        stage.wait(lambda said=said: said in part.note.text())
        assert part.note.isVisible()
    assert part.items() == ()
    stage.close()


def test_they_come_back_with_the_settings_of_a_picture(qtbot: QtBot, net: Path) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    request = PictureRequest(prompt="sea", controls=(Control(path=str(net), image="/p/pose.png", scale=7.5),))
    form.set_request(request)
    assert form.request().controls == request.controls
    assert '"controls":' in kept(stage.controller.state.draft)
    assert ("ControlNet", "edges 7.50") in receipt_rows(samples.picture_facts("a.png"), request)
    form.set_request(PictureRequest(prompt="sea"))
    assert form.request().controls == ()
    stage.idle()
    stage.close()


def test_a_mode_is_offered_where_the_net_has_modes_or_to_take_it_back(qtbot: QtBot, tmp_path: Path) -> None:
    write_json(tmp_path / "config.json", {"_class_name": "FluxControlNetModel"})
    stage = Stage(qtbot)
    form = stage.page.form
    part = form.control_part
    plain = Control(path=str(tmp_path), image="/p/a.png")
    for control, offered in ((plain, False), (msgspec.structs.replace(plain, mode="control"), True)):
        form.set_request(PictureRequest(prompt="sea", controls=(control,)))
        part.row.setChecked(True)
        boxes = [box for box in part.findChildren(QComboBox) if box.findData("control") >= 0]
        assert [box.currentData() for box in boxes] == (["control"] if offered else [])
    stage.idle()
    stage.close()


def test_no_copy_is_offered_of_a_model_that_was_checked_with_one() -> None:
    report = kit.report()
    exact = tuple(cure for cure in report.cures if cure.kind == "rescale")
    report = msgspec.structs.replace(report, controls=(Control(path="/n/edges", image="/p/pose.png"),))
    view = health_view.HealthView("overflows", "", "", cures=exact, report=report)
    assert copy_refusal(view) == "A copy contains only the model. Reset ControlNet on Create and check again."


@pytest.mark.parametrize(("name", "model"), [("depth", "depth"), ("normal", "depth"), ("pose", "pose")])
def test_one_with_a_model_needs_its_folder_and_numbers_are_forgotten(qtbot: QtBot, net: Path, name: str, model: str) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    part = form.control_part
    canny = Control(path=str(net), image="/p/a.png", preprocessor="canny", threshold_a=60.0)
    form.set_request(PictureRequest(prompt="sea", controls=(canny,)))
    part.row.click()
    assert part.findChildren(NumberBox)[0].value() == 60
    choose(part, name)
    assert part.items() == (Control(path=str(net), image="/p/a.png", preprocessor=name),)
    assert form.refusal() == f"Choose a {model} model for edges."
    assert button_named(part, f"{model.capitalize()} model of edges").isEnabled()
    part.change(0, preprocessor_model=f"/m/{name}")
    assert form.refusal() == ""
    assert form.request().controls[0].preprocessor_model == f"/m/{name}"
    stage.idle()
    stage.close()


def test_what_a_preprocessor_draws_is_shown_before_a_picture_is_made(qtbot: QtBot, net: Path, tmp_path: Path) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    part = form.control_part
    square = str(picture(tmp_path / "square.png", 64, 64))
    form.set_request(PictureRequest(prompt="sea", controls=(Control(path=str(net), image=square),)))
    part.row.click()
    assert not button_named(part, "Preview of edges").isVisible()
    choose(part, "canny")
    ask, shown = button_named(part, "Preview of edges"), named(part, QLabel, "What the preprocessor draws for edges")
    stage.wait(ask.isVisible)
    assert (ask.isEnabled(), shown.isVisible()) == (True, False)
    ask.click()
    assert not ask.isEnabled()
    stage.wait(shown.isVisible)
    seen = shown.pixmap().toImage()
    assert {seen.pixelColor(x, seen.height() // 2).lightness() > 100 for x in range(seen.width())} == {False, True}
    assert ask.isEnabled()
    resolution = named(part, NumberBox, "edges: Resolution")
    assert resolution.text() == "Auto"
    resolution.setValue(20)
    assert (part.items()[0].resolution, resolution.value(), shown.isVisible()) == (64, 64, False)
    resolution.setValue(0)
    assert part.items()[0].resolution is None
    part.give(0, str(tmp_path / "gone.png"))
    button_named(part, "Preview of edges").click()
    stage.wait(lambda: "gone.png" in part.note.text())
    stage.idle()
    stage.close()


def named(part: QWidget, kind: type[Any], name: str) -> Any:
    """The part of a row with this accessible name."""
    return [one for one in part.findChildren(kind) if one.accessibleName() == name][-1]


def button_named(part: QWidget, name: str) -> QAbstractButton:
    return named(part, QAbstractButton, name)
