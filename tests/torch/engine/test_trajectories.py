"""Latents after each of 20 steps of whole tiny pipelines, against k-diffusion and ComfyUI with the same networks and noise.

python -m tests.torch.engine.test_trajectories
"""

import json
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import pytest
import torch
from tests.helpers.tiny import sd3, sd15
from tests.helpers.waves import fill

from halftone.contract.parameters import NOISE_OF_NVIDIA, NOISE_SOURCE, OPTION_PARAMETERS
from halftone.contract.request import Numerics
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.inputs.noise_source import noise_of_cards
from halftone.engine.loading.load import Loaded, load_pipeline
from halftone.engine.loading.plans import apply_plan, base_plan
from halftone.engine.sampling.flight import Flight
from halftone.engine.sampling.hooks import Hooks
from halftone.engine.sampling.samplers import make_scheduler, put_scheduler
from halftone.engine.sampling.solver_scheduler import SolverScheduler
from halftone.health.pictures.passes import steps_from_picture
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
OWN_NOISE: Final[dict[str, dict[str, dict[str, list[float]]]]] = json.loads((FILE.parent / "own_noise.json").read_text())
OWN_CASES: Final = [
    (source, kind, name) for source, kinds in OWN_NOISE.items() for kind, names in kinds.items() for name in names
]
FROM_PICTURE: Final[dict[str, list[float]]] = json.loads((FILE.parent / "unipc_from_picture.json").read_text())
SEED: Final = 5
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


def trajectory(kind: str, name: str, loaded: Loaded, source: str = "") -> list[torch.Tensor]:
    """The latents after each step. source: of the noise, else of one generator for all."""
    scheduler = make_scheduler(loaded.native_scheduler, name, OPTIONS[kind])
    assert isinstance(scheduler, SolverScheduler)
    number = OPTION_PARAMETERS[NOISE_SOURCE].named(source) or 0
    if source:
        scheduler.noise_seed, scheduler.noise_source = SEED, number
    after: dict[int, torch.Tensor] = {}
    hooks = Hooks(on_latents=lambda call, latents, _: after.update({scheduler.calls[call][0]: latents.clone()}))
    with quiet_libraries(), torch.no_grad(), ExitStack() as stack:
        put_scheduler(loaded.pipe, scheduler)
        if number == NOISE_OF_NVIDIA:
            stack.enter_context(noise_of_cards(loaded.pipe, SEED))
        flight = Flight(loaded, nan_check="off", upcast_sampling=False, hooks=hooks)
        arguments = {
            "prompt": "a red sun", "negative_prompt": "blue", "guidance_scale": GUIDANCE[kind], "width": 32, "height": 32,
            "num_inference_steps": STEPS, "output_type": "latent", **MORE[kind],
        }  # fmt: skip
        flight.run(arguments, torch.Generator().manual_seed(SEED))
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


def own_error(source: str, kind: str, name: str, loaded: Loaded) -> float:
    """The relative error of the last latents, where each program draws all noise from the seed itself."""
    ours = trajectory(kind, name, loaded, source)[-1].flatten()[list(PLACES)].double()
    theirs = torch.tensor(OWN_NOISE[source][kind][name], dtype=torch.float64)
    return float((ours - theirs).norm() / theirs.norm())


@pytest.mark.parametrize(("source", "kind", "name"), OWN_CASES)
def test_a_seed_gives_the_latents_of_the_other_program(source: str, kind: str, name: str, pipelines: dict[str, Loaded]) -> None:
    assert own_error(source, kind, name, pipelines[kind]) <= 1e-3


@pytest.mark.parametrize(("asked", "theirs"), FROM_PICTURE.items())
def test_unipc_begins_at_a_picture_as_in_a1111(asked: str, theirs: list[float], pipelines: dict[str, Loaded]) -> None:
    loaded, (steps, strength) = pipelines["diffusion"], asked.split()
    scheduler: Any = make_scheduler(loaded.native_scheduler, "UniPC Time Uniform")
    scheduler.set_timesteps(int(steps))
    left = steps_from_picture(int(steps), float(strength), scheduler.counting)
    begin = scheduler.begin_after(int(steps) - left, int(steps))
    picture = torch.arange(1024.0).cos().reshape(1, 4, 16, 16) * 2
    noise = torch.randn(picture.shape, generator=torch.Generator().manual_seed(SEED))
    with quiet_libraries(), torch.no_grad():
        own, negative = loaded.pipe.encode_prompt("a red sun", "cpu", 1, True, "blue")
        latents = scheduler.add_noise(picture, noise, scheduler.timesteps[begin : begin + 1])
        for time in scheduler.timesteps[begin:]:
            seen = torch.cat([scheduler.scale_model_input(latents, time)] * 2)
            away, to = loaded.pipe.unet(seen, time, torch.cat([negative, own])).sample.chunk(2)
            output = away + GUIDANCE["diffusion"] * (to - away)
            (latents, *_) = scheduler.step(output, time, latents, return_dict=False)
    assert latents.flatten()[list(PLACES)].tolist() == pytest.approx(theirs, rel=1e-3, abs=1e-3)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as place:
        made = {kind: load(kind, Path(place) / kind) for kind in REFERENCE}
        errors = {case: error(*case, made[case[0]]) for case in CASES}
        from_seeds = {case: own_error(*case, made[case[1]]) for case in OWN_CASES}
    for what, found in (("with the same noise", errors), ("from the same seed", from_seeds)):
        for case, value in sorted(found.items(), key=lambda one: -one[1]):
            print(f"{' '.join(case)}: {value:.1e}")
        print(f"{len(found)} trajectories of {STEPS} steps {what}, largest relative error {max(found.values()):.1e}")
