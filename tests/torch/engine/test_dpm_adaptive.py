"""DPM adaptive in whole pictures: it decides while it runs how many calls it makes, in a loop that a pipeline has set before."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
from PIL import Image
from tests.helpers.engine_runs import Steady, generate, pixels
from tests.helpers.tiny import load_tiny

from halftone.contract.messages import StepDone
from halftone.contract.request import Start
from halftone.engine.sampling.dpm_solvers import ADAPTIVE_TRIES
from halftone.engine.sampling.samplers import make_scheduler
from halftone.engine.sampling.sigma_schedules import Diffusion
from halftone.engine.sampling.solver_table import SOLVERS, solve
from halftone.engine.sampling.solvers import Run
from halftone.engine.service import DiffusersEngine

GUIDANCE: Final = 3.0
ASKED: Final[dict[str, Any]] = {
    "prompt": "a red sun", "negative": "blue", "seed": 5, "steps": 4, "guidance": GUIDANCE,
    "sampler": "DPM adaptive Karras", "options": {"eta_ancestral": 0.0},
}  # fmt: skip


def test_a_picture_is_that_of_the_formula(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    report, recorder = generate(engine, models["sd15"], **ASKED)
    pipe = load_tiny(models["sd15"])
    scheduler = make_scheduler(pipe.scheduler, ASKED["sampler"])
    scheduler.set_timesteps(4)
    trained, calls = Diffusion(scheduler.trained_table), 0
    with torch.no_grad():
        words, others = pipe.encode_prompt("a red sun", "cpu", 1, True, "blue")

        def predict(x: torch.Tensor, sigma: float) -> torch.Tensor:
            nonlocal calls
            calls += 1
            scaled = torch.cat([x, x]) / (sigma**2 + 1) ** 0.5
            plain, guided = pipe.unet(scaled, torch.tensor(trained.time(sigma)), torch.cat([others, words])).sample.chunk(2)
            return x - sigma * (plain + GUIDANCE * (guided - plain))

        edge = 32 // pipe.vae_scale_factor
        drawn = torch.randn(1, 4, edge, edge, generator=torch.Generator().manual_seed(5))
        run = Run(scheduler.levels, lambda *_: pytest.fail("no noise"), eta=0.0)
        latents = solve(SOLVERS["DPM adaptive"], run, drawn * scheduler.init_noise_sigma, predict)
        picture = pipe.vae.decode(latents / pipe.vae.config.scaling_factor).sample
    wanted = np.asarray(pipe.image_processor.postprocess(picture)[0]).astype(int)
    assert np.abs(wanted - pixels(report)).max() <= 1
    told = recorder.of(StepDone)
    assert 3 < calls < 3 * ADAPTIVE_TRIES
    assert (len(told), told[-1].step, told[-1].steps) == (calls, calls, calls)


def test_it_begins_at_a_picture(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    Image.new("RGB", (32, 32), (200, 90, 20)).save(path := tmp_path / "sun.png")
    made = {
        strength: pixels(generate(engine, models["sd15"], **ASKED, image=str(path), start=Start(strength=strength))[0])
        for strength in (0.3, 0.9)
    }
    assert not np.array_equal(made[0.3], made[0.9])


def test_it_can_be_stopped_and_kept(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    report, _ = generate(engine, models["sd15"], **ASKED, control=Steady(keep_after=2))
    assert report.images[0].steps == 2
