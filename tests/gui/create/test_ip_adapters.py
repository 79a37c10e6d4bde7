"""The IP-Adapters of the form: added, given pictures, sent with pictures and checks, refused where they do not fit."""

from pathlib import Path

import pytest
from msgspec.structs import replace
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage
from tests.helpers import samples
from tests.helpers.faces import save_models, stand_in
from tests.helpers.model_files import ramp, safetensors, write_json
from tests.helpers.wording import chinese

from halftone.contract.messages import Examine
from halftone.contract.request import IpAdapter, PictureRequest
from halftone.gui.create.form.form_fields import NumberBox
from halftone.gui.create.picture.picture_receipt import receipt_rows
from halftone.gui.health import health_view


def write_adapter(path: Path, text: int = 128) -> Path:
    """One for the demo model, as far as headers tell, beside its image encoder."""
    shapes = {"ip_adapter.1.to_k_ip.weight": ramp(8, text), "ip_adapter.1.to_v_ip.weight": ramp(8, text)}
    path.write_bytes(safetensors({"image_proj.proj.weight": ramp(4 * text, 12), "image_proj.norm.weight": ramp(text), **shapes}))
    write_json(path.parent / "image_encoder" / "config.json", {"hidden_size": 16, "projection_dim": 12})
    (path.parent / "image_encoder" / "model.safetensors").write_bytes(safetensors({"a.weight": ramp(2)}))
    return path


def test_one_is_added_given_pictures_and_sent(qtbot: QtBot, tmp_path: Path) -> None:
    path = write_adapter(tmp_path / "plus.safetensors")
    stage = Stage(qtbot)
    form, controller = stage.page.form, stage.controller
    part = form.ip_adapter_part
    assert (part.row.value.text(), form.refusal()) == ("None", "")
    part.row.click()
    part.add(str(path))
    stage.wait(lambda: len(part.items()) == 1)
    assert form.refusal() == part.note.text() == "Choose a picture for plus."
    assert not form.submit()
    for name in ("one.png", "two.png", "three.png"):
        part.give(0, str(tmp_path / name))
    assert form.generate_button.isEnabled()
    part._leave_out(0, 1)
    part.findChildren(NumberBox)[-1].setValue(0.7)
    wanted = IpAdapter(path=str(path), images=(str(tmp_path / "one.png"), str(tmp_path / "three.png")), scale=0.7)
    assert form.request().ip_adapters == controller.state.extras.ip_adapters == (wanted,)
    assert part.row.value.text() == "plus 0.70"
    model = controller.model
    assert model is not None
    controller.session.checks.check(model)
    command = next(job.command for job in controller.state.jobs)
    assert isinstance(command, Examine)
    assert command.inputs.ip_adapters == (wanted,)
    assert health_view.model_tags(model, controller.state.extras_of(model))[0] == "IP-Adapter: plus 0.70"
    stage.idle()
    form.set_request(PictureRequest(prompt="a sun"))
    assert (part.row.value.text(), form.request().ip_adapters) == ("None", ())
    form.set_request(PictureRequest(prompt="a sun", ip_adapters=(wanted,)))
    assert part.items() == (wanted,)
    stage.close()


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("none", "There is no IP-Adapter at"),
        ("lora", " as an IP-Adapter: it is a LoRA."),
        ("sdxl", "its tokens have 2048 values, the model's 128"),
        ("lonely", "none that gives 12 numbers is at"),
    ],
)
def test_what_does_not_fit_is_refused_in_a_sentence(qtbot: QtBot, tmp_path: Path, kind: str, said: str) -> None:
    path = tmp_path / f"{kind}.safetensors"
    if kind == "lora":
        path.write_bytes(safetensors({"lora_unet_a.lora_down.weight": ramp(2)}))
    elif kind != "none":
        write_adapter(path, 2048 if kind == "sdxl" else 128)
    if kind == "lonely":
        (tmp_path / "image_encoder" / "config.json").unlink()
    stage = Stage(qtbot)
    part = stage.page.form.ip_adapter_part
    part.add(str(path))
    stage.wait(lambda: said in part.note.text())
    assert part.items() == ()
    stage.close()


def test_faceid_is_added_where_insightface_and_its_models_are(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HOME", "USERPROFILE"):
        monkeypatch.setenv(name, str(tmp_path / "home"))
    path, face = tmp_path / "face.safetensors", {"image_proj.proj.0.weight": ramp(512, 512), "image_proj.norm.weight": ramp(128)}
    keys = {"ip_adapter.1.to_k_ip.weight": ramp(8, 128), "ip_adapter.1.to_v_ip.weight": ramp(8, 128)}
    path.write_bytes(safetensors({"image_proj.proj.2.weight": ramp(512, 512), **face, **keys}))
    stage = Stage(qtbot)
    part = stage.page.form.ip_adapter_part
    with stand_in(tmp_path / "packages"):
        part.add(str(path))
        stage.wait(lambda: "the models of insightface that measure them are neither in" in part.note.text())
        assert part.items() == ()
        save_models(tmp_path)
        part.add(str(path))
        stage.wait(lambda: len(part.items()) == 1)
        part.give(0, str(tmp_path / "one.png"))
        assert stage.page.form.generate_button.isEnabled()
    stage.close()


def test_the_receipt_of_a_picture_names_them() -> None:
    one = IpAdapter(path="/n/plus.safetensors", images=("/p/a.png", "/p/b.png"), scale=0.5)
    made = replace(samples.picture_facts("a.png"), dtypes={"image_encoder": "float16", "image_encoder_2": "float16"})
    rows = dict(receipt_rows(made, PictureRequest(prompt="a sun", ip_adapters=(one,))))
    assert rows["IP-Adapter"] == "plus 0.50 · a.png, b.png"
    assert (rows["Image encoder"], rows["Image encoder 2"]) == ("FP16", "FP16")
    words = chinese()
    assert words["image encoder"] == words["Image encoder"] == "图像编码器"


def test_a_receipt_tells_seed_and_size() -> None:
    rows = dict(receipt_rows(samples.picture_facts("a.png", seed=123456), PictureRequest(prompt="a sun")))
    assert (rows["Seed"], rows["Size"]) == ("123456", "64 × 64")
