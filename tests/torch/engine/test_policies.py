"""What happens on a black picture, and when the numbers are looked at: every setting of it acts."""

import shutil
from pathlib import Path

import pytest
from tests.helpers.engine_runs import faulty_copy, generate, pixels

from halftone.contract.errors import HalftoneError
from halftone.contract.messages import PictureReady, StepDone
from halftone.contract.vocabulary import OnBlack
from halftone.engine.making.picture import receipt_state
from halftone.engine.service import DiffusersEngine
from halftone.measure.pictures import psnr
from halftone.settings.places import data_dir


@pytest.fixture(scope="module")
def black(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its decoder overflows in float16."""
    return faulty_copy(models["sd15"], tmp_path_factory.mktemp("black") / "model", "vae", "stream of decoder", 16)


@pytest.fixture(scope="module")
def stumbling(models: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Its UNet overflows in float16."""
    return faulty_copy(models["sd15"], tmp_path_factory.mktemp("stumbling") / "model", "unet", "stream of unet", 15)


@pytest.mark.parametrize("policy", ["recover", "quiet"])
def test_recovers(black: Path, policy: OnBlack) -> None:
    report, _ = generate(DiffusersEngine(), black, "float16", on_black=policy)
    assert report.images[0].state == "recovered"
    assert report.images[0].events[0].action == "decoded-again"


def test_stop_explains_keeps_the_latents_and_goes_on_with_the_batch(black: Path) -> None:
    report, events = generate(DiffusersEngine(), black, "float16", on_black="stop", batch=2)
    assert [picture.state for picture in report.images] == ["not-recovered", "not-recovered"]
    first = report.images[0]
    assert (first.path, first.black, first.finite) == ("", True, False)
    assert first.latents is not None
    assert Path(first.latents).is_file()
    assert (first.events[0].action, first.events[0].module) == ("stopped", "decoder.conv_in")
    assert (first.events[0].why, first.events[0].sound_in_float32) == ("setting", True)
    assert all(event.failed_size > 0 for event in events.of(PictureReady))


def test_ask_keeps_the_latents_and_resume_only_decodes(black: Path) -> None:
    engine = DiffusersEngine()
    wide, _ = generate(engine, black, "float32")
    asked, _ = generate(engine, black, "float16", on_black="ask")
    picture = asked.images[0]
    assert (picture.state, picture.events[0].action) == ("asking", "asked")
    assert picture.latents is not None
    resumed, events = generate(engine, black, "float16", resume_latents=picture.latents)
    assert not events.of(StepDone)
    assert resumed.images[0].state == "recovered"
    assert psnr(pixels(resumed), pixels(wide)) >= 30


def test_a_failed_step_is_not_offered_as_latents_that_could_be_decoded(stumbling: Path) -> None:
    report, _ = generate(DiffusersEngine(), stumbling, "float16", on_black="stop", steps=5)
    picture = report.images[0]
    assert picture.events[0].step is not None
    assert picture.latents is None


def test_at_the_end_finds_the_same_step_after_going_back(stumbling: Path) -> None:
    every, _ = generate(DiffusersEngine(), stumbling, "float16", steps=5)
    shutil.rmtree(data_dir() / "cures")  # else the second run would start cured
    at_end, events = generate(DiffusersEngine(), stumbling, "float16", steps=5, nan_check="at-end")
    assert at_end.images[0].state == "recovered"
    assert at_end.images[0].events[0].step == every.images[0].events[0].step
    assert [event.finite for event in events.of(StepDone)][:4] == [None] * 4
    assert (pixels(at_end) == pixels(every)).all()


def test_off_looks_at_nothing_and_says_so(black: Path) -> None:
    report, events = generate(DiffusersEngine(), black, "float16", nan_check="off")
    picture = report.images[0]
    assert (picture.state, picture.black, picture.finite) == ("unwatched", True, False)
    assert not picture.events
    assert all(event.finite is None and event.peak is None for event in events.of(StepDone))


def test_never_keeps_the_safety_net_but_remembers_no_vae_in_float32(black: Path) -> None:
    first, _ = generate(DiffusersEngine(), black, "float16", vae_float32="never")
    assert first.images[0].state == "recovered"
    again, _ = generate(DiffusersEngine(), black, "float16", vae_float32="never")
    assert not again.images[0].black


def test_an_option_that_the_pipeline_refuses_is_told_as_such(black: Path) -> None:
    with pytest.raises(HalftoneError) as caught:
        generate(DiffusersEngine(), black, "float32", options={"clip_skip": "many"})
    assert str(caught.value) == "--option clip_skip cannot be many. Use a whole number."


def test_receipts() -> None:
    assert receipt_state(watched=True, recovered=False, sound=True) == "clean"
    assert receipt_state(watched=True, recovered=True, sound=True) == "recovered"
    assert receipt_state(watched=True, recovered=True, sound=False) == "not-recovered"
    assert receipt_state(watched=False, recovered=False, sound=True) == "unwatched"
