"""A refiner that begins after a share of the steps, as in ComfyUI, with any sampler and schedule."""

import json
import math
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from diffusers import EulerDiscreteScheduler
from PIL import Image
from tests.helpers.engine_runs import generate, pixels
from tests.torch.engine.test_refiner import Failing
from tests.torch.engine.test_solver_scheduler import OWN, SHAPE, output

from halftone.contract.errors import HalftoneError, remedy, sentence
from halftone.contract.messages import StepDone
from halftone.contract.request import PictureRequest, Refiner, Start
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.making.division import divided
from halftone.engine.sampling.samplers import make_scheduler
from halftone.engine.sampling.sigma_schedules import SCHEDULES
from halftone.engine.service import DiffusersEngine
from halftone.health.pictures.imported_settings import Known, import_settings
from halftone.health.pictures.unfinished_pictures import read_kept
from halftone.library.models import describe
from halftone.metadata.comfy import parameters_of

CALLS: Final = {"Euler Karras": (8, 2), "Euler Exponential": (8, 2), "Euler": (8, 2), "DPM++ SDE Karras": (16, 3)}
"""Sampler -> calls of the base and of the refiner: 8 and 2 of 10 steps; the last one of DPM++ SDE has one call."""


def refined(engine: DiffusersEngine, models: dict[str, Path], refiner: Path, **changes: Any) -> Any:
    wanted = Refiner(path=str(refiner), at=changes.pop("at", 0.8), by_steps=True)
    asked: dict[str, Any] = {"steps": 10, "guidance": 4.0, "refiner": wanted, **changes}
    return generate(engine, models["sdxl"], **asked)


@pytest.mark.parametrize("sampler", CALLS)
def test_the_base_makes_that_share_of_the_steps(
    engine: DiffusersEngine, models: dict[str, Path], refiner: Path, sampler: str
) -> None:
    report, told = refined(engine, models, refiner, sampler=sampler)
    assert tuple(one.steps for one in report.images[0].passes) == CALLS[sampler]
    assert {event.ahead for event in told.of(StepDone) if event.in_pass == 1} == {CALLS[sampler][1]}


@pytest.mark.parametrize("scheduler", ["karras", "exponential", "simple"])
def test_a_picture_of_comfyui_is_made_with_its_steps(
    engine: DiffusersEngine, models: dict[str, Path], refiner: Path, scheduler: str
) -> None:
    """20 steps, of which the second sampler makes those from 16 on."""
    shared: dict[str, Any] = {"steps": 20, "cfg": 4.0, "sampler_name": "dpmpp_2m", "scheduler": scheduler}
    shared |= {"positive": ["3", 0], "negative": ["4", 0]}
    first: dict[str, Any] = {"add_noise": "enable", "noise_seed": 5, "start_at_step": 0, "end_at_step": 16}
    first |= {"return_with_leftover_noise": "enable", "model": ["1", 0], "latent_image": ["5", 0]}
    last: dict[str, Any] = {"add_noise": "disable", "noise_seed": 5, "start_at_step": 16, "end_at_step": 10000}
    nodes: dict[str, tuple[str, dict[str, Any]]] = {
        "1": ("CheckpointLoaderSimple", {"ckpt_name": "sdxl.safetensors"}),
        "2": ("CheckpointLoaderSimple", {"ckpt_name": "refiner.safetensors"}),
        "3": ("CLIPTextEncode", {"text": "a red sun", "clip": ["1", 1]}),
        "4": ("CLIPTextEncode", {"text": "blurry", "clip": ["1", 1]}),
        "5": ("EmptyLatentImage", {"width": 64, "height": 64, "batch_size": 1}),
        "6": ("KSamplerAdvanced", {**shared, **first}),
        "7": ("KSamplerAdvanced", {**shared, **last, "model": ["2", 0], "latent_image": ["6", 0]}),
        "8": ("VAEDecode", {"samples": ["7", 0], "vae": ["2", 2]}),
        "9": ("SaveImage", {"images": ["8", 0]}),
    }
    graph = json.dumps({name: {"class_type": kind, "inputs": inputs} for name, (kind, inputs) in nodes.items()})
    here = [describe(str(models["sdxl"])), describe(str(refiner))]
    request = import_settings(parameters_of(graph), PictureRequest(prompt="", model=str(models["sdxl"])), Known(here)).request
    assert (request.steps, request.refiner) == (20, Refiner(path=str(refiner), at=0.8, by_steps=True))
    report, _ = generate(engine, models["sdxl"], steps=20, sampler=request.sampler, refiner=request.refiner)
    assert [one.steps for one in report.images[0].passes] == [16, 4]


def test_a_start_picture_leaves_out_steps_of_the_base(
    engine: DiffusersEngine, models: dict[str, Path], refiner: Path, tmp_path: Path
) -> None:
    Image.new("RGB", (32, 32), (200, 40, 40)).save(tmp_path / "start.png")
    begun: dict[str, Any] = {"image": str(tmp_path / "start.png"), "start": Start(strength=0.5)}
    report, _ = refined(engine, models, refiner, sampler="Heun Karras", **begun)
    assert [one.steps for one in report.images[0].passes] == [8, 3]
    with pytest.raises(HalftoneError) as caught:
        refined(engine, models, refiner, sampler="Heun Karras", at=0.4, **begun)
    assert "none would be left for the base model" in sentence(caught.value.as_facts())


