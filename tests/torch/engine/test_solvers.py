"""Samplers of our own against those of k-diffusion and ComfyUI: the same network, sigmas and noise give the same latents."""

import copy
import json
import math
from pathlib import Path
from typing import Final

import pytest
import torch
from torch import Tensor

from halftone.engine.sampling.dpm_solvers import ADAPTIVE_TRIES
from halftone.engine.sampling.solver_table import SOLVERS, solve
from halftone.engine.sampling.solvers import Run
from halftone.library.samplers import SOLVER_OPTIONS

FOLDER: Final = Path(__file__).parents[2] / "references"
SIGMAS: Final = json.loads((FOLDER / "sigmas.json").read_text())["comfyui"]
REFERENCE: Final = json.loads((FOLDER / "samplers.json").read_text())
CHURNED: Final = json.loads((FOLDER / "churn.json").read_text())
NOISE: Final = json.loads((FOLDER / "noise.json").read_text())
OVER_SNR: Final = tuple(name for name, solver in SOLVERS.items() if solver.over_snr)
"""These take the logarithm of signal over noise, and begin a little below noise alone."""
STOCHASTIC: Final = {"diffusion": (0.571189, 5.092408), "flow": (0.428571, 0.923077)}
"""The sigmas at 20 % and 80 % of the timesteps."""
CASES: Final = [(kind, way, name) for kind, ways in REFERENCE.items() for way, names in ways.items() for name in names]


def predict(x: Tensor, sigma: float) -> Tensor:
    """A network that answers with a picture: bent, uneven over sigma, and with neighbours that matter."""
    bent = torch.tanh(0.7 * x / (1 + sigma) + 0.2) * (0.9 + 0.1 * math.cos(3 * sigma))
    return bent + 0.05 * x.roll(1, -1) / (1 + sigma * sigma)


def unguided(x: Tensor, sigma: float) -> Tensor:
    """What the network answers to the negative prompt."""
    return 0.8 * predict(x, sigma) + 0.1 * torch.sin(x / (1 + sigma))


def loop(kind: str, way: str, name: str) -> tuple[Run, Tensor]:
    drawn = torch.Generator().manual_seed(5)
    sigmas = list(SIGMAS["SD 1.5" if kind == "diffusion" else "SD 3"][way]["20"])
    start = torch.randn(1, 2, 3, 4, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    start = start * (math.hypot(sigmas[0], 1) if SOLVERS[name].begins_at_one else sigmas[0])
    if kind == "flow" and name in OVER_SNR:
        sigmas[0] = 3 * (1 - 1e-4) / (1 + 2 * (1 - 1e-4))
    run = Run(
        SOLVERS[name].path(sigmas),
        lambda *_: torch.randn(1, 2, 3, 4, generator=drawn, dtype=torch.float64),
        kind == "flow",
        stochastic=STOCHASTIC[kind],
    )
    return run, start


@pytest.mark.parametrize(("kind", "way", "name"), CASES)
def test_the_same_latents_as_the_program_it_comes_from(kind: str, way: str, name: str) -> None:
    run, start = loop(kind, way, name)
    ours = solve(SOLVERS[name], run, start, predict, unguided).flatten()
    theirs = torch.tensor(REFERENCE[kind][way][name], dtype=torch.float64)
    assert float((ours - theirs).norm() / theirs.norm()) < 1e-5


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in NOISE.items() for name in names])
def test_eta_and_sigma_noise_as_in_the_program_it_comes_from(kind: str, name: str) -> None:
    run, start = loop(kind, "karras", name)
    run.s_noise = 1.05
    if name in SOLVER_OPTIONS["eta_ancestral"]:
        run.eta = 0.6
    ours = solve(SOLVERS[name], run, start, predict, unguided).flatten()
    theirs = torch.tensor(NOISE[kind][name], dtype=torch.float64)
    assert float((ours - theirs).norm() / theirs.norm()) < 1e-5


@pytest.mark.parametrize("name", CHURNED)
def test_churn_as_in_the_program_it_comes_from(name: str) -> None:
    run, start = loop("diffusion", "karras", name)
    run.s_noise, run.churn = 1.05, (8.0, 0.5, 20.0)
    sigma, first = run.sigma, run.churned(0)
    start = start + run.noise(sigma, first) * (1.05 * math.sqrt(first**2 - sigma**2))
    ours = solve(SOLVERS[name], run, start, predict).flatten()
    theirs = torch.tensor(CHURNED[name], dtype=torch.float64)
    assert float((ours - theirs).norm() / theirs.norm()) < 1e-5
    assert name in SOLVER_OPTIONS["s_churn"]


