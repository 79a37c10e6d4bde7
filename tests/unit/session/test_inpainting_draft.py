"""The draft for painting on a picture."""

import pytest
from msgspec.structs import replace

from halftone.contract.request import Start
from halftone.session.pictures.draft import Defaults, Draft, inpainting

SIDES = Start(strength=0.5, outpaint=(8, 0, 8, 0))
BEFORE = Draft(
    prompt="mine",
    size=(512, 512),
    defaults=Defaults((512, 512), 20, 7.0),
    image="a.png",
    mask="m.png",
    start=SIDES,
    hires_on=True,
)


@pytest.mark.parametrize(
    ("path", "size", "wanted"),
    [
        ("b.png", (600, 400), {"size": (600, 400), "only_masked": False, "mask": None, "start": Start(strength=0.5)}),
        ("b.png", (603, 401), {"size": (600, 400), "only_masked": False, "mask": None, "start": Start(strength=0.5)}),
        ("b.png", (5, 5), {"size": (8, 8), "only_masked": False, "mask": None, "start": Start(strength=0.5)}),
        ("b.png", (2048, 2048), {"size": (512, 512), "only_masked": True, "mask": None, "start": Start(strength=0.5)}),
        ("a.png", (512, 768), {"size": (512, 768), "only_masked": False, "mask": "m.png", "start": SIDES}),
    ],
)
def test_a_picture_is_painted_on(path: str, size: tuple[int, int], wanted: dict[str, object]) -> None:
    made = inpainting(BEFORE, path, size, "its own")
    assert made == replace(BEFORE, image=path, hires_on=False, **wanted)


@pytest.mark.parametrize(("prompt", "left"), [("", "its own"), ("  ", "its own"), ("mine", "mine")])
def test_a_form_without_a_prompt_takes_that_of_the_picture(prompt: str, left: str) -> None:
    assert inpainting(replace(BEFORE, prompt=prompt), "b.png", (512, 512), "its own").prompt == left
