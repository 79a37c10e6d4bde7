"""Finished pictures made larger: a new file each, with all that the old one said, and nothing of the old one changed."""

import json
import math
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageCms
from tests.helpers.engine_runs import Recorder, Steady, generate
from tests.helpers.upscalers import make_upscaler
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

from halftone.contract.errors import HalftoneError, JobCancelled
from halftone.contract.facts import GenerateReport
from halftone.contract.messages import ModelChanged, PhaseChanged, PictureReady, Upscale
from halftone.contract.request import Saving, UpscaleRequest
from halftone.engine.making import upscale
from halftone.engine.service import DiffusersEngine
from halftone.metadata.reading import read_picture


class Stopping(Steady):
    """Cancels when it is first asked."""

    def check(self) -> None:
        raise JobCancelled


@pytest.fixture(scope="module")
def upscaler(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_upscaler(tmp_path_factory.mktemp("up") / "2x-Tiny.safetensors")


def enlarged(
    engine: DiffusersEngine, upscaler: Path, *pictures: Path, emit: Recorder | None = None, **changes: Any
) -> GenerateReport:
    control = changes.pop("control", Steady())
    request = UpscaleRequest(pictures=tuple(map(str, pictures)), upscaler=str(upscaler), **changes)
    return engine.upscale(Upscale(job="u", request=request), emit or Recorder(), control)


def noise(path: Path, side: int = 40) -> Path:
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (side, side, 3), np.uint8)).save(path)
    return path


def test_a_picture_and_what_it_says_become_larger(engine: DiffusersEngine, models: dict[str, Path], upscaler: Path) -> None:
    report, _ = generate(engine, models["sd15"])
    source = Path(report.images[0].path)
    before, told = source.read_bytes(), Recorder()
    (made,) = enlarged(engine, upscaler, source, emit=told).images
    assert source.read_bytes() == before
    assert Path(made.path) == source.with_name(f"{source.stem}-2x.png")
    assert (made.width, made.height, made.state, made.dtypes) == (64, 64, "clean", {"upscaler": "float32"})
    with Image.open(made.path) as larger, Image.open(source) as small:
        expected = upscale.enlarge(small, upscale.load_upscaler(str(upscaler), torch.device("cpu")), "float32").image
        assert larger.tobytes() == expected.tobytes()
    (ready,) = told.of(PictureReady)
    assert ready.thumbnail_size > 0
    assert [(event.done, event.total) for event in told.of(PhaseChanged) if event.total] == [(1, 1)]
    old, new = read_picture(source), read_picture(Path(made.path))
    assert new.parameters == f"{old.parameters}, Postprocess upscale by: 2, Postprocess upscaler: 2x-Tiny"
    receipt = json.loads(new.receipt or "")
    assert receipt["request"] == json.loads(old.receipt or "")["request"]
    assert (receipt["upscaled"]["source"], receipt["upscaled"]["dtypes"]) == (source.name, {"upscaler": "float32"})


def test_nothing_is_overwritten_and_pictures_of_others_will_do(engine: DiffusersEngine, upscaler: Path, tmp_path: Path) -> None:
    source = noise(tmp_path / "photo.jpg")
    names = [Path(enlarged(engine, upscaler, source).images[0].path).name for _ in range(2)]
    assert names == ["photo-2x.png", "photo-2x-2.png"]
    (named,) = enlarged(engine, upscaler, source, output=str(tmp_path / "large.webp")).images
    with Image.open(named.path) as found:
        assert (found.format, found.size) == ("WEBP", (80, 80))


def test_format_and_metadata_are_those_of_the_settings(
    engine: DiffusersEngine, models: dict[str, Path], upscaler: Path, tmp_path: Path
) -> None:
    source = Path(generate(engine, models["sd15"])[0].images[0].path)
    saving = Saving(picture_format="webp", picture_quality=80, save_metadata=False)
    (made,) = enlarged(engine, upscaler, source, saving=saving).images
    assert Path(made.path).name == f"{source.stem}-2x.webp"
    found = read_picture(Path(made.path))
    assert (found.parameters, found.receipt) == (None, None)
    (named,) = enlarged(engine, upscaler, source, saving=saving, output=str(tmp_path / "large.png")).images
    assert Path(named.path).suffix == ".png", "the user chose the name"


