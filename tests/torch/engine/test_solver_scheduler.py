"""The scheduler that steps with Halftone's solvers, driven as diffusers' pipelines drive one."""

import copy
import json
import math
import re
from itertools import product
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from diffusers import EulerDiscreteScheduler, FlowMatchEulerDiscreteScheduler
from torch import Tensor

from halftone.contract.errors import HalftoneError
from halftone.contract.request import OptionValue
from halftone.engine.sampling.samplers import make_scheduler, sampler_name
from halftone.engine.sampling.sigma_schedules import ALIGN_YOUR_STEPS
from halftone.engine.sampling.solver_scheduler import SolverScheduler
from halftone.engine.sampling.solver_table import SOLVERS, solve
from halftone.engine.sampling.solvers import Run
from halftone.library.families.known_families import KOLORS, REFINER, SD1, SDXL
from halftone.library.samplers import FLOW_SOLVED, SOLVED

OWN: Final[dict[str, Any]] = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear"}
SHAPE: Final = (1, 4, 6, 5)
ZERO_SNR: Final = {0: 0.02916716, 250: 0.7298411, 750: 5.430343, 990: 245.9546, 998: 2254.238, 999: 4518.764}
"""Timestep -> sigma of SD 1.5 by Forge's `rescale_zero_terminal_snr_abar` (modules/sd_models.py)."""
BOUNDED: Final = json.loads((Path(__file__).parents[2] / "references" / "bounded.json").read_text())


def predict(x: Tensor, sigma: float) -> Tensor:
    return torch.tanh(0.7 * x / (1 + sigma) + 0.2) * (0.9 + 0.1 * math.cos(3 * sigma))


def made(name: str, kind: str) -> SolverScheduler:
    if kind == "flow":
        native: Any = FlowMatchEulerDiscreteScheduler(shift=3.0)
    else:
        native = EulerDiscreteScheduler(**OWN, prediction_type=kind)
    scheduler = make_scheduler(native, name)
    assert isinstance(scheduler, SolverScheduler)
    return scheduler


def output(kind: str, x: Tensor, sigma: float) -> Tensor:
    """What a network of this kind answers where it sees that picture."""
    picture = predict(x, sigma)
    if kind in ("epsilon", "flow"):
        return (x - picture) / sigma
    if kind == "v_prediction":
        return (x / (sigma**2 + 1) - picture) * math.sqrt(sigma**2 + 1) / sigma
    return picture


def run(scheduler: SolverScheduler, kind: str, steps: int, generator: torch.Generator) -> Tensor:
    scheduler.set_timesteps(steps)
    x = torch.randn(SHAPE, generator=torch.Generator().manual_seed(1)) * scheduler.init_noise_sigma
    for time, planned in zip(scheduler.timesteps, scheduler.sigmas, strict=False):
        if scheduler.is_over:
            break
        sigma = scheduler.memory["sigma"] if scheduler.is_adaptive and scheduler.memory else float(planned)
        scale = 1.0 if kind == "flow" else math.sqrt(float(sigma) ** 2 + 1)
        assert torch.allclose(scheduler.scale_model_input(x, time) * scale, x, atol=1e-5)
        x = scheduler.step(output(kind, x, float(sigma)), time, x, generator=generator, return_dict=False)[0]
    return x


@pytest.mark.parametrize(
    ("name", "kind"),
    [*product(SOLVED, ["epsilon", "v_prediction", "sample"]), *product(FLOW_SOLVED, ["flow"])],
)
def test_a_pipelines_loop_is_the_solvers(name: str, kind: str) -> None:
    scheduler = made(f"{name} Simple", kind)
    ours = run(scheduler, kind, 8, torch.Generator().manual_seed(2))
    drawn = torch.Generator().manual_seed(2)
    start = torch.randn(SHAPE, generator=torch.Generator().manual_seed(1)) * scheduler.init_noise_sigma
    plain = Run(scheduler.levels, lambda *_: torch.randn(SHAPE, generator=drawn), kind == "flow")
    plain.stochastic = scheduler.stochastic
    assert torch.allclose(ours, solve(SOLVERS[name], plain, start, predict), atol=2e-4)


