"""Pictures made in two passes: the second one larger, both watched, each told in the receipt, and going on where one failed."""

import json
import math
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from tests.helpers.engine_runs import Steady, generate, pixels
from tests.helpers.interrupted import failing
from tests.helpers.read_back import read_picture

from halftone.contract.errors import HalftoneError, say
from halftone.contract.messages import JobStarted, StepDone
from halftone.contract.request import Hires
from halftone.engine.service import DiffusersEngine
from halftone.health.pictures.unfinished_pictures import read_kept
from halftone.settings.places import data_dir, latents_dir

LATENT = Hires(scale=2.0, steps=2, strength=0.5)
LANCZOS = Hires(scale=1.5, upscaler="lanczos", strength=0.5)


@pytest.mark.parametrize("family", ["sd15", "sdxl", "sd3"])
@pytest.mark.parametrize("hires", [LATENT, LANCZOS], ids=["latent", "lanczos"])
def test_a_second_pass_makes_the_picture_larger(
    engine: DiffusersEngine, models: dict[str, Path], family: str, hires: Hires
) -> None:
    report, told = generate(engine, models[family], family=family, hires=hires, batch=2)
    for index, picture in enumerate(report.images):
        side = round(32 * hires.scale)
        assert pixels(report, index).shape == (side, side, 3)
        assert (picture.width, picture.height, picture.index, picture.seed) == (side, side, index, 5 + index)
        assert [(one.kind, one.width, one.steps) for one in picture.passes] == [
            ("first", 32, 3),
            ("second", side, hires.steps or 3),
        ]
        assert picture.steps == 3 + (hires.steps or 3)
        assert picture.state == "clean"
        assert sum(one.seconds for one in picture.passes) <= picture.seconds
    assert len(told.of(JobStarted)) == 1
    assert {(event.in_pass, event.passes) for event in told.of(StepDone)} == {(1, 2), (2, 2)}
    assert not (pixels(report, 0) == pixels(report, 1)).all()


