"""Noise of the steps as A1111 and ComfyUI draw it, and how strong the first noise is there."""

import json
import math
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
from diffusers import DiffusionPipeline
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image
from tests.helpers.engine_runs import generate, pixels
from tests.helpers.tiny import load_tiny

from halftone.contract.request import Hires, Start
from halftone.engine.basics.philox import normal
from halftone.engine.sampling.samplers import make_scheduler
from halftone.engine.sampling.solver_scheduler import SolverScheduler
from halftone.engine.sampling.solver_table import SOLVERS
from halftone.engine.sampling.step_noise import Brownian, Draw, of_card, of_processor
from halftone.engine.service import DiffusersEngine
from halftone.library.sampler_options import BROWNIAN as NAMES

REFERENCE: Final = json.loads((Path(__file__).parents[2] / "references" / "brownian.json").read_text())
SHAPE: Final = torch.Size((1, 4, 4, 4))
TRAINING: Final[dict[str, Any]] = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
CPU, NV, COMFYUI, COMFYUI_GPU = range(4)
BROWNIAN: Final = tuple(name for name, solver in SOLVERS.items() if solver.brownian)
SEED: Final = 2**40 + 7


def test_these_samplers_take_no_other_seed_for_their_steps() -> None:
    assert set(BROWNIAN) == set(NAMES)


@pytest.mark.parametrize(("source", "draw"), [("CPU", of_processor), ("NV", of_card)])
@pytest.mark.parametrize("seed", REFERENCE["CPU"])
def test_sde_noise_is_that_of_torchsde(source: str, draw: Draw, seed: str) -> None:
    for row in REFERENCE[source][seed]:
        tree = Brownian(int(seed), SHAPE, row["low"], row["high"], draw)
        for sigma, after, numbers in row["noise"]:
            assert tree.noise(sigma, after).flatten()[::9].tolist() == pytest.approx(numbers, abs=1e-5)


@given(
    st.integers(0, 2**64 - 1), st.lists(st.sampled_from((14.6, 9.0, 7.315, 7.0, 2.5, 0.5, 0.04, 0.03)), min_size=4, max_size=12)
)
def test_what_was_asked_before_does_not_matter(seed: int, sigmas: list[float]) -> None:
    """To the bit: a picture that was stopped goes on as if it had not been."""
    tree = Brownian(seed, SHAPE, 0.03, 14.6, of_processor)
    for sigma, after in pairwise(sigmas):
        fresh = Brownian(seed, SHAPE, 0.03, 14.6, of_processor)
        assert torch.equal(tree.noise(sigma, after), fresh.noise(sigma, after))


def test_a_step_goes_on_where_the_one_before_ended() -> None:
    drawn: list[int] = []

    def draw(seed: int, shape: torch.Size) -> torch.Tensor:
        drawn.append(seed)
        return of_processor(seed, shape)

    tree, sigmas = Brownian(3, SHAPE, 0.03, 14.6, draw), np.linspace(14.6, 0.03, 21)
    for sigma, after in pairwise(sigmas):
        tree.noise(sigma, after)
    assert len(drawn) < 21 * 25, "each sigma is looked up once"


@pytest.fixture
def pipe(models: dict[str, Path]) -> DiffusionPipeline:
    return load_tiny(models["sd15"])


def scheduler_of(pipe: Any, sampler: str, source: int, steps: int = 6) -> SolverScheduler:
    made = make_scheduler(pipe.scheduler, sampler)
    made.noise_seed, made.noise_source = SEED, source
    made.set_timesteps(steps)
    return made


def added(scheduler: SolverScheduler, place: int) -> torch.Tensor:
    """The noise of one call, with variance 1."""
    latents = torch.zeros(SHAPE)
    scheduler.set_begin_index(place)
    scheduler._step_index = None
    drawn = torch.Generator().manual_seed(1)
    made, _ = scheduler.step(latents, scheduler.timesteps[place], latents, generator=drawn, return_dict=False)
    return made / made.std() if float(made.std()) else made


def alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    return torch.allclose(one / one.norm(), other / other.norm(), atol=1e-5)


@pytest.mark.parametrize("name", BROWNIAN)
@pytest.mark.parametrize(
    ("source", "draw"), [(CPU, of_processor), (NV, of_card), (COMFYUI, of_processor), (COMFYUI_GPU, of_card)]
)
def test_sde_samplers_draw_from_the_motion_of_the_whole_schedule(pipe: Any, name: str, source: int, draw: Draw) -> None:
    scheduler = scheduler_of(pipe, f"{name} Karras", source)
    sigma, after = scheduler.calls[0][2], scheduler.levels[1] if scheduler.order == 1 else scheduler.calls[1][2]
    tree = Brownian(SEED, SHAPE, scheduler.levels[-2], scheduler.levels[0], draw)
    assert alike(added(scheduler, 0), tree.noise(sigma, after))


