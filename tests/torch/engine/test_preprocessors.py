"""What preprocessors draw: A1111's extension's own numbers, and transformers' own depth maps."""

import hashlib
import io
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, cast

import msgspec
import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from tests.helpers.drawn_pictures import shapes
from transformers import (
    DepthAnythingConfig,
    DepthAnythingForDepthEstimation,
    Dinov2Config,
    DPTConfig,
    DPTForDepthEstimation,
    DPTImageProcessor,
    pipeline,
)

from halftone.client.command import worker_environment
from halftone.contract.errors import HalftoneError
from halftone.contract.preprocessors import NONE, PREPROCESSORS
from halftone.contract.request import Control
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.inputs.control_pictures import prepared
from halftone.engine.inputs.depth_maps import normals_of
from halftone.engine.inputs.preprocessors import drawn, pixel_perfect
from halftone.library.add_ons.preprocessors import check_preprocessors
from halftone.session.pictures.control_preview import drawn_control

REFERENCES: dict[str, Any] = json.loads((Path(__file__).parents[2] / "references" / "preprocessors.json").read_text())


@pytest.mark.parametrize("case", REFERENCES)
def test_each_draws_what_the_extension_of_a1111_draws(case: str) -> None:
    name, size, resolution, *numbers = case.split(" ")
    width, height = map(int, size.split("x"))
    thresholds = tuple(map(float, numbers[0].split(","))) if numbers and numbers[0] else ()
    found = drawn(name, shapes(width, height), int(resolution), thresholds)
    wanted = REFERENCES[case]
    assert list(found.shape) == wanted["shape"]
    assert hashlib.sha256(found.tobytes()).hexdigest() == wanted["sha256"], float(found.mean()) - wanted["mean"]


def test_the_references_name_all_that_need_no_model() -> None:
    assert {case.split(" ")[0] for case in REFERENCES} == {
        name for name, known in PREPROCESSORS.items() if not known.has_model
    } - {NONE}


@pytest.mark.parametrize("name", [name for name, known in PREPROCESSORS.items() if not known.has_model])
@pytest.mark.parametrize("size", [(96, 64), (64, 128)])
def test_each_is_given_in_the_size_of_the_result(name: str, size: tuple[int, int]) -> None:
    given = Image.fromarray(shapes(120, 80))
    made = prepared(given, Control(path="n", image="i", preprocessor=name), size)
    assert (made.size, made.mode) == (size, "RGB")
    assert len(np.unique(np.asarray(made))) > 1


def test_a_numbers_change_is_seen() -> None:
    given, plain = Image.fromarray(shapes(96, 64)), Control(path="n", image="i", preprocessor="canny")
    few = Control(path="n", image="i", preprocessor="canny", threshold_a=250, threshold_b=255)
    small = Control(path="n", image="i", preprocessor="canny", resolution=200)
    made = [np.asarray(prepared(given, one, (96, 64))) for one in (plain, few, small)]
    assert (made[0] > 0).sum() > (made[1] > 0).sum()
    assert not np.array_equal(made[0], made[2])


def test_by_itself_the_resolution_is_that_of_the_result() -> None:
    assert pixel_perfect((96, 64), (96, 64)) == 64
    assert pixel_perfect((96, 64), (512, 512)) == 512
    assert pixel_perfect((96, 64), (48, 64)) == 64


SIZES: dict[str, Any] = json.loads((Path(__file__).parents[2] / "references" / "control_sizes.json").read_text())


@pytest.mark.parametrize("case", SIZES)
def test_a_picture_of_another_aspect_is_fitted_as_in_a1111(case: str) -> None:
    resize, own, size = case.split(" ")
    width, height = map(int, own.split("x"))
    wide, high = map(int, size.split("x"))
    control = Control(path="n", image="i", preprocessor="blur_gaussian", threshold_a=3.0, resize=cast("Any", resize))
    found = np.asarray(prepared(Image.fromarray(shapes(width, height)), control, (wide, high)))
    assert pixel_perfect((width, height), (wide, high), control.resize) == SIZES[case]["resolution"]
    assert list(found.shape) == SIZES[case]["shape"]
    assert hashlib.sha256(found.tobytes()).hexdigest() == SIZES[case]["sha256"], float(found.mean()) - SIZES[case]["mean"]


