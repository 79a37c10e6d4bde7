"""FreeU against ComfyUI's numbers and diffusers' own, and in whole pictures."""

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
from tests.helpers.engine_runs import OPTIONS, generate, pixels
from tests.helpers.tiny import load_tiny
from tests.helpers.waves import unet_of_waves, wave

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Hires
from halftone.engine.sampling.freeu import FreeU, freeu_of, put_freeu
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.calls import Call, run_call

pytestmark = pytest.mark.filterwarnings("ignore")  # what the libraries say while tiny models are made and run
REFERENCE: Final = json.loads((Path(__file__).parents[2] / "references" / "steering.json").read_text())
FACTORS: Final = ((1.5, 1.6), (0.7, 0.3), (0.0, 1.0))
INPUTS: Final = (wave((1, 4, 16, 16), 1.0), torch.tensor([301.0]), wave((1, 7, 32), 2.0))


def relative(made: torch.Tensor, wanted: torch.Tensor) -> float:
    return float((made - wanted).norm() / wanted.norm())


@pytest.mark.parametrize("version", ["V1", "V2"])
def test_it_is_that_of_comfyui(version: str) -> None:
    unet = unet_of_waves()
    wanted = torch.tensor(REFERENCE[f"FreeU {version}"]).reshape(1, 4, 16, 16)
    plain = unet(*INPUTS).sample
    with put_freeu(unet, FreeU(version, *FACTORS)):
        made = unet(*INPUTS).sample
    assert relative(made, wanted) <= 1e-4
    assert relative(plain, wanted) > 1e-2
    assert torch.equal(unet(*INPUTS).sample, plain), "it ends with the block"


@pytest.mark.parametrize("size", [16, 24])
def test_it_is_that_of_diffusers_to_the_bit(size: int) -> None:
    unet, given = unet_of_waves(), (wave((2, 4, size, size), 1.0), torch.tensor(301.0), wave((2, 7, 32), 2.0))
    unet.enable_freeu(s1=0.7, s2=0.3, b1=1.5, b2=1.6)
    wanted = unet(*given).sample
    unet.disable_freeu()
    with put_freeu(unet, FreeU("Diffusers", *FACTORS)):
        assert torch.equal(unet(*given).sample, wanted)


def test_a_repeated_call_has_it_too() -> None:
    unet, asked = unet_of_waves(), FreeU("V2", *FACTORS)
    with put_freeu(unet, asked):
        wanted = unet(*INPUTS).sample
    call = Call("unet", "forward", INPUTS, {}, step=0, within=lambda network: put_freeu(network, asked))
    assert torch.equal(run_call(call, unet, "float32").sample, wanted)


def test_numbers_that_are_not_given_are_the_usual_ones() -> None:
    assert freeu_of({"freeu": 2, "freeu_s1": 0.5}) == FreeU("V2", (1.3, 1.4), (0.5, 0.2), (0.0, 1.0))
    assert freeu_of({"freeu": 0}) is None


@pytest.mark.parametrize("family", ["sd15", "sdxl"])
def test_a_picture_of_diffusers_is_the_same(family: str, engine: DiffusersEngine, models: dict[str, Path]) -> None:
    options = {"freeu": 3, "freeu_b1": 1.5, "freeu_b2": 1.6, "freeu_s1": 0.7, "freeu_s2": 0.3}
    made, plain = (pixels(generate(engine, models[family], options=given, guidance=4.0)[0]) for given in (options, {}))
    pipe = load_tiny(models[family])
    pipe.enable_freeu(s1=0.7, s2=0.3, b1=1.5, b2=1.6)
    asked: dict[str, Any] = {"width": 32, "height": 32, "num_inference_steps": 3, "guidance_scale": 4.0}
    wanted = pipe("a red sun", **asked, generator=torch.Generator().manual_seed(5)).images[0]
    assert np.array_equal(made, np.asarray(wanted))
    assert not np.array_equal(made, plain)


def test_it_begins_and_ends_where_it_is_told_to(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    spans = {(0.0, 1.0), (0.0, 0.4), (0.6, 1.0), (0.3, 0.4)}
    made = {
        span: pixels(generate(engine, models["sd15"], options={"freeu": 1, "freeu_start": span[0], "freeu_end": span[1]})[0])
        for span in spans
    }
    plain = pixels(generate(engine, models["sd15"])[0])
    assert np.array_equal(made.pop((0.3, 0.4)), plain), "none of the three steps is in it"
    assert len({picture.tobytes() for picture in (*made.values(), plain)}) == len(made) + 1


def test_it_works_in_float16_from_a_picture_and_in_the_second_pass(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    options = {"freeu": 2}
    hires = Hires(scale=2.0, upscaler="lanczos", steps=2, strength=1.0)
    ways: tuple[dict[str, Any], ...] = ({"hires": hires}, {"precision": "float16"})
    for more in ways:
        own, plain = (generate(engine, models["sd15"], options=given, **more)[0] for given in (options, {}))
        assert {one.state for one in own.images} == {"clean"}
        assert not np.array_equal(pixels(own), pixels(plain))
    start = str(generate(engine, models["sd15"], output=str(tmp_path / "start.png"))[0].images[0].path)
    own, plain = (pixels(generate(engine, models["sd15"], options=given, image=start)[0]) for given in (options, {}))
    assert not np.array_equal(own, plain)


def test_a_fault_is_cured_with_it(engine: DiffusersEngine, models: dict[str, Path], faulty: Path) -> None:
    """The repaired picture is that of the sound model with FreeU."""
    asked: dict[str, Any] = {"family": "sd15", "options": {"freeu": 2}}
    report, _ = generate(engine, faulty, "float16", **asked)
    assert report.images[0].state == "recovered"
    wanted = pixels(generate(engine, models["sd15"], **asked)[0]).astype(int)
    plain = pixels(generate(engine, models["sd15"])[0]).astype(int)
    assert np.abs(pixels(report) - wanted).mean() < np.abs(plain - wanted).mean() / 4


def test_other_models_refuse_it_with_the_reason(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    with pytest.raises(HalftoneError, match="FreeU cannot be set with this model, which has no UNet of Stable Diffusion"):
        generate(engine, models["sd3"], options={**OPTIONS["sd3"], "freeu": 2})