@pytest.mark.parametrize(("option", "field"), [("eta_ancestral", "eta"), ("s_noise", "s_noise")])
def test_the_table_names_those_that_take_an_option(option: str, field: str) -> None:
    takes: list[str] = []
    for name, solver in SOLVERS.items():
        plain, start = loop("diffusion", "karras", name)
        other, _ = loop("diffusion", "karras", name)
        if name in SOLVER_OPTIONS["s_churn"]:
            plain.churn = other.churn = (5.0, 0.0, math.inf)
        setattr(other, field, 0.5)
        same = torch.equal(solve(solver, plain, start, predict, unguided), solve(solver, other, start, predict, unguided))
        takes += [] if same else [name]
    assert sorted(takes) == sorted(SOLVER_OPTIONS[option])


@pytest.mark.parametrize("name", sorted(SOLVERS))
def test_a_loop_continues_from_a_copy_of_its_memory(name: str) -> None:
    solver = SOLVERS[name]
    run, x = loop("diffusion", "karras", name)
    run.noise = lambda sigma, after: torch.full((1, 2, 3, 4), math.sin(sigma + after), dtype=torch.float64)
    whole = solve(solver, run, x, predict)
    again, x = loop("diffusion", "karras", name)
    again.noise = run.noise
    while solver.adaptive and not again.memory.get("finished"):
        again.memory = copy.deepcopy(again.memory)
        x = solver.step(again, x, predict(x, again.memory.get("sigma", again.sigma)))
    for step in () if solver.adaptive else range(len(again.sigmas) - 1):
        again.step = step
        for stage, sigma in enumerate(solver.calls(again)):
            again.stage = stage
            again.memory = copy.deepcopy(again.memory)
            x = solver.step(again, x, predict(x, sigma))
    assert torch.equal(x, whole)


@pytest.mark.parametrize("name", sorted(SOLVERS))
@pytest.mark.parametrize("steps", [1, 2, 3])
def test_few_steps_are_finite(name: str, steps: int) -> None:
    sigmas = [*SIGMAS["SD 1.5"]["karras"]["4"][:steps], 0.0]
    run = Run(sigmas, lambda *_: torch.zeros(1, 2, 3, 4, dtype=torch.float64))
    assert bool(solve(SOLVERS[name], run, torch.full((1, 2, 3, 4), 14.0, dtype=torch.float64), predict).isfinite().all())


def test_dpm_adaptive_ends_where_the_results_never_agree() -> None:
    run, x = loop("diffusion", "karras", "DPM adaptive")
    drawn, calls = torch.Generator().manual_seed(1), 0

    def wild(_x: Tensor, _sigma: float) -> Tensor:
        nonlocal calls
        calls += 1
        return torch.randn(1, 2, 3, 4, generator=drawn, dtype=torch.float64) * 100

    assert bool(solve(SOLVERS["DPM adaptive"], run, x, wild).isfinite().all())
    assert calls == 3 * ADAPTIVE_TRIES


@pytest.mark.parametrize("steps", range(1, 9))
def test_dpm_fast_makes_a_call_for_each_step_and_may_begin_anywhere(steps: int) -> None:
    sigmas = [float(sigma) for sigma in torch.logspace(1.1, -1.5, steps)] + [0.0]
    run = Run(SOLVERS["DPM fast"].path(sigmas), lambda *_: torch.zeros(1), eta=0.0)
    assert len(run.sigmas) == steps + 1
    for begin in range(steps):
        x = torch.full((1,), run.sigmas[begin], dtype=torch.float64)
        for run.step in range(begin, steps):
            x = SOLVERS["DPM fast"].step(run, x, torch.zeros(1, dtype=torch.float64))
        assert float(x) == pytest.approx(run.sigmas[-1]), "noise alone goes down with sigma"


@pytest.mark.parametrize("name", [name for name in SOLVERS if name.endswith(" CFG++") and name != "DDIM CFG++"])
def test_without_guidance_it_is_the_plain_solver(name: str) -> None:
    run, start = loop("diffusion", "karras", name)
    plain, _ = loop("diffusion", "karras", name)
    same = SOLVERS[name.removesuffix(" CFG++")]
    assert torch.equal(solve(SOLVERS[name], run, start, predict), solve(same, plain, start, predict))


def test_the_samplers_that_leave_out_a_sigma_are_those_of_a1111_and_comfyui() -> None:
    listed = json.loads((FOLDER / "a1111_samplers.json").read_text())["samplers"]
    wanted = {name for name, known in listed.items() if known["options"].get("discard_next_to_last_sigma")}
    found = {name for name, solver in SOLVERS.items() if solver.drops_penultimate}
    assert found == wanted | {"UniPC", "UniPC BH2"}, "A1111 leaves none out for UniPC, whose schedule is its own"
