"""Schedulers of every kind with every task, and models whose own size or length of prompts their pipeline refuses."""

import json
import re
import shutil
from pathlib import Path
from typing import Any, Final, cast

import diffusers
import pytest
import torch
from diffusers import DDIMScheduler, DDPMScheduler, EulerDiscreteScheduler, FlowMatchEulerDiscreteScheduler
from tests.bench.families import kin, run
from tests.bench.families.remade import remade
from tests.bench.families.schedulers import MORE, Run, bench_of, given_scheduler, in_turn, runs
from tests.bench.families.table import CASES
from tests.bench.faults import architectures, videos
from tests.helpers import tiny
from tests.helpers.engine_runs import Recorder, Steady, generate
from tests.helpers.read_back import read_picture

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import CheckReport
from halftone.contract.messages import Examine, Generate, StepDone
from halftone.contract.request import CheckInputs, Numerics, OptionValue, PictureRequest, Start
from halftone.engine.inputs.fitting_arguments import is_beyond_tables
from halftone.engine.sampling.samplers import make_scheduler
from halftone.engine.service import DiffusersEngine
from halftone.library.files.folder import read_json
from halftone.library.models import describe
from halftone.library.options import check_options
from halftone.library.samplers import FLOW_METHODS

pytestmark = pytest.mark.filterwarnings("ignore")  # what the libraries say while tiny models are made and run
SAMPLE = (
    ("SD 1.x inpaint", "PNDMScheduler", Run("mask", 2)),
    ("SD 1.x inpaint", "PNDMScheduler", Run(None, 3)),
    ("SD 1.x inpaint", "HeunDiscreteScheduler", Run("mask", 3, 0.34)),
    ("SDXL refiner", "PNDMScheduler", Run("picture", 4, 1.0)),
    ("SDXL refiner", "DPMSolverMultistepScheduler", Run("picture", 3, 0.34)),
    ("SD 3.5 medium", "FlowMatchHeunDiscreteScheduler", Run("picture", 2)),
    ("SD 3.5 medium", "UniPCMultistepScheduler", Run("picture", 3, 0.34)),
    ("SD 3.5 medium", "DPMSolverMultistepScheduler", Run("mask", 2)),
)

ZERO_SNR: Final[dict[str, Any]] = {
    "beta_schedule": "scaled_linear",
    "beta_start": 0.00085,
    "beta_end": 0.012,
    "prediction_type": "v_prediction",
    "rescale_betas_zero_snr": True,
}
"""Of a model that begins at noise alone."""


def case_of(name: str) -> Any:
    return next(case for case in CASES if case.name == name)


@pytest.mark.parametrize(("family", "scheduler", "wanted"), SAMPLE, ids=str)
def test_a_scheduler_runs_with_a_task(family: str, scheduler: str, wanted: Run, engine: DiffusersEngine, tmp_path: Path) -> None:
    bench = bench_of(case_of(family), tmp_path, more=())
    options = FLOW_METHODS["UniPC"].options if "Multistep" in scheduler and family.startswith("SD 3") else {}
    flow = {name: value for name, value in options.items() if "solver" not in name}
    model = given_scheduler(bench.model, tmp_path / "other", scheduler, flow)
    assert model is not None
    assert bench.outcome(engine, model, wanted) == ("made", "clean")


@pytest.mark.parametrize("case", [case for case in CASES if case.tasks], ids=lambda case: case.name)
def test_the_bench_gives_each_scheduler_every_task_and_in_turn_every_run(case: Any) -> None:
    for strengths in ((), case.tasks[1:], case.tasks):
        turns = [in_turn(case, strengths, MORE, turn) for turn in range(30)]
        assert all([run.task for run in turn] == [*case.tasks, case.tasks[0], None] for turn in turns)
        assert {run for turn in turns for run in turn} == set(runs(case, strengths, MORE))
        assert {run.task for turn in turns for run in turn if run.strength is not None} == set(strengths)