@pytest.mark.parametrize("size", [(4000, 2), (2, 8000), (1, 16000)])
@pytest.mark.parametrize("resize", ["stretch", "crop", "fill"])
def test_a_picture_of_a_line_is_refused_unless_it_is_only_stretched(size: tuple[int, int], resize: Any) -> None:
    given = Image.new("RGB", size)
    with pytest.raises(HalftoneError, match=f"The control picture i is {size[0]} × {size[1]}") as caught:
        prepared(given, Control(path="n", image="i", preprocessor="canny", resize=resize), (64, 64))
    assert caught.value.code == "control-too-narrow"
    assert prepared(given, Control(path="n", image="i"), (64, 64)).size == (64, 64)


@pytest.mark.parametrize("size", [(16, 1), (1, 16), (160, 10)])
@pytest.mark.parametrize("result", [(64, 64), (8, 256), (256, 8)])
@pytest.mark.parametrize("resize", ["stretch", "crop", "fill"])
def test_no_edge_of_a_thin_picture_is_rounded_to_nothing(size: tuple[int, int], result: tuple[int, int], resize: Any) -> None:
    for name in ("canny", "invert"):
        control = Control(path="n", image="i", preprocessor=name, resize=resize)
        assert prepared(Image.new("RGB", size), control, result).size == result


def test_a_finished_map_is_cropped_and_filled_too() -> None:
    given = Image.new("RGB", (64, 32), "white")
    cropped, filled = (
        prepared(given, Control(path="n", image="i", resize=resize), (32, 32)) for resize in cast("Any", ("crop", "fill"))
    )
    assert (cropped.size, filled.size) == ((32, 32), (32, 32))
    given.paste("black", (16, 0, 48, 32))
    assert np.asarray(prepared(given, Control(path="n", image="i", resize="crop"), (32, 32))).max() == 0
    assert np.asarray(prepared(given, Control(path="n", image="i"), (32, 32))).max() == 255


def test_a_preview_is_what_a_picture_is_made_with_and_loads_no_torch(tmp_path: Path) -> None:
    Image.fromarray(shapes(96, 64)).save(tmp_path / "a.png")
    control = Control(path="n", image=str(tmp_path / "a.png"), preprocessor="canny", threshold_a=60, resize="crop")
    seen = np.asarray(Image.open(io.BytesIO(drawn_control(control, (64, 64)))))
    assert np.array_equal(seen, np.asarray(prepared(Image.fromarray(shapes(96, 64)), control, (64, 64))))
    assert 0 < seen.mean() < 255
    code = "import sys, halftone.worker.draw_control, halftone.engine.inputs.control_pictures; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], env=worker_environment(), check=False).returncode == 0
    for wrong in (msgspec.structs.replace(control, image="gone.png"), msgspec.structs.replace(control, threshold_a=900)):
        with pytest.raises(HalftoneError) as caught:
            drawn_control(wrong, (64, 64))
        assert caught.value.code in ("image-missing", "image-unreadable", "value-out-of-range")


