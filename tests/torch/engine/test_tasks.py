"""Input images, a thorough check, verifying a plan alone, and a model no rescaling can cure."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.helpers.engine_runs import Recorder, Steady, check, faulty_copy, generate, pixels
from tests.helpers.reports import check_report
from tests.helpers.tiny import load_tiny

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import Finding
from halftone.contract.messages import Examine, Repair
from halftone.contract.plan import Cure, Plan
from halftone.contract.request import CheckInputs, Numerics
from halftone.contract.vocabulary import FindingCode, Verdict
from halftone.engine.checks.repair import rescaling_of
from halftone.engine.service import DiffusersEngine


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    colours = np.random.default_rng(0).integers(0, 255, (32, 32, 3), dtype=np.uint8)
    path = tmp_path / "input.png"
    Image.fromarray(colours).save(path)
    return path


def test_image_to_image_and_inpainting_use_the_sibling_pipelines(
    engine: DiffusersEngine, models: dict[str, Path], picture: Path, tmp_path: Path
) -> None:
    plain, _ = generate(engine, models["sd15"], steps=4)
    from_image, _ = generate(engine, models["sd15"], image=str(picture), steps=4)
    assert from_image.images[0].state == "clean"
    assert (pixels(plain) != pixels(from_image)).any()
    mask = tmp_path / "mask.png"
    Image.fromarray(np.tri(32, dtype=np.uint8) * 255).save(mask)
    painted, _ = generate(engine, models["sd15"], image=str(picture), mask=str(mask), steps=4)
    assert painted.images[0].finite
    again, _ = generate(engine, models["sd15"], steps=4)
    assert (pixels(again) == pixels(plain)).all(), "the plain pipeline is as it was"


def test_an_encoder_that_overflows_on_an_input_image_is_cured(
    engine: DiffusersEngine, models: dict[str, Path], picture: Path, tmp_path: Path
) -> None:
    model = faulty_copy(models["sd15"], tmp_path / "faulty", "vae", "stream of encoder", 18)
    wide, _ = generate(engine, model, "float32", image=str(picture), steps=4)
    report, _ = generate(engine, model, "float16", image=str(picture), steps=4)
    event = report.images[0].events[0]
    assert (event.action, event.component, event.module, event.cure) == ("encoded-again", "vae", "encoder.conv_in", "rescale")
    assert np.abs(pixels(report).astype(int) - pixels(wide)).mean() < 3


def test_thorough_check_draws_eight_pictures(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    inputs = CheckInputs(width=32, height=32, steps=2)
    command = Examine(
        job="c", model=str(models["sd15"]), depth="thorough", numerics=Numerics(precision="bfloat16"), inputs=inputs
    )
    report = engine.examine(command, Recorder(), Steady())
    assert report.verdict == "healthy"
    assert report.depth == "thorough"


def test_a_plan_is_verified_alone(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    model = faulty_copy(models["sd15"], tmp_path / "faulty", "vae", "stream of decoder", 16)
    found, _ = check(engine, model)
    command = Examine(
        job="v",
        model=str(model),
        numerics=Numerics(precision="float16"),
        inputs=CheckInputs(width=32, height=32),
        plan=found.plan,
    )
    report = engine.examine(command, Recorder(), Steady())
    assert report.plan.verified
    assert report.plan.rescale == found.plan.rescale
    assert all(layer.peak_after is None or layer.peak_after < 65504 for layer in report.layers)


def test_a_sound_model_has_nothing_to_rescale(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    with pytest.raises(HalftoneError) as caught:
        engine.repair(Repair(job="r", model=str(models["sd15"]), output=str(tmp_path / "copy")), Recorder(), Steady())
    assert caught.value.code == "nothing-to-repair"
    assert not (tmp_path / "copy").exists()


def finding(code: FindingCode, **facts: bool) -> Finding:
    return Finding(code=code, component="vae", module="decoder", dtype="float16", peak=None, limit=None, facts={**facts})


@pytest.mark.parametrize(
    ("verdict", "findings", "cures", "code"),
    [
        ("healthy", (), (), "nothing-to-repair"),
        ("tight", (finding("tight"),), (), "nothing-to-repair"),
        ("fixable", (finding("activation-overflow"),), (Cure(kind="bfloat16", plan=Plan()),), "no-rescale"),
        ("broken", (finding("activation-overflow"),), (), "no-rescale"),
        ("broken", (finding("activation-overflow"),), (Cure(kind="rescale", plan=Plan()),), "no-rescale"),
        ("broken", (finding("weights-nonfinite", read=True),), (), "model-broken"),
    ],
)
def test_a_repair_is_refused_for_what_its_check_found(
    verdict: Verdict, findings: tuple[Finding, ...], cures: tuple[Cure, ...], code: str
) -> None:
    with pytest.raises(HalftoneError) as caught:
        rescaling_of(check_report(verdict=verdict, findings=findings, cures=cures))
    assert caught.value.code == code


def test_flat_output_is_seen_though_every_number_is_finite(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    """An offset shared by all channels before the last norm: float16 swallows what the channels differ by."""
    import torch

    pipe = load_tiny(models["sd15"])
    with torch.no_grad():
        pipe.vae.decoder.up_blocks[1].resnets[1].conv2.bias += 60000.0
    pipe.save_pretrained(tmp_path / "flat")
    report, _ = check(engine, tmp_path / "flat")
    assert report.verdict == "fixable"
    assert report.findings[0].code in {"flat-output", "saturated-output", "inexact-output", "underflow"}
    assert report.findings[0].code != "saturated-output" or (report.findings[0].peak or 0) > 65504, "only what passes the limit"
    assert report.findings[0].component == "vae"
    assert report.findings[0].module.startswith("decoder.")
    assert any(cure.suggested for cure in report.cures)
