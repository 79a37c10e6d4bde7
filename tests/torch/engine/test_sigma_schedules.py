"""Sigmas of every named schedule against those that A1111, Forge and ComfyUI compute for the same name."""

import json
import math
from functools import partial
from itertools import product
from pathlib import Path
from typing import Final

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from halftone.contract.request import split_sampler
from halftone.engine.sampling.sigma_schedules import (
    ALIGN_YOUR_STEPS,
    SCHEDULES,
    Bounded,
    Flow,
    Schedule,
    Trained,
    align_your_steps,
    karras,
    polyexponential,
    trained_betas,
    without_penultimate,
)
from halftone.library.samplers import by_comfyui, sampler_called

REFERENCE: Final = json.loads((Path(__file__).parents[2] / "references" / "sigmas.json").read_text())
BOUNDED: Final = json.loads((Path(__file__).parents[2] / "references" / "bounded.json").read_text())
STABLE_DIFFUSION: Final = trained_betas(np.linspace(0.00085**0.5, 0.012**0.5, 1000) ** 2)
KINDS: Final[dict[str, Trained]] = {
    "SD 1.5": STABLE_DIFFUSION,
    "SDXL": STABLE_DIFFUSION,
    "SD 3": Flow(3.0),
    "FLUX.1": Flow(math.exp(1.15), 10000),
    "AuraFlow": Flow(1.73),
    "Wan": Flow(8.0),
}
CASES: Final = [
    (program, kind, name, int(steps))
    for program, kinds in REFERENCE.items()
    for kind, names in kinds.items()
    for name, by_steps in names.items()
    for steps in by_steps
]


def schedule(program: str, kind: str, name: str) -> Schedule:
    if name == "Align Your Steps":
        return align_your_steps(ALIGN_YOUR_STEPS[kind])
    called = sampler_called(f"Euler {name}")
    assert called is not None
    return SCHEDULES[split_sampler(by_comfyui(called) if program == "comfyui" else called)[1]]


@pytest.mark.parametrize("name", BOUNDED)
def test_other_ends_and_another_bend_give_the_sigmas_of_a1111(name: str) -> None:
    bent = {"Karras": partial(karras, rho=5.0), "Polyexponential": partial(polyexponential, rho=2.0)}
    ours = bent.get(name, SCHEDULES[name])(Bounded(STABLE_DIFFUSION, 0.1, 10.0), 20)
    np.testing.assert_allclose(ours, BOUNDED[name], rtol=1e-4, atol=1e-8)


@pytest.mark.parametrize(("program", "kind", "name", "steps"), CASES)
def test_the_same_name_means_the_same_sigmas(program: str, kind: str, name: str, steps: int) -> None:
    ours = schedule(program, kind, name)(KINDS[kind], steps)
    np.testing.assert_allclose(ours, REFERENCE[program][kind][name][str(steps)], rtol=1e-4, atol=1e-8)


@given(
    st.sampled_from(sorted(SCHEDULES)),
    st.sampled_from(sorted(KINDS)),
    st.integers(1, 150),
)
def test_sigmas_only_fall(name: str, kind: str, steps: int) -> None:
    sigmas = SCHEDULES[name](KINDS[kind], steps)
    assert np.isfinite(sigmas).all()
    assert len(sigmas) > 1
    assert (np.diff(sigmas) <= 1e-12).all()
    assert sigmas[-1] == 0 or name in ("KL Optimal", "Time Uniform")


def test_the_sigma_before_the_end_can_be_left_out() -> None:
    for steps, name in product((4, 20), SCHEDULES):
        sigmas = SCHEDULES[name](STABLE_DIFFUSION, steps)
        kept = without_penultimate(sigmas)
        assert kept.tolist() == [*sigmas[:-2], sigmas[-1]]
