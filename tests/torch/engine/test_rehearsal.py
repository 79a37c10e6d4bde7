"""Samplers whose own arithmetic is not finite: found out only where a run ends there, and only for the steps that it made."""

import copy
import gc
import weakref
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Final

import pytest
import torch
from diffusers import AuraFlowTransformer2DModel, EulerDiscreteScheduler, FlowMatchEulerDiscreteScheduler, SD3Transformer2DModel
from tests.bench.families import run
from tests.helpers import tiny
from tests.helpers.engine_runs import Recorder, Steady

from halftone.contract.errors import HalftoneError, JobCancelled
from halftone.contract.facts import PictureFacts
from halftone.contract.messages import Examine, Generate, PictureReady
from halftone.contract.request import Numerics, PictureRequest, Start
from halftone.engine.inputs.fitting_arguments import _largest
from halftone.engine.sampling import rehearsal
from halftone.engine.sampling.rehearsal import WHOLE, is_sound, sound_steps, tries
from halftone.engine.sampling.samplers import make_scheduler
from halftone.engine.service import DiffusersEngine

pytestmark = pytest.mark.filterwarnings("ignore")  # what the libraries say while tiny models are made and run
NO_END: Final = [0.001] * 999 + [1.0]
"""Betas whose last noise level is infinite."""
NO_BEGINNING: Final = [0.0, *[0.001] * 999]
"""Betas whose first noise level is 0, by which Euler divides."""
FIRST_HALF: Final = (0.0, 0.5)
LAST_HALF: Final = (0.5, 1.0)


def euler(betas: list[float], **config: Any) -> Any:
    return EulerDiscreteScheduler(trained_betas=betas, **config)


NEVER: Final = euler(NO_END)
NEVER_ENDS: Final = euler(NO_BEGINNING)
SOMETIMES: Final = euler(NO_END, timestep_spacing="leading", steps_offset=10)
"""Its steps are full tens: 100 of them and 10 more reach the last level, 99 or 101 do not."""


@pytest.mark.parametrize(
    ("scheduler", "steps", "share", "sound"),
    [
        (EulerDiscreteScheduler(), 1, WHOLE, True),
        (EulerDiscreteScheduler(), 10, FIRST_HALF, True),
        (NEVER, 1, WHOLE, True),  # it is the step of the lowest level
        (NEVER, 2, WHOLE, False),
        (NEVER, 10, WHOLE, False),
        (NEVER, 10, FIRST_HALF, False),
        (NEVER, 10, LAST_HALF, True),
        (NEVER_ENDS, 10, WHOLE, False),
        (NEVER_ENDS, 10, FIRST_HALF, True),
        (NEVER_ENDS, 10, LAST_HALF, False),
        (SOMETIMES, 100, WHOLE, False),
        (SOMETIMES, 100, LAST_HALF, True),
        (SOMETIMES, 101, WHOLE, True),
        (FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True), 3, WHOLE, None),
        (None, 3, WHOLE, None),
    ],
)
def test_whether_a_sampler_makes_numbers(scheduler: Any, steps: int, share: tuple[float, float], sound: bool | None) -> None:
    assert is_sound(scheduler, steps, share) is sound


@pytest.mark.parametrize("name", ["DPM2 a", "Euler a", "DPM++ 2M SDE", "LCM", "DDPM"])
def test_a_rehearsal_leaves_torch_as_it_is(name: str) -> None:
    scheduler = make_scheduler(EulerDiscreteScheduler(), name)
    before = torch.get_rng_state()
    assert is_sound(scheduler, 4)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize(
    ("scheduler", "steps", "share", "found", "tried"),
    [
        (SOMETIMES, 100, WHOLE, 101, 1),
        (SOMETIMES, 99, WHOLE, 101, 2),
        (NEVER, 3, WHOLE, None, 5),
        (NEVER, 20, WHOLE, None, 7),
        (NEVER, 3, LAST_HALF, 4, 1),
        (FlowMatchEulerDiscreteScheduler(use_dynamic_shifting=True), 20, WHOLE, None, 7),
    ],
)
def test_a_number_of_steps_that_a_sampler_can_make(
    scheduler: Any, steps: int, share: tuple[float, float], found: int | None, tried: int
) -> None:
    asked: list[None] = []
    assert sound_steps(scheduler, steps, share, lambda: asked.append(None)) == found
    assert len(asked) == tried


def test_the_search_can_be_cancelled() -> None:
    def check() -> None:
        raise JobCancelled

    with pytest.raises(JobCancelled):
        sound_steps(NEVER, 3, check=check)


@pytest.mark.parametrize("steps", [1, 2, 3, 4, 10, 50, 1000])
def test_few_numbers_of_steps_are_tried(steps: int) -> None:
    found = tries(steps)
    assert len(found) <= 7
    assert all(count > steps for count in found)
    assert list(found) == sorted(set(found))


def test_a_copy_of_a_scheduler_looks_up_its_own_steps() -> None:
    """LTX-2 copies its scheduler for the sound."""
    scheduler = make_scheduler(FlowMatchEulerDiscreteScheduler(), None)
    scheduler.set_timesteps(5)
    copied = copy.deepcopy(scheduler)
    copied.set_timesteps(8)
    assert [copied.index_for_timestep(time) for time in copied.timesteps] == list(range(8))
    assert [scheduler.index_for_timestep(time) for time in scheduler.timesteps] == list(range(5))


