"""Perturbed-attention guidance against ComfyUI's numbers and diffusers' own pipelines, and in whole pictures."""

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
from diffusers import (
    StableDiffusionControlNetPAGPipeline,
    StableDiffusionPAGImg2ImgPipeline,
    StableDiffusionPAGPipeline,
    StableDiffusionXLPAGPipeline,
)
from PIL import Image
from tests.helpers.controls import make_net, picture, save_net
from tests.helpers.engine_runs import OPTIONS, check, generate, pixels
from tests.helpers.tiny import load_tiny
from tests.helpers.waves import unet_of_waves, wave

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Control, Hires, Start
from halftone.engine.sampling.perturbed import Perturbed, perturbed, perturbed_of
from halftone.engine.sampling.samplers import make_scheduler
from halftone.engine.sampling.steering import difference
from halftone.engine.service import DiffusersEngine

pytestmark = pytest.mark.filterwarnings("ignore")  # what the libraries say while tiny models are made and run
REFERENCE: Final = json.loads((Path(__file__).parents[2] / "references" / "steering.json").read_text())
TIME: Final = 301


def relative(made: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((made - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("guidance", [5.0, 1.0])
def test_it_is_that_of_comfyui(guidance: float, models: dict[str, Path]) -> None:
    """The reference is the picture that the guided network sees in noised latents."""
    unet, scheduler = unet_of_waves(), make_scheduler(load_tiny(models["sd15"]).scheduler, "Euler Karras")
    sigma = float(scheduler.trained_table[TIME])
    latents, own, other = wave((1, 4, 16, 16), 1.0), wave((1, 7, 32), 2.0), wave((1, 7, 32), 3.0)
    result = unet(latents.repeat(2, 1, 1, 1), TIME, torch.cat([other, own])).sample
    with perturbed(unet):
        beside = unet(latents, TIME, own).sample
    negative, positive = result.chunk(2)
    noise = negative + guidance * (positive - negative) + difference(result, beside, 3.0)
    made = latents * (sigma**2 + 1) ** 0.5 - sigma * noise
    assert relative(made, torch.tensor(REFERENCE["PAG"][str(guidance)]).reshape(made.shape)) <= 1e-4
    assert torch.equal(unet(latents.repeat(2, 1, 1, 1), TIME, torch.cat([other, own])).sample, result), "it ends with the block"
    assert relative(beside, positive) > 1e-2


@pytest.mark.parametrize(("family", "kind"), [("sd15", StableDiffusionPAGPipeline), ("sdxl", StableDiffusionXLPAGPipeline)])
@pytest.mark.parametrize("guidance", [4.0, 1.0])
def test_a_picture_is_that_of_diffusers(
    family: str, kind: Any, guidance: float, engine: DiffusersEngine, models: dict[str, Path]
) -> None:
    asked: dict[str, Any] = {"guidance": guidance, "negative": "blue" if guidance > 1 else ""}
    made, plain = (pixels(generate(engine, models[family], options=given, **asked)[0]) for given in ({"pag_scale": 3.0}, {}))
    pipe = load_tiny(models[family])
    theirs = kind(**pipe.components, **({"requires_safety_checker": False} if family == "sd15" else {}))
    theirs.set_progress_bar_config(disable=True)
    size: dict[str, Any] = {"width": 32, "height": 32, "num_inference_steps": 3, "guidance_scale": guidance, "pag_scale": 3.0}
    negative = {"negative_prompt": "blue"} if guidance > 1 else {}
    wanted = theirs("a red sun", **negative, **size, generator=torch.Generator().manual_seed(5)).images[0]
    assert np.abs(made.astype(int) - np.asarray(wanted)).max() <= 1
    assert np.abs(made.astype(int) - plain).max() > 1


@pytest.mark.parametrize("beside", ["a ControlNet", "a picture"])
def test_beside_a_controlnet_and_a_picture_it_is_that_of_diffusers(
    beside: str, engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    square, pipe = picture(tmp_path / "square.png"), load_tiny(models["sd15"])
    parts: dict[str, Any] = {**pipe.components, "requires_safety_checker": False}
    asked: dict[str, Any] = {"guidance": 4.0, "negative": "blue", "options": {"pag_scale": 9.0}}
    given: dict[str, Any] = {"image": Image.open(square), "guidance_scale": 4.0, "pag_scale": 9.0, "negative_prompt": "blue"}
    if beside == "a ControlNet":
        net = save_net(make_net(models["sd15"]), tmp_path / "net")
        theirs: Any = StableDiffusionControlNetPAGPipeline(**parts, controlnet=make_net(models["sd15"]))
        given |= {"width": 32, "height": 32, "num_inference_steps": 3}
        asked["controls"] = (Control(path=str(net), image=str(square)),)
    else:
        theirs = StableDiffusionPAGImg2ImgPipeline(**parts)
        given |= {"strength": 0.7, "num_inference_steps": 4}
        asked |= {"image": str(square), "start": Start(strength=0.7), "steps": 4, "width": None, "height": None}
    theirs.set_progress_bar_config(disable=True)
    wanted = np.asarray(theirs("a red sun", **given, generator=torch.Generator().manual_seed(5)).images[0]).astype(int)
    made = pixels(generate(engine, models["sd15"], **asked)[0]).astype(int)
    asked["options"] = {}
    plain = pixels(generate(engine, models["sd15"], **asked)[0]).astype(int)
    assert made.shape == wanted.shape
    assert np.abs(made - wanted).max() <= 1
    assert np.abs(made - plain).max() > 1


@pytest.mark.parametrize("asked", [Perturbed(3.0, 0.0, (0.0, 1.0)), Perturbed(4.0, 25.0, (0.5, 1.0))])
def test_its_strength_follows_the_steps_as_in_forge(asked: Perturbed) -> None:
    scale, wanted = asked.scale, list[float]()
    for step in range(5):
        on = asked.span[0] <= step / 4 <= asked.span[1]
        wanted.append(scale if on and scale > 0 else 0.0)
        scale -= asked.scale * asked.attenuation / 100 * on
    assert [asked.strength(done, 5) for done in range(5)] == pytest.approx(wanted)
    assert perturbed_of({}) is None


def test_steps_outside_of_its_span_are_plain(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    plain = pixels(generate(engine, models["sd15"])[0])
    spans = [(0.0, 0.4), (0.6, 1.0), (0.3, 0.4)]
    given = [{"pag_scale": 90.0, "pag_start": start, "pag_end": end} for start, end in spans]
    made = [pixels(generate(engine, models["sd15"], options=options)[0]) for options in given]
    assert [np.array_equal(picture, plain) for picture in made] == [False, False, True]
    assert not np.array_equal(made[0], made[1])


@pytest.mark.parametrize("sampler", ["Heun Karras", "Euler CFG++ Karras", "DPM adaptive Karras"])
def test_it_works_with_other_samplers_in_float16_and_in_the_second_pass(
    sampler: str, engine: DiffusersEngine, models: dict[str, Path]
) -> None:
    asked: dict[str, Any] = {"sampler": sampler, "hires": Hires(scale=2.0, upscaler="lanczos", steps=2, strength=0.9)}
    made, plain = (generate(engine, models["sd15"], "float16", options=given, **asked)[0] for given in ({"pag_scale": 3.0}, {}))
    assert made.images[0].state == "clean"
    assert not np.array_equal(pixels(made), pixels(plain))


def test_a_fault_is_cured_with_it(engine: DiffusersEngine, models: dict[str, Path], faulty: Path) -> None:
    asked: dict[str, Any] = {"family": "sd15", "options": {"pag_scale": 3.0}}
    report, _ = generate(engine, faulty, "float16", **asked)
    assert report.images[0].state == "recovered"
    wanted = pixels(generate(engine, models["sd15"], **asked)[0]).astype(int)
    assert np.abs(pixels(report) - wanted).mean() < 2


def test_a_check_makes_the_further_call_too(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    OPTIONS["sd15"]["pag_scale"] = 3.0
    try:
        assert check(engine, models["sd15"])[0].verdict == "healthy"
    finally:
        del OPTIONS["sd15"]["pag_scale"]


def test_other_models_refuse_it_with_the_reason(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    with pytest.raises(HalftoneError, match="PAG scale cannot be set with this model, which has no UNet of Stable Diffusion"):
        generate(engine, models["sd3"], options={**OPTIONS["sd3"], "pag_scale": 2.0})
