"""What the pipelines of single families want otherwise than the rest: guidance, prompts, pictures, steps."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
import torch
from diffusers import StableDiffusionPipeline
from PIL import Image
from tests.bench.families import flows, run
from tests.bench.families.table import CASES, Case
from tests.bench.faults.videos import kandinsky22
from tests.helpers.engine_runs import Recorder, Steady, pixels
from tests.helpers.model_files import write_folder

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import GenerateReport
from halftone.contract.messages import Generate
from halftone.contract.request import Numerics, PictureRequest
from halftone.engine.inputs.prompts import prompts_to_read
from halftone.engine.inputs.resolve import refused, resolve, task_pipeline
from halftone.engine.inputs.wanted import of_request
from halftone.engine.loading.load import Loaded, load_pipeline
from halftone.engine.loading.qwen_processor import QwenProcessor
from halftone.engine.service import DiffusersEngine
from halftone.engine.weights.parts import role
from halftone.health.pictures.run_reasons import how_it_ran
from halftone.library.models import describe

pytestmark = pytest.mark.filterwarnings("ignore")  # what the libraries say while tiny models are made and run


def case_of(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def drawn(engine: DiffusersEngine, case: Case, model: Path, **changes: Any) -> GenerateReport:
    fields: dict[str, Any] = {"width": case.size, "height": case.size, "steps": 2, "seed": 5, "options": case.options, **changes}
    request = PictureRequest(prompt="a red sun", model=str(model), numerics=Numerics(precision="float16"), **fields)
    return engine.generate(Generate(job="g", request=request), Recorder(), Steady())


def test_guidance_goes_to_what_guides_by_two_calls(engine: DiffusersEngine, tmp_path: Path) -> None:
    case = case_of("Qwen-Image")
    model = run.save(case, tmp_path / "m")
    alone, guided = (drawn(engine, case, model, guidance=guidance) for guidance in (1.0, 6.0))
    assert (pixels(alone) != pixels(guided)).any()


def test_what_a_pipeline_does_not_know_is_left_out_and_said(tmp_path: Path) -> None:
    facts = describe(str(run.save(case_of("Stable Video Diffusion"), tmp_path / "m")))
    loaded = load_pipeline(facts, torch.device("cpu"))
    picture = str(run.picture(tmp_path / "given.png", 32))
    request = PictureRequest(prompt="a red sun", negative="blue", model=facts.id, guidance=2.0, image=picture)
    inputs = of_request(request, facts)
    reasons = resolve(request, loaded, loaded.pipe, inputs, "float16", ()).reasons
    said = list(map(str, reasons))
    assert [reason for reason in said if "this model" in reason] == [
        "Prompt: this model does not use one.",
        "Negative prompt: this model does not use one.",
    ]
    assert "guidance" not in " ".join(said).lower(), "the guidance of a video grows to what was asked for"


@pytest.mark.parametrize(
    ("name", "noted"),
    [
        ("SD 1.x", True),
        ("SD 3", True),
        ("PixArt-Σ", True),
        ("Qwen-Image", True),
        ("SD 1.x LCM", False),
        ("FLUX.1 dev", False),
        ("Z-Image", False),
    ],
)
def test_a_guidance_that_acts_as_1_is_noted(tmp_path: Path, name: str, noted: bool) -> None:
    facts = describe(str(run.save(case_of(name), tmp_path / "m")))
    loaded = load_pipeline(facts, torch.device("cpu"))

    def said(guidance: float | None) -> list[str]:
        inputs = of_request(PictureRequest(prompt="a red sun", negative="blue", model=facts.id, guidance=guidance), facts)
        told = how_it_ran(resolve(PictureRequest(prompt="a red sun"), loaded, loaded.pipe, inputs, "float32", ()).reasons)
        return [str(one) for one in told if one.about == "guidance"]

    words = "Guidance: 0.5 acts as 1, so the negative prompt is not used. A1111 and ComfyUI would mix it in."
    assert said(0.5) == ([words] if noted else [])
    assert said(1.0) == said(2.0) == said(None) == []


@pytest.mark.parametrize(("name", "alike"), [("SD 1.x", True), ("PixArt-Σ", True), ("Z-Image", False)])
def test_which_pipelines_guide_below_1(engine: DiffusersEngine, tmp_path: Path, name: str, alike: bool) -> None:
    case = case_of(name)
    model = run.save(case, tmp_path / "m")
    half, one = (pixels(drawn(engine, case, model, guidance=guidance, negative="blue")) for guidance in (0.5, 1.0))
    assert bool((half == one).all()) is alike


def test_another_number_of_steps_than_the_two_that_a_pipeline_is_set_for(engine: DiffusersEngine, tmp_path: Path) -> None:
    case = case_of("Sana Sprint")
    report = drawn(engine, case, run.save(case, tmp_path / "m"), steps=4)
    assert (report.images[0].steps, report.images[0].state) == (4, "clean")


def test_starting_from_a_picture_leaves_the_networks_in_their_type(engine: DiffusersEngine, tmp_path: Path) -> None:
    case = case_of("Chroma")
    model = run.save(case, tmp_path / "m")
    before = drawn(engine, case, model)
    drawn(engine, case, model, image=str(run.picture(tmp_path / "given.png", 32)), steps=4)
    assert engine.loaded is not None
    assert {module.dtype for module in cast("Any", engine.loaded.modules).values()} == {torch.float16}
    assert (pixels(drawn(engine, case, model)) == pixels(before)).all()


def test_a_check_gives_a_picture_and_a_mask_to_a_model_that_needs_them(engine: DiffusersEngine, tmp_path: Path) -> None:
    for name in ("SD 1.x inpaint", "SDXL refiner"):
        case = case_of(name)
        run.checked(case, engine, run.save(case, tmp_path / name))


def test_a_model_that_starts_from_a_picture_is_not_loaded_without_one(engine: DiffusersEngine, tmp_path: Path) -> None:
    folder = write_folder(tmp_path / "m", "StableDiffusionInpaintPipeline")
    request = PictureRequest(prompt="a", model=str(folder))
    with pytest.raises(HalftoneError) as caught:
        engine.generate(Generate(job="g", request=request), Recorder(), Steady())
    assert str(caught.value).startswith("m needs a picture. Choose one under Image to image.")


def test_a_model_whose_inpainting_is_another_model_takes_no_mask(tmp_path: Path) -> None:
    loaded = cast("Loaded", SimpleNamespace(pipe=kandinsky22(), facts=describe("pocket")))
    given = str(run.picture(tmp_path / "given.png", 32))
    inputs = of_request(PictureRequest(prompt="a", image=given, mask=given), describe("pocket"))
    with pytest.raises(HalftoneError) as caught:
        task_pipeline(loaded, inputs)
    assert (caught.value.code, caught.value.facts["model"]) == ("start-no-mask", describe("pocket").name)


def test_what_a_pipeline_says_of_its_inputs_is_told_as_its_words() -> None:
    check = cast("Any", StableDiffusionPipeline).check_inputs
    with pytest.raises(ValueError, match="divisible") as caught:
        check(None, "a", 33, 33, 1)
    told = refused({}, caught.value)
    assert isinstance(told, HalftoneError)
    assert told.code == "pipeline-refused"
    assert "divisible by 8 but are 33 and 33. Change" in str(told)
    blamed = refused({"height": 33}, caught.value)
    assert isinstance(blamed, HalftoneError)
    assert blamed.code == "setting-bad-value"
    fault = ValueError("a fault of ours")
    assert refused({}, fault) is fault


def test_each_sign_of_a_picture_becomes_its_places(tmp_path: Path) -> None:
    flows.save_qwen_vl(tmp_path)
    words = QwenProcessor.from_pretrained(tmp_path)
    sign = words.tokenizer.convert_tokens_to_ids("<|image_pad|>")
    picture = Image.new("RGB", (56, 56))
    read = words(text=["a<|image_pad|>b<|image_pad|>"], images=[picture, picture], padding=True, return_tensors="pt")
    places = int(read["image_grid_thw"][0].prod()) // 4
    assert read["input_ids"].tolist()[0].count(sign) == 2 * places
    assert read["pixel_values"].shape[0] == 2 * 4 * places
    assert places == 4
    alone = words(text=["ab", "a"], padding=True, return_tensors="pt")
    assert set(alone) == {"input_ids", "attention_mask"}


def test_what_is_called_a_decoder_and_decodes_nothing_is_a_denoiser() -> None:
    assert role("decoder", torch.nn.Linear(1, 1)) == "denoise"
    assert role("prior_prior", torch.nn.Linear(1, 1)) == "denoise"


def test_an_encoder_that_reads_what_stands_in_quotes_is_given_some() -> None:
    facts = describe("pocket")
    quoting = SimpleNamespace(pipeline="HunyuanImagePipeline", path=facts.path, prompt_tokens=facts.prompt_tokens)
    loaded = cast("Loaded", SimpleNamespace(pipe=SimpleNamespace(__call__=lambda: None), facts=quoting, inversions=()))
    assert any('"' in prompt for prompt in prompts_to_read(loaded))


def test_an_option_that_has_nothing_to_do_with_an_error_is_not_blamed(engine: DiffusersEngine, tmp_path: Path) -> None:
    case = case_of("LTX-Video")
    with pytest.raises(HalftoneError) as caught:
        drawn(engine, case, run.save(case, tmp_path / "m"), width=40, num_frames=9)
    assert caught.value.code == "pipeline-refused"
    assert "divisible by 32" in str(caught.value)


def test_of_several_options_the_one_in_the_failing_statement_is_blamed(engine: DiffusersEngine, tmp_path: Path) -> None:
    case = case_of("Stable Video Diffusion")
    given = str(run.picture(tmp_path / "given.png", 32))
    options: dict[str, Any] = {"min_guidance_scale": 1.0, "decode_chunk_size": 0}
    with pytest.raises(HalftoneError) as caught:
        drawn(engine, case, run.save(case, tmp_path / "m"), image=given, num_frames=3, options=options)
    assert (caught.value.code, caught.value.facts["value"]) == ("setting-bad-value", "decode_chunk_size=0")


def test_an_index_that_an_option_leads_out_of_a_list_is_blamed_on_it(engine: DiffusersEngine, tmp_path: Path) -> None:
    case = case_of("SD 1.x")
    with pytest.raises(HalftoneError) as caught:
        drawn(engine, case, run.save(case, tmp_path / "m"), options={"clip_skip": 11, "eta": 0.0})
    assert (caught.value.code, caught.value.facts["name"], caught.value.facts["value"]) == (
        "setting-bad-value",
        "--clip-skip",
        "12",
    )


def test_an_option_of_another_kind_is_refused_before_anything_runs(engine: DiffusersEngine, tmp_path: Path) -> None:
    case = case_of("Kandinsky 3")
    model = run.save(case, tmp_path / "m")
    with pytest.raises(HalftoneError) as caught:
        drawn(engine, case_of("Sana"), run.save(case_of("Sana"), tmp_path / "s"), options={"clean_caption": 3})
    assert caught.value.facts["name"] == "--option clean_caption"
    with pytest.raises(HalftoneError) as caught:
        drawn(engine, case, model, options={"no_such": [1]})
    assert caught.value.code == "option-unknown"


def test_lists_are_given_to_a_pipeline(engine: DiffusersEngine, tmp_path: Path) -> None:
    case = case_of("Sana")
    model = run.save(case, tmp_path / "m")
    plain, told, none = (
        drawn(engine, case, model, options={**case.options, **more})
        for more in ({}, {"complex_human_instruction": ["a long", "instruction"]}, {"complex_human_instruction": []})
    )
    assert (pixels(told) != pixels(plain)).any()
    assert (pixels(none) != pixels(told)).any()


def test_sizes_of_sdxl_are_given_as_lists(engine: DiffusersEngine, tmp_path: Path) -> None:
    case = case_of("SDXL")
    model = run.save(case, tmp_path / "m")
    plain, told = (drawn(engine, case, model, options=options) for options in ({}, {"original_size": [16, 16]}))
    assert (pixels(told) != pixels(plain)).any()