@pytest.mark.parametrize("kind", ["epsilon", "flow"])
def test_eta_and_sigma_noise_reach_the_solver(kind: str) -> None:
    plain = made("Euler a Simple", kind)
    scheduler = make_scheduler(plain, "Euler a Simple", {"eta_ancestral": 0.6, "s_noise": 1.05})
    ours = run(scheduler, kind, 8, torch.Generator().manual_seed(2))
    drawn = torch.Generator().manual_seed(2)
    start = torch.randn(SHAPE, generator=torch.Generator().manual_seed(1)) * scheduler.init_noise_sigma
    same = Run(scheduler.levels, lambda *_: torch.randn(SHAPE, generator=drawn), kind == "flow", 0.6, 1.05)
    assert torch.allclose(ours, solve(SOLVERS["Euler a"], same, start, predict), atol=2e-4)
    assert not torch.allclose(ours, run(plain, kind, 8, torch.Generator().manual_seed(2)), atol=0.1)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # numpy about diffusers
@pytest.mark.parametrize(
    ("name", "remedy"),
    [("Euler Karras", "Use another sampler, or no --eta."), ("Euler a", "such as Euler a Karras, or no --eta.")],
)
def test_a_sampler_without_eta_says_so(name: str, remedy: str) -> None:
    with pytest.raises(HalftoneError, match=rf"^--eta cannot be used with the sampler .*{re.escape(remedy)}"):
        make_scheduler(EulerDiscreteScheduler(**OWN), name, {"eta_ancestral": 0.6})


def test_the_ends_the_bend_and_the_penultimate_sigma_follow_the_request() -> None:
    native = made("Euler Simple", "epsilon")
    options = {"sigma_min": 0.1, "sigma_max": 10.0, "rho": 5.0, "discard_penultimate": 1}
    scheduler = make_scheduler(native, "Euler Karras", options)
    scheduler.set_timesteps(19)
    assert scheduler.levels == pytest.approx([*BOUNDED["Karras"][:19], 0.0], rel=1e-5)
    dropping = make_scheduler(native, "DPM2 Karras", options)
    dropping.set_timesteps(19)
    assert dropping.levels == scheduler.levels, "it leaves one out in any case"


@pytest.mark.parametrize("way", ["Karras", "Exponential", "KL Optimal", "KL Optimal (ComfyUI)"])
def test_a_flow_schedule_keeps_to_its_ends(way: str) -> None:
    scheduler = make_scheduler(FlowMatchEulerDiscreteScheduler(shift=3.0), f"Euler {way}", {"sigma_min": 0.1, "sigma_max": 0.5})
    scheduler.set_timesteps(8)
    assert scheduler.levels[0] == pytest.approx(0.5)
    assert scheduler.levels[8 if way == "KL Optimal" else 7] == pytest.approx(0.1), "A1111's has no end at 0"
    assert float(scheduler.timesteps[0]) == pytest.approx(500)


@pytest.mark.parametrize(
    ("name", "options"),
    [("Euler Karras", {"sigma_max": 14.6}), ("DPM++ 2M SDE Karras", {"sigma_max": 14.6}), ("Euler Beta", {"sigma_max": 0.5})],
)
def test_a_flow_model_has_no_other_ends(name: str, options: dict[str, OptionValue]) -> None:
    with pytest.raises(HalftoneError, match="max"):
        make_scheduler(FlowMatchEulerDiscreteScheduler(shift=3.0), name, options)


def test_zero_terminal_snr_gives_the_sigmas_of_a1111() -> None:
    scheduler = make_scheduler(made("Euler Simple", "v_prediction"), "Euler Karras", {"zero_snr": 1})
    assert isinstance(scheduler, SolverScheduler)
    assert scheduler.trained_table is not None
    assert {place: float(scheduler.trained_table[place]) for place in ZERO_SNR} == pytest.approx(ZERO_SNR, rel=1e-4)
    scheduler.set_timesteps(5)
    assert scheduler.levels[0] == pytest.approx(ZERO_SNR[999], rel=1e-4)
    with pytest.raises(HalftoneError, match="--noise-schedule cannot be used with the sampler Euler Simple"):
        make_scheduler(FlowMatchEulerDiscreteScheduler(), "Euler Simple", {"zero_snr": 1})


@pytest.mark.parametrize(
    ("name", "options", "said"),
    [
        ("Euler Simple", {"sigma_min": 0.1}, "--sigma-min cannot be used with the sampler Euler Simple"),
        ("Euler Exponential", {"rho": 5.0}, "--rho cannot be used with the sampler Euler Exponential"),
        ("Euler Karras", {"sigma_min": 10.0, "sigma_max": 5.0}, "Schedule min sigma"),
    ],
)
def test_a_schedule_without_such_ends_says_so(name: str, options: dict[str, OptionValue], said: str) -> None:
    with pytest.raises(HalftoneError, match=re.escape(said)):
        make_scheduler(made("Euler Simple", "epsilon"), name, options)