@pytest.mark.parametrize("name", [name for name in FLOW_METHODS if name != "Heun"])
def test_a_flow_sampler_begins_at_a_picture_as_flows_do(name: str) -> None:
    """The share of the noise is sigma, that of the picture the rest (diffusers, FlowMatchEulerDiscreteScheduler.scale_noise)."""
    scheduler = make_scheduler(FlowMatchEulerDiscreteScheduler(), name)
    scheduler.set_timesteps(10)
    scheduler.set_begin_index(4)
    picture, noise = torch.full((1, 4, 2, 2), 3.0), torch.full((1, 4, 2, 2), -5.0)
    sigma = float(scheduler.sigmas[4])
    made = scheduler.scale_noise(picture, scheduler.timesteps[4:5], noise)
    assert 0 < sigma < 1
    torch.testing.assert_close(made, sigma * noise + (1 - sigma) * picture)


@pytest.mark.parametrize("steps", [1, 3])
def test_fewer_steps_than_a_sampler_needs_are_told(steps: int, engine: DiffusersEngine, tmp_path: Path) -> None:
    """PNDM with its Runge-Kutta steps, as its class is by default; a check takes the four that it needs."""
    bench = bench_of(case_of("SD 1.x"), tmp_path, more=())
    model = given_scheduler(bench.model, tmp_path / "other", "PNDMScheduler", {"skip_prk_steps": False})
    assert model is not None
    outcome, words = bench.outcome(engine, model, Run("text", steps))
    assert outcome == "refused"
    assert words.startswith(f"value-out-of-range: Steps cannot be {steps}. Choose a value from 4 to 1000")
    assert bench.outcome(engine, model, Run("text", 4)) == ("made", "clean")
    assert checked(engine, model).verdict == "healthy"


def test_a_single_step_that_a_sampler_cannot_make_is_refused(engine: DiffusersEngine, tmp_path: Path) -> None:
    """PixArt-α reads the finished picture of a single step; UniPC does not return it, plain diffusers raises IndexError."""
    bench = bench_of(case_of("PixArt-α"), tmp_path, more=())
    model = given_scheduler(bench.model, tmp_path / "other", "UniPCMultistepScheduler", {})
    assert model is not None
    outcome, words = bench.outcome(engine, model, Run("text", 1))
    assert outcome == "refused"
    assert words.startswith("value-out-of-range: Steps cannot be 1. Choose a value from 2 to 1000")
    assert bench.outcome(engine, model, Run("text", 2)) == ("made", "clean")


@pytest.mark.parametrize("wanted", [Run("text", 2), Run("picture", 2), Run(None, 3)], ids=str)
def test_a_models_own_scheduler_that_its_pipeline_does_not_take_is_named(
    wanted: Run, engine: DiffusersEngine, tmp_path: Path
) -> None:
    bench = bench_of(case_of("SD 1.x LCM"), tmp_path, more=())
    model = given_scheduler(bench.model, tmp_path / "other", "UniPCMultistepScheduler", {})
    assert model is not None
    outcome, words = bench.outcome(engine, model, wanted)
    assert outcome == "refused"
    assert words.startswith("model-sampler-unfit: ")
    assert "with its own sampler: LatentConsistencyModel" in words
    assert words.endswith("Choose another sampler or model.")


@pytest.mark.parametrize("wanted", [Run("text", 2), Run("picture", 2, 1.0), Run(None, 3)], ids=str)
def test_a_sampler_that_its_pipeline_refuses_in_its_own_words_is_named(
    wanted: Run, engine: DiffusersEngine, tmp_path: Path
) -> None:
    """FLUX gives its sampler noise levels, which the Heun of diffusers takes none of: plain diffusers raises ValueError."""
    bench = bench_of(case_of("FLUX.1 dev"), tmp_path, more=())
    model = given_scheduler(bench.model, tmp_path / "other", "FlowMatchHeunDiscreteScheduler", {})
    assert model is not None
    outcome, words = bench.outcome(engine, model, wanted)
    assert outcome == "refused"
    assert words.startswith("model-sampler-unfit: ")
    assert "with its own sampler: Flux" in words


