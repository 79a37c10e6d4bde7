"""Damage around a picture that must not cost the picture, and files whose tensors differ in type or name."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from tests.helpers.engine_runs import generate

from halftone.contract.messages import PreviewReady
from halftone.contract.plan import Plan
from halftone.contract.request import Numerics
from halftone.engine.finding.findings import module_of
from halftone.engine.loading.load import load_pipeline, stored_dtypes
from halftone.engine.loading.plans import cross_attentions, permitted
from halftone.engine.service import DiffusersEngine
from halftone.library.models import describe
from halftone.measure.probe import Reading
from halftone.metadata.start_images import picture_size, read_picture
from halftone.settings.places import cache_dir


@pytest.mark.parametrize("content", [b"", b"PK\x03\x04 cut", b"\x93NUMPY\x01\x00 cut", b"no array"])
def test_a_damaged_preview_map_is_fitted_again(engine: DiffusersEngine, models: dict[str, Path], content: bytes) -> None:
    generate(engine, models["sd15"])
    (path,) = (cache_dir() / "previews").glob("*.npy")
    sound = np.load(path)
    path.write_bytes(content)
    report, events = generate(engine, models["sd15"])
    assert report.images[0].state == "clean"
    assert events.of(PreviewReady)
    assert np.load(path) == pytest.approx(sound, abs=1e-4)


def test_without_room_for_the_preview_map_there_is_a_picture(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    (cache_dir() / "previews").write_text("a file where the folder would be")
    report, events = generate(engine, models["sd15"])
    assert report.images[0].state == "clean"
    assert events.of(PreviewReady)


def test_one_wide_tensor_among_narrow_ones_is_loaded_exactly(models: dict[str, Path], tmp_path: Path) -> None:
    folder = tmp_path / "mixed"
    shutil.copytree(models["sd15"], folder)
    (file,) = (folder / "vae").glob("*.safetensors")
    narrow = {name: tensor.half() for name, tensor in load_file(file).items()}
    name = "decoder.conv_in.bias"
    save_file({**narrow, name: torch.full_like(narrow[name], 3e38, dtype=torch.float32)}, file, {"format": "pt"})
    assert stored_dtypes(folder)["vae"] == torch.float32
    loaded = load_pipeline(describe(str(folder)), torch.device("cpu"))
    assert float(loaded.pipe.vae.decoder.conv_in.bias.max()) == pytest.approx(3e38)


def _readings(*names: str) -> dict[str, Reading]:
    return dict.fromkeys(names)  # pyright: ignore[reportReturnType] - only the names are looked at


@pytest.mark.parametrize(
    ("tensor", "modules", "found"),
    [
        ("mid.conv.weight", ("mid.conv",), "mid.conv"),
        ("text_model.layers.0.fc1.weight", ("layers.0.fc1", "layers.1.fc1"), "layers.0.fc1"),
        ("layers.0.fc1.weight", ("text_model.layers.0.fc1",), "text_model.layers.0.fc1"),
        ("layers.5.fc1.weight", ("layers.0.fc1", "layers.1.fc1"), None),
        ("layers.5.fc1.weight", ("layers.0.fc1",), None),
        ("norm.weight", ("a.norm", "b.norm"), None),
        ("norm.weight", ("layers.0.norm",), None),
    ],
)
def test_a_tensor_is_given_to_a_module_only_if_that_is_certain(tensor: str, modules: tuple[str, ...], found: str | None) -> None:
    assert module_of(tensor, _readings(*modules)) == found


def test_an_input_picture_is_turned_as_its_camera_noted(tmp_path: Path) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6  # EXIF 2.32, Orientation: a quarter turn
    Image.new("RGB", (32, 16)).save(tmp_path / "a.jpg", exif=exif)
    assert read_picture(str(tmp_path / "a.jpg")).size == picture_size(str(tmp_path / "a.jpg")) == (16, 32)


def test_what_never_rules_out_is_not_taken_from_a_kept_plan(models: dict[str, Path]) -> None:
    loaded = load_pipeline(describe(str(models["sd15"])), torch.device("cpu"))
    kept = Plan(
        dtypes={"vae": "float32", "unet": "bfloat16"},
        upcast={"unet": cross_attentions(loaded.modules["unet"])},
        settings={"upcast_cross_attention": "always"},
    )
    left = permitted(loaded, kept, Numerics(vae_float32="never", upcast_cross_attention="never"))
    assert left == Plan(dtypes={"unet": "bfloat16"})
    assert permitted(loaded, kept, Numerics()) == kept
