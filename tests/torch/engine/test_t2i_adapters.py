"""T2I-Adapters: the picture that diffusers makes with them, alone and beside ControlNets, from every form of file."""

import inspect
import warnings
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from diffusers import StableDiffusionAdapterPipeline, StableDiffusionXLAdapterPipeline
from PIL import Image
from tests.helpers.adapters import AdapterForm, Shape, eightfold, make_adapter, save_adapter
from tests.helpers.controls import make_net, picture, save_net
from tests.helpers.engine_runs import OPTIONS, check, generate, pixels
from tests.helpers.tiny import load_tiny

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Control, Hires
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.extras.control_nets import ControlNets
from halftone.engine.extras.controls import read_controls
from halftone.engine.service import DiffusersEngine

PIPELINES = {"sd15": StableDiffusionAdapterPipeline, "sdxl": StableDiffusionXLAdapterPipeline}
SIZE: dict[str, Any] = {"width": 64, "height": 64}
PAIR: list[tuple[Shape, int]] = [("full_adapter", 1), ("light_adapter", 2)]
CASES: list[tuple[str, Shape]] = [("sd15", "full_adapter"), ("sd15", "light_adapter"), ("sdxl", "full_adapter_xl")]


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("eightfold")
    with quiet_libraries():
        return {family: eightfold(folder / family, family) for family in PIPELINES}