def test_the_error_of_a_preview_is_found_among_what_libraries_write(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONVERBOSE", "1")  # writes lines before it and behind it
    with pytest.raises(HalftoneError) as caught:
        drawn_control(Control(path="n", image="gone.png", preprocessor="canny"), (64, 64))
    assert caught.value.code == "image-missing"


# --- depth ------------------------------------------------------------------------------------------------------------


def _depth_anything() -> Any:
    backbone = cast("Any", Dinov2Config)(
        hidden_size=16, num_hidden_layers=4, num_attention_heads=2, image_size=28, patch_size=14,
        out_features=["stage1", "stage2", "stage3", "stage4"], reshape_hidden_states=False, apply_layernorm=True,
    )  # fmt: skip
    return DepthAnythingForDepthEstimation(
        DepthAnythingConfig(
            backbone_config=backbone, patch_size=14, reassemble_hidden_size=16, reassemble_factors=[4, 2, 1, 0.5],
            neck_hidden_sizes=[8, 8, 8, 8], fusion_hidden_size=8, head_hidden_size=8,
        )
    )  # fmt: skip


def _dpt() -> Any:
    return DPTForDepthEstimation(
        DPTConfig(
            hidden_size=16, num_hidden_layers=4, num_attention_heads=2, intermediate_size=32, image_size=32, patch_size=16,
            backbone_out_indices=[0, 1, 2, 3], neck_hidden_sizes=[8, 8, 8, 8], fusion_hidden_size=8, is_hybrid=False,
        )
    )  # fmt: skip


@pytest.fixture(params=["depth_anything", "dpt"])
def depth_folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    torch.manual_seed(3)
    with quiet_libraries():
        net = (_depth_anything if request.param == "depth_anything" else _dpt)().eval()
        for parameter in net.parameters():
            torch.nn.init.normal_(parameter, std=0.2)
        if request.param == "depth_anything":  # its last layers cut off what is below 0
            for parameter in net.head.parameters():
                parameter.data.abs_()
        edge = 28 if request.param == "depth_anything" else 32
        net.save_pretrained(tmp_path / "depth")
        DPTImageProcessor(size={"height": edge, "width": edge}).save_pretrained(tmp_path / "depth")
    return tmp_path / "depth"


def _of_transformers(folder: Path, picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    with quiet_libraries():
        run = pipeline("depth-estimation", model=str(folder), device="cpu", dtype=torch.float32)
        return np.asarray(run(Image.fromarray(picture))["depth"])


def test_a_depth_map_is_transformers_own(depth_folder: Path) -> None:
    picture = shapes(96, 64)
    control = Control(path="n", image="i", preprocessor="depth", preprocessor_model=str(depth_folder))
    check_preprocessors((control,))
    made = np.asarray(prepared(Image.fromarray(picture), control, (96, 64)))
    wanted = _of_transformers(depth_folder, picture)
    assert len(np.unique(wanted)) > 10
    assert (made == wanted[:, :, None]).all()


NORMALS: dict[str, Any] = json.loads((Path(__file__).parents[2] / "references" / "normals.json").read_text())


@pytest.mark.parametrize("case", NORMALS)
def test_a_normal_map_shows_the_slopes_that_a1111_shows(case: str) -> None:
    size, background = case.split(" ")
    width, height = map(int, size.split("x"))
    y, x = np.mgrid[0:height, 0:width].astype(np.float32)
    found = normals_of((900 + 5 * x - 3 * y + (x * x + 3 * y * y) % 97).astype(np.float32), float(background))
    assert list(found.shape) == NORMALS[case]["shape"]
    assert hashlib.sha256(found.tobytes()).hexdigest() == NORMALS[case]["sha256"], found.mean((0, 1)) - NORMALS[case]["mean"]


def test_a_normal_map_is_that_of_the_depth_of_a_dpt_model(depth_folder: Path) -> None:
    control = Control(path="n", image="i", preprocessor="normal", threshold_a=0.2, preprocessor_model=str(depth_folder))
    if json.loads((depth_folder / "config.json").read_text())["model_type"] != "dpt":
        with pytest.raises(HalftoneError, match="a normal map needs a DPT model of MiDaS"):
            check_preprocessors((control,))
        return
    check_preprocessors((control,))
    made = np.asarray(prepared(Image.fromarray(shapes(96, 64)), control, (96, 64)))
    with quiet_libraries():
        run = pipeline("depth-estimation", model=str(depth_folder), device="cpu", dtype=torch.float32)
        depth = run(Image.fromarray(shapes(96, 64)))["predicted_depth"]
    assert np.array_equal(made, normals_of(np.asarray(depth), 0.2))
    assert len(np.unique(made)) > 3


def test_a_folder_that_is_no_depth_model_is_refused(tmp_path: Path) -> None:
    for name in ("preprocessor_config.json", "model.safetensors"):
        (tmp_path / name).write_text("{}")
    control = Control(path="n", image="i", preprocessor="depth", preprocessor_model=str(tmp_path))
    (tmp_path / "config.json").write_text('{"architectures": ["CLIPModel"]}')
    with pytest.raises(HalftoneError, match=r"config\.json names no depth model"):
        check_preprocessors((control,))
    for config in ('"model_type": "zoedepth"', '"model_type": "depth_anything", "depth_estimation_type": "metric"'):
        (tmp_path / "config.json").write_text(f'{{"architectures": ["ItsForDepthEstimation"], {config}}}')
        with pytest.raises(HalftoneError, match="near would be black"):
            check_preprocessors((control,))
    (tmp_path / "config.json").write_text('{"architectures": ["DPTForDepthEstimation"], "model_type": "dpt"}')
    check_preprocessors((control,))
    with pytest.raises(HalftoneError, match="cannot be loaded as a depth model"):
        prepared(Image.fromarray(shapes(96, 64)), control, (96, 64))
