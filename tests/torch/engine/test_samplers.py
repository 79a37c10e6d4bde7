"""The names of samplers that are told without torch against those that the engine can make."""

import copy
import inspect
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import diffusers
import pytest
import torch
from diffusers import DPMSolverMultistepScheduler, EulerDiscreteScheduler, FlowMatchEulerDiscreteScheduler, LCMScheduler
from diffusers.schedulers.scheduling_utils import KarrasDiffusionSchedulers
from msgspec.structs import replace
from tests.helpers.engine_runs import Meddler, check, generate, pixels
from tests.helpers.tiny import sd15

from halftone.contract.errors import HalftoneError
from halftone.contract.request import split_sampler
from halftone.contract.wording import Words
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.sampling import samplers
from halftone.engine.sampling.solver_table import SOLVERS
from halftone.engine.service import DiffusersEngine
from halftone.library.models import POCKET, describe
from halftone.library.samplers import (
    FLOW_METHODS,
    FLOW_SAMPLERS,
    FLOW_SOLVED,
    METHODS,
    SAMPLERS,
    SOLVED,
    check_sampler,
    sampler_called,
    samplers_of,
)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """As the engine makes and runs them."""
    with quiet_libraries():
        yield


DPM: Final = {"solver_type": "midpoint", "solver_order": 2}
PLAIN: Final = {"use_karras_sigmas": False, "use_exponential_sigmas": False, "use_beta_sigmas": False}
KARRAS: Final = {**PLAIN, "use_karras_sigmas": True}
EXPONENTIAL: Final = {**PLAIN, "use_exponential_sigmas": True}
BETA: Final = {**PLAIN, "use_beta_sigmas": True}
TRAILING: Final = {**PLAIN, "timestep_spacing": "trailing"}
TABLE: Final[list[tuple[str, type[Any], dict[str, Any]]]] = [
    ("Euler", diffusers.EulerDiscreteScheduler, PLAIN),
    ("Euler Karras (diffusers)", diffusers.EulerDiscreteScheduler, KARRAS),
    ("Euler Exponential (diffusers)", diffusers.EulerDiscreteScheduler, EXPONENTIAL),
    ("Euler Beta (diffusers)", diffusers.EulerDiscreteScheduler, BETA),
    ("Heun Beta (diffusers)", diffusers.HeunDiscreteScheduler, BETA),
    ("DPM2 Beta (diffusers)", diffusers.KDPM2DiscreteScheduler, BETA),
    ("DPM2 a Beta (diffusers)", diffusers.KDPM2AncestralDiscreteScheduler, BETA),
    ("DPM++ 2M Beta (diffusers)", diffusers.DPMSolverMultistepScheduler, {**DPM, **BETA, "algorithm_type": "dpmsolver++"}),
    ("DPM++ SDE Beta (diffusers)", diffusers.DPMSolverSinglestepScheduler, {**BETA, "algorithm_type": "sde-dpmsolver++"}),
    ("UniPC Beta (diffusers)", diffusers.UniPCMultistepScheduler, {**BETA, "solver_type": "bh2"}),
    ("DEIS Beta (diffusers)", diffusers.DEISMultistepScheduler, {**BETA, "solver_type": "logrho"}),
    ("LMS", diffusers.LMSDiscreteScheduler, PLAIN),
    ("LMS Karras (diffusers)", diffusers.LMSDiscreteScheduler, KARRAS),
    ("LMS Beta (diffusers)", diffusers.LMSDiscreteScheduler, BETA),
    ("Euler SGM Uniform (diffusers)", diffusers.EulerDiscreteScheduler, TRAILING),
    ("Euler a", diffusers.EulerAncestralDiscreteScheduler, {}),
    ("Euler a SGM Uniform (diffusers)", diffusers.EulerAncestralDiscreteScheduler, {"timestep_spacing": "trailing"}),
    ("Heun Karras (diffusers)", diffusers.HeunDiscreteScheduler, KARRAS),
    ("DPM2", diffusers.KDPM2DiscreteScheduler, PLAIN),
    ("DPM2 a Karras (diffusers)", diffusers.KDPM2AncestralDiscreteScheduler, KARRAS),
    ("DPM++ 2M", diffusers.DPMSolverMultistepScheduler, {**DPM, **PLAIN, "algorithm_type": "dpmsolver++"}),
    ("DPM++ 2M Karras (diffusers)", diffusers.DPMSolverMultistepScheduler, {**DPM, **KARRAS, "algorithm_type": "dpmsolver++"}),
    (
        "DPM++ 2M SGM Uniform (diffusers)",
        diffusers.DPMSolverMultistepScheduler,
        {**DPM, **TRAILING, "algorithm_type": "dpmsolver++"},
    ),
    ("DPM++ 2M SDE", diffusers.DPMSolverMultistepScheduler, {**DPM, **PLAIN, "algorithm_type": "sde-dpmsolver++"}),
    (
        "DPM++ 2M SDE Exponential (diffusers)",
        diffusers.DPMSolverMultistepScheduler,
        {**EXPONENTIAL, "algorithm_type": "sde-dpmsolver++"},
    ),
    ("DPM++ 3M SDE Karras (diffusers)", diffusers.DPMSolverMultistepScheduler, {**KARRAS, "solver_order": 3}),
    ("DPM++ SDE Karras (diffusers)", diffusers.DPMSolverSinglestepScheduler, {**KARRAS, "algorithm_type": "sde-dpmsolver++"}),
    ("UniPC", diffusers.UniPCMultistepScheduler, {**PLAIN, "solver_type": "bh2"}),
    ("DEIS", diffusers.DEISMultistepScheduler, {**PLAIN, "solver_type": "logrho", "algorithm_type": "deis"}),
    ("DDIM", diffusers.DDIMScheduler, {}),
    ("DDPM", diffusers.DDPMScheduler, {}),
    ("PNDM", diffusers.PNDMScheduler, {"skip_prk_steps": True}),
    ("LCM", diffusers.LCMScheduler, {}),
    ("TCD", diffusers.TCDScheduler, {}),
]
"""Name, class, and what of its configuration is not the model's."""
FLOW_TABLE: Final[list[tuple[str, type[Any], dict[str, Any]]]] = [
    ("Euler", diffusers.FlowMatchEulerDiscreteScheduler, {}),
    ("Heun", diffusers.FlowMatchHeunDiscreteScheduler, {}),
    ("DPM++ 2M", diffusers.DPMSolverMultistepScheduler, {"use_flow_sigmas": True, "algorithm_type": "dpmsolver++"}),
    ("DPM++ 2M SDE", diffusers.DPMSolverMultistepScheduler, {"use_flow_sigmas": True, "algorithm_type": "sde-dpmsolver++"}),
    ("UniPC", diffusers.UniPCMultistepScheduler, {"use_flow_sigmas": True, "prediction_type": "flow_prediction"}),
    ("DEIS", diffusers.DEISMultistepScheduler, {"use_flow_sigmas": True, "prediction_type": "flow_prediction"}),
    ("LCM", diffusers.FlowMatchLCMScheduler, {}),
]
OWN: Final[dict[str, Any]] = {"beta_start": 0.00085, "beta_end": 0.012, "beta_schedule": "scaled_linear", "steps_offset": 1}
"""Of a model, as Stable Diffusion has it."""


