"""ControlNet-LLLite: the UNet's answers are those of sd-scripts, and nothing of it is left afterwards."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tests.helpers.adapters import eightfold
from tests.helpers.controls import make_net, picture, save_net
from tests.helpers.engine_runs import check, generate, pixels
from tests.helpers.formula_nets import formula_lit_inputs, formula_lit_unet, formula_lllite
from tests.helpers.loras import make_lora

from halftone.contract.errors import HalftoneError
from halftone.contract.plan import Plan
from halftone.contract.request import Control, Hires, Lora, Numerics
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.extras.control_nets import parted
from halftone.engine.extras.controls import with_controls
from halftone.engine.loading.load import Loaded, exact_source
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.precision import damaged, exact_weights
from halftone.library.learned import remember
from halftone.measure.devices import find_device
from halftone.measure.pictures import psnr

REFERENCES = Path(__file__).parents[2] / "references"
SIZE: dict[str, Any] = {"width": 64, "height": 64, "family": "sdxl"}
_VALUES = "lllite_unet_input_blocks_4_1_transformer_blocks_0_attn1_to_v"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model with a UNet of SDXL's blocks, two files for it and a picture."""
    folder, unet = tmp_path_factory.mktemp("lllite"), formula_lit_unet()
    with quiet_libraries():
        eightfold(folder / "model", "sdxl", unet)
    for name, seed in (("one", 3000), ("two", 5000)):
        save_file(formula_lllite(unet, seed), folder / f"{name}.safetensors")
    picture(folder / "square.png", 64, 64)
    return folder


def control(folder: Path, name: str = "one", **given: Any) -> Control:
    return Control(path=str(folder / f"{name}.safetensors"), image=str(folder / "square.png"), **given)


def of(engine: DiffusersEngine) -> Loaded:
    assert engine.loaded is not None
    return engine.loaded


def answer(engine: DiffusersEngine, folder: Path, names: Sequence[str], shown: Any, strengths: Any) -> torch.Tensor:
    """What the UNet gives in float64 with these files."""
    loaded, given = of(engine), formula_lit_inputs()
    with_controls(loaded, [control(folder, name) for name in names])
    unet, net = loaded.modules["unet"].double(), loaded.controlnet.double()
    sample, words = given["sample"].double(), given["words"].double()
    with torch.no_grad():
        down, middle = net(sample, 500, words, shown, strengths, return_dict=False)
        more = {"down_block_additional_residuals": down, "mid_block_additional_residual": middle}
        more, within = parted(net, more)
        added = {"text_embeds": given["pooled"].double(), "time_ids": given["sizes"].double()}
        with within(unet):
            return unet(sample, 500, words, added_cond_kwargs=added, **more).sample.flatten()[::3]


def test_the_unet_gives_what_it_gives_in_sd_scripts(folder: Path) -> None:
    engine = DiffusersEngine()
    generate(engine, folder / "model", **SIZE)
    expected = json.loads((REFERENCES / "lllite.json").read_text())
    shown = formula_lit_inputs()["picture"].double()
    cases: dict[str, tuple[list[str], Any, Any]] = {
        "plain": (["one"], shown, 0.0),
        "0.5": (["one"], shown, 0.5),
        "1.0": (["one"], shown, 1.0),
        "1.7": (["one"], shown, 1.7),
        "two": (["one", "two"], [shown, 1 - shown], [1.0, 0.6]),
    }
    for case, given in cases.items():
        wanted = torch.tensor(expected[case], dtype=torch.float64)
        found = answer(engine, folder, *given)
        assert (found - wanted).norm() <= 1e-7 * wanted.norm(), case
        plain = torch.tensor(expected["plain"], dtype=torch.float64)
        assert case == "plain" or (plain - wanted).norm() > 0.01 * wanted.norm()


