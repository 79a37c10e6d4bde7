"""The settings that a picture names, before and after they are used."""

import pytest

from halftone.health.pictures.setting_names import setting_names
from halftone.metadata.reading import Parameters

ALL = {"Steps": "9", "Sampler": "Euler", "CFG scale": "5", "Seed": "7", "Size": "64x64", "Model": "pocket"}


@pytest.mark.parametrize(
    ("version", "program"),
    [
        ("Halftone 0.1.0", "Halftone"),
        ("ComfyUI", "ComfyUI"),
        ("v1.10.1", "A1111"),
        ("f2.0.1v1.10.1", "Forge"),
        ("9", ""),
    ],
)
def test_the_program(version: str, program: str) -> None:
    assert setting_names(Parameters(prompt="a", fields={"Version": version})).program == program


@pytest.mark.parametrize(
    ("said", "left", "names"),
    [
        (Parameters(prompt="a", negative="b", fields=ALL), (), "prompt negative-prompt seed size steps sampler guidance model"),
        (Parameters(prompt="a", fields={"Seed": "7", "ENSD": "1"}), ("ENSD: 1",), "prompt seed"),
        (Parameters(prompt="a", fields=ALL), ("Model: pocket", "Sampler: Euler"), "prompt seed size steps guidance"),
        (Parameters(), (), ""),
    ],
)
def test_the_names(said: Parameters, left: tuple[str, ...], names: str) -> None:
    assert " ".join(words.template.lower().replace(" ", "-") for words in setting_names(said, left).names) == names