@pytest.mark.parametrize("dynamic", [False, True])
def test_every_sampler_that_flux_offers_runs(dynamic: bool, engine: DiffusersEngine, tmp_path: Path) -> None:
    """FLUX.1 dev is published with a dynamic shift, schnell without."""
    case = case_of("FLUX.1 dev")
    bench = bench_of(case, tmp_path, more=())
    shift = {"use_dynamic_shifting": dynamic}
    model = given_scheduler(bench.model, tmp_path / "other", "FlowMatchEulerDiscreteScheduler", shift)
    assert model is not None
    offered = describe(str(model)).samplers
    assert set(offered) >= ({"Euler", "UniPC", "LCM", "DPM++ 2M", "DEIS"} if dynamic else {"Euler", "UniPC", "LCM"})
    for name in offered:
        request = PictureRequest(
            prompt="a",
            model=str(model),
            width=case.size,
            height=case.size,
            steps=2,
            sampler=name,
            options=case.options,
            numerics=Numerics(precision="float32"),
        )
        assert engine.generate(Generate(job="g", request=request), Recorder(), Steady()).images[0].state == "clean"


def test_infinities_that_python_writes_are_read(tmp_path: Path) -> None:
    """Diffusers saves a DPM++ scheduler like this."""
    (file := tmp_path / "scheduler_config.json").write_text(json.dumps({"lambda_min_clipped": float("-inf"), "a": [1]}))
    assert read_json(file) == {"lambda_min_clipped": float("-inf"), "a": [1]}
    for broken in ("[-Infinity]", "{-Infinity}", '{"a": -Infinity,}', "NaN"):
        file.write_text(broken)
        with pytest.raises(HalftoneError) as caught:
            read_json(file)
        assert caught.value.code == "model-bad-header"


# --- a model's own size and length of prompts -------------------------------------------------------------


def of_size(size: Any) -> Any:
    pipe = tiny.sd15()
    pipe.register_modules(unet=remade(pipe.unet, sample_size=size))
    return pipe


def pixart(size: int) -> Any:
    pipe = architectures.pixart()
    pipe.register_modules(transformer=remade(pipe.transformer, sample_size=size))
    return pipe


def saved(pipe: Any, folder: Path) -> Path:
    for part in pipe.components.values():
        if isinstance(part, torch.nn.Module):
            tiny.liven(part)
    pipe.save_pretrained(folder)
    return folder


def checked(engine: DiffusersEngine, model: Path, **inputs: Any) -> CheckReport:
    command = Examine(job="c", model=str(model), numerics=Numerics(precision="float32"), inputs=CheckInputs(**inputs))
    return engine.examine(command, Recorder(), Steady())


