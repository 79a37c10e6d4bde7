"""Parameters that are options, each against a plain call of diffusers, to the bit."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import msgspec
import numpy as np
import pytest
import torch
from diffusers import FlowMatchEulerDiscreteScheduler
from tests.bench.families import run
from tests.bench.families.plain import arguments, halftone_frames, plain_frames, plain_pipeline, request_of
from tests.bench.families.table import CASES, Case
from tests.helpers.engine_runs import OPTIONS, Recorder, Steady, generate, pixels
from tests.helpers.waves import transformer_of_waves, wave

from halftone.contract.errors import HalftoneError
from halftone.contract.messages import Examine
from halftone.contract.request import CheckInputs, Hires, Numerics
from halftone.engine.sampling.samplers import make_scheduler
from halftone.engine.service import DiffusersEngine

pytestmark = pytest.mark.filterwarnings("ignore")  # what the libraries say while tiny models are made and run

REFERENCE: Final = json.loads((Path(__file__).parents[2] / "references" / "steering.json").read_text())


def case_of(name: str, **options: Any) -> Case:
    case = next(case for case in CASES if case.name == name)
    return replace(case, options={**case.options, **options})


def ours(engine: DiffusersEngine, case: Case, model: Path) -> Any:
    return halftone_frames(engine, request_of(run.PROMPT, case, model, "text", None, (Path(), Path())))


@pytest.mark.parametrize("name", ["SD 1.x", "SD 2.x", "SDXL"])
def test_cfg_rescale_is_that_of_diffusers(engine: DiffusersEngine, tmp_path: Path, name: str) -> None:
    without, case = case_of(name), case_of(name, guidance_rescale=0.7)
    model = run.save(case, tmp_path / "m")
    pipe = plain_pipeline(run.original(model), "text", {})
    wanted = plain_frames(pipe, arguments(pipe, run.PROMPT, case, "text", None, (Path(), Path())))
    made = ours(engine, case, model)
    assert np.array_equal(made, wanted)
    assert not np.array_equal(made, ours(engine, without, model))


def test_cfg_rescale_is_the_formula(tmp_path: Path) -> None:
    """Lin et al. 2023, section 3.4: guided noise is brought to the deviation of the prompt's own, and the two are mixed."""
    case, share, scale = case_of("SD 1.x"), 0.7, 7.5
    pipe = plain_pipeline(run.original(run.save(case, tmp_path / "m")), "text", {})
    seen: list[torch.Tensor] = []
    taken: list[torch.Tensor] = []
    pipe.unet.register_forward_hook(lambda _module, _given, result: seen.append(result[0]))
    step = pipe.scheduler.step
    pipe.scheduler.step = lambda noise, *more, **named: (taken.append(noise), step(noise, *more, **named))[1]
    given = {**arguments(pipe, run.PROMPT, case, "text", None, (Path(), Path())), "output_type": "np"}
    pipe(**given, guidance_scale=scale, guidance_rescale=share, generator=torch.Generator().manual_seed(5))
    negative, own = seen[0].chunk(2)
    guided = negative + scale * (own - negative)
    rescaled = guided * own.std() / guided.std()
    torch.testing.assert_close(taken[0], share * rescaled + (1 - share) * guided)


def test_a_pipeline_without_cfg_rescale_says_so(engine: DiffusersEngine, tmp_path: Path) -> None:
    case = case_of("Z-Image", guidance_rescale=0.7)
    with pytest.raises(HalftoneError, match="has no option --guidance-rescale"):
        ours(engine, case, run.save(case, tmp_path / "m"))


def test_skip_layer_guidance_is_that_of_diffusers(engine: DiffusersEngine, tmp_path: Path) -> None:
    skipping: dict[str, Any] = {"skip_layer_guidance_scale": 2.8, "skip_layer_guidance_start": 0.0, "skip_guidance_layers": [1]}
    without = case_of("SD 3.5 medium")
    case = case_of("SD 3.5 medium", **skipping, skip_layer_guidance_stop=0.9)
    model = run.save(case, tmp_path / "m")
    pipe = plain_pipeline(run.original(model), "text", {})
    wanted = plain_frames(pipe, arguments(pipe, run.PROMPT, case, "text", None, (Path(), Path())))
    made = ours(engine, case, model)
    assert np.array_equal(made, wanted)
    assert not np.array_equal(made, ours(engine, without, model))
    asked = request_of(run.PROMPT, case, model, "text", None, (Path(), Path()))
    with pytest.raises(HalftoneError, match="--skip-layer-guidance cannot be set at guidance 1"):
        halftone_frames(engine, msgspec.structs.replace(asked, guidance=1.0))


@pytest.mark.parametrize(("layers", "said"), [(None, "7, 8, 9"), ([1, 30], "30")])
def test_layers_that_the_model_lacks_are_refused(engine: DiffusersEngine, tmp_path: Path, layers: Any, said: str) -> None:
    skipped = {} if layers is None else {"skip_guidance_layers": layers}
    case = case_of("SD 3.5 medium", skip_layer_guidance_scale=2.8, **skipped)
    with pytest.raises(HalftoneError, match=f"^Skipped layers cannot be {said} with this model, whose last layer is [0-9]+."):
        ours(engine, case, run.save(case, tmp_path / "m"))


