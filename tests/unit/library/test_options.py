"""Options of the pipelines, told from the model's folder alone."""

import json
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.helpers.model_files import write_folder

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.contract.request import OptionValue
from halftone.library.models import POCKET, describe
from halftone.library.options import check_options, known_options
from halftone.library.samplers import FLOW_SAMPLERS, SAMPLERS

NOISE = {"eta_ancestral", "s_noise"}
BENT = {"sigma_min", "sigma_max", "rho", "discard_penultimate"}


def refusal(facts: ModelFacts, options: dict[str, OptionValue], *, image: bool = False, mask: bool = False) -> str:
    with pytest.raises(HalftoneError) as caught:
        check_options(facts, options, image=image, mask=mask)
    return str(caught.value)


def of(tmp_path: Path, pipeline: str) -> ModelFacts:
    folder = write_folder(tmp_path / pipeline)
    index = json.loads((folder / "model_index.json").read_text())
    (folder / "model_index.json").write_text(json.dumps(index | {"_class_name": pipeline}))
    return describe(str(folder))


def test_what_the_pipeline_takes_is_taken() -> None:
    pocket = describe(POCKET)
    check_options(pocket, {"eta": 0.5, "clip_skip": 1}, image=False, mask=False)
    check_options(pocket, {"eta": 1, "clip_skip": 2}, image=True, mask=False)
    check_options(pocket, {"clip_skip": 2}, image=True, mask=True)


def test_what_it_does_not_take_is_refused_with_what_it_does(tmp_path: Path) -> None:
    pocket = describe(POCKET)
    said = (
        "This model's pipeline has no option {}. "
        "Known options: --clip-skip, --discard-penultimate, --emphasis, --eta, --eta-noise-seed-delta, --freeu, --freeu-b1, "
        "--freeu-b2, --freeu-end, --freeu-s1, --freeu-s2, --freeu-start, --guidance-rescale, --noise-schedule, --noise-source, "
        "--pag, --pag-attenuation, --pag-end, --pag-start, --prompt-syntax, --rho, --sigma-churn, --sigma-max, --sigma-min, "
        "--sigma-noise, --sigma-tmax, --sigma-tmin, --threshold, --threshold-cfg-min, --threshold-cfg-mode, "
        "--threshold-channels, --threshold-min, --threshold-mode, --threshold-percentile, --threshold-phi, "
        "--threshold-startpoint, --threshold-value, --threshold-variability, "
        "--option eta=VALUE, --option sigmas=VALUE, --option timesteps=VALUE."
    )
    assert refusal(pocket, {"latents": 1}) == said.format("latents")
    assert refusal(pocket, {"denoising_end": 0.5}) == said.format("denoising_end")
    assert refusal(pocket, {"eta": "much"}) == "--option eta cannot be much. Use a number."
    assert refusal(pocket, {"clip_skip": 1.5}) == "--option clip_skip cannot be 1.5. Use a whole number."
    assert refusal(pocket, {"clip_skip": True}) == "--option clip_skip cannot be True. Use a whole number."
    sana = of(tmp_path, "SanaPipeline")
    assert refusal(sana, {"clean_caption": 1}) == "--option clean_caption cannot be 1. Use true or false."
    assert refusal(sana, {}, image=True).startswith("SanaPipeline does not support image to image.")


def test_what_only_goes_without_a_picture_says_so() -> None:
    pocket = describe(POCKET)
    said = "--guidance-rescale cannot be used with {}. Use one of the two."
    assert refusal(pocket, {"guidance_rescale": 0.5}, image=True) == said.format("image to image")
    assert refusal(pocket, {"guidance_rescale": 0.5}, image=True, mask=True) == said.format("a mask")


def test_a_parameter_of_the_sampler_belongs_to_the_pipelines_that_have_such_samplers(tmp_path: Path) -> None:
    check_options(of(tmp_path, "StableDiffusion3Pipeline"), {"shift": 3}, image=True, mask=False)
    check_options(of(tmp_path, "FluxPipeline"), {"shift": 3.5}, image=False, mask=False)
    assert refusal(describe(POCKET), {"shift": 3.0}).startswith("This model's pipeline has no option --shift. Known options: ")
    assert refusal(of(tmp_path, "SanaPipeline"), {"shift": "much"}) == "--option shift cannot be much. Use a number."


@pytest.mark.parametrize(
    ("sampler", "pipeline", "taken"),
    [
        ("Euler a Karras", "StableDiffusionPipeline", NOISE | BENT),
        ("DPM++ 2S a", "StableDiffusionPipeline", NOISE | BENT - {"rho"}),
        ("ER SDE Simple", "StableDiffusionPipeline", {"s_noise", "discard_penultimate"}),
        ("Euler a", "StableDiffusionPipeline", set[str]()),
        ("Euler a SGM Uniform (diffusers)", "StableDiffusionPipeline", set[str]()),
        ("Euler Karras", "StableDiffusionPipeline", BENT | {"s_noise"}),
        (None, "StableDiffusionPipeline", set[str]()),
        ("Euler a", "FluxPipeline", NOISE | {"discard_penultimate"}),
        ("Euler a Karras", "FluxPipeline", NOISE | BENT),
        ("DPM++ 2M SDE", "FluxPipeline", set[str]()),
    ],
)
def test_options_of_a_sampler_go_with_it(sampler: str | None, pipeline: str, taken: set[str]) -> None:
    names = FLOW_SAMPLERS if pipeline == "FluxPipeline" else SAMPLERS
    model = replace(describe(POCKET), pipeline=pipeline, samplers=names)
    known = known_options(model, sampler, {}, image=False, mask=False)
    assert (NOISE | BENT) & set(known) == taken


def test_an_option_that_says_nothing_alone_is_refused_alone(tmp_path: Path) -> None:
    pocket = describe(POCKET)
    assert refusal(pocket, {"freeu_b1": 1.5}) == "--freeu-b1 cannot be set without --freeu. Use --freeu with it, or neither."
    check_options(pocket, {"freeu": 1, "freeu_b1": 1.5}, image=True, mask=False)
    assert refusal(of(tmp_path, "FluxPipeline"), {"freeu": 1}).startswith("This model's pipeline has no option --freeu.")


def test_of_an_unknown_pipeline_nothing_is_said(tmp_path: Path) -> None:
    check_options(of(tmp_path, "KolorsPipeline"), {"anything": 1}, image=True, mask=False)
    check_options(replace(describe(POCKET), pipeline=""), {"anything": 1}, image=False, mask=False)