def test_beside_others_in_every_kind_of_picture(engine: DiffusersEngine, folder: Path) -> None:
    model = folder / "model"
    generate(engine, model, **SIZE)
    decoded: list[bytes] = []
    watched: Any = of(engine).modules["vae"].decoder
    watched.register_forward_pre_hook(lambda _, latents: decoded.append(latents[0].numpy().tobytes()))
    save_net(make_net(model, hint=(4, 8, 8, 8)), folder / "net")
    make_lora(model, folder / "lora.safetensors")
    net = Control(path=str(folder / "net"), image=str(folder / "square.png"))
    ways: tuple[dict[str, Any], ...] = (
        {},
        {"controls": (control(folder),)},
        {"controls": (control(folder, scale=0.5),)},
        {"controls": (control(folder, end=0.4),)},
        {"controls": (control(folder), control(folder, "two"))},
        {"controls": (net, control(folder))},
        {"controls": (control(folder),), "loras": (Lora(path=str(folder / "lora.safetensors")),)},
        {"controls": (control(folder),), "image": str(folder / "square.png")},
        {"controls": (control(folder),), "prompt": "a red sun AND a hill"},
        {"controls": (control(folder),), "guidance": 4.0, "options": {"pag_scale": 2.0}},
        {"controls": (control(folder),), "batch": 2, "hires": Hires()},
        {"controls": (control(folder),), "width": 72, "height": 40},
    )
    several: list[dict[str, Any]] = [{**SIZE, "steps": 4, **given} for given in ways]
    made = [generate(engine, model, **given)[0] for given in several]
    assert {one.images[-1].state for one in made} == {"clean"}
    assert len(set(decoded)) == len(decoded) >= len(ways)


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_without_it_the_model_is_as_it_was_bit_for_bit(folder: Path, precision: Any) -> None:
    engine = DiffusersEngine()
    first, _ = generate(engine, folder / "model", precision, **SIZE)
    before = {key: value.clone() for key, value in exact_weights(of(engine).modules["unet"]).items()}
    during, _ = generate(engine, folder / "model", precision, controls=(control(folder),), **SIZE)
    loaded = of(engine)
    assert any("lllite" in name for name in exact_weights(loaded.modules["unet"]))
    assert damaged(loaded.modules["unet"], exact_source(loaded, "unet"), loaded.states["unet"]) == []
    again, _ = generate(engine, folder / "model", precision, **SIZE)
    now = exact_weights(of(engine).modules["unet"])
    assert now.keys() == before.keys()
    assert all(torch.equal(now[key], before[key]) and now[key].dtype == before[key].dtype for key in before)
    assert (pixels(first) == pixels(again)).all()
    assert not (pixels(first) == pixels(during)).all()


def test_a_cure_of_the_model_alone_holds_with_it(folder: Path) -> None:
    engine, one = DiffusersEngine(), (control(folder),)
    before, _ = generate(engine, folder / "model", controls=one, **SIZE)
    loaded = of(engine)
    values = [name for name in exact_weights(loaded.modules["unet"]) if name.endswith("attn1.to_v.weight")]
    scaled = dict.fromkeys(values, -3) | {name.replace("to_v", "to_out.0"): 3 for name in values}
    layers = tuple(name for name, _ in loaded.modules["unet"].named_modules() if name.endswith("attn1.to_k"))
    plan = Plan(rescale={"unet": scaled}, upcast={"unet": layers}, verified=True)
    remember(loaded.facts, find_device("auto"), "float32", plan, Numerics(precision="float32"))
    after, _ = generate(engine, folder / "model", controls=one, **SIZE)
    assert of(engine).states["unet"].rescale.items() >= scaled.items()
    assert psnr(pixels(after), pixels(before)) > 60


def loud(folder: Path, place: str = _VALUES) -> Control:
    """One that overflows in float16 inside: what one layer makes too large the next makes small again."""
    tensors = load_file(folder / "one.safetensors")
    for part, bits in (("down", 20), ("mid", -20)):
        tensors[f"{place}.{part}.0.weight"] = tensors[f"{place}.{part}.0.weight"] * 2.0**bits
    tensors[f"{place}.down.0.bias"] = tensors[f"{place}.down.0.bias"] * 2.0**20
    save_file(tensors, folder / "loud.safetensors")
    return control(folder, "loud")


@pytest.mark.parametrize("layer", ["to_v", "to_q", "to_k"])
def test_an_overflow_in_it_is_found_and_cured(engine: DiffusersEngine, folder: Path, layer: str) -> None:
    """On a processor the attention makes numbers of queries and keys that are none, so the result shows nothing of these."""
    one = (loud(folder, _VALUES.replace("to_v", layer)),)
    found, _ = check(engine, folder / "model", controls=one, family="sdxl")
    over = [finding for finding in found.findings if finding.code.endswith("overflow")]
    assert over
    assert all("lllite" in finding.module for finding in over)
    assert found.plan.verified
    wide, _ = generate(engine, folder / "model", controls=one, **SIZE)
    report, _ = generate(engine, folder / "model", "float16", controls=one, **SIZE)
    assert report.images[0].finite
    assert abs(pixels(report).astype(float) - pixels(wide)).mean() < 4


def test_one_for_another_unet_is_refused_by_name(engine: DiffusersEngine, models: dict[str, Path], folder: Path) -> None:
    for model, family in ((models["sdxl"], "sdxl"), (models["sd15"], "sd15")):
        with pytest.raises(HalftoneError) as caught:
            generate(engine, model, family=family, controls=(control(folder),))
        assert caught.value.code == "control-other-base"
        plain, _ = generate(engine, model, family=family)
        assert plain.images[0].state == "clean"