def test_skip_layer_guidance_is_that_of_comfyui() -> None:
    """The reference is the picture that the guided network sees in noised latents."""
    transformer, latents, sigma, guidance = transformer_of_waves(), wave((1, 4, 16, 16), 1.0), 0.7, 4.0
    words, pooled = (wave((1, 7, 32), 3.0), wave((1, 7, 32), 2.0)), (wave((1, 24), 5.0), wave((1, 24), 4.0))

    def given(place: int, **more: Any) -> torch.Tensor:
        return transformer(latents, words[place], pooled[place], torch.tensor([1000 * sigma]), **more).sample

    negative, own = given(0), given(1)
    made = latents - sigma * (negative + guidance * (own - negative) + 2.8 * (own - given(1, skip_layers=[1])))
    wanted = torch.tensor(REFERENCE["skip layers"]).reshape(made.shape)
    assert float((made - wanted).norm() / wanted.norm()) <= 1e-4


def saved(case: Case, folder: Path) -> Path:
    """Save the tiny model of a case. FLUX.1 dev as published shifts by the size of the picture."""
    model = run.save(case, folder)
    if case.name == "FLUX.1 dev":
        file = model / "scheduler" / "scheduler_config.json"
        file.write_text(json.dumps(json.loads(file.read_text()) | {"use_dynamic_shifting": True}))
    return model


def shifted(scheduler: Any, shift: float) -> Any:
    """The sampler of a model with another shift, as diffusers' documentation makes it."""
    names = {"shift": shift, "flow_shift": shift, "use_dynamic_shifting": False}
    return type(scheduler).from_config(scheduler.config, **{name: names[name] for name in names.keys() & scheduler.config.keys()})


@pytest.mark.parametrize("name", ["SD 3", "FLUX.1 dev", "FLUX.1 schnell", "Sana", "Z-Image"])
def test_shift_is_that_of_diffusers(engine: DiffusersEngine, tmp_path: Path, name: str) -> None:
    without = case_of(name)
    model = saved(without, tmp_path / "m")
    pipe = plain_pipeline(run.original(model), "text", {})
    given = arguments(pipe, run.PROMPT, without, "text", None, (Path(), Path()))
    pipe.scheduler = shifted(pipe.scheduler, 7.0)
    wanted = plain_frames(pipe, given)
    made = ours(engine, case_of(name, shift=7.0), model)
    assert np.array_equal(made, wanted)
    assert not np.array_equal(made, ours(engine, without, model))


@pytest.mark.parametrize("wanted", [None, "UniPC", "DPM++ 2M"])
def test_shift_is_the_formula(wanted: str | None) -> None:
    """Esser et al. 2024, section 5.3.2: a noise level t becomes s t / (1 + (s - 1) t)."""
    native = FlowMatchEulerDiscreteScheduler(shift=1.0)
    plain, made = (make_scheduler(native, wanted, options) for options in ({"shift": 1.0}, {"shift": 4.0}))
    for scheduler in (plain, made):
        scheduler.set_timesteps(5) if wanted else scheduler.set_timesteps(sigmas=[1.0, 0.8, 0.6, 0.4, 0.2])
    torch.testing.assert_close(made.sigmas, 4 * plain.sigmas / (1 + 3 * plain.sigmas))


@pytest.mark.parametrize(
    ("name", "sampler"), [("SD 1.x", None), ("FLUX.1 dev", "DPM++ 2M"), ("FLUX.1 dev", "DEIS"), ("Kandinsky 3", None)]
)
def test_a_sampler_without_shift_says_so(engine: DiffusersEngine, tmp_path: Path, name: str, sampler: str | None) -> None:
    case = case_of(name, shift=3.0)
    asked = request_of(run.PROMPT, case, saved(case, tmp_path / "m"), "text", None, (Path(), Path()))
    with pytest.raises(HalftoneError, match=r"--shift cannot be used with the sampler .*, which takes none"):
        halftone_frames(engine, msgspec.structs.replace(asked, sampler=sampler))


@pytest.mark.parametrize("sampler", ["Euler", "UniPC"])
def test_flux_takes_a_shift_with_other_samplers(engine: DiffusersEngine, tmp_path: Path, sampler: str) -> None:
    case = case_of("FLUX.1 dev", shift=3.0)
    asked = request_of(run.PROMPT, case, saved(case, tmp_path / "m"), "text", None, (Path(), Path()))
    assert halftone_frames(engine, msgspec.structs.replace(asked, sampler=sampler)).shape == (1, 64, 64, 3)


def test_a_second_pass_keeps_the_shift(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    """With all of the noise the second pass begins anew: only its own shift can tell."""
    hires = Hires(scale=2.0, upscaler="lanczos", steps=2, strength=1.0)
    own, other = (
        pixels(generate(engine, models["sd3"], options={**OPTIONS["sd3"], **more}, hires=hires)[0])
        for more in ({}, {"shift": 9.0})
    )
    assert not np.array_equal(own, other)


def test_a_check_runs_at_the_noise_levels_of_the_shift(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    seen: list[float] = []

    def times(**more: float) -> list[float]:
        seen.clear()
        inputs = CheckInputs(width=32, height=32, options={**OPTIONS["sd3"], **more})
        command = Examine(job="c", model=str(models["sd3"]), numerics=Numerics(precision="float32"), inputs=inputs)
        assert engine.examine(command, Recorder(), Steady()).verdict == "healthy"
        return sorted(set(seen))

    times()
    assert engine.loaded is not None
    hook = engine.loaded.modules["transformer"].register_forward_pre_hook(
        lambda _module, _given, named: seen.extend(named["timestep"].flatten().tolist()), with_kwargs=True
    )
    try:
        own, shifted_much = times(), times(shift=30.0)
    finally:
        hook.remove()
    assert len(own) == len(shifted_much)
    assert sum(shifted_much) > sum(own), "more of the steps lie where the noise is strong"
