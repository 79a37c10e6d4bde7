"""ControlNets: the picture that diffusers makes with them, and one more component that is watched, checked and cured."""

from pathlib import Path
from typing import Any, get_args

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from tests.bench.families.more import used_with
from tests.bench.faults.architectures import lumina2
from tests.helpers.controls import Form, make_net, picture, save_net
from tests.helpers.device import DEVICE
from tests.helpers.engine_runs import OPTIONS, check, generate, pixels
from tests.helpers.originals import save_original, tiny_original
from tests.helpers.read_back import parse_parameters, read_picture
from tests.helpers.tiny import load_tiny
from tests.helpers.wording import translated

from halftone.contract.error_codes import ErrorCode
from halftone.contract.errors import HalftoneError
from halftone.contract.messages import ModelChanged
from halftone.contract.request import Control, Extras, Numerics
from halftone.contract.wording import Words
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.inputs.control_pictures import prepared
from halftone.engine.inputs.preprocessors import canny
from halftone.engine.service import DiffusersEngine
from halftone.library.learned import recall
from halftone.measure.devices import find_device

PIPELINES = {
    "sd15": "StableDiffusionControlNetPipeline",
    "sdxl": "StableDiffusionXLControlNetPipeline",
    "sd3": "StableDiffusion3ControlNetPipeline",
}


