"""Upscale models: read from safetensors alone, run in tiles without a seam, watched, and used between two passes."""

import math
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from safetensors.torch import save_file
from tests.helpers.engine_runs import generate, pixels
from tests.helpers.upscalers import make_upscaler

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Hires
from halftone.engine.making.upscale import enlarge, load_upscaler
from halftone.engine.service import DiffusersEngine

CPU = torch.device("cpu")


def hills(width: int, height: int) -> Image.Image:
    noise = np.random.default_rng(5).integers(0, 256, (height // 4, width // 4, 3), np.uint8)
    return Image.fromarray(noise).resize((width, height), Image.Resampling.BICUBIC)


def test_a_picture_becomes_larger_and_tiles_leave_no_seam(tmp_path: Path) -> None:
    upscaler = load_upscaler(str(make_upscaler(tmp_path / "x2.safetensors")), CPU)
    assert upscaler.scale == 2
    told: list[tuple[int, int]] = []
    picture = hills(100, 72)
    whole = enlarge(picture, upscaler, "float32", tile=256)
    tiled = enlarge(picture, upscaler, "float32", tile=32, told=lambda done, total: told.append((done, total)))
    assert whole.image.size == (200, 144)
    assert told == [(done, 12) for done in range(1, 13)]
    assert np.abs(np.asarray(tiled.image, int) - np.asarray(whole.image, int)).max() <= 1
    assert len(np.unique(np.asarray(whole.image))) > 8
    assert whole.events == ()


def test_what_overflows_in_half_precision_is_computed_again(tmp_path: Path) -> None:
    upscaler = load_upscaler(str(make_upscaler(tmp_path / "x2.safetensors")), CPU)

    def strike(module: Any, _args: Any, output: torch.Tensor) -> torch.Tensor | None:
        return output * math.inf if next(module.parameters()).dtype == torch.float16 else None

    clean = enlarge(hills(64, 64), upscaler, "float32")
    upscaler.net.model.register_forward_hook(strike)
    made = enlarge(hills(64, 64), upscaler, "float16", tile=32)
    (event,) = made.events
    assert (event.action, event.cure, made.dtype) == ("enlarged-again", "float32-component", "float32")
    assert np.abs(np.asarray(made.image, int) - np.asarray(clean.image, int)).max() <= 1


def test_a_damaged_model_says_so(tmp_path: Path) -> None:
    upscaler = load_upscaler(str(make_upscaler(tmp_path / "bad.safetensors", nan=True)), CPU)
    with pytest.raises(HalftoneError) as refused:
        enlarge(hills(32, 32), upscaler, "float16")
    assert refused.value.code == "upscaler-broken"


@pytest.mark.parametrize("name", ["gone", "folder", "pickle", "text", "half", "other", "unknown"])
def test_what_is_no_upscale_model_is_refused(models: dict[str, Path], tmp_path: Path, name: str) -> None:
    good = make_upscaler(tmp_path / "good.safetensors")
    path = tmp_path / {"folder": "folder", "pickle": "x4.pth"}.get(name, f"{name}.safetensors")
    match name:
        case "folder":
            path.mkdir()
        case "pickle":
            path.write_bytes(b"\x80\x04never opened")
        case "text":
            path.write_text("no weights")
        case "half":
            path.write_bytes(good.read_bytes()[:2000])
        case "other":
            path = next((models["sd15"] / "vae").glob("*.safetensors"))
        case "unknown":
            save_file({"some.weight": torch.zeros(4, 4)}, path)
        case _:
            pass
    with pytest.raises(HalftoneError) as refused:
        load_upscaler(str(path), CPU)
    known = {"gone": "upscaler-missing", "pickle": "model-pickle", "text": "model-bad-header", "half": "model-truncated"}
    assert refused.value.code == known.get(name, "upscaler-not-one")
    assert "(" + "detail)" not in str(refused.value)


def test_nothing_else_takes_the_stand_in_for_torchvision(tmp_path: Path) -> None:
    load_upscaler(str(make_upscaler(tmp_path / "x2.safetensors")), CPU)
    found = sys.modules.get("torchvision")
    assert found is None or found.__spec__ is not None


def test_it_enlarges_between_two_passes(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    upscaler = make_upscaler(tmp_path / "My x4.safetensors", scale=4)
    hires = Hires(scale=1.5, upscaler=str(upscaler), strength=0.3)
    report, _ = generate(engine, models["sd15"], hires=hires)
    other, _ = generate(engine, models["sd15"], hires=Hires(scale=1.5, upscaler="lanczos", strength=0.3))
    assert pixels(report).shape == (48, 48, 3)
    assert not (pixels(report) == pixels(other)).all()
    assert hires.upscaler_name == "My x4"
