"""Every family loads, makes a finite picture in each precision, and is found healthy."""

from pathlib import Path

import pytest
from tests.helpers.engine_runs import check, generate, pixels
from tests.helpers.tiny import FAMILIES

from halftone.contract.errors import HalftoneError
from halftone.contract.messages import LayersMeasured, PhaseChanged, PictureReady, StepDone
from halftone.contract.vocabulary import DType
from halftone.engine.service import DiffusersEngine
from halftone.measure.pictures import psnr


@pytest.mark.parametrize("family", FAMILIES)
def test_makes_a_finite_picture_in_every_precision(engine: DiffusersEngine, models: dict[str, Path], family: str) -> None:
    wide, events = generate(engine, models[family], "float32", family=family)
    reference = pixels(wide)
    precisions: tuple[DType, ...] = ("float16", "bfloat16")
    for precision in precisions:
        report, _ = generate(engine, models[family], precision, family=family)
        assert report.images[0].state == "clean"
        assert set(report.images[0].dtypes.values()) == {precision}
        assert psnr(pixels(report), reference) > 25
    picture = wide.images[0]
    assert (picture.state, picture.finite, picture.black, picture.width, picture.height) == ("clean", True, False, 32, 32)
    assert [event.step for event in events.of(StepDone)] == [1, 2, 3]
    assert all(event.finite for event in events.of(StepDone))
    assert {event.phase for event in events.of(PhaseChanged)} >= {"encode", "denoise", "decode", "save"}
    assert events.of(PictureReady)[0].facts == picture


@pytest.mark.parametrize("family", FAMILIES)
def test_check_finds_a_sound_model_healthy(engine: DiffusersEngine, models: dict[str, Path], family: str) -> None:
    report, events = check(engine, models[family], "float16", family=family)
    assert report.verdict == "healthy"
    assert not report.findings
    assert not report.cures
    assert report.plan.verified
    assert report.plan.is_plain
    assert report.plan.error is not None
    assert report.plan.error < 0.02
    assert set(report.components) == {"text_encoder", "vae"} | set(report.components)
    assert all(facts.parameters > 0 and facts.modules > 0 and (facts.seconds or 0) > 0 for facts in report.components.values())
    modules = {layer.module for layer in report.layers if layer.component == "vae"}
    assert any(module.startswith("encoder") for module in modules)
    assert any(module.startswith("decoder") for module in modules)
    assert events.of(LayersMeasured)


def test_same_picture_as_diffusers_itself_makes(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    import torch
    from tests.helpers.tiny import load_tiny

    from halftone.engine.basics.quiet import quiet_libraries
    from halftone.engine.sampling.frames import to_pixels

    report, _ = generate(engine, models["sd15"], "float32")
    with quiet_libraries():
        pipe = load_tiny(models["sd15"])
        seed = torch.Generator().manual_seed(5)
        theirs = pipe("a red sun", width=32, height=32, num_inference_steps=3, generator=seed, output_type="pt")
    assert (pixels(report) == to_pixels(theirs.images[0])).all()


def test_batch_counts_seeds_up_and_a_seed_gives_the_same_picture_again(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    batch, told = generate(engine, models["sd15"], batch=2, seed=7)
    single, _ = generate(engine, models["sd15"], seed=8)
    assert [(step.picture, step.step) for step in told.of(StepDone)] == [(n, k) for n in (1, 2) for k in (1, 2, 3)]
    assert [picture.seed for picture in batch.images] == [7, 8]
    assert (pixels(batch, 1) == pixels(single)).all()
    assert (pixels(batch, 0) != pixels(single)).any()


def test_a_model_that_cannot_be_loaded_says_which_and_why(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    import shutil

    broken = tmp_path / "broken"
    shutil.copytree(models["sd15"], broken)
    config = broken / "unet" / "config.json"
    config.write_text(config.read_text().replace('"cross_attention_dim": 16', '"cross_attention_dim": 24'))
    with pytest.raises(HalftoneError) as caught:
        generate(engine, broken)
    assert caught.value.code == "model-cannot-run"
    detail = "unet/config.json says cross_attention_dim 24, its weights have 16"
    assert {name: str(fact) for name, fact in caught.value.facts.items()} == {"path": str(broken), "detail": detail}
