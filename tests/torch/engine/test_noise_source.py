"""Noise as NVIDIA's cards draw it, and the seed of the noise that samplers add, against A1111's numbers."""

import json
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
from diffusers import DiffusionPipeline
from tests.helpers.engine_runs import generate, pixels
from tests.helpers.tiny import load_tiny

from halftone.contract.errors import HalftoneError
from halftone.engine.basics.philox import normal
from halftone.engine.inputs.noise_source import another_seed_for_steps, noise_of_cards
from halftone.engine.sampling.samplers import make_scheduler
from halftone.engine.service import DiffusersEngine

REFERENCE: Final = json.loads((Path(__file__).parents[2] / "references" / "philox.json").read_text())
ANCESTRAL: Final = "Euler a Karras"
ENSD: Final = 31337


@pytest.mark.parametrize("seed", REFERENCE)
def test_numbers_are_those_of_a_card(seed: str) -> None:
    for draw, numbers in enumerate(REFERENCE[seed]):
        assert normal(int(seed), draw, len(numbers)) == pytest.approx(numbers, rel=1e-6)


def latents_of(pipe: Any, generator: torch.Generator) -> torch.Tensor:
    made = pipe.prepare_latents(1, 4, 32, 32, torch.float32, torch.device("cpu"), generator)
    return made / pipe.scheduler.init_noise_sigma


def step_noise(pipe: Any, generator: torch.Generator) -> torch.Tensor:
    """What the sampler adds in its first step, up to a factor."""
    pipe.scheduler.set_timesteps(4)
    blank = torch.zeros(1, 4, 8, 8)
    return pipe.scheduler.step(blank, pipe.scheduler.timesteps[0], blank, generator=generator).prev_sample


@pytest.fixture
def pipe(models: dict[str, Path]) -> DiffusionPipeline:
    made = load_tiny(models["sd15"])
    made.scheduler = make_scheduler(made.scheduler, ANCESTRAL)
    return made


def drawn(seed: int, draw: int, like: torch.Tensor) -> torch.Tensor:
    return torch.from_numpy(normal(seed, draw, like.numel())).reshape(like.shape)


def alike(one: torch.Tensor, other: torch.Tensor) -> bool:
    """Whether they differ by a factor alone."""
    return torch.allclose(one / one.norm(), other / other.norm(), atol=1e-6)


def test_the_pipeline_and_its_sampler_draw_one_after_the_other(pipe: Any) -> None:
    generator = torch.Generator().manual_seed(7)
    with noise_of_cards(pipe):
        start = latents_of(pipe, generator)
        state = generator.get_state()
        noise = step_noise(pipe, generator)
        again = torch.Generator()
        again.set_state(state)
        assert torch.equal(step_noise(pipe, again), noise), "a stored state continues"
    assert torch.allclose(start, drawn(7, 0, start))
    assert alike(noise, drawn(7, 1, noise))
    assert not torch.allclose(latents_of(pipe, torch.Generator().manual_seed(7)), start), "it ends with the block"


@pytest.mark.parametrize("cards", [True, False])
def test_the_noise_of_the_steps_has_another_seed(pipe: Any, cards: bool) -> None:
    generator = torch.Generator().manual_seed(7)
    if cards:
        with noise_of_cards(pipe), another_seed_for_steps(pipe, ENSD):
            start, noise = latents_of(pipe, generator), step_noise(pipe, generator)
        wanted = drawn(7, 0, start), drawn(7 + ENSD, 0, noise)
    else:
        with another_seed_for_steps(pipe, ENSD):
            start, noise = latents_of(pipe, generator), step_noise(pipe, generator)
        wanted = tuple(
            torch.randn(one.shape, generator=torch.Generator().manual_seed(seed)) for one, seed in ((start, 7), (noise, 7 + ENSD))
        )
    assert torch.allclose(start, wanted[0])
    assert alike(noise, wanted[1])


def test_pictures_follow_and_come_again(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    asked: dict[str, Any] = {"prompt": "a red sun", "seed": 5, "steps": 3, "sampler": ANCESTRAL}
    made = [
        pixels(generate(engine, models["sd15"], **asked, options=options)[0])
        for options in ({}, {"noise_source": 1}, {"noise_source": 1}, {"noise_source": 1, "eta_noise_seed_delta": ENSD})
    ]
    assert np.array_equal(made[1], made[2])
    assert not np.array_equal(made[0], made[1])
    assert not np.array_equal(made[1], made[3])


def test_a_seed_that_it_cannot_begin_with_is_refused(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    with pytest.raises(HalftoneError, match="Seed"):
        generate(engine, models["sd15"], prompt="a", seed=2**40, steps=1, options={"noise_source": 1})
