"""Sizes and steps of a second pass, and what is refused before anything is loaded."""

from typing import Any, get_args

import pytest
from tests.helpers.reports import MODEL

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import GuardEvent
from halftone.contract.request import Hires, PictureRequest
from halftone.health.pictures.passes import Counting, larger, part_of_schedule, step_words, steps_from_picture, strength_of
from halftone.health.pictures.requests import check_request


@pytest.mark.parametrize(
    ("size", "scale", "made"),
    [
        ((512, 512), 2.0, (1024, 1024)),
        ((512, 768), 1.5, (768, 1152)),
        ((512, 512), 1.3, (672, 672)),
        ((72, 64), 1.5, (112, 96)),
        ((32, 32), 1.0, (32, 32)),
    ],
)
def test_a_larger_size_is_as_fine_as_the_first(size: tuple[int, int], scale: float, made: tuple[int, int]) -> None:
    assert larger(*size, scale) == made


def test_a_larger_size_is_one_that_its_pipeline_takes() -> None:
    assert larger(512, 512, 1.3, 32) == (672, 672)
    assert larger(1024, 1024, 1.3, 32) == (1344, 1344)
    assert larger(1024, 1024, 1.3) == (1328, 1328)


@pytest.mark.parametrize("strength", [0.01, 0.05, 0.1, 0.3, 0.33, 0.4, 0.7, 0.9, 1.0])
@pytest.mark.parametrize("wanted", [1, 2, 7, 10, 28])
@pytest.mark.parametrize("counting", get_args(Counting))
def test_so_many_steps_are_asked_that_those_wanted_are_computed(wanted: int, strength: float, counting: Counting) -> None:
    steps, share = part_of_schedule(wanted, strength, counting)
    assert steps == max(wanted, int(wanted / strength))
    assert steps_from_picture(steps, share, counting) == (max(1, wanted - 1) if counting == "timesteps" else wanted)
    assert share == pytest.approx(strength, rel=0.5 if wanted < 3 else 0.16)


@pytest.mark.parametrize(
    ("steps", "strength", "computed"),
    [(20, 0.5, 11), (20, 0.75, 16), (20, 0.01, 1), (20, 1.0, 20), (4, 0.3, 2), (1, 1.0, 1), (30, 0.999, 30), (1500, 1.0, 1499)],
)
def test_steps_from_a_start_picture_are_those_of_a1111(steps: int, strength: float, computed: int) -> None:
    """`setup_img2img_steps` and `sample_img2img` of its sd_samplers_common.py and sd_samplers_kdiffusion.py."""
    assert steps_from_picture(steps, strength) == computed
    assert steps_from_picture(steps, strength, "timesteps") == (computed - 1 or 1)


def test_interpolated_latents_need_more_noise() -> None:
    assert strength_of(Hires()) > strength_of(Hires(upscaler="lanczos"))
    assert strength_of(Hires(strength=0.2)) == 0.2


@pytest.mark.parametrize(
    ("hires", "changes", "said"),
    [
        (Hires(scale=9), {}, "Hires. fix scale cannot be 9. Choose a value from 1.0 to 8.0."),
        (Hires(strength=0), {}, "Hires. fix denoising strength cannot be 0. Choose a value from 0.01 to 1.0."),
        (Hires(steps=0), {}, "Hires. fix steps cannot be 0. Choose a value from 1 to 1000."),
        (Hires(scale=8), {"width": 4096}, "The size of the second pass cannot be 32768. Choose a value from 8 to 16384."),
        (Hires(), {"mask": "m.png"}, "--hires cannot be used with a mask. Use one of the two."),
        (Hires(), {"num_frames": 8}, "--hires cannot be used with a video. Use it for pictures."),
        (
            Hires(upscaler="nearest"),
            {},
            "There is no upscale model at nearest. Check the path, or add its folder in Settings, Folders.",
        ),
    ],
)
def test_what_cannot_work_is_said_in_one_sentence(hires: Hires, changes: dict[str, Any], said: str) -> None:
    with pytest.raises(HalftoneError) as refused:
        check_request(PictureRequest(prompt="a", hires=hires, **changes), MODEL)
    assert str(refused.value) == said


def test_a_step_is_told_with_its_pass() -> None:
    event = GuardEvent(step=3, component="unet", module="", kind="nonfinite", action="stopped", cure="none", in_pass=2)
    assert step_words(event).text() == "3 of pass 2"