@pytest.mark.parametrize(("name", "kind", "differs"), TABLE)
def test_a_name_stands_for_a_scheduler_with_the_models_noise(name: str, kind: type[Any], differs: dict[str, Any]) -> None:
    native = diffusers.PNDMScheduler(**OWN, skip_prk_steps=True, prediction_type="v_prediction")
    made = samplers.make_scheduler(native, name)
    assert type(made) is kind
    assert {key: made.config[key] for key in differs} == differs
    assert {key: made.config[key] for key in OWN if key in inspect.signature(kind).parameters} == {
        key: value for key, value in OWN.items() if key in inspect.signature(kind).parameters
    }
    assert made.config["prediction_type"] == "v_prediction"
    assert samplers.sampler_name(made) == name


@pytest.mark.parametrize(("name", "kind", "differs"), FLOW_TABLE)
def test_a_flow_models_names(name: str, kind: type[Any], differs: dict[str, Any]) -> None:
    made = samplers.make_scheduler(FlowMatchEulerDiscreteScheduler(num_train_timesteps=500), name)
    assert type(made) is kind
    assert {key: made.config[key] for key in differs} == differs
    assert made.config["num_train_timesteps"] == 500
    assert samplers.sampler_name(made) == name


def test_the_tables_name_every_method() -> None:
    assert {split_sampler(name)[0] for name, _, _ in TABLE} == set(METHODS)
    assert {name for name, _, _ in FLOW_TABLE} == set(FLOW_METHODS)


