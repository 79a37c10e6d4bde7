"""ControlNet Unions: the picture that diffusers' own pipeline makes, with the kind of picture that was chosen."""

import json
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from diffusers import ControlNetUnionModel, FluxControlNetModel, StableDiffusionXLControlNetUnionPipeline
from PIL import Image
from safetensors.torch import load_file, save_file
from tests.helpers.controls import Form, make_net, picture, save_net
from tests.helpers.device import DEVICE
from tests.helpers.engine_runs import OPTIONS, check, generate, pixels
from tests.helpers.formula_nets import comfyui_name, formula_union, numbers
from tests.helpers.tiny import liven, load_tiny

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Control
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.extras.control_nets import UnionNet, modes_of
from halftone.engine.service import DiffusersEngine
from halftone.library.add_ons.controlnets import kinds_in, parameter_names
from halftone.library.files.header import read_header

REFERENCES = Path(__file__).parents[2] / "references"


@pytest.fixture(scope="module")
def square(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return picture(tmp_path_factory.mktemp("pictures") / "square.png")


def made(model: Path, kinds: int) -> Any:
    torch.manual_seed(31)
    unet = load_tiny(model).unet
    known: Any = dict(unet.config)
    width = unet.config.block_out_channels[0]
    own = {"num_control_type": kinds, "num_trans_channel": width, "num_proj_channel": width, "num_trans_layer": 1}
    net: Any = ControlNetUnionModel.from_config({**known, **own, "conditioning_embedding_out_channels": (4, 8)})
    liven(net)
    with torch.no_grad():
        net.task_embedding.normal_()
    return net.eval()


def drawn(model: Path, net: Any, image: Any, mode: int, scale: float) -> Any:
    """As diffusers itself makes the picture, in [0, 255]."""
    pipe: Any = load_tiny(model)
    with quiet_libraries():
        kind: Any = StableDiffusionXLControlNetUnionPipeline
        given = {name: part for name, part in pipe.components.items() if name not in ("image_encoder", "feature_extractor")}
        pipe = kind(**given, controlnet=net, add_watermarker=False).to(DEVICE)
        pipe.set_progress_bar_config(disable=True)
        arguments = {**OPTIONS["sdxl"], "num_inference_steps": 3, "generator": torch.Generator("cpu").manual_seed(5)}
        shown = {"control_image": [image], "control_mode": [mode], "controlnet_conditioning_scale": scale}
        return pipe("a red sun", **shown, width=32, height=32, output_type="np", **arguments).images[0] * 255


@pytest.mark.parametrize("form", ["folder", "diffusers"])
@pytest.mark.parametrize(("kinds", "kind", "mode"), [(6, "depth", 1), (8, "repaint", 7)])
def test_the_picture_is_the_one_that_diffusers_makes(
    engine: DiffusersEngine, models: dict[str, Path], square: Path, tmp_path: Path, kinds: int, kind: str, mode: int, form: Form
) -> None:
    net = made(models["sdxl"], kinds)
    path = str(save_net(net, tmp_path / "net", form))
    assert len(kinds_in(path)) == kinds
    report, _ = generate(
        engine, models["sdxl"], family="sdxl", controls=(Control(path=path, image=str(square), scale=0.8, kind=kind),)
    )
    with Image.open(square) as opened:
        theirs = drawn(models["sdxl"], net, opened.convert("RGB"), mode, 0.8)
    assert abs(pixels(report).astype(float) - theirs).max() <= 1
    other, _ = generate(
        engine, models["sdxl"], family="sdxl", controls=(Control(path=path, image=str(square), scale=0.8, kind="openpose"),)
    )
    assert not (pixels(report) == pixels(other)).all()


def save_in_comfyui(net: Any, path: Path, start: str = "") -> Path:
    tensors = net.state_dict()
    save_file({start + comfyui_name(name, net): value.clone().contiguous() for name, value in tensors.items()}, path)
    return path


@pytest.mark.parametrize("start", ["", "control_model."])
def test_a_file_in_comfyuis_names_gives_the_same(
    engine: DiffusersEngine, models: dict[str, Path], square: Path, tmp_path: Path, start: str
) -> None:
    net = made(models["sdxl"], 6)
    paths = save_net(net, tmp_path / "folder"), save_in_comfyui(net, tmp_path / "theirs.safetensors", start)
    assert len(kinds_in(str(paths[1]))) == 6
    both = [
        generate(engine, models["sdxl"], family="sdxl", controls=(Control(path=str(path), image=str(square), kind="depth"),))[0]
        for path in paths
    ]
    assert (pixels(both[0]) == pixels(both[1])).all()


def test_it_gives_what_it_gives_in_comfyui(tmp_path: Path) -> None:
    theirs = formula_union()
    path = save_in_comfyui(theirs, tmp_path / "union.safetensors")
    names, net = parameter_names(read_header(path)), UnionNet(**dict(theirs.config))
    net.load_state_dict({names[name]: value for name, value in load_file(path).items()})
    added = {"text_embeds": numbers(6, (1, 16)), "time_ids": torch.tensor([[64.0, 64, 0, 0, 64, 64]])}
    given = numbers(3, (1, 4, 8, 8)), 500, numbers(4, (1, 7, 16)), numbers(5, (1, 3, 64, 64), 0.5) + 0.5
    for kind, expected in json.loads((REFERENCES / "unions.json").read_text()).items():
        net.mode = int(kind)
        with torch.no_grad():
            down, middle = net.eval()(*given, added_cond_kwargs=added)
        for ours, numbers_ in zip([*down, middle], expected, strict=True):
            wanted = torch.tensor(numbers_)
            assert (ours.flatten()[::997] - wanted).abs().max() <= 1e-5 * wanted.abs().max()


def test_beside_others_and_a_start_picture_and_in_a_check(
    engine: DiffusersEngine, models: dict[str, Path], square: Path, tmp_path: Path
) -> None:
    union = Control(path=str(save_net(made(models["sdxl"], 6), tmp_path / "union")), image=str(square), kind="depth")
    plain = Control(path=str(save_net(make_net(models["sdxl"]), tmp_path / "plain")), image=str(square))
    again = Control(path=union.path, image=str(square), kind="canny")
    ways: tuple[dict[str, Any], ...] = ({}, {"image": str(square)}, {"image": str(square), "mask": str(square)})
    seen = set[bytes]()
    for controls in ((union,), (union, plain), (union, again)):
        for given in ways:
            report, _ = generate(engine, models["sdxl"], family="sdxl", controls=controls, steps=4, **given)
            assert report.images[0].state == "clean"
            seen.add(pixels(report).tobytes())
    assert len(seen) == 9
    report, _ = check(engine, models["sdxl"], family="sdxl", controls=(Control(path=union.path, image=""),))
    assert report.components["controlnet"].modules > 10


@pytest.mark.parametrize("kind", ["", "tile", "blur"])
def test_a_kind_that_is_missing_or_unknown_is_refused(models: dict[str, Path], square: Path, tmp_path: Path, kind: str) -> None:
    path = str(save_net(made(models["sdxl"], 6), tmp_path / "net", "diffusers"))
    with pytest.raises(HalftoneError) as caught:
        generate(DiffusersEngine(), models["sdxl"], controls=(Control(path=path, image=str(square), kind=kind),))
    assert caught.value.code == "setting-bad-value"
    assert "openpose, depth, scribble, canny" in str(caught.value)


def test_a_plain_one_has_no_kinds(models: dict[str, Path], square: Path, tmp_path: Path) -> None:
    path = str(save_net(make_net(models["sdxl"]), tmp_path / "net"))
    with pytest.raises(HalftoneError) as caught:
        generate(DiffusersEngine(), models["sdxl"], controls=(Control(path=path, image=str(square), kind="depth"),))
    assert caught.value.code == "setting-bad-value"


def test_for_flux_the_number_of_the_kind_goes_to_the_pipeline() -> None:
    with torch.device("meta"), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # diffusers' own, of its own import
        net = FluxControlNetModel(num_layers=1, num_single_layers=0, attention_head_dim=8, num_attention_heads=1, num_mode=10)
        plain = FluxControlNetModel(num_layers=1, num_single_layers=0, attention_head_dim=8, num_attention_heads=1)
    assert modes_of(net, [Control(path="n", image="i", kind="openpose")]) == [4]
    assert modes_of(plain, [Control(path="n", image="i")]) == [None]
