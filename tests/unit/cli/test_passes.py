"""What is typed for pictures that are made in more than one pass."""

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace
from tests.helpers.samples import picture_facts

from halftone.cli.generate.pass_options import hires_of, passes_words, refiner_of
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import PassFacts
from halftone.contract.request import Hires, Refiner
from halftone.library.models import POCKET, describe
from halftone.settings.store import Settings


def test_a_scale_alone_asks_for_a_second_pass() -> None:
    assert hires_of(2.0, None, None, None) == Hires(scale=2.0)
    assert hires_of(None, None, None, None) is None
    assert hires_of(1.5, "Lanczos", 8, 0.3) == Hires(scale=1.5, upscaler="lanczos", steps=8, strength=0.3)


def test_what_belongs_to_a_second_pass_needs_its_scale() -> None:
    with pytest.raises(HalftoneError) as refused:
        hires_of(None, None, 8, None)
    assert str(refused.value) == "--hires-steps cannot be given without --hires. Use --hires SCALE as well."


def test_a_refiner_is_named_with_its_switch_point() -> None:
    assert refiner_of(None, None) is None
    assert refiner_of("/m/refiner", None) == Refiner(path="/m/refiner", at=0.8)
    assert refiner_of("/m/refiner", 0.6) == Refiner(path="/m/refiner", at=0.6)
    assert refiner_of("/m/refiner", 0.6, by_steps=True) == Refiner(path="/m/refiner", at=0.6, by_steps=True)
    with pytest.raises(HalftoneError) as refused:
        refiner_of(None, 0.6)
    assert str(refused.value) == "--refiner-at cannot be given without --refiner. Use --refiner MODEL as well."
    with pytest.raises(HalftoneError) as refused:
        refiner_of(None, None, by_steps=True)
    assert str(refused.value) == "--refiner-by-steps cannot be given without --refiner. Use --refiner MODEL as well."


def test_a_refiner_may_be_named_as_in_the_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with --model."""
    monkeypatch.chdir(tmp_path)
    place = tmp_path / "models"
    shutil.copytree(describe(POCKET).path, place / "polish")
    saved = Settings(model_folders=(str(place),))
    assert refiner_of("polish", None, saved=saved) == Refiner(path=str(place / "polish"))
    assert refiner_of("other", None, saved=saved) == Refiner(path=str(tmp_path / "other"))


def test_a_picture_tells_its_passes() -> None:
    def one(kind: str, side: int, steps: int) -> PassFacts:
        return PassFacts(kind=kind, width=side, height=side, steps=steps, seconds=1.0, dtypes={})

    made = replace(picture_facts("a.png"), passes=(one("first", 512, 20), one("second", 1024, 10)))
    assert passes_words(made) == " · upscaled from 512 × 512, 20 + 10 steps"
    assert passes_words(picture_facts("a.png")) == ""
    refined = replace(picture_facts("a.png"), passes=(one("first", 512, 20), one("second", 512, 5)))
    assert passes_words(refined) == " · 20 + 5 steps", "a refiner's, or a second pass of the same size"
