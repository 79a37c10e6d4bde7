"""What is typed for pictures that are made in more than one pass."""

import pytest
from msgspec.structs import replace
from tests.helpers.samples import picture_facts

from halftone.cli.passes import hires_of, passes_words
from halftone.contract.errors import HalftoneError
from halftone.contract.facts import PassFacts
from halftone.contract.request import Hires


def test_a_scale_alone_asks_for_a_second_pass() -> None:
    assert hires_of(2.0, None, None, None) == Hires(scale=2.0)
    assert hires_of(None, None, None, None) is None
    assert hires_of(1.5, "Lanczos", 8, 0.3) == Hires(scale=1.5, upscaler="lanczos", steps=8, strength=0.3)


def test_what_belongs_to_a_second_pass_needs_its_scale() -> None:
    with pytest.raises(HalftoneError) as refused:
        hires_of(None, None, 8, None)
    assert str(refused.value) == "--hires-steps cannot be given without --hires. Use --hires SCALE as well."


def test_a_picture_tells_its_passes() -> None:
    def one(kind: str, side: int, steps: int) -> PassFacts:
        return PassFacts(kind=kind, width=side, height=side, steps=steps, seconds=1.0, dtypes={})

    made = replace(picture_facts("a.png"), passes=(one("first", 512, 20), one("second", 1024, 10)))
    assert passes_words(made) == " · made larger from 512 × 512, 20 + 10 steps"
    assert passes_words(picture_facts("a.png")) == ""
