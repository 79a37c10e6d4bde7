"""Troubles that people really have, planted at their real places in tiny models of the real classes.

A Stable Diffusion UNet whose cross-attention overflows in FP16 (2.1, and fine-tunes of 1.5); Sana, which was trained in BF16 and
overflows in FP16; Stable Video Diffusion, whose attention sums overflow and whose frames turn black. Each is found and named,
each cure is shown by itself, and so is what happens without the watch.
"""

import warnings
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.helpers.engine_runs import check, faulty_copy, generate, pixels
from tests.helpers.tiny import load_tiny
from tests.helpers.tiny_video import save_video_model, start_picture
from tests.torch.engine.test_going_on import hooked

from halftone.contract.facts import CheckReport, Finding, GenerateReport
from halftone.contract.messages import PlanChanged
from halftone.engine.service import DiffusersEngine
from halftone.health.explain import finding_words
from halftone.measure.pictures import psnr
from halftone.metadata.video import read_frames
from halftone.settings.declared import ALIASES

FLAGS: dict[str, dict[str, Any]] = {alias.flag: {alias.field: alias.value} for alias in ALIASES}
"""What users of A1111 would try, and what it sets here."""
HALF_SUMS: dict[str, Any] = {"attention_backend": "math", "math_attention_reduction": True}
"""Attention whose scores stay in FP16, as some cards compute it and as ComfyUI and SD.Next switch it on."""
CLOSE = 30.0


def first_finding(report: CheckReport) -> Finding:
    return next(finding for finding in report.findings if finding.code != "tight")


def long_queries_and_keys(attention: Any) -> None:
    """Each of them fits into FP16, their product does not."""
    for projection in (attention.to_q, attention.to_k):
        projection.weight *= 2048 / projection.weight.abs().max()


# --- Stable Diffusion: cross-attention -------------------------------------------------------------------

CROSS = "mid_block.attentions.0.transformer_blocks.0.attn2"