def test_the_refiner_continues_where_it_was_stopped(engine: DiffusersEngine, models: dict[str, Path], refiner: Path) -> None:
    asked: dict[str, Any] = {"sampler": "Heun Karras", "at": 0.6, "precision": "float16"}
    whole, _ = refined(engine, models, refiner, emit=Failing(engine, 1), **asked)
    left, _ = refined(engine, models, refiner, emit=Failing(engine, 1), on_black="stop", **asked)
    (stopped,) = left.images
    assert stopped.latents is not None
    assert read_kept(Path(stopped.latents)).in_pass == 2
    fresh = DiffusersEngine()
    again, _ = generate(fresh, models["sdxl"], "float16", emit=Failing(fresh, 0), resume_latents=stopped.latents)
    assert (pixels(again) == pixels(whole)).all()
    assert [one.steps for one in again.images[0].passes] == [12, 7]


def made(name: str, part: tuple[int, int] | None = None) -> Any:
    return make_scheduler(EulerDiscreteScheduler(**OWN), name, part=part)


def steps_of(scheduler: Any, steps: int, x: torch.Tensor) -> torch.Tensor:
    scheduler.set_timesteps(steps)
    for time, sigma in zip(scheduler.timesteps, scheduler.sigmas, strict=False):
        seen = scheduler.scale_model_input(x, time) * float(sigma**2 + 1) ** 0.5
        x = scheduler.step(output("epsilon", seen, float(sigma)), time, x).prev_sample
    return x


@pytest.mark.parametrize("sampler", ["Euler Karras", "Heun Exponential", "DPM2 Karras", "Euler Beta"])
def test_two_parts_of_a_sampler_without_memory_are_the_whole(sampler: str) -> None:
    """ComfyUI: 16 of 20 steps by the base, 4 by the refiner, whatever the schedule."""
    x = torch.randn(SHAPE, generator=torch.Generator().manual_seed(1)) * 14.6
    between = steps_of(made(sampler, (0, 16)), 20, x)
    torch.testing.assert_close(steps_of(made(sampler, (16, 20)), 20, between), steps_of(made(sampler), 20, x))


@pytest.mark.parametrize(("part", "scale"), [((0, 16), 1.0), ((16, 20), math.hypot(0.0292, 1)), (None, math.hypot(0.0292, 1))])
def test_latents_for_the_refiner_keep_their_scale(part: tuple[int, int] | None, scale: float) -> None:
    """A1111's UniPC ends with latents and noise of variance 1, where nothing goes on."""
    scheduler, latents = made("UniPC Time Uniform", part), torch.ones(1, 1, 2, 2)
    scheduler.set_timesteps(20)
    for time in scheduler.timesteps:
        (latents, *_) = scheduler.step(torch.zeros_like(latents), time, latents, return_dict=False)
    assert float(latents.mean()) == pytest.approx(1 / scale, abs=1e-4)


def test_heun_ends_each_part_with_steps_of_lower_order() -> None:
    """ComfyUI gives it the sigmas of the part, where Heun++ makes its last two steps with two calls and one."""
    for part, calls in (((0, 16), 14 * 3 + 2 + 1), ((16, 20), 2 * 3 + 2 + 1)):
        scheduler = made("Heun++ 2 Karras", part)
        scheduler.set_timesteps(20)
        assert len(scheduler.timesteps) == calls


@pytest.mark.parametrize("schedule", sorted(SCHEDULES))
def test_every_schedule_is_divided_after_the_same_step(schedule: str) -> None:
    found = divided(made(f"DPM++ 2M {schedule}"), 20, Refiner(path="", at=0.8, by_steps=True))
    assert (found.begun, found.left, found.step) == (16, 4, 16)


def test_samplers_of_diffusers_are_divided_at_a_share_of_their_noise() -> None:
    native = EulerDiscreteScheduler(**OWN, use_karras_sigmas=True)
    with quiet_libraries():
        for steps, at in ((20, 0.8), (25, 0.8), (30, 0.9), (30, 2 / 3)):
            found = divided(native, steps, Refiner(path="", at=at, by_steps=True))
            assert (found.begun, found.left, found.step) == (round(at * steps), steps - round(at * steps), None)
        with pytest.raises(HalftoneError) as caught:
            divided(native, 400, Refiner(path="", at=0.99, by_steps=True))
    assert "Use another switch point: steps 396 and 397 share a timestep." in remedy(caught.value.as_facts())


@pytest.mark.parametrize("name", ["Restart Karras", "DPM adaptive Karras", "DDIM CFG++ Karras", "PNDM"])
def test_samplers_whose_steps_cannot_be_divided_are_refused(name: str) -> None:
    with pytest.raises(HalftoneError) as caught, quiet_libraries():
        divided(made(name), 20, Refiner(path="", by_steps=True))
    assert sentence(caught.value.as_facts()) == f"Sampler cannot be {name} together with a refiner."