@pytest.mark.parametrize(("source", "begins"), [(NV, 0), (COMFYUI, 3)])
def test_comfyui_knows_the_rest_of_the_schedule_alone(pipe: Any, source: int, begins: int) -> None:
    scheduler = scheduler_of(pipe, "DPM++ 2M SDE Karras", source)
    whole = list(scheduler.levels)
    place = scheduler.begin_after(3, 6)
    tree = Brownian(SEED, SHAPE, whole[-2], whole[begins], of_card if source == NV else of_processor)
    assert alike(added(scheduler, place), tree.noise(whole[3], whole[4]))


def test_ancestral_samplers_of_comfyui_begin_again_with_the_seed_on_the_card(pipe: Any) -> None:
    scheduler = scheduler_of(pipe, "Euler a Karras", COMFYUI)
    for draw in range(3):
        expected = torch.from_numpy(normal(SEED, draw, SHAPE.numel())).reshape(SHAPE)
        assert alike(added(scheduler, draw), expected)
    again = scheduler_of(pipe, "Euler a Karras", CPU)
    assert alike(added(again, 0), torch.randn(SHAPE, generator=torch.Generator().manual_seed(1))), (
        "the generator goes on elsewhere"
    )


@pytest.mark.parametrize("schedule", ["Karras", "Normal", "SGM Uniform"])
def test_comfyui_begins_a_little_stronger_where_nothing_of_a_picture_is_left(schedule: str) -> None:
    for source, scale in ((CPU, 14.6146), (COMFYUI, math.hypot(14.6146, 1))):
        scheduler = SolverScheduler(solver="Euler", schedule=schedule, **TRAINING)
        scheduler.noise_source = source
        scheduler.set_timesteps(20)
        assert scheduler.init_noise_sigma == pytest.approx(scale, rel=1e-5)
        blank, noise = torch.zeros(SHAPE), torch.ones(SHAPE)
        assert float(scheduler.add_noise(blank, noise, scheduler.timesteps[:1]).mean()) == pytest.approx(scale, rel=1e-5)
        place = scheduler.begin_after(10, 20)
        later = float(scheduler.add_noise(blank, noise, scheduler.timesteps[place : place + 1]).mean())
        assert later == pytest.approx(scheduler.calls[place][2], rel=1e-6), "part of the picture is left there"


def test_pictures_repeat_and_differ_by_their_source(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    asked: dict[str, Any] = {"prompt": "a red sun", "seed": 5, "steps": 4}
    for sampler, same in (("DPM++ 2M SDE Karras", ()), ("Euler a Karras", ((COMFYUI, COMFYUI_GPU),))):
        made = {
            source: pixels(generate(engine, models["sd15"], **asked, sampler=sampler, options={"noise_source": source})[0])
            for source in (CPU, NV, COMFYUI, COMFYUI_GPU)
        }
        again = pixels(generate(engine, models["sd15"], **asked, sampler=sampler, options={"noise_source": COMFYUI})[0])
        assert np.array_equal(made[COMFYUI], again)
        for one, other in ((CPU, NV), (CPU, COMFYUI), (COMFYUI, COMFYUI_GPU), (NV, COMFYUI_GPU)):
            assert np.array_equal(made[one], made[other]) == ((one, other) in same), (sampler, one, other)


def test_each_pass_of_comfyui_begins_with_the_seed(
    engine: DiffusersEngine, models: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    added_noise: list[torch.Tensor] = []
    add_noise = SolverScheduler.add_noise

    def seen(self: SolverScheduler, original_samples: torch.Tensor, noise: torch.Tensor, timesteps: torch.Tensor) -> torch.Tensor:
        added_noise.append(noise)
        return add_noise(self, original_samples, noise, timesteps)

    monkeypatch.setattr(SolverScheduler, "add_noise", seen)
    hires = Hires(scale=2.0, upscaler="latent", steps=2)
    generate(engine, models["sd15"], sampler="Euler a Karras", seed=5, hires=hires, options={"noise_source": COMFYUI})
    (noise,) = added_noise
    assert torch.equal(noise.float(), torch.randn(noise.shape, generator=torch.Generator().manual_seed(5)))


@pytest.mark.parametrize(("sampler", "steps", "strength", "calls"), [
    ("Euler Karras", 20, 0.5, 11), ("Euler Karras", 20, 1.0, 20), ("Euler Karras", 20, 0.01, 1), ("Euler", 20, 0.5, 10),
    ("DDIM CFG++ DDIM Uniform", 4, 0.3, 1), ("Heun++ 2 Normal", 4, 0.3, 3),
])  # fmt: skip
def test_as_many_steps_follow_a_start_picture_as_in_a1111(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, sampler: str, steps: int, strength: float, calls: int
) -> None:
    """int(min(strength, 0.999) * steps) + 1 of them, one more than in diffusers. The last of DDIM CFG++ makes no call, the first
    of two of Heun++ makes two.
    """
    start = tmp_path / "start.png"
    Image.new("RGB", (32, 32), (60, 120, 200)).save(start)
    begun: dict[str, Any] = {"image": str(start), "start": Start(strength=strength), "width": None, "height": None}
    report, _ = generate(engine, models["sd15"], sampler=sampler, steps=steps, **begun)
    assert report.images[0].state == "clean"
    assert report.images[0].steps == calls