@pytest.fixture(scope="module")
def square(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return picture(tmp_path_factory.mktemp("pictures") / "square.png")


@pytest.fixture(scope="module")
def nets(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("nets")
    return {family: save_net(make_net(models[family]), folder / family) for family in PIPELINES}


def drawn(model: Path, family: str, nets: list[Any], **given: Any) -> Any:
    """As diffusers itself makes the picture, in [0, 255]."""
    import diffusers

    pipe = load_tiny(model)
    with quiet_libraries():
        pipe = diffusers.AutoPipelineForText2Image.from_pipe(pipe, controlnet=nets if len(nets) > 1 else nets[0]).to(DEVICE)
        assert type(pipe).__name__ == PIPELINES[family]
        torch.manual_seed(5)  # the pipeline of SD 3 encodes the control picture with numbers from torch's own generator
        generator = torch.Generator("cpu").manual_seed(5)
        arguments = {**OPTIONS[family], **given, "num_inference_steps": 3, "generator": generator, "output_type": "np"}
        return pipe("a red sun", width=32, height=32, **arguments).images[0] * 255


@pytest.mark.parametrize("family", PIPELINES)
def test_the_picture_is_the_one_that_diffusers_makes(
    engine: DiffusersEngine, models: dict[str, Path], nets: dict[str, Path], square: Path, family: str
) -> None:
    control = Control(path=str(nets[family]), image=str(square), scale=0.7, end=0.8)
    plain, _ = generate(engine, models[family], family=family)
    report, _ = generate(engine, models[family], family=family, controls=(control,))
    net = make_net(models[family])
    name = "control_image" if family == "sd3" else "image"
    given: dict[str, Any] = {name: Image.open(square), "controlnet_conditioning_scale": 0.7, "control_guidance_end": 0.8}
    theirs = drawn(models[family], family, [net], **given)
    assert abs(pixels(report).astype(float) - theirs).max() <= 1
    assert not (pixels(report) == pixels(plain)).all()


@pytest.mark.parametrize("form", get_args(Form))
def test_every_form_of_file_gives_the_same(
    engine: DiffusersEngine, models: dict[str, Path], nets: dict[str, Path], square: Path, tmp_path: Path, form: Form
) -> None:
    file = save_net(make_net(models["sd15"]), tmp_path / "net", form)
    report, _ = generate(engine, models["sd15"], controls=(Control(path=str(file), image=str(square)),))
    other, _ = generate(engine, models["sd15"], controls=(Control(path=str(nets["sd15"]), image=str(square)),))
    assert (pixels(report) == pixels(other)).all()


def test_two_at_once(
    engine: DiffusersEngine, models: dict[str, Path], nets: dict[str, Path], square: Path, tmp_path: Path
) -> None:
    second = make_net(models["sd15"], seed=12)
    other = picture(tmp_path / "other.png", 64, 64)
    controls = (
        Control(path=str(nets["sd15"]), image=str(square), scale=0.5),
        Control(path=str(save_net(second, tmp_path / "second", "original")), image=str(other), scale=0.9, start=0.3),
    )
    report, _ = generate(engine, models["sd15"], controls=controls)
    given = {
        "image": [Image.open(square), Image.open(other).resize((32, 32), Image.Resampling.LANCZOS)],
        "controlnet_conditioning_scale": [0.5, 0.9],
        "control_guidance_start": [0.0, 0.3],
        "control_guidance_end": [1.0, 1.0],
    }
    theirs = drawn(models["sd15"], "sd15", [make_net(models["sd15"]), second], **given)
    assert abs(pixels(report).astype(float) - theirs).max() <= 1


def test_beside_a_picture_and_a_mask(
    engine: DiffusersEngine, models: dict[str, Path], nets: dict[str, Path], square: Path, tmp_path: Path
) -> None:
    start = picture(tmp_path / "start.png")
    for family in ("sd15", "sdxl"):
        control = (Control(path=str(nets[family]), image=str(square)),)
        both: tuple[dict[str, Any], ...] = ({"image": str(start)}, {"image": str(start), "mask": str(square)})
        for given in both:
            with_it, _ = generate(engine, models[family], family=family, controls=control, steps=4, **given)
            without, _ = generate(engine, models[family], family=family, steps=4, **given)
            assert not (pixels(with_it) == pixels(without)).all()
    control = (Control(path=str(nets["sd3"]), image=str(square)),)
    with pytest.raises(HalftoneError) as caught:
        generate(engine, models["sd3"], family="sd3", controls=control, image=str(start))
    assert caught.value.code == "control-unsupported"


def test_nothing_else_is_loaded_anew_and_without_it_the_picture_is_as_before(
    engine: DiffusersEngine, models: dict[str, Path], nets: dict[str, Path], square: Path
) -> None:
    first, _ = generate(engine, models["sd15"], "float16")
    loaded = engine.loaded
    assert loaded is not None
    before = {name: id(module) for name, module in loaded.modules.items()}
    control = (Control(path=str(nets["sd15"]), image=str(square)),)
    with_it, events = generate(engine, models["sd15"], "float16", controls=control)
    net = id(loaded.controlnet)
    again, _ = generate(engine, models["sd15"], "float16", controls=control)
    assert id(loaded.controlnet) == net
    assert (pixels(again) == pixels(with_it)).all()
    assert with_it.images[0].dtypes["controlnet"] == "float16"
    back, _ = generate(engine, models["sd15"], "float16")
    assert {name: id(module) for name, module in loaded.modules.items()} == before
    assert not events.of(ModelChanged)
    assert (pixels(back) == pixels(first)).all()
    assert (loaded.controlnet, "controlnet" in back.images[0].dtypes) == (None, False)


def test_the_picture_says_which(engine: DiffusersEngine, models: dict[str, Path], nets: dict[str, Path], square: Path) -> None:
    control = Control(path=str(nets["sd15"]), image=str(square), scale=0.6, canny=True)
    report, _ = generate(engine, models["sd15"], controls=(control,))
    found = read_picture(Path(report.images[0].path))
    said = parse_parameters(found.parameters or "").fields["ControlNet 0"]
    assert said.startswith("Module: canny, Model: sd15, Weight: 0.6, Resize Mode: Just Resize")
    assert '"controls":[{"path":"sd15","image":"square.png"' in (found.receipt or "")
    assert str(square.parent) not in (found.receipt or "")


def test_a_picture_of_another_aspect_is_stretched_and_that_is_said(
    engine: DiffusersEngine, models: dict[str, Path], nets: dict[str, Path], tmp_path: Path
) -> None:
    wide = picture(tmp_path / "wide.png", 96, 32)
    report, _ = generate(engine, models["sd15"], controls=(Control(path=str(nets["sd15"]), image=str(wide)),))
    receipt = read_picture(Path(report.images[0].path)).receipt or ""
    said = "The control picture of sd15 is 96 × 32 and was stretched to 32 × 32."
    assert said in receipt


# --- as a component like any other ------------------------------------------------------------------------------------


def overflowing(model: Path, place: Path) -> Path:
    """The same ControlNet, which overflows in float16 inside: what one layer makes too large the next makes small again."""
    net = make_net(model)
    resnet = net.mid_block.resnets[0]
    with torch.no_grad():
        resnet.conv1.weight.mul_(2.0**18)
        resnet.conv1.bias.mul_(2.0**18)
        resnet.time_emb_proj.weight.mul_(2.0**18)
        resnet.time_emb_proj.bias.mul_(2.0**18)
    return save_net(net, place)


def test_an_overflow_in_it_is_cured_while_a_picture_is_made(
    engine: DiffusersEngine, models: dict[str, Path], square: Path, tmp_path: Path
) -> None:
    control = (Control(path=str(overflowing(models["sd15"], tmp_path / "loud")), image=str(square)),)
    wide, _ = generate(engine, models["sd15"], "float32", controls=control)
    report, _ = generate(engine, models["sd15"], "float16", controls=control)
    made = report.images[0]
    assert made.state == "recovered"
    assert {(event.component, event.module.partition(".")[0]) for event in made.events} == {("controlnet", "mid_block")}
    assert abs(pixels(report).astype(float) - pixels(wide)).mean() < 2
    again, _ = generate(engine, models["sd15"], "float16", controls=control)
    assert again.images[0].state == "clean", "the cure is remembered"
    facts, device, numerics = engine.loaded.facts, find_device("auto"), Numerics(precision="float16")  # type: ignore[union-attr]
    assert recall(facts, device, "float16", numerics) is None
    assert recall(facts, device, "float16", numerics, Extras(controls=control)) is not None


def test_a_check_names_its_layer_and_offers_a_cure(
    engine: DiffusersEngine, models: dict[str, Path], nets: dict[str, Path], square: Path, tmp_path: Path
) -> None:
    control = (Control(path=str(overflowing(models["sd15"], tmp_path / "loud")), image=str(square)),)
    report, _ = check(engine, models["sd15"], controls=control)
    over = [finding for finding in report.findings if finding.code.endswith("overflow")]
    assert {finding.component for finding in over} == {"controlnet"}
    assert over[0].module.startswith("mid_block.resnets.0")
    assert report.verdict == "fixable"
    assert report.plan.verified
    assert report.controls == control
    sound, _ = check(engine, models["sd15"], controls=(Control(path=str(nets["sd15"]), image=str(square)),))
    assert not [finding for finding in sound.findings if finding.code.endswith("overflow")]
    assert sound.components["controlnet"].modules > 10


def test_one_of_two_is_named(
    engine: DiffusersEngine, models: dict[str, Path], nets: dict[str, Path], square: Path, tmp_path: Path
) -> None:
    loud = overflowing(models["sd15"], tmp_path / "loud")
    controls = tuple(Control(path=str(path), image=str(square)) for path in (nets["sd15"], loud))
    report, _ = generate(engine, models["sd15"], "float16", controls=controls)
    assert report.images[0].state == "recovered"
    assert {event.module.split(".")[:3] == ["nets", "1", "mid_block"] for event in report.images[0].events} == {True}


def test_bad_numbers_in_its_file_are_named(
    engine: DiffusersEngine, models: dict[str, Path], square: Path, tmp_path: Path
) -> None:
    file = save_net(make_net(models["sd15"]), tmp_path / "net", "original")
    tensors = load_file(file)
    tensors["middle_block.1.transformer_blocks.0.attn1.to_q.weight"].view(-1)[3] = float("nan")
    save_file(tensors, file)
    report, _ = check(engine, models["sd15"], controls=(Control(path=str(file), image=str(square)),))
    assert report.verdict == "broken"
    assert (report.findings[0].component, report.findings[0].module) == (
        "controlnet",
        "mid_block.attentions.0.transformer_blocks.0.attn1.to_q",
    )


# --- refusals ---------------------------------------------------------------------------------------------------------


def refused(model: Path, control: Control) -> tuple[ErrorCode, str]:
    """Before anything is loaded."""
    engine = DiffusersEngine()
    for act in (generate, check):
        with pytest.raises(HalftoneError) as caught:
            act(engine, model, controls=(control,))
        assert engine.loaded is None
    detail = caught.value.facts.get("detail")
    assert detail is None or (isinstance(detail, Words) and translated(detail))
    return caught.value.code, str(caught.value)


def test_what_does_not_fit_is_refused_before_anything_is_loaded(
    models: dict[str, Path], nets: dict[str, Path], square: Path, tmp_path: Path
) -> None:
    model, image = models["sd15"], str(square)
    code, said = refused(model, Control(path=str(nets["sdxl"]), image=image))
    assert code == "control-other-base"
    assert "its text width is 32, and the model's is 16" in said
    assert refused(model, Control(path=str(nets["sd3"]), image=image))[0] == "control-other-base"
    assert refused(models["sana"], Control(path=str(nets["sd15"]), image=image))[0] == "control-other-base"
    with quiet_libraries():
        lumina2().save_pretrained(tmp_path / "lumina")
    assert refused(tmp_path / "lumina", Control(path=str(nets["sd15"]), image=image))[0] == "control-unsupported"
    assert refused(model, Control(path=str(model / "vae"), image=image))[0] == "control-not-a-controlnet"
    assert refused(model, Control(path=str(model), image=image))[0] == "control-not-a-controlnet"
    assert refused(model, Control(path=str(tmp_path / "none"), image=image))[0] == "control-missing"
    (tmp_path / "net.pth").write_bytes(b"\x80\x02")
    assert "pickle" in refused(model, Control(path=str(tmp_path / "net.pth"), image=image))[1]
    net = str(nets["sd15"])
    assert refused(model, Control(path=net, image=str(tmp_path / "none.png")))[0] == "image-missing"
    assert refused(model, Control(path=net, image=image, scale=11.0))[0] == "value-out-of-range"
    assert refused(model, Control(path=net, image=image, start=0.5, end=0.5))[0] == "setting-bad-value"


def test_a_model_in_one_file_takes_one_too(square: Path, tmp_path: Path) -> None:
    from diffusers import ControlNetModel
    from tests.helpers.tiny import liven

    pipe = tiny_original("sd1")
    file = save_original(pipe, tmp_path / "model.safetensors", dtype=torch.float32)
    net = ControlNetModel.from_unet(pipe.unet, conditioning_embedding_out_channels=(4, 8))
    liven(net)
    control = (Control(path=str(save_net(net, tmp_path / "net", "original")), image=str(square)),)
    engine = DiffusersEngine()
    report, _ = generate(engine, file, controls=control)
    plain, _ = generate(engine, file)
    assert not (pixels(report) == pixels(plain)).all()


# --- edges ------------------------------------------------------------------------------------------------------------


def test_edges_are_thin_closed_lines_where_the_picture_changes() -> None:
    pixels = np.zeros((40, 50, 3), np.uint8)
    pixels[10:30, 15:35] = 255
    edges = canny(pixels)
    assert set(np.unique(edges)) == {0, 255}
    assert (edges[20] > 0).sum() == 2, "one pixel on each side"
    assert (edges[:, 25] > 0).sum() == 2
    assert not edges[:6].any()
    assert not edges[15:25, 20:30].any()
    flat = canny(np.full((20, 20, 3), 77, np.uint8))
    assert not flat.any()


def test_a_faint_edge_counts_only_where_it_goes_on_from_a_strong_one() -> None:
    pixels = np.zeros((60, 60, 3), np.uint8)
    pixels[:, 30:] = np.linspace(30, 255, 60).astype(np.uint8)[:, None, None]
    joined = canny(pixels)
    alone = canny((pixels // 8).astype(np.uint8))
    assert (joined[10:50, 27:33] > 0).any(axis=1).sum() > 30
    assert not alone.any()


def test_canny_is_what_the_controlnet_is_given(square: Path) -> None:
    made = prepared(Image.open(square), Control(path="n", image="i", canny=True), (32, 32))
    plain = prepared(Image.open(square), Control(path="n", image="i"), (32, 32))
    assert made.size == (32, 32)
    assert np.asarray(made).any()
    assert not (np.asarray(made) == np.asarray(plain)).all()


def test_the_same_seed_gives_the_same_picture(
    engine: DiffusersEngine, models: dict[str, Path], nets: dict[str, Path], square: Path
) -> None:
    control = (Control(path=str(nets["sd3"]), image=str(square)),)
    torch.manual_seed(1)
    first, _ = generate(engine, models["sd3"], family="sd3", controls=control)
    torch.manual_seed(2)
    again, _ = generate(engine, models["sd3"], family="sd3", controls=control)
    assert (pixels(first) == pixels(again)).all()


def test_transformers_of_other_families_run_with_theirs(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    """Sana's, which diffusers' table of tasks leaves out: nothing is cast on the way."""
    (tmp_path / "net").mkdir()
    shown = picture(tmp_path / "shown.png")
    with quiet_libraries():
        asked = used_with("ControlNet", models["sana"], tmp_path / "net", shown)
    assert asked is not None
    plain, _ = generate(engine, models["sana"], "float16")
    report, _ = generate(engine, models["sana"], "float16", **asked)
    again, _ = generate(engine, models["sana"], "float16")
    assert (report.images[0].state, report.images[0].dtypes["controlnet"]) == ("clean", "float16")
    assert not (pixels(plain) == pixels(report)).all()
    assert (pixels(plain) == pixels(again)).all()
