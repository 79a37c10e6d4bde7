"""Latents after each of 20 steps of whole tiny pipelines, against k-diffusion and ComfyUI with the same networks and noise.

python -m tests.torch.engine.test_trajectories
"""

import json
import tempfile
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from tests.helpers.tiny import sd3, sd15
from tests.helpers.waves import fill

from halftone.contract.request import Numerics
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.loading.load import Loaded, load_pipeline
from halftone.engine.loading.plans import apply_plan, base_plan
from halftone.engine.sampling.flight import Flight
from halftone.engine.sampling.hooks import Hooks
from halftone.engine.sampling.samplers import make_scheduler, put_scheduler
from halftone.engine.sampling.solver_scheduler import SolverScheduler
from halftone.library.models import describe

FILE: Final = Path(__file__).parents[2] / "references" / "trajectories.json"
REFERENCE: Final[dict[str, dict[str, list[list[float]]]]] = json.loads(FILE.read_text())
PLACES: Final = (0, 137, 300, 451, 602, 759, 880, 1023)
"""Of the 1024 numbers of the latents, those that are stored."""
STEPS: Final = 20
GUIDANCE: Final = {"diffusion": 5.0, "flow": 4.0}
OPTIONS: Final[dict[str, dict[str, Any]]] = {"diffusion": {}, "flow": {"shift": 3.0}}
MORE: Final[dict[str, dict[str, Any]]] = {"diffusion": {}, "flow": {"max_sequence_length": 64}}
CPU: Final = torch.device("cpu")
CASES: Final = [(kind, name) for kind, names in REFERENCE.items() for name in names]


def load(kind: str, folder: Path) -> Loaded:
    """A pipeline of random shapes whose networks have the numbers of a formula."""
    with quiet_libraries(), torch.no_grad():
        pipe = sd15() if kind == "diffusion" else sd3()
        for name in ("unet", "transformer", "text_encoder", "text_encoder_2", "text_encoder_3"):
            if getattr(pipe, name, None) is not None:
                fill(getattr(pipe, name))
        pipe.save_pretrained(folder)
        loaded = load_pipeline(describe(str(folder)), CPU)
        apply_plan(loaded, base_plan(loaded, "float32", Numerics()))
    return loaded


@pytest.fixture(scope="module")
def pipelines(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Loaded]:
    return {kind: load(kind, tmp_path_factory.mktemp(kind)) for kind in REFERENCE}


def trajectory(kind: str, name: str, loaded: Loaded) -> list[torch.Tensor]:
    """The latents after each step."""
    scheduler = make_scheduler(loaded.native_scheduler, name, OPTIONS[kind])
    assert isinstance(scheduler, SolverScheduler)
    after: dict[int, torch.Tensor] = {}
    hooks = Hooks(on_latents=lambda call, latents, _: after.update({scheduler.calls[call][0]: latents.clone()}))
    with quiet_libraries(), torch.no_grad():
        put_scheduler(loaded.pipe, scheduler)
        flight = Flight(loaded, nan_check="off", upcast_sampling=False, hooks=hooks)
        arguments = {
            "prompt": "a red sun", "negative_prompt": "blue", "guidance_scale": GUIDANCE[kind], "width": 32, "height": 32,
            "num_inference_steps": STEPS, "output_type": "latent", **MORE[kind],
        }  # fmt: skip
        flight.run(arguments, torch.Generator().manual_seed(5))
    return [after[step] for step in sorted(after)]


def error(kind: str, name: str, loaded: Loaded) -> float:
    """The largest relative error of a step."""
    found = trajectory(kind, name, loaded)
    assert len(found) == len(REFERENCE[kind][name]) == STEPS
    ours = torch.stack([latents.flatten()[list(PLACES)] for latents in found]).double()
    theirs = torch.tensor(REFERENCE[kind][name], dtype=torch.float64)
    return float(((ours - theirs).norm(dim=1) / theirs.norm(dim=1)).max())


@pytest.mark.parametrize(("kind", "name"), CASES)
def test_a_whole_pipeline_goes_the_way_of_the_other_program(kind: str, name: str, pipelines: dict[str, Loaded]) -> None:
    assert error(kind, name, pipelines[kind]) <= 1e-3


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        made = {kind: load(kind, Path(place) / kind) for kind in REFERENCE}
        errors = {case: error(*case, made[case[0]]) for case in CASES}
    for (kind, name), value in sorted(errors.items(), key=lambda one: -one[1]):
        print(f"{kind} {name}: {value:.1e}")
    print(f"{len(errors)} trajectories of {STEPS} steps, largest relative error {max(errors.values()):.1e}")
