"""The names of samplers that are told without torch against those that the engine can make."""

import inspect
from pathlib import Path
from typing import Any

import diffusers
import pytest
from diffusers import DPMSolverMultistepScheduler, EulerDiscreteScheduler, FlowMatchEulerDiscreteScheduler, LCMScheduler
from diffusers.schedulers.scheduling_utils import KarrasDiffusionSchedulers
from msgspec.structs import replace
from tests.helpers.engine_runs import Meddler, check, generate
from tests.helpers.tiny import sd15

from halftone.contract.errors import HalftoneError
from halftone.engine import samplers
from halftone.engine.quiet import quiet_libraries
from halftone.engine.service import DiffusersEngine
from halftone.library.models import POCKET, describe
from halftone.library.samplers import FLOW_SAMPLERS, SAMPLERS, check_sampler, samplers_of


def test_the_names_are_the_engines() -> None:
    assert tuple(samplers.SAMPLERS) == SAMPLERS
    assert tuple(samplers.FLOW_SAMPLERS) == FLOW_SAMPLERS


def test_every_sampler_can_be_made() -> None:
    with quiet_libraries():
        for native, names in ((DPMSolverMultistepScheduler(), SAMPLERS), (FlowMatchEulerDiscreteScheduler(), FLOW_SAMPLERS)):
            for name in names:
                scheduler = samplers.make_scheduler(native, name)
                scheduler.set_timesteps(4)
                assert len(scheduler.timesteps) >= 4, name


@pytest.mark.filterwarnings("ignore::DeprecationWarning:diffusers")
@pytest.mark.parametrize("family", ["sd15", "sdxl", "sd3", "sana"])
def test_a_pipeline_takes_all_that_is_offered_for_it(family: str, engine: DiffusersEngine, models: dict[str, Path]) -> None:
    offered = describe(str(models[family])).samplers
    assert len(offered) >= 4
    for name in offered:
        report, _ = generate(engine, models[family], steps=3, sampler=name)
        assert report.images[0].state in ("clean", "recovered"), name


@pytest.mark.parametrize("pipeline", ["FluxPipeline", "FluxImg2ImgPipeline", "FluxInpaintPipeline"])
def test_flux_is_offered_what_its_source_can_set(pipeline: str) -> None:
    """These pipelines hand a shift over, and noise levels too, but to a scheduler that makes its own where they look for that."""
    image = pipeline != "FluxPipeline"
    source = inspect.getsource(getattr(diffusers, pipeline).__call__)
    assert "mu=mu" in source
    own_noise = "use_flow_sigmas" in source
    facts = replace(
        describe(POCKET), family="FLUX", samplers=samplers_of(pipeline, {"_class_name": "FlowMatchEulerDiscreteScheduler"})
    )
    for name in FLOW_SAMPLERS:
        kind = samplers.make_scheduler(FlowMatchEulerDiscreteScheduler(), name)
        takes = inspect.signature(kind.set_timesteps).parameters
        fits = "mu" in takes and ("sigmas" in takes or (own_noise and bool(kind.config.get("use_flow_sigmas"))))
        if fits:
            check_sampler(facts, name, image=image)
            continue
        with pytest.raises(HalftoneError, match="Sampler"):
            check_sampler(facts, name, image=image)


def test_what_has_a_scheduler_like_no_other_runs_with_that_alone() -> None:
    known = {one.name.removesuffix("Scheduler") for one in KarrasDiffusionSchedulers} - {"EDMEulerScheduler", "EDMEuler"}
    for own in known:
        assert samplers_of("StableDiffusionPipeline", {"_class_name": f"{own}Scheduler"}) == SAMPLERS
    for own in ("SASolver", "DDIMParallel", "DDPMParallel"):
        assert samplers_of("StableDiffusionPipeline", {"_class_name": f"{own}Scheduler"}) == SAMPLERS
    assert samplers_of("StableDiffusionPipeline", {"num_train_timesteps": 1000}) == (), "its class is not told, so nothing is"
    assert samplers_of("WuerstchenDecoderPipeline", {"_class_name": "DDPMWuerstchenScheduler"}) == ("DDPMWuerstchen",)
    assert samplers_of("LatentConsistencyModelPipeline", {"_class_name": "LCMScheduler"}) == ("LCM",)
    assert samplers_of("QwenImagePipeline", {"_class_name": "FlowMatchEulerDiscreteScheduler"}) == ("Euler", "UniPC")


def test_both_take_and_refuse_the_same() -> None:
    pocket = describe(POCKET)
    for name in (*SAMPLERS, "euler A"):
        check_sampler(pocket, name)
    said: list[str] = []
    for refuse in (lambda: check_sampler(pocket, "Eular"), lambda: samplers.make_scheduler(EulerDiscreteScheduler(), "Eular")):
        with pytest.raises(HalftoneError) as caught:
            refuse()
        said.append(str(caught.value))
    assert said[0] == said[1]


@pytest.fixture(scope="module")
def of_few_steps(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose own sampler computes 50 steps at most."""
    folder = tmp_path_factory.mktemp("lcm")
    pipe: Any = sd15()
    pipe.scheduler = LCMScheduler(original_inference_steps=50, steps_offset=1)
    pipe.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("sampler", [None, "LCM"])
def test_more_steps_than_the_sampler_has_are_refused(engine: DiffusersEngine, of_few_steps: Path, sampler: str | None) -> None:
    with pytest.raises(HalftoneError) as caught:
        generate(engine, of_few_steps, steps=60, sampler=sampler)
    assert caught.value.__cause__ is not caught.value
    told = caught.value.as_facts()
    assert told.code == "value-out-of-range"
    assert told.facts == {"name": "Steps", "value": 60, "low": 1, "high": 50}
    assert "original_steps" in told.details
    report, _ = generate(engine, of_few_steps, steps=2, sampler=sampler)
    assert report.images[0].state == "clean"


def test_a_check_with_too_many_steps_is_refused(engine: DiffusersEngine, of_few_steps: Path) -> None:
    with pytest.raises(HalftoneError) as caught:
        check(engine, of_few_steps, depth="thorough", steps=60)
    assert caught.value.as_facts().facts == {"name": "Steps", "value": 60, "low": 1, "high": 50}


def test_a_fault_of_the_pipeline_is_not_its_own_cause(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    def fail() -> None:
        raise ValueError("a fault")

    with pytest.raises(ValueError, match="a fault") as caught:
        generate(engine, models["sd15"], control=Meddler(fail))
    assert caught.value.__cause__ is not caught.value
