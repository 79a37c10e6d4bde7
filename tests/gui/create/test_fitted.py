"""What stands in a part of the form and does not fit a model that is chosen later: said at once, not when a picture stops."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace
from pytestqt.qtbot import QtBot
from tests.gui.create.test_ip_adapters import write_adapter
from tests.gui.stage import Stage, opened
from tests.helpers import samples
from tests.helpers.model_files import ramp, safetensors, write_json

from halftone.contract.request import Control, IpAdapter, Lora, PictureRequest
from halftone.gui.create.form.request_form import CreateForm
from halftone.gui.create.rows.folded_row import FoldedPart
from halftone.library.families.known_families import SDXL


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A LoRA, a ControlNet and an IP-Adapter for other models than the demo model."""
    folder = tmp_path_factory.mktemp("others")
    wide = {"lora_unet_conv_in.lora_down.weight": ramp(4, 9999), "lora_unet_conv_in.lora_up.weight": ramp(320, 4)}
    (folder / "grain.safetensors").write_bytes(safetensors(wide))
    net = folder / "edges"
    net.mkdir()
    write_json(net / "config.json", {"_class_name": "ControlNetModel", "block_out_channels": [1], "cross_attention_dim": 768})
    (net / "diffusion_pytorch_model.safetensors").write_bytes(safetensors({"conv_in.weight": ramp(2)}))
    write_adapter(folder / "plus.safetensors", 2048)
    return folder


@pytest.fixture
def stage(qtbot: QtBot) -> Iterator[Stage]:
    made = Stage(qtbot)
    yield made
    made.idle()
    made.close()


def one_of(kind: str, files: Path) -> PictureRequest:
    match kind:
        case "lora":
            return PictureRequest(prompt="sea", loras=(Lora(path=str(files / "grain.safetensors")),))
        case "control":
            return PictureRequest(prompt="sea", controls=(Control(path=str(files / "edges"), image="/p/pose.png"),))
        case "ip_adapter":
            adapter = IpAdapter(path=str(files / "plus.safetensors"), images=("/p/sun.png",))
            return PictureRequest(prompt="sea", ip_adapters=(adapter,))
        case _:
            return PictureRequest(prompt="sea", vae=str(files / "edges"))


REMOVED: dict[str, Callable[[CreateForm], object]] = {
    "lora": lambda form: opened(form.lora_part).remove(0),
    "control": lambda form: opened(form.control_part).remove(0),
    "ip_adapter": lambda form: opened(form.ip_adapter_part).remove(0),
    "vae": lambda form: opened(form.vae_part)._own.click(),
}


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("lora", "The LoRA grain"),
        ("control", "The ControlNet edges does not fit"),
        ("ip_adapter", "its tokens have 2048 values, the model's 128"),
        ("vae", "VAE"),
    ],
)
def test_it_is_said_and_stops_generate_until_it_is_removed(stage: Stage, files: Path, kind: str, said: str) -> None:
    form, controller = stage.page.form, stage.controller
    part: FoldedPart = getattr(form, f"{kind}_part")
    form.set_request(one_of(kind, files))
    stage.wait(lambda: said in form.refusal())
    assert form.refusal() == part.note.text() == form.generate_button.toolTip()
    assert part.row.isChecked(), "opened, so that it is seen"
    form.prompt.setPlainText("another sea")
    assert said in part.note.text(), "it does not go by itself"
    assert (form.submit(), form.generate_button.isEnabled()) == (False, False)
    controller.models_changed.emit()
    stage.idle()
    assert said in form.refusal(), "looked at again, with the same end"
    REMOVED[kind](form)
    stage.idle()
    assert (form.refusal(), part.note.text()) == ("", "")


def test_nothing_is_taken_in_silence_where_there_is_no_model(stage: Stage, files: Path) -> None:
    form, controller = stage.page.form, stage.controller
    controller.session.settings.update(replace(controller.settings, last_model="/nowhere/model.safetensors"))
    controller.session.models.refresh()
    stage.wait(lambda: controller.model_error is not None)
    form.lora_part.add(str(files / "grain.safetensors"))
    form.vae_part.choose(str(files / "edges"))
    said = "Open a model first."
    assert form.lora_part.note.text() == form.vae_part.note.text() == said


def test_parts_that_cannot_be_used_together_say_so_before_a_picture_is_begun(stage: Stage) -> None:
    form = stage.page.form
    stage.idle()
    form.follow(replace(samples.POCKET, family=SDXL.name))
    opened(form.hires_part).on.setChecked(True)
    assert form.refusal() == ""
    form.refiner_part.set_file("/models/refiner.safetensors")
    said = "The refiner does not work with Hires. fix."
    assert form.refiner_part.problem() == said
    assert form.refusal() == said
    assert not form.generate_button.isEnabled()
    assert form.refiner_part.row.isChecked()
    opened(form.hires_part).on.setChecked(False)
    assert form.refiner_part.problem() != said