def test_a_copy_of_a_scheduler_adds_noise_of_its_own_levels() -> None:
    scheduler = make_scheduler(FlowMatchEulerDiscreteScheduler(), "UniPC")
    scheduler.set_timesteps(5)
    copied = copy.deepcopy(scheduler)
    copied.set_timesteps(8)
    noise = torch.ones(1, 4, 2, 2)
    made = copied.scale_noise(torch.zeros_like(noise), copied.timesteps[6:7], noise)
    torch.testing.assert_close(made, noise * float(copied.sigmas[6]))


def test_a_scheduler_goes_when_nothing_holds_it() -> None:
    gc.disable()
    try:
        scheduler = make_scheduler(FlowMatchEulerDiscreteScheduler(), "UniPC")
        held = weakref.ref(scheduler)
        del scheduler
        assert held() is None
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("kind", "places", "pixels"), [(AuraFlowTransformer2DModel, 1024, 512), (SD3Transformer2DModel, 96, 1536)]
)
def test_the_longest_edge_that_a_denoiser_has_places_for(kind: Any, places: int, pixels: int) -> None:
    """AuraFlow counts the places of the whole picture, the others those of an edge."""
    small = {"num_attention_heads": 1, "attention_head_dim": 8, "caption_projection_dim": 8, "joint_attention_dim": 8}
    layers = {"num_mmdit_layers": 1, "num_single_dit_layers": 1} if kind is AuraFlowTransformer2DModel else {"num_layers": 1}
    transformer = kind(pos_embed_max_size=places, patch_size=2, **small, **layers)
    assert _largest(SimpleNamespace(transformer=transformer, vae_scale_factor=8)) == pixels


# --- in the engine ------------------------------------------------------------------------------------------


def saved_with(scheduler: Any, folder: Path) -> Path:
    torch.manual_seed(0)
    pipe = tiny.sd15()
    pipe.register_modules(scheduler=scheduler)
    for part in pipe.components.values():
        if isinstance(part, torch.nn.Module):
            tiny.liven(part)
    pipe.save_pretrained(folder)
    return folder


def asked(engine: DiffusersEngine, model: Path, emit: Recorder, **fields: Any) -> PictureFacts:
    request = PictureRequest(prompt="a", model=str(model), numerics=Numerics(precision="float32"), **fields)
    return engine.generate(Generate(job="g", request=request), emit, Steady()).images[0]


def test_a_run_from_a_picture_makes_only_its_own_steps(engine: DiffusersEngine, tmp_path: Path) -> None:
    model = saved_with(NEVER, tmp_path / "m")
    given = str(run.picture(tmp_path / "given.png", 32))
    assert asked(engine, model, Recorder(), steps=4, image=given, start=Start(strength=0.5)).state == "clean"


@pytest.mark.parametrize(
    ("scheduler", "kept"),
    [pytest.param(NEVER, None, id="the first step"), pytest.param(NEVER_ENDS, 2, id="the last step")],
)
def test_steps_that_no_number_of_them_helps_end_the_job(
    scheduler: Any, kept: int | None, engine: DiffusersEngine, tmp_path: Path
) -> None:
    """Another number of steps would not do; what was made before is kept."""
    emit, model = Recorder(), saved_with(scheduler, tmp_path / "m")
    with pytest.raises(HalftoneError) as caught:
        asked(engine, model, emit, steps=3, batch=2)
    assert caught.value.code == "setting-bad-value"
    assert "Steps cannot be 3 with the sampler Euler, whose arithmetic is not finite there" in str(caught.value)
    assert str(caught.value).endswith("Use another sampler.")
    (ready,) = emit.of(PictureReady)
    facts = ready.facts
    assert (facts.state, facts.path, facts.kept_step) == ("not-recovered", "", kept)
    assert (facts.latents is None) == (kept is None)
    assert [(event.action, event.why) for event in facts.events] == [("stopped", "sampler")]


def test_a_fault_of_the_model_is_none_of_the_sampler(engine: DiffusersEngine, tmp_path: Path) -> None:
    """Sound samplers are not blamed where the model's own numbers are not finite."""
    model = saved_with(EulerDiscreteScheduler(), tmp_path / "m")
    assert asked(engine, model, Recorder(), steps=2).state == "clean"
    assert engine.loaded is not None
    struck: list[bool] = []

    def strike(_module: Any, _args: Any, output: torch.Tensor) -> torch.Tensor | None:
        if struck:
            return None
        struck.append(True)
        return torch.full_like(output, float("nan"))

    handle = engine.loaded.modules["unet"].get_submodule("conv_out").register_forward_hook(strike)
    try:
        facts = asked(engine, model, Recorder(), steps=2)
    finally:
        handle.remove()
    assert facts.state == "recovered"


def test_a_quick_check_takes_steps_that_the_sampler_makes(engine: DiffusersEngine, tmp_path: Path) -> None:
    model = saved_with(euler(NO_END, timestep_spacing="leading", steps_offset=400), tmp_path / "m")
    command = Examine(job="c", model=str(model), numerics=Numerics(precision="float32"))
    assert engine.examine(command, Recorder(), Steady()).verdict == "healthy"


def test_a_loop_is_rehearsed_from_where_it_began() -> None:
    scheduler = make_scheduler(NEVER, None)
    scheduler.set_timesteps(4)
    scheduler.set_begin_index(2)
    loop = rehearsal.Rehearsal(scheduler, dict(vars(scheduler)), 1, list(scheduler.timesteps[2:]))
    assert loop.share == (0.5, 0.75)
    assert not loop.fails(2)
    whole = rehearsal.Rehearsal(scheduler, {**vars(scheduler), "_begin_index": None}, 4, list(scheduler.timesteps))
    assert whole.share == (0.0, 1.0)
    assert whole.fails(1)