def test_each_picture_of_a_batch_is_the_one_that_its_seed_gives_alone(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    both, _ = generate(engine, models["sd15"], hires=LATENT, batch=2)
    alone, _ = generate(engine, models["sd15"], hires=LATENT, seed=6)
    assert (pixels(both, 1) == pixels(alone)).all()


@pytest.mark.parametrize("upscaler", ["latent", "lanczos"])
def test_a_hardly_noised_second_pass_keeps_the_picture(engine: DiffusersEngine, upscaler: str) -> None:
    """What is handed on is the picture: where little noise is put back, it stays."""
    asked: dict[str, Any] = {"width": None, "height": None, "steps": 6}
    plain, _ = generate(engine, Path("pocket"), "float32", **asked)
    hires = Hires(scale=1.5, upscaler=upscaler, steps=1, strength=0.05)
    larger, _ = generate(engine, Path("pocket"), "float32", hires=hires, **asked)
    size = (plain.images[0].width, plain.images[0].height)
    small = Image.fromarray(pixels(larger)).resize(size, Image.Resampling.BOX)
    asked["seed"] = 99
    other, _ = generate(engine, Path("pocket"), "float32", **asked)
    near = np.abs(np.asarray(small, float) - pixels(plain)).mean()
    far = np.abs(pixels(other).astype(float) - pixels(plain)).mean()
    assert near < far / 2


def test_time_ahead_is_told_in_steps_of_the_first_pass(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    _, told = generate(engine, models["sd15"], hires=LATENT)
    first, second = ([event for event in told.of(StepDone) if event.in_pass == number] for number in (1, 2))
    assert {event.ahead for event in first} == {2 * 2.0**2}
    assert {event.ahead for event in second} == {0.0}


def test_the_receipt_names_both_passes(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    report, _ = generate(engine, models["sd15"], hires=LATENT)
    read = read_picture(Path(report.images[0].path))
    assert read.parameters is not None
    assert "Steps: 3," in read.parameters
    assert "Size: 32x32" in read.parameters
    assert "Denoising strength: 0.5" in read.parameters
    assert "Hires upscale: 2" in read.parameters
    assert "Hires steps: 2" in read.parameters
    assert "Hires upscaler: Latent" in read.parameters
    receipt = json.loads(read.receipt or "")
    assert receipt["request"]["hires"] == {"scale": 2.0, "steps": 2, "strength": 0.5}
    assert receipt["request"]["width"] == 32
    assert [one["kind"] for one in receipt["receipt"]["passes"]] == ["first", "second"]


@pytest.mark.parametrize(("after", "number"), [(1, 1), (4, 2)])
@pytest.mark.parametrize("hires", [LATENT, LANCZOS], ids=["latent", "lanczos"])
def test_a_step_is_recovered_in_either_pass(
    engine: DiffusersEngine, models: dict[str, Path], after: int, number: int, hires: Hires
) -> None:
    generate(engine, models["sd15"], "float16", steps=1)
    with failing(engine, after):
        report, _ = generate(engine, models["sd15"], "float16", hires=hires)
    (picture,) = report.images
    assert picture.state == "recovered"
    assert {event.in_pass for event in picture.events} == {number}


@pytest.mark.parametrize(("after", "number"), [(1, 1), (4, 2)])
@pytest.mark.parametrize("hires", [LATENT, LANCZOS], ids=["latent", "lanczos"])
def test_it_goes_on_in_the_pass_that_failed(
    engine: DiffusersEngine, models: dict[str, Path], after: int, number: int, hires: Hires
) -> None:
    generate(engine, models["sd15"], "float16", steps=1)
    with failing(engine, after):
        whole, _ = generate(engine, models["sd15"], "float16", hires=hires)
    with failing(engine, after):
        left, _ = generate(engine, models["sd15"], "float16", hires=hires, on_black="stop")
    (stopped,) = left.images
    assert stopped.latents is not None
    assert stopped.kept_step == 1
    assert len(stopped.passes) == 1
    assert bool(stopped.path) == (number == 2), "a first pass that was made is a picture"
    assert read_kept(Path(stopped.latents)).in_pass == number
    fresh = DiffusersEngine()
    generate(fresh, models["sd15"], "float16", steps=1)
    with failing(fresh):
        again, told = generate(fresh, models["sd15"], "float16", resume_latents=stopped.latents, prompt="other", steps=1, seed=1)
    (picture,) = again.images
    assert (pixels(again) == pixels(whole)).all()
    assert [one.kind for one in picture.passes] == ["first", "second"]
    assert {event.in_pass for event in told.of(StepDone)} == set(range(number, 3))
    assert len(told.of(JobStarted)) == 1
    assert not list(latents_dir().iterdir())


def test_stop_and_keep_in_the_first_pass_shows_what_there_is(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    report, _ = generate(engine, models["sd15"], hires=LATENT, control=Steady(keep_after=2))
    (picture,) = report.images
    assert (picture.width, [one.kind for one in picture.passes]) == (32, ["first"])
    assert len(np.unique(pixels(report))) > 8, "decoded, not the blank that stands in for a picture handed on as latents"


def test_what_makes_no_second_pass_says_so(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    with pytest.raises(HalftoneError) as refused:
        generate(engine, models["sana"], family="sana", hires=LATENT)
    assert refused.value.code == "hires-unsupported"
    assert say(refused.value.as_facts()).startswith("sana does not support Hires. fix: its pipeline starts from no picture.")


def test_options_that_only_the_first_pass_takes_are_named(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    report, _ = generate(engine, models["sd15"], hires=LATENT, options={"guidance_rescale": 0.5, "clip_skip": 1})
    note = "The second pass runs without CFG rescale, which its pipeline does not support."
    assert report.images[0].width == 64
    assert [str(one) for one in report.images[0].ran] == [note]
    assert [str(one) for one in report.plan.reasons].count(note) == 1
    receipt = json.loads(read_picture(Path(report.images[0].path)).receipt or "")
    assert receipt["request"]["options"] == {"guidance_rescale": 0.5, "clip_skip": 1}
    assert note in receipt["request"]["reasons"]


def test_options_that_both_passes_take_need_no_note(engine: DiffusersEngine, models: dict[str, Path]) -> None:
    report, _ = generate(engine, models["sdxl"], family="sdxl", hires=LATENT, options={"guidance_rescale": 0.5})
    assert not report.images[0].ran


@contextmanager
def decoding_fails(engine: DiffusersEngine, call: int) -> Generator[None]:
    """The decoder gives bad numbers in float16 at this call (from 1) and every later one."""
    assert engine.loaded is not None
    calls: list[int] = []

    def strike(module: Any, _args: Any, output: torch.Tensor) -> torch.Tensor | None:
        calls.append(1)
        return output * math.nan if len(calls) >= call and module.weight.dtype == torch.float16 else None

    handle = engine.loaded.modules["vae"].get_submodule("decoder.conv_out").register_forward_hook(strike)
    try:
        yield
    finally:
        handle.remove()


@pytest.mark.parametrize("number", [1, 2])
def test_a_decode_that_fails_is_recovered_or_kept_in_its_pass(
    engine: DiffusersEngine, models: dict[str, Path], number: int
) -> None:
    clean, _ = generate(engine, models["sd15"], "float16", hires=LANCZOS)
    with decoding_fails(engine, number):
        recovered, _ = generate(engine, models["sd15"], "float16", hires=LANCZOS)
    assert {event.in_pass for event in recovered.images[0].events} >= {number}
    shutil.rmtree(data_dir() / "cures", ignore_errors=True)
    with decoding_fails(engine, number):
        left, _ = generate(engine, models["sd15"], "float16", hires=LANCZOS, on_black="stop")
    (stopped,) = left.images
    assert stopped.latents is not None
    assert stopped.kept_step == (3 if number == 1 else None), "the first pass goes on, the last one only waits for its decode"
    again, told = generate(engine, models["sd15"], "float16", resume_latents=stopped.latents)
    # latents are kept in one layout, which may not be theirs: the decoder then rounds otherwise
    assert np.abs(pixels(again).astype(int) - pixels(clean)).max() <= number - 1
    assert [one.kind for one in again.images[0].passes] == ["first", "second"]
    assert again.images[0].steps == 6
    assert {event.in_pass for event in told.of(StepDone)} == ({2} if number == 1 else set())