@pytest.fixture(scope="module")
def square(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return picture(tmp_path_factory.mktemp("pictures") / "square.png", 64, 64)


def shown(path: Path) -> Image.Image:
    with Image.open(path) as opened:
        return opened.convert("RGB")


def drawn(model: Path, family: str, adapter: Any, image: Any, scale: Any) -> Any:
    """As diffusers itself makes the picture, in [0, 255]."""
    pipe = load_tiny(model)
    kind: Any = PIPELINES[family]
    known = inspect.signature(kind).parameters
    given = {name: part for name, part in pipe.components.items() if name in known}
    with quiet_libraries(), warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # its pipeline decodes by a method that diffusers will remove
        pipe = kind(**given, adapter=adapter, **({"requires_safety_checker": False} if family == "sd15" else {}))
        pipe.set_progress_bar_config(disable=True)
        arguments = {**OPTIONS[family], "num_inference_steps": 3, "generator": torch.Generator("cpu").manual_seed(5)}
        made = pipe("a red sun", image=image, adapter_conditioning_scale=scale, **SIZE, output_type="np", **arguments)
    return made.images[0] * 255


@pytest.mark.parametrize("form", get_args(AdapterForm))
@pytest.mark.parametrize(("family", "shape"), CASES)
def test_the_picture_is_the_one_that_diffusers_makes(
    engine: DiffusersEngine, models: dict[str, Path], square: Path, tmp_path: Path, family: str, shape: Shape, form: AdapterForm
) -> None:
    adapter = make_adapter(models[family], shape)
    control = Control(path=str(save_adapter(adapter, tmp_path / "adapter", form)), image=str(square), scale=0.7)
    report, _ = generate(engine, models[family], family=family, controls=(control,), **SIZE)
    plain, _ = generate(engine, models[family], family=family, **SIZE)
    theirs = drawn(models[family], family, adapter, shown(square), 0.7)
    assert abs(pixels(report).astype(float) - theirs).max() <= 1
    assert not (pixels(report) == pixels(plain)).all()


def test_grey_pictures_and_odd_sizes(engine: DiffusersEngine, models: dict[str, Path], square: Path, tmp_path: Path) -> None:
    grey = make_adapter(models["sd15"], "full_adapter", inputs=1)
    control = Control(path=str(save_adapter(grey, tmp_path / "grey", "original")), image=str(square))
    report, _ = generate(engine, models["sd15"], controls=(control,), **SIZE)
    theirs = drawn(models["sd15"], "sd15", grey, shown(square).convert("L"), 1.0)
    assert abs(pixels(report).astype(float) - theirs).max() <= 1
    large = make_adapter(models["sdxl"], "full_adapter_xl")
    control = Control(path=str(save_adapter(large, tmp_path / "large")), image=str(square))
    report, _ = generate(engine, models["sdxl"], family="sdxl", controls=(control,), width=40, height=24)
    assert pixels(report).shape == (24, 40, 3)


def test_beside_another_and_a_controlnet(engine: DiffusersEngine, models: dict[str, Path], square: Path, tmp_path: Path) -> None:
    """Features are summed as diffusers' MultiAdapter sums them, residuals as its MultiControlNetModel does."""
    one, two = (make_adapter(models["sd15"], shape, seed=seed) for shape, seed in PAIR)
    net = make_net(models["sd15"], hint=(4, 8, 8, 8))
    paths = [
        save_adapter(one, tmp_path / "one"),
        save_adapter(two, tmp_path / "two", "original"),
        save_net(net, tmp_path / "net"),
    ]
    controls = tuple(
        Control(path=str(path), image=str(square), scale=scale) for path, scale in zip(paths, (0.3, 0.6, 0.8), strict=True)
    )
    report, _ = generate(engine, models["sd15"], controls=controls[:2], **SIZE)
    theirs = drawn(models["sd15"], "sd15", [one, two], [shown(square)] * 2, [0.3, 0.6])
    assert abs(pixels(report).astype(float) - theirs).max() <= 1
    all_three, _ = generate(engine, models["sd15"], controls=controls, **SIZE)
    assert not (pixels(report) == pixels(all_three)).all()
    assert engine.loaded is not None
    together: Any = read_controls(engine.loaded, [str(path) for path in paths])
    assert isinstance(together, ControlNets)
    torch.manual_seed(4)
    given = torch.randn(1, 4, 8, 8), 500, torch.randn(1, 7, 16)
    hint = torch.rand(1, 3, 64, 64)
    with torch.no_grad():
        down, middle = together(*given, [hint] * 3, [0.3, 0.6, 0.8])
        beside, own_middle = net(*given, hint, 0.8, return_dict=False)
        inside = [0.3 * left + 0.6 * right for left, right in zip(one(hint), two(hint), strict=True)]
    for ours, expected in zip([*down, middle], [*beside, *inside, own_middle], strict=True):
        assert torch.allclose(ours, expected, atol=1e-6)


def test_with_a_start_picture_a_mask_a_batch_and_a_second_pass(
    engine: DiffusersEngine, models: dict[str, Path], square: Path, tmp_path: Path
) -> None:
    start = str(picture(tmp_path / "start.png", 64, 64))
    ways: tuple[dict[str, Any], ...] = ({"image": start}, {"image": start, "mask": str(square)}, {"batch": 2}, {"hires": Hires()})
    for family, shape in (("sd15", "full_adapter"), ("sdxl", "full_adapter_xl")):
        adapter = save_adapter(make_adapter(models[family], shape), tmp_path / family)  # type: ignore[arg-type]
        control = (Control(path=str(adapter), image=str(square)),)
        for given in ways:
            with_it, _ = generate(engine, models[family], family=family, controls=control, steps=4, **SIZE, **given)
            without, _ = generate(engine, models[family], family=family, steps=4, **SIZE, **given)
            assert with_it.images[-1].state == "clean"
            assert not (pixels(with_it) == pixels(without)).all()


def test_only_in_its_part_of_the_steps(engine: DiffusersEngine, models: dict[str, Path], square: Path, tmp_path: Path) -> None:
    path = str(save_adapter(make_adapter(models["sd15"], "full_adapter"), tmp_path / "adapter"))
    made = [
        pixels(
            generate(engine, models["sd15"], controls=(Control(path=path, image=str(square), start=start, end=end),), **SIZE)[0]
        )
        for start, end in ((0, 1), (0, 0.4), (0.4, 1))
    ]
    assert len({one.tobytes() for one in made}) == 3


def loud(model: Path) -> Any:
    """One whose first block overflows in float16 inside: what one layer makes too large the next makes small again."""
    adapter = make_adapter(model, "full_adapter")
    block = adapter.adapter.body[0].resnets[0]
    with torch.no_grad():
        for part, bits in ((block.block1, 21), (block.block2, -21)):
            part.weight.mul_(2.0**bits)
        block.block1.bias.mul_(2.0**21)
    return adapter


def test_an_overflow_in_it_is_found_and_cured(
    engine: DiffusersEngine, models: dict[str, Path], square: Path, tmp_path: Path
) -> None:
    control = (Control(path=str(save_adapter(loud(models["sd15"]), tmp_path / "loud")), image=str(square)),)
    wide, _ = generate(engine, models["sd15"], "float32", controls=control, **SIZE)
    report, _ = generate(engine, models["sd15"], "float16", controls=control, **SIZE)
    assert report.images[0].state == "recovered"
    assert {(event.component, event.module.partition(".")[0]) for event in report.images[0].events} == {("controlnet", "adapter")}
    assert abs(pixels(report).astype(float) - pixels(wide)).mean() < 2


def test_a_check_names_its_layer(engine: DiffusersEngine, models: dict[str, Path], square: Path, tmp_path: Path) -> None:
    control = (Control(path=str(save_adapter(loud(models["sd15"]), tmp_path / "loud")), image=str(square)),)
    found, _ = check(engine, models["sd15"], controls=control)
    over = [finding for finding in found.findings if finding.code.endswith("overflow")]
    assert {finding.component for finding in over} == {"controlnet"}
    assert found.plan.verified


def test_one_for_another_unet_is_refused_by_name(
    engine: DiffusersEngine, models: dict[str, Path], square: Path, tmp_path: Path
) -> None:
    small = save_adapter(make_adapter(models["sd15"], "full_adapter"), tmp_path / "small")
    large = save_adapter(make_adapter(models["sdxl"], "full_adapter_xl"), tmp_path / "large", "original")
    for model, path, detail in (
        ("sdxl", small, "its size input is none, and the model's is SDXL"),
        ("sd15", large, "its size input is SDXL, and the model's is none"),
    ):
        with pytest.raises(HalftoneError) as caught:
            generate(engine, models[model], family=model, controls=(Control(path=str(path), image=str(square)),), **SIZE)
        assert caught.value.code == "control-other-base"
        assert str(caught.value.facts["detail"]).startswith(detail)