@pytest.mark.parametrize("ending", ["png", "webp", "jpg"])
def test_transparency_and_colour_profile_stay(engine: DiffusersEngine, upscaler: Path, tmp_path: Path, ending: str) -> None:
    profile = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    source, image = tmp_path / "clear.png", Image.open(noise(tmp_path / "plain.png")).convert("RGBA")
    alpha = Image.linear_gradient("L").resize(image.size)
    image.putalpha(alpha)
    image.save(source, icc_profile=profile)
    (made,) = enlarged(engine, upscaler, source, output=str(tmp_path / f"large.{ending}")).images
    with Image.open(made.path) as found:
        assert found.info["icc_profile"] == profile
        assert found.mode == ("RGB" if ending == "jpg" else "RGBA")
        if ending != "jpg":  # which has no transparency
            assert found.getchannel("A").tobytes() == alpha.resize((80, 80), Image.Resampling.LANCZOS).tobytes()


@contextmanager
def hooked(hook: Callable[..., Any], kind: str) -> Generator[None]:
    """A hook on every module: the upscale model is read only when the job runs. kind: "pre" or "after"."""
    register = {"pre": register_module_forward_pre_hook, "after": register_module_forward_hook}[kind]
    handle = register(lambda module, *values: hook(module, *values) if type(module).__name__ == "RRDBNet" else None)
    try:
        yield
    finally:
        handle.remove()


def test_bad_numbers_in_half_precision_are_computed_again_and_told(
    engine: DiffusersEngine, upscaler: Path, tmp_path: Path
) -> None:
    def strike(module: Any, _args: Any, output: torch.Tensor) -> torch.Tensor | None:
        return output * math.inf if next(module.parameters()).dtype == torch.float16 else None

    with hooked(strike, "after"):
        (made,) = enlarged(engine, upscaler, noise(tmp_path / "a.png"), precision="float16").images
    assert (made.state, made.dtypes) == ("recovered", {"upscaler": "float32"})


def test_the_model_in_memory_makes_room(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, upscaler: Path) -> None:
    generate(engine, models["sd15"], steps=1)

    def full(_module: Any, _args: Any) -> None:
        if engine.loaded is not None:
            raise torch.OutOfMemoryError("CUDA out of memory")

    told = Recorder()
    with hooked(full, "pre"):
        (made,) = enlarged(engine, upscaler, noise(tmp_path / "a.png"), emit=told).images
    assert (made.width, engine.loaded) == (80, None)
    assert [event.model for event in told.of(ModelChanged)] == [None]


def test_the_model_in_memory_makes_room_for_the_upscale_model_itself(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, upscaler: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    generate(engine, models["sd15"], steps=1)
    moved, full = torch.nn.Module.to, [False]

    def to(module: Any, *args: Any, **options: Any) -> Any:
        if type(module).__name__ == "RRDBNet" and (engine.loaded is not None or full[0]):
            raise torch.OutOfMemoryError("CUDA out of memory")
        return moved(module, *args, **options)

    monkeypatch.setattr(torch.nn.Module, "to", to)
    assert enlarged(engine, upscaler, noise(tmp_path / "a.png")).images[0].width == 80
    assert engine.loaded is None
    full[0] = True
    with pytest.raises(HalftoneError) as refused:
        enlarged(engine, upscaler, noise(tmp_path / "a.png"))
    assert refused.value.code == "out-of-memory"


def test_it_stops_between_two_tiles_and_leaves_nothing(engine: DiffusersEngine, upscaler: Path, tmp_path: Path) -> None:
    source = noise(tmp_path / "a.png")
    with pytest.raises(JobCancelled):
        enlarged(engine, upscaler, source, control=Stopping())
    assert list(tmp_path.iterdir()) == [source]


@pytest.mark.parametrize(
    ("name", "code"),
    [
        ("gone", "image-missing"),
        ("text", "image-unreadable"),
        ("folder", "image-not-file"),
        ("half", "image-damaged"),
        ("large", "value-out-of-range"),
        ("model", "image-unreadable"),
    ],
)
def test_what_cannot_be_made_larger_is_refused(
    engine: DiffusersEngine, upscaler: Path, tmp_path: Path, name: str, code: str
) -> None:
    good = noise(tmp_path / "good.png")
    path = tmp_path / f"{name}.png"
    match name:
        case "text":
            path.write_text("no picture")
        case "folder":
            path.mkdir()
        case "half":
            path.write_bytes(good.read_bytes()[:900])
        case "large":
            Image.new("RGB", (9000, 8)).save(path)
        case "model":
            path = upscaler
        case _:
            pass
    with pytest.raises(HalftoneError) as refused:
        enlarged(engine, upscaler, path)
    assert refused.value.code == code
    assert "large.png, 2 times larger," in str(refused.value) or name != "large"
