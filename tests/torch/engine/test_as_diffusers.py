"""Pictures of a few families against a plain call of diffusers; `python -m tests.bench.families` compares all of them."""

from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest
from tests.bench.families import run
from tests.bench.families.plain import arguments, compared, halftone_frames, plain_frames, plain_pipeline, request_of
from tests.bench.families.remade import remade
from tests.bench.families.table import CASES, Case, Task
from tests.helpers.engine_runs import Meddler, Recorder, Steady

from halftone.contract.errors import HalftoneError
from halftone.contract.messages import Generate
from halftone.contract.request import Numerics, PictureRequest
from halftone.engine.service import DiffusersEngine
from halftone.health.forecasts.picture_memory import Next, forecast
from halftone.library.families.networks import known_networks
from halftone.library.models import describe

pytestmark = pytest.mark.filterwarnings("ignore")  # what the libraries say while tiny models are made and run

FLOAT32 = Numerics(precision="float32")
SAMPLE: tuple[tuple[str, Task], ...] = (
    ("SDXL", "text"),
    ("Kandinsky 3", "text"),
    ("Kandinsky 3", "picture"),
    ("Kandinsky 2.2", "text"),
    ("Kandinsky 2.2 inpaint", "mask"),
    ("Qwen-Image", "text"),
    ("CogVideoX", "text"),
)


LEAST: Final = {("Kandinsky 3", "picture"): 80.0}
"""Decibels, where pictures are not equal everywhere: two of three thousand values that differ by one. On an AMD EPYC, MKL rounds
a product of this network otherwise where its input lies elsewhere in memory; with MKL_CBWR=COMPATIBLE the pictures are equal.
"""


def case_of(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


def given(folder: Path, size: int) -> tuple[Path, Path]:
    return run.picture(folder / "given.png", size), run.mask(folder / "mask.png", size)


@pytest.mark.parametrize(("name", "task"), SAMPLE)
def test_a_picture_is_that_of_a_plain_call(engine: DiffusersEngine, tmp_path: Path, name: str, task: Task) -> None:
    case = case_of(name)
    model = run.save(case, tmp_path / "m")
    found = compared(run.PROMPT, case, engine, model, run.original(model), task, given(tmp_path, case.size))
    assert float(found.removesuffix(" dB")) >= LEAST.get((name, task), float("inf"))


@pytest.mark.parametrize("name", ["SDXL", "Qwen-Image"])
def test_a_picture_without_words_is_that_of_a_plain_call(engine: DiffusersEngine, tmp_path: Path, name: str) -> None:
    case = case_of(name)
    model = run.save(case, tmp_path / "m")
    found = compared("", case, engine, model, run.original(model), "text", given(tmp_path, case.size))
    assert float(found.removesuffix(" dB")) == float("inf")


def binned(name: str) -> Case:
    """The family as its pipeline is by default, with a table of small sizes."""
    case = case_of(name)

    def build() -> Any:
        pipe = case.build()
        pipe.register_modules(transformer=remade(pipe.transformer, sample_size=32))
        return pipe

    options = {key: value for key, value in case.options.items() if key != "use_resolution_binning"}
    return replace(case, build=build, options=options, size=64)


def test_what_is_asked_for_is_what_comes_out(engine: DiffusersEngine, tmp_path: Path) -> None:
    case = binned("PixArt-Σ")
    model = run.save(case, tmp_path / "m")
    pipe = plain_pipeline(run.original(model), "text", {})
    asked = given(tmp_path, case.size)
    wanted = plain_frames(pipe, arguments(pipe, run.PROMPT, case, "text", None, asked))
    made = halftone_frames(engine, request_of(run.PROMPT, case, model, "text", None, asked))
    assert made.shape == (1, 64, 64, 3)
    assert (made == wanted).all()


def made_at(engine: DiffusersEngine, model: Path, case: Case, width: int, height: int, **more: Any) -> Any:
    fields: dict[str, Any] = {"width": width, "height": height, "steps": 2, "seed": 5, "options": case.options, **more}
    request = PictureRequest(prompt=run.PROMPT, model=str(model), numerics=FLOAT32, **fields)
    (picture,) = engine.generate(Generate(job="g", request=request), Recorder(), Steady()).images
    return picture


def test_a_binned_picture_is_clean_and_says_what_was_computed(engine: DiffusersEngine, tmp_path: Path) -> None:
    """It was taken for one with flat tiles, decoded again and written in the size that was computed."""
    case = binned("Sana Sprint")
    model = run.save(case, tmp_path / "m")
    picture = made_at(engine, model, case, 64, 96)
    assert (picture.width, picture.height, picture.computed, picture.state) == (64, 96, (832, 1216), "clean")


def test_a_pipeline_that_leaves_its_bin_uncropped_is_cropped(engine: DiffusersEngine, tmp_path: Path) -> None:
    """diffusers gives HunyuanDiT's own size."""
    case = replace(case_of("HunyuanDiT"), options={})
    picture = made_at(engine, run.save(case, tmp_path / "m"), case, 64, 96)
    assert (picture.width, picture.height, picture.computed) == (64, 96, (768, 1024))


@pytest.mark.logs("was not saved")
def test_kept_latents_of_a_bin_are_decoded_to_what_was_asked_for(engine: DiffusersEngine, tmp_path: Path) -> None:
    case = binned("PixArt-Σ")
    model = run.save(case, tmp_path / "m")
    (folder := tmp_path / "gone").mkdir()
    fields: dict[str, Any] = {"width": 64, "height": 96, "steps": 2, "seed": 5, "options": case.options}
    asked = PictureRequest(prompt="a", model=str(model), output=str(folder / "a.png"), numerics=FLOAT32, **fields)
    with pytest.raises(HalftoneError) as unsaved:
        engine.generate(Generate(job="g", request=asked), Recorder(), Meddler(folder.rmdir))
    latents = str(unsaved.value.facts["latents"])
    again = PictureRequest(prompt="a", model=str(model), resume_latents=latents, numerics=FLOAT32)
    (picture,) = engine.generate(Generate(job="g", request=again), Recorder(), Steady()).images
    assert (picture.width, picture.height) == (64, 96)


def test_the_forecast_is_of_what_is_computed(tmp_path: Path) -> None:
    facts = describe(str(run.save(binned("PixArt-Σ"), tmp_path / "m")))

    def peak(width: int, **options: bool) -> int:
        request = PictureRequest(prompt="a", model=facts.id, width=width, height=width, options=dict(options))
        found = forecast(known_networks(facts), Next(request, facts, "float32", "cpu"), None)
        assert found is not None
        return found.peak

    assert facts.bin_edge == 256
    assert peak(64) == peak(256) == peak(1024)
    assert peak(64, use_resolution_binning=False) < peak(64) < peak(1024, use_resolution_binning=False)