def test_what_halftone_solves_itself_has_a_solver() -> None:
    assert set(SOLVED) == set(SOLVERS)
    assert set(FLOW_SOLVED) < set(SOLVERS)


def test_every_sampler_can_be_made() -> None:
    for native, names in ((DPMSolverMultistepScheduler(), SAMPLERS), (FlowMatchEulerDiscreteScheduler(), FLOW_SAMPLERS)):
        for name in names:
            scheduler = samplers.make_scheduler(native, name)
            scheduler.set_timesteps(4)
            assert len(scheduler.timesteps) >= 4 - name.startswith("DDIM CFG++"), name
            assert samplers.sampler_name(scheduler) == name


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("dpmpp_2m_karras", "DPM++ 2M Karras"), ("dpmpp_2m_sde_gpu", "DPM++ 2M SDE"), ("dpmpp_3m_sde exponential",
        "DPM++ 3M SDE Exponential"), ("euler_ancestral", "Euler a"), ("k_euler", "Euler"), ("plms", "PNDM"),
        ("uni_pc_bh2", "UniPC BH2"),
        ("euler sgm_uniform", "Euler SGM Uniform"), ("Euler simple", "Euler Simple"), ("euler_normal", "Euler Normal"),
        ("uni_pc simple", "UniPC Simple"), ("UniPC normal", "UniPC Normal"),
        ("dpmpp_2s_ancestral", "DPM++ 2S a"), ("DPM++ 2S a Karras", "DPM++ 2S a Karras"),
        ("dpmpp_2m_sde_gpu karras", "DPM++ 2M SDE Karras"),
        ("euler ddim_uniform", "Euler DDIM Uniform"), ("ddim ddim_uniform", "DDIM DDIM Uniform"),
        ("DDIM Automatic", "DDIM"), ("DDIM CFG++ Automatic", "DDIM CFG++ DDIM Uniform"), ("dpm_fast", "DPM fast"),
        ("exp_heun_2_x0_sde", "Exp Heun 2 x0 SDE"),
        ("heunpp2 kl_optimal", "Heun++ 2 KL Optimal"),
        ("res_multistep_ancestral beta", "RES multistep a Beta"), ("seeds_3", "SEEDS 3"),
        ("DPM++ 2M Align Your Steps", "DPM++ 2M Align Your Steps"),
        ("DPM++ 2M Automatic", "DPM++ 2M Karras"), ("Euler a Automatic", "Euler a Normal"),
        ("DPM++ 3M SDE Automatic", "DPM++ 3M SDE Exponential"), ("UniPC Automatic", "UniPC Time Uniform"),
        ("Restart Automatic", "Restart Karras"), ("sa_solver_pece", "SA-Solver PECE"), ("dpm_2_ancestral", "DPM2 a"),
        ("LMS Karras", "LMS Karras"), ("euler_cfg_pp", "Euler CFG++"), ("euler_ancestral_cfg_pp karras", "Euler a CFG++ Karras"),
        ("Euler A CFG++", "Euler a CFG++"), ("dpmpp_2s_ancestral_cfg_pp", "DPM++ 2S a CFG++"),
        ("dpmpp_2m_cfg_pp", "DPM++ 2M CFG++"), ("res_multistep_ancestral_cfg_pp", "RES multistep a CFG++"),
        ("euler_beta", "Euler Beta"), ("lms", "LMS"), ("", None),
    ],
)  # fmt: skip
def test_names_of_other_programs_are_understood(called: str, name: str | None) -> None:
    assert sampler_called(called) == name


@pytest.mark.parametrize(
    ("wanted", "said"),
    [
        ("PNDM Beta", "Sampler cannot be PNDM Beta"),
        ("DPM adaptife", "DPM adaptive"),
        ("DPM++ 2N", "DPM++ 2M or"),
        ("qq", ", most with Karras, Exponential, Beta, SGM Uniform, Simple, "),
        ("TCD Karras", "Sampler cannot be TCD Karras"),
    ],
)
def test_what_cannot_be_had_is_told_with_what_can(wanted: str, said: str) -> None:
    with pytest.raises(HalftoneError) as caught:
        check_sampler(describe(POCKET), wanted)
    assert said in str(caught.value)


