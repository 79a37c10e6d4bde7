"""A picture that begins at another one: the solver's path is that of the steps that are left, as in A1111 and ComfyUI."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image
from tests.helpers.engine_runs import generate, pixels

from halftone.contract.request import Hires, Start, split_sampler
from halftone.engine.sampling.solver_scheduler import SolverScheduler
from halftone.engine.sampling.solver_table import SOLVERS
from halftone.engine.service import DiffusersEngine
from halftone.health.pictures.passes import steps_from_picture

TRAINING: dict[str, Any] = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}


def walked(scheduler: SolverScheduler, begin: int) -> torch.Tensor:
    """Go through the calls from one on, with a network that finds what is not noise to be a little less."""
    drawn = torch.Generator().manual_seed(5)
    latents = torch.randn(1, 2, 4, 4, generator=torch.Generator().manual_seed(3)) * scheduler.calls[begin][2]
    scheduler.set_begin_index(begin)
    for time in scheduler.timesteps[begin:]:
        if scheduler.is_over:
            break
        output = 0.9 * scheduler.scale_model_input(latents, time)
        (latents, *_) = scheduler.step(output, time, latents, generator=drawn, return_dict=False)
    return latents


@pytest.mark.parametrize("name", sorted(SOLVERS))
@pytest.mark.parametrize("left", [1, 3, 10, 24])
def test_what_is_left_is_a_schedule_of_its_own(name: str, left: int) -> None:
    """The same as a scheduler whose whole schedule is the rest."""
    whole, rest = (SolverScheduler(solver=name, schedule="Karras", **TRAINING) for _ in range(2))
    whole.set_timesteps(30)
    whole.begin_after(30 - left, 30)
    rest.set_timesteps(30)
    rest._whole = rest._whole[30 - left :]
    rest.begin_after(0, left)
    begin = (30 - left) * whole.order
    assert [call[2] for call in whole.calls[begin:]] == [call[2] for call in rest.calls]
    assert torch.equal(walked(whole, begin), walked(rest, 0))


@pytest.mark.parametrize("schedule", ["Karras", "SGM Uniform", "Simple"])
@pytest.mark.parametrize("strength", [0.3, 0.5, 0.75])
def test_restart_begins_where_euler_does(schedule: str, strength: float) -> None:
    left_out = 30 - int(30 * strength)
    begun: list[float] = []
    for name in ("Restart", "Euler"):
        scheduler = SolverScheduler(solver=name, schedule=schedule, **TRAINING)
        scheduler.set_timesteps(30)
        scheduler.begin_after(left_out, 30)
        begun.append(scheduler.calls[left_out * scheduler.order][2])
    assert begun[0] == pytest.approx(begun[1])


@pytest.mark.parametrize("sampler", ["Restart SGM Uniform", "Restart Karras", "DPM fast Karras", "Heun++ 2 Normal"])
def test_pictures_begin_there(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, sampler: str) -> None:
    """A smaller strength leaves more of the latents: two starts are nearer to each other after a larger one."""
    apart: list[float] = []
    for strength in (0.3, 0.6, 0.9):
        made: list[NDArray[Any]] = []
        for number in (60, 200):
            start = tmp_path / f"{number}.png"
            Image.new("RGB", (32, 32), (number, 255 - number, number)).save(start)
            begun: dict[str, Any] = {"image": str(start), "start": Start(strength=strength), "width": None, "height": None}
            report, _ = generate(engine, models["sd15"], steps=20, sampler=sampler, **begun)
            assert report.images[0].state == "clean"
            made.append(pixels(report).astype(float))
        apart.append(float(np.abs(made[0] - made[1]).mean()))
    assert apart == sorted(apart, reverse=True)


@pytest.mark.parametrize("sampler", ["Restart Karras", "DDIM CFG++ Karras", "Heun++ 2 Normal", "UniPC Time Uniform"])
def test_a_pipeline_makes_all_calls_of_the_rest(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, sampler: str
) -> None:
    Image.new("RGB", (32, 32), (60, 120, 200)).save(tmp_path / "start.png")
    begun: dict[str, Any] = {"image": str(tmp_path / "start.png"), "start": Start(strength=0.9), "width": None, "height": None}
    report, _ = generate(engine, models["sd15"], steps=24, sampler=sampler, **begun)
    name, schedule = split_sampler(sampler)
    scheduler = SolverScheduler(solver=name, schedule=schedule, **TRAINING)
    scheduler.set_timesteps(24)
    begin = scheduler.begin_after(24 - steps_from_picture(24, 0.9, scheduler.counting), 24)
    assert report.images[0].steps == len(scheduler.timesteps) - begin


@pytest.mark.parametrize("changes", [{}, {"hires": Hires(scale=2.0, upscaler="lanczos", steps=2)}])
def test_the_seeds_first_numbers_are_the_noise(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    """As in ComfyUI, whose encoder gives the middle of what it found; diffusers draws around it first."""
    start = tmp_path / "start.png"
    Image.new("RGB", (32, 32), (60, 120, 200)).save(start)
    added: list[torch.Tensor] = []
    add_noise = SolverScheduler.add_noise

    def seen(self: SolverScheduler, original_samples: torch.Tensor, noise: torch.Tensor, timesteps: torch.Tensor) -> torch.Tensor:
        added.append(noise)
        return add_noise(self, original_samples, noise, timesteps)

    monkeypatch.setattr(SolverScheduler, "add_noise", seen)
    begun: dict[str, Any] = {} if changes else {"image": str(start), "start": Start(strength=0.5), "width": None, "height": None}
    generate(engine, models["sd15"], sampler="Euler Karras", seed=5, **begun, **changes)
    (noise,) = added
    drawn = torch.randn(noise.shape, generator=torch.Generator().manual_seed(5))
    assert torch.equal(noise.float(), drawn)
