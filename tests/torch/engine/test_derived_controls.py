"""Control-LoRAs and ControlNets as differences: with the model's own weights they are the ControlNet that they were made of."""

import json
from pathlib import Path
from typing import Any, Literal

import pytest
import torch
from safetensors.torch import save_file
from tests.helpers.adapters import eightfold
from tests.helpers.controls import make_net, picture, save_changes, save_net
from tests.helpers.engine_runs import generate, pixels
from tests.helpers.formula_nets import formula_control_lora, formula_inputs, formula_net, formula_shown, formula_unet, thinned
from tests.helpers.loras import make_lora
from tests.helpers.tiny import load_tiny

from halftone.contract.request import Control, Lora
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.extras.controls import read_controls
from halftone.engine.loading.load import exact_source
from halftone.engine.service import DiffusersEngine

REFERENCES = Path(__file__).parents[2] / "references"
Form = Literal["Control-LoRA", "difference"]


@pytest.fixture(scope="module")
def square(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return picture(tmp_path_factory.mktemp("pictures") / "square.png")


@pytest.mark.parametrize("form", ["Control-LoRA", "difference"])
@pytest.mark.parametrize("family", ["sd15", "sdxl"])
def test_with_the_models_weights_it_is_the_whole_controlnet(
    engine: DiffusersEngine, models: dict[str, Path], square: Path, tmp_path: Path, family: str, form: Form
) -> None:
    net = make_net(models[family])
    with torch.no_grad():
        net.mid_block.resnets[0].conv1.weight.add_(0.1)
        net.down_blocks[0].resnets[0].conv1.weight.mul_(1.5)
    changes = save_changes(net, load_tiny(models[family]).unet, tmp_path / "changes", form)
    controls = [Control(path=str(path), image=str(square), scale=0.8) for path in (changes, save_net(net, tmp_path / "whole"))]
    ours, whole = (generate(engine, models[family], family=family, controls=(one,))[0] for one in controls)
    assert abs(pixels(ours).astype(float) - pixels(whole)).max() <= 1
    assert engine.loaded is not None
    made = read_controls(engine.loaded, [str(changes)]).state_dict()
    for name, value in net.state_dict().items():
        assert (made[name] - value).abs().max() <= 1e-5 * max(1.0, float(value.abs().max())), name


def test_a_control_lora_stands_on_the_loras_and_a_difference_does_not(
    engine: DiffusersEngine, models: dict[str, Path], square: Path, tmp_path: Path
) -> None:
    unet = load_tiny(models["sd15"]).unet
    lora = Lora(path=str(make_lora(models["sd15"], tmp_path / "lora.safetensors")))
    name = "down_blocks.0.attentions.0.transformer_blocks.0.attn1.to_q.weight"

    def weight(form: Form, *loras: Lora) -> torch.Tensor:
        file = save_changes(make_net(models["sd15"]), unet, tmp_path / form, form)
        control = (Control(path=str(file), image=str(square)),)
        report, _ = generate(engine, models["sd15"], controls=control, loras=loras)
        assert report.images[0].state == "clean"
        assert engine.loaded is not None
        return engine.loaded.controlnet.get_parameter(name).clone()

    forms: list[tuple[Form, bool]] = [("Control-LoRA", True), ("difference", False)]
    for form, follows in forms:
        plain, added = weight(form), weight(form, lora)
        assert engine.loaded is not None
        change = exact_source(engine.loaded, "unet")[name] - unet.get_parameter(name)
        assert change.abs().max() > 1e-3
        assert torch.allclose(added - plain, change if follows else torch.zeros(()), atol=1e-6)
        assert torch.equal(plain, weight(form))


def test_a_control_lora_gives_what_it_gives_in_comfyui(engine: DiffusersEngine, square: Path, tmp_path: Path) -> None:
    unet = formula_unet()
    with quiet_libraries():
        model = eightfold(tmp_path / "model", "sd15", unet)
    tensors, _ = formula_control_lora(unet)
    save_file({name: value.contiguous() for name, value in tensors.items()}, tmp_path / "lora.safetensors")
    control = (Control(path=str(tmp_path / "lora.safetensors"), image=str(square)),)
    generate(engine, model, controls=control, width=64, height=64)
    assert engine.loaded is not None
    net: Any = read_controls(engine.loaded, [control[0].path])
    latents, words, shown = formula_inputs()
    with torch.no_grad():
        down, middle = net(latents, 500, words, shown, return_dict=False)
    expected = json.loads((REFERENCES / "controls.json").read_text())["Control-LoRA"]
    for ours, theirs in zip([*down, middle], expected, strict=True):
        wanted = torch.tensor(theirs)
        assert (torch.tensor(thinned(ours)) - wanted).abs().max() <= 1e-5 * max(1.0, float(wanted.abs().max()))


def test_the_model_gives_what_it_gives_with_comfyuis_controlnets(engine: DiffusersEngine, square: Path, tmp_path: Path) -> None:
    unet = formula_unet()
    with quiet_libraries():
        model = eightfold(tmp_path / "model", "sd15", unet)
    files = [str(save_net(formula_net(unet, seed), tmp_path / f"net{seed}", "original")) for seed in (500, 600)]
    generate(engine, model, controls=(Control(path=files[0], image=str(square)),), width=64, height=64)
    assert engine.loaded is not None
    latents, words, first = (value.double() for value in formula_inputs())
    pictures = dict(zip(files, (first, formula_shown(1).double()), strict=True))
    unet.double()

    def given(scales: dict[str, float]) -> torch.Tensor:
        assert engine.loaded is not None
        several: Any = [pictures[path] for path in scales], list(scales.values())
        shown, strength = several if len(scales) > 1 else (several[0][0], several[1][0])
        net: Any = read_controls(engine.loaded, list(scales)).double()
        with torch.no_grad():
            down, middle = net(latents, 500, words, shown, strength, return_dict=False)
            beside = {"down_block_additional_residuals": down, "mid_block_additional_residual": middle}
            return unet(latents, 500, words, **beside).sample.flatten()[::3]

    expected = json.loads((REFERENCES / "controls.json").read_text())["ControlNet"]
    cases: dict[str, tuple[float, ...]] = {
        "one × 0.3": (0.3,), "one × 1.0": (1.0,), "one × 1.5": (1.5,), "both": (0.8, 0.5), "one of both": (0.8, 0.0),
    }  # fmt: skip
    for case, scales in cases.items():
        wanted = torch.tensor(expected[case], dtype=torch.float64)
        found = given(dict(zip(files, scales, strict=False)))
        assert (found - wanted).norm() <= 1e-7 * wanted.norm(), case
    wanted = torch.tensor(expected["two × 0.6"], dtype=torch.float64)
    assert (given({files[1]: 0.6}) - wanted).norm() <= 1e-7 * wanted.norm()
