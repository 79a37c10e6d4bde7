"""What is refused before anything is loaded."""

from pathlib import Path

import pytest

from halftone.contract.errors import HalftoneError
from halftone.contract.request import CheckInputs, PictureRequest
from halftone.health.requests import check_inputs, check_request


@pytest.mark.parametrize(
    ("option", "flag"),
    [("width", "--width"), ("num_inference_steps", "--steps"), ("generator", "--seed"), ("num_images_per_prompt", "--batch")],
)
def test_an_option_that_the_request_has_a_field_for_names_the_flag(option: str, flag: str) -> None:
    for refuse in (
        lambda: check_request(PictureRequest(prompt="a", options={option: 4})),
        lambda: check_inputs(CheckInputs(options={option: 4})),
    ):
        with pytest.raises(HalftoneError) as caught:
            refuse()
        assert caught.value.code == "setting-bad-value"
        assert caught.value.facts["allowed"] == flag


def test_a_mask_needs_a_picture(tmp_path: Path) -> None:
    mask = tmp_path / "mask.png"
    mask.write_bytes(b"")
    with pytest.raises(HalftoneError) as caught:
        check_request(PictureRequest(prompt="a", mask=str(mask)))
    assert caught.value.facts["name"] == "--mask"
    check_request(PictureRequest(prompt="a", mask=str(mask), image=str(mask)))