@pytest.fixture(scope="module")
def crossing(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The values of a cross-attention are too large for FP16; what its output projection makes of them is not."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return faulty_copy(models["sd15"], tmp_path_factory.mktemp("crossing") / "model", "unet", f"values of {CROSS}", 17)


@pytest.fixture(scope="module")
def scoring(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The scores of a cross-attention are too large for FP16."""
    folder = tmp_path_factory.mktemp("scoring") / "model"
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        pipe = load_tiny(models["sd15"])
        long_queries_and_keys(pipe.unet.get_submodule(CROSS))
        pipe.save_pretrained(folder)
    return folder


def test_an_overflowing_cross_attention_is_found_and_named_and_its_cures_come_cheapest_first(
    engine: DiffusersEngine, crossing: Path
) -> None:
    report, _ = check(engine, crossing)
    found = first_finding(report)
    assert (found.code, found.component, found.module) == ("activation-overflow", "unet", f"{CROSS}.to_v")
    assert "mid block, first attention layer, values" in str(finding_words(found)[0])
    kinds = [cure.kind for cure in report.cures]
    assert kinds[0] == "rescale"
    assert kinds[-1] == "float32-all", "--no-half comes last"
    assert (report.verdict, report.plan.verified, list(report.plan.rescale)) == ("fixable", True, ["unet"])


def test_scores_of_a_cross_attention_are_found_and_the_setting_is_the_cure(engine: DiffusersEngine, scoring: Path) -> None:
    report, _ = check(engine, scoring, **HALF_SUMS)
    found = first_finding(report)
    assert (found.code, found.component, found.module) == ("attention-overflow", "unet", CROSS)
    assert (report.verdict, report.plan.verified) == ("fixable", True)
    assert report.plan.settings == {"math_attention_reduction": False}


@pytest.mark.parametrize("flag", ["--upcast-attention", "--no-half"])
@pytest.mark.parametrize("fault", ["crossing", "scoring"])
def test_the_setting_alone_cures_a_cross_attention(
    engine: DiffusersEngine, request: pytest.FixtureRequest, fault: str, flag: str
) -> None:
    """Nothing has to be recovered then: the picture is sound from its first step on."""
    model: Path = request.getfixturevalue(fault)
    wide, _ = generate(engine, model, "float32")
    numerics: dict[str, Any] = {"precision": "float16", **(HALF_SUMS if fault == "scoring" else {}), **FLAGS[flag]}
    report, events = generate(engine, model, **numerics)
    assert (report.images[0].state, events.of(PlanChanged)) == ("clean", [])
    assert psnr(pixels(report), pixels(wide)) >= CLOSE
    wide_parts = {"--no-half": {"text_encoder", "unet", "vae"}, "--upcast-attention": set[str]()}
    assert {name for name, dtype in report.images[0].dtypes.items() if dtype == "float32"} == wide_parts[flag]


@pytest.mark.parametrize(("fault", "cure"), [("crossing", "rescale"), ("scoring", "setting")])
def test_without_any_setting_the_picture_is_recovered_by_the_cheapest_cure(
    engine: DiffusersEngine, request: pytest.FixtureRequest, fault: str, cure: str
) -> None:
    model: Path = request.getfixturevalue(fault)
    wide, _ = generate(engine, model, "float32")
    report, _ = generate(engine, model, "float16", **(HALF_SUMS if fault == "scoring" else {}))
    picture = report.images[0]
    (event,) = picture.events
    assert (picture.state, picture.black, event.cure, event.action) == ("recovered", False, cure, "went-back-one-step")
    assert event.module.startswith(CROSS)
    assert psnr(pixels(report), pixels(wide)) >= CLOSE


def test_without_the_watch_the_picture_is_black_and_says_that_nobody_looked(engine: DiffusersEngine, crossing: Path) -> None:
    report, _ = generate(engine, crossing, precision="float16", **FLAGS["--disable-nan-check"])
    picture = report.images[0]
    assert (picture.state, picture.black, picture.finite, picture.events) == ("unwatched", True, False, ())


# --- Sana: made in BF16 ----------------------------------------------------------------------------------


def beyond_half(attention: Any) -> None:
    """Large values on the way into the output projection, which no longer fit into FP16."""
    attention.to_v.weight *= 2.0**17
    attention.to_out[0].weight *= 2.0**-17


@pytest.fixture(scope="module")
def sana(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """In BF16, as Sana is published, with the large numbers that this type lets grow."""
    folder = tmp_path_factory.mktemp("sana") / "model"
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        pipe = load_tiny(models["sana"])
        beyond_half(pipe.transformer.transformer_blocks[0].attn2)
        pipe.to(torch.bfloat16).save_pretrained(folder)
    return folder


def test_sana_is_sound_in_bfloat16(engine: DiffusersEngine, sana: Path) -> None:
    report, _ = check(engine, sana, "bfloat16", family="sana")
    assert (report.verdict, [finding.code for finding in report.findings]) == ("healthy", [])
    drawn, events = generate(engine, sana, "bfloat16", family="sana")
    assert (drawn.images[0].state, events.of(PlanChanged)) == ("clean", [])


def test_sana_overflows_in_float16_and_what_is_advised_keeps_its_eleven_bits(engine: DiffusersEngine, sana: Path) -> None:
    """BF16 stands among the cures, behind the one that costs no detail."""
    report, _ = check(engine, sana, "float16", family="sana")
    found = first_finding(report)
    assert (found.code, found.component) == ("activation-overflow", "transformer")
    assert found.module == "transformer_blocks.0.attn2.to_v"
    kinds = [cure.kind for cure in report.cures]
    assert (kinds[0], report.verdict, report.plan.verified) == ("rescale", "fixable", True)
    assert kinds[-1] == "float32-all"
    wide, _ = generate(engine, sana, "float32", family="sana")
    half, _ = generate(engine, sana, "float16", family="sana")
    brain, _ = generate(engine, sana, "bfloat16", family="sana")
    assert (half.images[0].state, half.images[0].events[0].cure) == ("recovered", "rescale")
    assert psnr(pixels(half), pixels(wide)) > max(CLOSE, psnr(pixels(brain), pixels(wide)))


def test_sana_in_float16_without_the_watch_is_black(engine: DiffusersEngine, sana: Path) -> None:
    report, _ = generate(engine, sana, family="sana", precision="float16", **FLAGS["--disable-nan-check"])
    assert (report.images[0].state, report.images[0].black) == ("unwatched", True)


# --- Stable Video Diffusion: attention sums --------------------------------------------------------------

SPACE = "mid_block.attentions.0.transformer_blocks.0.attn1"
TIME = "mid_block.attentions.0.temporal_transformer_blocks.0.attn1"


@pytest.fixture(scope="module", params=[SPACE, TIME], ids=["over the picture", "over time"])
def film(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """(model, the attention whose scores pass the limit of FP16)."""
    folder, name = tmp_path_factory.mktemp("svd"), str(request.param)
    start_picture(folder / "start.png")
    return save_video_model(folder / "model", "svd", lambda pipe: long_queries_and_keys(pipe.unet.get_submodule(name))), name


def filmed(engine: DiffusersEngine, model: Path, **changes: Any) -> GenerateReport:
    given: dict[str, Any] = {"precision": "float16", **changes}
    return generate(engine, model, prompt="", num_frames=4, image=str(model.parent / "start.png"), **given)[0]


def frames(report: GenerateReport) -> list[Any]:
    return [frame for frame, _ in read_frames(Path(report.images[0].path))]


def test_sums_of_attention_that_overflow_blacken_the_frames_of_a_video_that_nobody_watches(
    engine: DiffusersEngine, film: tuple[Path, str]
) -> None:
    picture = filmed(engine, film[0], **HALF_SUMS, **FLAGS["--disable-nan-check"]).images[0]
    assert (picture.state, picture.black, picture.frames) == ("unwatched", True, 4)
    assert sorted({*picture.flat_frames, *picture.broken_frames}) == [1, 2, 3, 4], "black frames are counted all the same"


def test_black_frames_are_cured_by_the_sums_of_attention_in_float32(engine: DiffusersEngine, film: tuple[Path, str]) -> None:
    model, module = film
    wide = frames(filmed(engine, model, precision="float32"))
    report = filmed(engine, model, **HALF_SUMS)
    picture = report.images[0]
    (event,) = picture.events
    assert (picture.state, picture.black, picture.flat_frames, picture.broken_frames) == ("recovered", False, (), ())
    assert (event.component, event.module, event.cure) == ("unet", module, "setting")
    assert report.plan.settings == {"math_attention_reduction": False}
    assert all(psnr(one, two) > 24 for one, two in zip(frames(report), wide, strict=True))


def overflowing_sums(_module: torch.nn.Module, _args: Any, output: torch.Tensor) -> torch.Tensor | None:
    """What a card gives that keeps the sums of a long product in FP16, for as long as torch's own switch lets it."""
    narrow = output.dtype == torch.float16 and torch.backends.cuda.matmul.allow_fp16_accumulation
    return torch.full_like(output, torch.inf) if narrow else None


def test_sums_in_float16_are_switched_off_where_a_product_overflows_in_them(
    engine: DiffusersEngine, film: tuple[Path, str]
) -> None:
    model, module = film
    filmed(engine, model)
    with hooked(engine, "unet", f"{module}.to_out.0", overflowing_sums):
        report = filmed(engine, model, fp16_accumulation=True)
        again = filmed(engine, model, fp16_accumulation=True)
    picture = report.images[0]
    assert (picture.state, picture.black, [event.cure for event in picture.events]) == ("recovered", False, ["setting"])
    assert report.plan.settings == {"fp16_accumulation": False}
    assert again.images[0].state == "clean", "what worked is remembered"


@pytest.mark.parametrize("changes", [{"math_attention_reduction": False}, {"attention_backend": "auto"}, FLAGS["--no-half"]])
def test_the_settings_of_attention_keep_a_video_sound(
    engine: DiffusersEngine, film: tuple[Path, str], changes: dict[str, Any]
) -> None:
    assert filmed(engine, film[0], **{**HALF_SUMS, **changes}).images[0].state == "clean"


def test_a_check_of_a_video_model_names_the_attention(engine: DiffusersEngine, film: tuple[Path, str]) -> None:
    model, module = film
    report, _ = check(engine, model, **HALF_SUMS, num_frames=4, image=str(model.parent / "start.png"))
    found = first_finding(report)
    assert (found.code, found.component, found.module) == ("attention-overflow", "unet", module)
    assert (report.plan.verified, report.plan.settings) == (True, {"math_attention_reduction": False})
