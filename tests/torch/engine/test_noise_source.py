"""Noise as NVIDIA's cards draw it, and the seed of the noise that samplers add, against A1111's numbers."""

import json
import math
from collections.abc import Iterator
from contextlib import ExitStack
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
from diffusers import DiffusionPipeline
from PIL import Image
from tests.helpers.engine_runs import OPTIONS, generate, pixels
from tests.helpers.tiny import load_tiny

from halftone.contract.errors import HalftoneError
from halftone.engine.basics.philox import normal
from halftone.engine.inputs.noise_source import another_seed_for_steps, begun_below_noise_alone, churned_at_first, noise_of_cards
from halftone.engine.sampling.samplers import make_scheduler
from halftone.engine.sampling.solver_table import SOLVERS, solve
from halftone.engine.sampling.solvers import Run
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
    with noise_of_cards(pipe, 0):
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
        with noise_of_cards(pipe, 0), another_seed_for_steps(pipe, 0, ENSD):
            start, noise = latents_of(pipe, generator), step_noise(pipe, generator)
        wanted = drawn(7, 0, start), drawn(7 + ENSD, 0, noise)
    else:
        with another_seed_for_steps(pipe, 0, ENSD):
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


@pytest.mark.parametrize("cards", [True, False])
@pytest.mark.parametrize("method", ["Euler", "Heun", "DPM2"])
def test_churn_is_added_before_every_step(pipe: Any, method: str, cards: bool) -> None:
    options = {"s_churn": 3.0, "s_tmin": 0.1, "s_tmax": 20.0, "s_noise": 1.05, "noise_source": int(cards)}
    native, taken = pipe.scheduler, {name: value for name, value in options.items() if name != "noise_source"}
    pipe.scheduler = scheduler = make_scheduler(native, f"{method} Karras", taken)
    scheduler.set_timesteps(5)
    generator = torch.Generator().manual_seed(7)
    with ExitStack() as stack:
        if cards:
            stack.enter_context(noise_of_cards(pipe, 0))
        stack.enter_context(churned_at_first(pipe, options))
        x = pipe.prepare_latents(1, 4, 32, 32, torch.float32, torch.device("cpu"), generator)
        for time, sigma in zip(scheduler.timesteps, scheduler.sigmas, strict=False):
            output = (x - torch.tanh(x / (1 + sigma))) / sigma
            x = scheduler.step(output, time, x, generator=generator, return_dict=False)[0]
    noises = (drawn(7, draw, x) for draw in count()) if cards else drawn_on_the_processor(7, x)
    run = Run(scheduler.levels, lambda *_: next(noises), s_noise=1.05, churn=(3.0, 0.1, 20.0))
    start = next(noises) * run.sigma
    start = start + next(noises) * (1.05 * math.sqrt(run.churned(0) ** 2 - run.sigma**2))
    wanted = solve(SOLVERS[method], run, start, lambda x, sigma: torch.tanh(x / (1 + sigma)))
    assert torch.allclose(x, wanted, atol=1e-4)


def drawn_on_the_processor(seed: int, like: torch.Tensor) -> Iterator[torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randn(like.shape, generator=generator)


def test_a_picture_has_its_churn_from_the_first_step_on(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    Image.new("RGB", (32, 32), (200, 90, 20)).save(path := tmp_path / "sun.png")
    asked: dict[str, Any] = {"prompt": "a red sun", "seed": 5, "steps": 3, "sampler": "Euler Karras"}
    starts: list[dict[str, Any]] = [{}, {"image": str(path)}]
    for started in starts:
        plain, churned, first = (
            pixels(generate(engine, models["sd15"], **asked, **started, options=options)[0])
            for options in ({}, {"s_churn": 1.0}, {"s_churn": 1.0, "s_tmin": 5.0})
        )
        assert not np.array_equal(plain, churned)
        assert not np.array_equal(churned, first)


def test_a_seed_that_it_cannot_begin_with_is_refused(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    with pytest.raises(HalftoneError, match="Seed"):
        generate(engine, models["sd15"], prompt="a", seed=2**40, steps=1, options={"noise_source": 1})


@pytest.mark.parametrize(
    ("begin", "flag"),
    [(noise_of_cards, "--noise-source"), (partial(another_seed_for_steps, delta=ENSD), "--eta-noise-seed-delta")],
)
def test_a_seed_that_is_too_large_says_what_limits_it(begin: Any, flag: str) -> None:
    with pytest.raises(HalftoneError, match=f"Seed with {flag} cannot be {2**40}"), begin(None, 2**40):
        pass


def test_a_flow_model_that_begins_below_noise_alone_begins_with_less(models: dict[str, Path]) -> None:
    pipe: Any = load_tiny(models["sd3"])

    def first() -> torch.Tensor:
        drawn = torch.Generator().manual_seed(3)
        return pipe.prepare_latents(1, 4, 32, 32, torch.float32, torch.device("cpu"), drawn)

    whole = first()
    with begun_below_noise_alone(pipe, 0.5):
        assert torch.equal(first(), whole * 0.5)


def test_the_ends_of_a_flow_schedule_reach_the_picture(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    asked: dict[str, Any] = {"prompt": "a red sun", "seed": 5, "steps": 3, "sampler": "Euler Karras"}
    seen: list[tuple[float, ...]] = []
    for ends in ({}, {"sigma_max": 0.5}, {"sigma_min": 0.3}):
        made = pixels(generate(engine, models["sd3"], **asked, options={**OPTIONS["sd3"], **ends})[0])
        seen.append(tuple(made.ravel().tolist()))
    assert len(set(seen)) == 3
