"""CFG++ in a whole picture: the solver gets what the network gives for the negative prompt."""

from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest
import torch
from tests.helpers.engine_runs import generate, pixels
from tests.helpers.tiny import load_tiny

from halftone.engine.sampling.samplers import make_scheduler
from halftone.engine.sampling.solver_table import SOLVERS, solve
from halftone.engine.sampling.solvers import Run
from halftone.engine.service import DiffusersEngine

STEPS: Final = 4
GUIDANCE: Final = 3.0
ASKED: Final[dict[str, Any]] = {"prompt": "a red sun", "negative": "blue", "seed": 5, "steps": STEPS}


@pytest.mark.parametrize("method", ["Euler CFG++", "DPM++ 2M CFG++"])
def test_a_picture_is_that_of_the_formula(method: str, engine: DiffusersEngine, models: dict[str, Path]) -> None:
    report, _ = generate(engine, models["sd15"], sampler=f"{method} Karras", guidance=GUIDANCE, **ASKED)
    pipe = load_tiny(models["sd15"])
    with torch.no_grad():
        words, others = pipe.encode_prompt("a red sun", "cpu", 1, True, "blue")
        scheduler = _scheduler(pipe, method)

        def parts(x: torch.Tensor, sigma: float) -> tuple[torch.Tensor, torch.Tensor]:
            time = scheduler.timesteps[[call[2] for call in scheduler.calls].index(sigma)]
            scaled = torch.cat([x, x]) / (sigma**2 + 1) ** 0.5
            plain, guided = pipe.unet(scaled, time, torch.cat([others, words])).sample.chunk(2)
            return x - sigma * (plain + GUIDANCE * (guided - plain)), x - sigma * plain

        edge = 32 // pipe.vae_scale_factor
        drawn = torch.randn(1, 4, edge, edge, generator=torch.Generator().manual_seed(5))
        run = Run(scheduler.levels, lambda *_: pytest.fail("no noise"))
        start = drawn * scheduler.init_noise_sigma
        latents = solve(SOLVERS[method], run, start, lambda x, s: parts(x, s)[0], lambda x, s: parts(x, s)[1])
        picture = pipe.vae.decode(latents / pipe.vae.config.scaling_factor).sample
    wanted = np.asarray(pipe.image_processor.postprocess(picture)[0]).astype(int)
    assert np.abs(wanted - pixels(report)).max() <= 1


def test_it_differs_from_the_plain_sampler_only_with_guidance(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    made = {
        (name, guidance): pixels(generate(engine, models["sd15"], sampler=name, guidance=guidance, **ASKED)[0])
        for name in ("Euler CFG++ Karras", "Euler Karras")
        for guidance in (1.0, GUIDANCE)
    }
    assert (made["Euler CFG++ Karras", 1.0] == made["Euler Karras", 1.0]).all()
    assert (made["Euler CFG++ Karras", GUIDANCE] != made["Euler Karras", GUIDANCE]).any()


def _scheduler(pipe: Any, method: str) -> Any:
    scheduler = make_scheduler(pipe.scheduler, f"{method} Karras")
    scheduler.set_timesteps(STEPS)
    return scheduler