@pytest.mark.parametrize(("size", "pixels"), [(15, 32), (1, 8), ([12, 15], 32)], ids=str)
def test_a_size_that_is_no_multiple_is_rounded_up(size: Any, pixels: int, engine: DiffusersEngine, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = saved(of_size(size), tmp_path / "m")
    assert describe(str(model)).native_width == pixels
    assert checked(engine, model).verdict == "healthy"
    request = PictureRequest(prompt="a", model=str(model), steps=1, numerics=Numerics(precision="float32"))
    facts = engine.generate(Generate(job="g", request=request), Recorder(), Steady()).images[0]
    assert (facts.width, facts.state) == (pixels, "clean")


def test_a_size_that_the_pipeline_has_no_bins_for_is_used_as_it_is(engine: DiffusersEngine, tmp_path: Path) -> None:
    torch.manual_seed(0)
    report = checked(engine, saved(pixart(16), tmp_path / "m"))
    assert (report.verdict, report.made_up) == ("healthy", ("use_resolution_binning",))


def test_positions_that_a_table_lacks_are_avoided_or_told(engine: DiffusersEngine, tmp_path: Path) -> None:
    model = run.save(case_of("Z-Image"), tmp_path / "m")
    picture = generate(engine, model, family="sd15", width=None, height=None, steps=1)[0].images[0]
    assert (picture.state, picture.width) == ("clean", 256), "the largest that it has places for"
    with pytest.raises(HalftoneError) as caught:
        generate(engine, model, family="sd15", prompt="a red sun over the hills " * 60, steps=1)
    assert caught.value.code == "places-too-few"


def test_only_a_denoiser_lacks_places() -> None:
    """A scheduler that is stepped too often looks beyond its own table."""
    pipe = architectures.lumina2()
    pipe.scheduler.set_timesteps(1)
    pipe.scheduler.step(latents := torch.zeros(1, 4, 2, 2), pipe.scheduler.timesteps[0], latents)[0]
    with pytest.raises(IndexError) as caught:
        pipe.scheduler.step(latents, pipe.scheduler.timesteps[0], latents)
    assert not is_beyond_tables(pipe, caught.value)


def test_prompts_are_as_long_as_the_denoiser_has_places(engine: DiffusersEngine, tmp_path: Path) -> None:
    torch.manual_seed(0)
    report = checked(engine, saved(videos.cogvideox(), tmp_path / "m"), width=32, height=32, num_frames=9)
    assert (report.verdict, report.made_up) == ("healthy", ("max_sequence_length",))


def test_what_the_user_gave_stays(engine: DiffusersEngine, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = saved(pixart(16), tmp_path / "m")
    with pytest.raises(HalftoneError) as caught:
        checked(engine, model, options={"use_resolution_binning": True})
    assert "Invalid sample size" in caught.value.as_facts().details + str(caught.value)


def test_an_inpainting_model_with_its_published_scheduler_is_made_and_checked(engine: DiffusersEngine, tmp_path: Path) -> None:
    """Stable Diffusion 1.5 inpainting ships with PNDM, which has no schedule before it runs."""
    torch.manual_seed(0)
    pipe = kin.sd15_inpaint()
    pipe.scheduler = kin.D.PNDMScheduler(skip_prk_steps=True, steps_offset=1)
    model = saved(pipe, tmp_path / "m")
    assert checked(engine, model).made_up == ("picture", "mask")
    given, mask = run.picture(tmp_path / "given.png", 32), run.mask(tmp_path / "mask.png", 32)
    request = PictureRequest(
        prompt="a", model=str(model), steps=3, image=str(given), mask=str(mask), numerics=Numerics(precision="float32")
    )
    assert engine.generate(Generate(job="g", request=request), Recorder(), Steady()).images[0].state == "clean"


# --- odd sizes and lengths in the configurations ----------------------------------------------------------

BUILT = pytest.mark.logs("loading .*transformer failed")


def vae_of_eight(**extra: Any) -> Any:
    """A VAE that scales by 8, as that of the published models does."""
    return diffusers.AutoencoderKL(
        down_block_types=cast("Any", ("DownEncoderBlock2D",) * 4),
        up_block_types=cast("Any", ("UpDecoderBlock2D",) * 4),
        block_out_channels=cast("Any", (8, 8, 8, 8)),
        latent_channels=4,
        norm_num_groups=4,
        **extra,
    )


def with_config(folder: Path, file: str, **changes: Any) -> Path:
    """The folder with other entries in one of its files; "absent" removes one."""
    content = {**json.loads((folder / file).read_text()), **changes}
    (folder / file).write_text(json.dumps({name: value for name, value in content.items() if value != "absent"}))
    return folder


def published(family: str, folder: Path) -> Path:
    torch.manual_seed(0)
    pipe = architectures.pixart() if family == "pixart" else tiny.FAMILIES[family]()
    if family == "sd15":  # attention in the lower block alone: at 512 pixels that of the upper one takes most of the time
        blocks = {
            "down_block_types": ("DownBlock2D", "CrossAttnDownBlock2D"),
            "up_block_types": ("CrossAttnUpBlock2D", "UpBlock2D"),
        }
        pipe.register_modules(unet=remade(pipe.unet, **blocks))
    if family != "sana":
        pipe.register_modules(vae=vae_of_eight(**({"shift_factor": 0.06} if family == "sd3" else {})))
    return saved(pipe, folder)


@pytest.mark.parametrize(
    ("family", "size", "edge"),
    [("sd15", None, 512), ("sd15", 0, 512), ("sd15", [4, 4, 4], 512), ("sd15", 100_000, 512), ("sd3", "absent", 512)],
    ids=str,
)
def test_a_model_of_an_odd_size_is_checked_and_makes_a_picture(
    family: str, size: Any, edge: int, engine: DiffusersEngine, tmp_path: Path
) -> None:
    part = "unet" if family == "sd15" else "transformer"
    model = with_config(published(family, tmp_path / "m"), f"{part}/config.json", sample_size=size)
    report = checked(engine, model)
    assert (report.verdict, report.sizes) == ("healthy", ((edge, edge, 1),))
    request = PictureRequest(prompt="a", model=str(model), steps=1, numerics=Numerics(precision="float32"))
    facts = engine.generate(Generate(job="g", request=request), Recorder(), Steady()).images[0]
    assert (facts.width, facts.height, facts.state) == (edge, edge, "clean")


@pytest.mark.parametrize(
    ("family", "size", "said"),
    [
        pytest.param("sd3", None, "None, with which SD3Transformer2DModel cannot be built", marks=BUILT),
        pytest.param("sd3", [4, 4, 4], "[4, 4, 4], with which SD3Transformer2DModel cannot be built", marks=BUILT),
        ("sd3", 100_000, "100,000, which no model has"),
        pytest.param("pixart", None, "None, with which PixArtTransformer2DModel cannot be built", marks=BUILT),
        pytest.param("pixart", 0, "0, with which PixArtTransformer2DModel cannot be built", marks=BUILT),
        ("pixart", 100_000, "100,000, which no model has"),
        pytest.param("sana", [4, 4, 4], "[4, 4, 4], with which SanaTransformer2DModel cannot be built", marks=BUILT),
        ("sana", 100_000, "100,000, which no model has"),
    ],
    ids=str,
)
def test_a_size_that_a_transformer_cannot_be_built_with_is_named(
    family: str, size: Any, said: str, engine: DiffusersEngine, tmp_path: Path
) -> None:
    model = with_config(published(family, tmp_path / "m"), "transformer/config.json", sample_size=size)
    request = PictureRequest(prompt="a", model=str(model), steps=1, numerics=Numerics(precision="float32"))
    for run_it in (
        lambda: checked(engine, model),
        lambda: engine.generate(Generate(job="g", request=request), Recorder(), Steady()),
    ):
        with pytest.raises(HalftoneError) as caught:
            run_it()
        assert caught.value.code == "model-cannot-run"
        assert f"transformer/config.json says sample_size {said}" in str(caught.value)


@pytest.mark.parametrize(
    ("family", "short"),
    [
        ("sdxl", ("tokenizer",)),
        ("sdxl", ("tokenizer_2",)),
        ("sdxl", ("tokenizer", "tokenizer_2")),
        ("sd3", ("tokenizer",)),
        ("sd3", ("tokenizer_2",)),
        ("sd3", ("tokenizer_3",)),
        ("sd3", ("tokenizer", "tokenizer_2", "tokenizer_3")),
        ("sd15", ("tokenizer",)),
    ],
    ids=str,
)
def test_a_model_with_short_tokenizers_is_checked_and_makes_a_picture(
    family: str, short: tuple[str, ...], engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    model = Path(shutil.copytree(models[family], tmp_path / "m"))
    for name in short:
        with_config(model, f"{name}/tokenizer_config.json", model_max_length=16)
    assert checked(engine, model).verdict == "healthy"
    prompt = "a photograph of a red sun over green hills"
    request = PictureRequest(prompt=prompt, model=str(model), steps=1, numerics=Numerics(precision="float32"))
    assert engine.generate(Generate(job="g", request=request), Recorder(), Steady()).images[0].state == "clean"


@pytest.mark.parametrize("length", [16, 1])
def test_pixart_with_a_short_tokenizer(length: int, engine: DiffusersEngine, tmp_path: Path) -> None:
    torch.manual_seed(0)
    model = with_config(saved(pixart(16), tmp_path / "m"), "tokenizer/tokenizer_config.json", model_max_length=length)
    if length == 16:
        assert checked(engine, model).verdict == "healthy"
        return
    with pytest.raises(HalftoneError) as caught:
        checked(engine, model)
    assert "model_max_length 1, which has no place for a word" in str(caught.value)


@pytest.mark.parametrize(("family", "name"), [("sdxl", "tokenizer_2"), ("sd3", "tokenizer_3")])
def test_a_further_tokenizer_without_a_place_for_a_word_is_named(
    family: str, name: str, engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    model = Path(shutil.copytree(models[family], tmp_path / "m"))
    with_config(model, f"{name}/tokenizer_config.json", model_max_length=1)
    with pytest.raises(HalftoneError) as caught:
        checked(engine, model)
    assert f"{name}/tokenizer_config.json says model_max_length 1, which has no place for a word" in str(caught.value)


# --- schedules, and the samplers that are offered -----------------------------------------------------------


GIVEN = ("Lumina 2", "HunyuanImage", "Z-Image", "CogView4", "Chroma", "LTX-Video", "Kandinsky 2.2", "Kandinsky 3")
"""Families whose pipelines give their sampler something of their own."""


@pytest.mark.parametrize("family", GIVEN)
def test_every_sampler_that_is_offered_runs(family: str, tmp_path: Path) -> None:
    found = {name: (outcome, words) for name, _, outcome, words in bench_of(case_of(family), tmp_path, more=()).offered()}
    assert len(found) >= 2
    assert {outcome for outcome, _ in found.values()} == {"made"}, found


def test_strengths_are_given_where_a_pipeline_has_one(tmp_path: Path) -> None:
    for number, (family, strengths) in enumerate(
        [("LTX-Video", []), ("Kandinsky 2.2", ["picture"]), ("SD 1.x inpaint", ["mask"])]
    ):
        (folder := tmp_path / str(number)).mkdir()
        assert bench_of(case_of(family), folder, more=()).strengths == strengths


@pytest.mark.parametrize("family", ["Kandinsky 2.2", "Kandinsky 3"])
@pytest.mark.parametrize("steps", [2, 3, 4])
def test_whole_steps_are_left_out_at_a_picture(family: str, steps: int, engine: DiffusersEngine, tmp_path: Path) -> None:
    """DPM2 a calls the denoiser twice for each step but the last; begun in the middle of one it divides by 0 at the end."""
    bench = bench_of(case_of(family), tmp_path, more=())
    run = Run("picture", steps, 0.5, sampler="DPM2 a")
    assert bench.outcome(engine, bench.model, run) == ("made", "clean")


def test_no_step_at_all_is_told_of_two_stages_too(engine: DiffusersEngine, tmp_path: Path) -> None:
    bench = bench_of(case_of("Kandinsky 2.2"), tmp_path, more=())
    outcome, words = bench.outcome(engine, bench.model, Run("picture", 3))
    assert outcome == "refused"
    assert words.startswith("strength-too-small: 3 steps at a strength of 0.3 leave no step to compute.")


def saved_with(scheduler: Any, folder: Path) -> Path:
    torch.manual_seed(0)
    pipe = tiny.sd15()
    pipe.register_modules(scheduler=scheduler)
    return saved(pipe, folder)


def asked(engine: DiffusersEngine, model: Path, **fields: Any) -> Any:
    request = PictureRequest(prompt="a", model=str(model), numerics=Numerics(precision="float32"), **fields)
    return engine.generate(Generate(job="g", request=request), Recorder(), Steady()).images[0]


def test_steps_that_a_sampler_cannot_compute_end_with_a_number_that_it_can(engine: DiffusersEngine, tmp_path: Path) -> None:
    """Noise levels of squared cosines that begin at the last reach 49,000, and rounding makes the root of DPM2 a negative."""
    model = saved_with(DDPMScheduler(beta_schedule="squaredcos_cap_v2"), tmp_path / "m")
    with pytest.raises(HalftoneError) as caught:
        asked(engine, model, steps=3, sampler="DPM2 a SGM Uniform (diffusers)")
    assert caught.value.code == "setting-bad-value"
    found = re.search(
        r"Steps cannot be 3 with the sampler DPM2 a SGM Uniform \(diffusers\), .* Use (\d+) steps, or another sampler\.$",
        str(caught.value),
    )
    assert found is not None
    assert asked(engine, model, steps=int(found[1]), sampler="DPM2 a SGM Uniform (diffusers)").state == "clean"
    given = str(run.picture(tmp_path / "given.png", 32))
    assert (
        asked(engine, model, steps=10, sampler="DPM2 a SGM Uniform (diffusers)", image=given, start=Start(strength=0.5)).state
        == "clean"
    )


def test_levels_that_round_to_the_same_timestep_run(engine: DiffusersEngine, tmp_path: Path) -> None:
    """Diffusers takes the second of two equal timesteps for the first step, and lacks a noise level at the end."""
    model = saved_with(DDIMScheduler(**ZERO_SNR), tmp_path / "m")
    for sampler in ("DPM++ 2M Beta", "UniPC Beta"):
        assert asked(engine, model, steps=5, sampler=sampler).state == "clean"


def test_a_schedule_that_is_given_says_how_many_steps_there_are(engine: DiffusersEngine, tmp_path: Path) -> None:
    model = saved_with(EulerDiscreteScheduler(), tmp_path / "m")
    cases: tuple[tuple[dict[str, OptionValue], int], ...] = (
        ({"timesteps": [900, 500, 100]}, 3),
        ({"sigmas": [9.0, 3.0, 0.0]}, 2),
    )
    for options, steps in cases:
        emit, output = Recorder(), str(tmp_path / "a.png")
        numerics = Numerics(precision="float32")
        request = PictureRequest(
            prompt="a", model=str(model), steps=20, options=options, numerics=numerics, output=output, overwrite=True
        )
        made = engine.generate(Generate(job="g", request=request), emit, Steady()).images[0]
        assert (made.state, len(emit.of(StepDone))) == ("clean", steps)
        receipt = read_picture(Path(output)).receipt
        assert receipt is not None
        told = json.loads(receipt)["request"]
        assert told["steps"] == steps
        said = f"Steps: {steps}, set by --option; the requested 20 are not used."
        assert said in told["reasons"]


def test_two_schedules_and_a_sampler_that_takes_none_are_told(engine: DiffusersEngine, tmp_path: Path) -> None:
    model = saved_with(EulerDiscreteScheduler(), tmp_path / "m")
    cases: tuple[tuple[dict[str, OptionValue], str | None, str], ...] = (
        ({"timesteps": [900], "sigmas": [9.0]}, None, "--option cannot be timesteps together with sigmas. Use one of the two"),
        (
            {"timesteps": [900]},
            "DDIM",
            "--option cannot be timesteps with the sampler DDIM, which takes none. Use another sampler",
        ),
    )
    for options, sampler, said in cases:
        with pytest.raises(HalftoneError) as caught:
            asked(engine, model, steps=3, options=options, sampler=sampler)
        assert str(caught.value).startswith(said)
    with pytest.raises(HalftoneError, match="timesteps together with sigmas"):
        check_options(describe(str(model)), cases[0][0], image=False, mask=False)