@pytest.mark.parametrize("name", ["Heun++ 2", "DPM++ 2S a", "ER SDE", "SEEDS 3"])
def test_a_copy_in_the_middle_ends_the_same(name: str) -> None:
    scheduler, drawn = made(f"{name} Karras", "epsilon"), torch.Generator().manual_seed(2)
    scheduler.set_timesteps(6)
    x, again = torch.randn(SHAPE, generator=torch.Generator().manual_seed(1)) * scheduler.init_noise_sigma, None
    state: Any = None
    for place, (time, sigma) in enumerate(zip(scheduler.timesteps, scheduler.sigmas, strict=False)):
        if place == 4:
            state, again = (copy.deepcopy(scheduler), drawn.get_state()), x.clone()
        x = scheduler.step(output("epsilon", x, float(sigma)), time, x, generator=drawn, return_dict=False)[0]
    assert again is not None
    other, noise = state[0], torch.Generator()
    noise.set_state(state[1])
    for time, sigma in list(zip(other.timesteps, other.sigmas, strict=False))[4:]:
        again = other.step(output("epsilon", again, float(sigma)), time, again, generator=noise, return_dict=False)[0]
    assert torch.equal(again, x)


def test_a_picture_begins_at_the_sigma_of_its_first_step() -> None:
    for kind in ("epsilon", "flow"):
        scheduler = made("Euler Simple", kind)
        scheduler.set_timesteps(10)
        picture, noise = torch.ones(SHAPE), torch.full(SHAPE, 2.0)
        scheduler.set_begin_index(4)
        sigma = float(scheduler.sigmas[4])
        noisy = scheduler.add_noise(picture, noise, scheduler.timesteps[4:5])
        expected = (1 - sigma) * picture + sigma * noise if kind == "flow" else picture + sigma * noise
        assert torch.allclose(noisy, expected)


def test_flow_models_take_the_shift_of_a_pipeline() -> None:
    native = FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True)
    scheduler = make_scheduler(native, "Euler Simple")
    scheduler.set_timesteps(sigmas=[1.0, 0.75, 0.5, 0.25], mu=1.15)
    shift = math.exp(1.15)
    assert scheduler.levels == pytest.approx([shift * t / (1 + (shift - 1) * t) for t in (1.0, 0.75, 0.5, 0.25)] + [0.0])
    assert scheduler.timesteps.tolist() == pytest.approx([1000 * level for level in scheduler.levels[:-1]])


@pytest.mark.parametrize(("kind", "expected"), [("epsilon", (0.571189, 5.092408)), ("flow", (0.428571, 0.923077))])
def test_sa_solver_adds_noise_where_comfyui_does(kind: str, expected: tuple[float, float]) -> None:
    assert made("SA-Solver Simple", kind).stochastic == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("steps", "ups"), [(10, 0), (20, 1), (40, 2)])
def test_restart_goes_up_again_and_calls_the_network_as_often(steps: int, ups: int) -> None:
    scheduler = made("Restart Karras", "epsilon")
    scheduler.set_timesteps(steps)
    assert sum(after > before for before, after in zip(scheduler.levels, scheduler.levels[1:], strict=False)) == ups
    assert len(scheduler.timesteps) == 2 * steps - 1


def test_align_your_steps_follows_the_family() -> None:
    kinds = dict.fromkeys((SDXL.name, REFINER.name, KOLORS.name), "SDXL") | dict.fromkeys((SD1.name, ""), "SD 1.5")
    for family, kind in kinds.items():
        scheduler = make_scheduler(EulerDiscreteScheduler(**OWN), "Euler Align Your Steps", family=family)
        scheduler.set_timesteps(11)
        assert scheduler.levels == pytest.approx([*ALIGN_YOUR_STEPS[kind], 0.0])
        assert sampler_name(scheduler) == "Euler Align Your Steps"


@pytest.mark.parametrize("steps", [4, 19, 20])
def test_restart_ends_with_a_schedule_that_leaves_noise(steps: int) -> None:
    scheduler = made("Restart KL Optimal", "epsilon")
    assert bool(torch.isfinite(run(scheduler, "epsilon", steps, torch.Generator().manual_seed(2))).all())


@pytest.mark.parametrize("name", ["DPM++ 2M SDE", "DPM++ SDE", "SEEDS 2"])
def test_rounding_does_not_hide_that_a_flow_model_begins_at_noise_alone(name: str) -> None:
    rounded, exact = made(f"{name} KL Optimal", "flow"), made(f"{name} Simple", "flow")
    for scheduler in (rounded, exact):
        scheduler.set_timesteps(8)
    assert rounded.levels[0] == exact.levels[0] < 1 - 1e-5