def test_the_models_own_configuration_narrows_what_fits() -> None:
    own = {"_class_name": "EulerDiscreteScheduler"}
    moving = samplers_of("StableVideoDiffusionPipeline", {**own, "timestep_type": "continuous"})
    assert {split_sampler(name)[0] for name in moving} == {"Euler"}
    zero = {split_sampler(name)[0] for name in samplers_of("StableDiffusionXLPipeline", {**own, "rescale_betas_zero_snr": True})}
    able = {name for name in METHODS if "rescale_betas_zero_snr" in inspect.signature(_class(name)).parameters}
    assert zero == able | set(SOLVED), "Halftone's own begin at any sigma"
    sample = samplers_of("StableDiffusionPipeline", {**own, "prediction_type": "sample"})
    assert "PNDM" not in sample
    assert "DDIM" in sample


def _class(name: str) -> Any:
    return getattr(diffusers, METHODS[name].scheduler)


def test_a_models_own_scheduler_stays_its_own() -> None:
    """With all that its configuration says, whatever users call it."""
    native = diffusers.EulerDiscreteScheduler(**OWN, timestep_spacing="trailing", use_karras_sigmas=True)
    for wanted in (None, "Euler Karras (diffusers)", "EulerDiscrete"):
        made = samplers.make_scheduler(native, wanted)
        assert type(made) is diffusers.EulerDiscreteScheduler
        assert dict(made.config) == dict(native.config)
    assert samplers.make_scheduler(native, "Euler").config["use_karras_sigmas"] is False


@pytest.mark.parametrize("family", ["sd15", "sdxl", "sd3", "sana"])
def test_a_pipeline_takes_all_that_is_offered_for_it(family: str, engine: DiffusersEngine, models: dict[str, Path]) -> None:
    offered = describe(str(models[family])).samplers
    assert len(offered) >= 4
    schedules: set[str] = set()
    for name in offered:
        schedule = split_sampler(name)[1]
        if schedule in schedules and schedule:
            continue  # schedules are the schedulers' own affair: one of each shows that the pipeline runs with it
        schedules.add(schedule)
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
        describe(POCKET),
        family="FLUX",
        samplers=samplers_of(pipeline, {"_class_name": "FlowMatchEulerDiscreteScheduler", "use_dynamic_shifting": True}),
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
    assert samplers_of("QwenImagePipeline", {"_class_name": "FlowMatchEulerDiscreteScheduler"}) == ("Euler", "UniPC", "LCM")


def test_kandinsky_is_offered_what_takes_its_generator() -> None:
    """Its pipelines give the generator to every sampler, without asking whether it takes one."""
    offered = samplers_of("KandinskyV22CombinedPipeline", {"_class_name": "DDIMScheduler"})
    drawing = {name for name in METHODS if "generator" in inspect.signature(_class(name).step).parameters}
    assert {split_sampler(name)[0] for name in offered} == drawing


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
    assert told.facts == {"name": Words("Steps"), "value": 60, "low": 1, "high": 50}
    assert "original_steps" in told.details
    report, _ = generate(engine, of_few_steps, steps=2, sampler=sampler)
    assert report.images[0].state == "clean"


def test_a_check_with_too_many_steps_is_refused(engine: DiffusersEngine, of_few_steps: Path) -> None:
    with pytest.raises(HalftoneError) as caught:
        check(engine, of_few_steps, depth="thorough", steps=60)
    assert caught.value.as_facts().facts == {"name": Words("Steps"), "value": 60, "low": 1, "high": 50}


def test_a_fault_of_the_pipeline_is_not_its_own_cause(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    def fail() -> None:
        raise ValueError("a fault")

    with pytest.raises(ValueError, match="a fault") as caught:
        generate(engine, models["sd15"], control=Meddler(fail))
    assert caught.value.__cause__ is not caught.value


def test_a_copy_of_the_scheduler_steps_by_itself_in_a_flight(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    """Pipelines that make sound beside a video step a copy of their scheduler for it."""
    places: list[tuple[int, int]] = []

    def step_a_copy() -> None:
        assert engine.loaded is not None
        own = engine.loaded.pipe.scheduler
        beside = copy.deepcopy(own)
        made = beside.step(torch.zeros(1, 4, 2, 2), own.timesteps[own.step_index], torch.ones(1, 4, 2, 2), return_dict=False)
        places.append((own.step_index, beside.step_index))
        assert made[0].shape == (1, 4, 2, 2)

    made, _ = generate(engine, models["sd15"], control=Meddler(step_a_copy), sampler="Euler")
    plain, _ = generate(engine, models["sd15"], sampler="Euler")
    assert places == [(1, 2)]
    assert (pixels(made) == pixels(plain)).all()
    assert made.images[0].state == "clean"
