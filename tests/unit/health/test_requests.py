"""What is refused before anything is loaded."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from PIL import Image
from tests.helpers.kept import ASKED, write_kept
from tests.helpers.reports import MODEL

from halftone.contract.errors import HalftoneError
from halftone.contract.request import CheckInputs, Lora, PictureRequest
from halftone.health.pictures.requests import check_inputs, check_request
from halftone.health.pictures.unfinished_pictures import check_same_model, read_kept


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
    Image.new("L", (8, 8), 255).save(mask)
    with pytest.raises(HalftoneError) as caught:
        check_request(PictureRequest(prompt="a", mask=str(mask)))
    assert caught.value.facts["name"] == "--mask"
    check_request(PictureRequest(prompt="a", mask=str(mask), image=str(mask)))


def test_kept_latents_need_no_prompt_and_are_one_picture(tmp_path: Path) -> None:
    path = str(write_kept(tmp_path / "kept.safetensors"))
    check_request(PictureRequest(prompt="", resume_latents=path))
    with pytest.raises(HalftoneError) as caught:
        check_request(PictureRequest(prompt="", resume_latents=path, batch=3))
    assert str(caught.value) == "Number of pictures cannot be 3. Use 1 with kept latents."


def test_kept_latents_need_no_lora(tmp_path: Path) -> None:
    gone = (Lora(path=str(tmp_path / "gone.safetensors")),)
    path = str(write_kept(tmp_path / "kept.safetensors"))
    check_request(PictureRequest(prompt="", resume_latents=path, loras=gone))
    for refuse in (lambda: check_request(PictureRequest(prompt="a", loras=gone)), lambda: check_inputs(CheckInputs(loras=gone))):
        with pytest.raises(HalftoneError) as caught:
            refuse()
        assert caught.value.code == "lora-missing"


def test_a_vae_of_kept_latents_that_is_gone_is_to_be_put_back(tmp_path: Path) -> None:
    """Another one would make another picture of them."""
    path, vae = tmp_path / "kept.safetensors", tmp_path / "vae.safetensors"
    asked = PictureRequest(prompt="a", vae=str(vae))
    cases: list[dict[str, Any]] = [{"request": replace(ASKED, vae=str(vae))}, {"asked": asked}]
    for changes in cases:
        write_kept(path, **changes)
        with pytest.raises(HalftoneError) as caught:
            check_request(PictureRequest(prompt="", resume_latents=str(path)))
        assert caught.value.code == "vae-gone"
        assert str(caught.value).endswith("Restore it, or make the picture again.")


@pytest.mark.parametrize("content", [b"", b"\x00" * 20, b"\x02\x00\x00\x00\x00\x00\x00\x00{}"])
def test_a_file_without_the_record_is_no_kept_picture(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "kept.safetensors"
    path.write_bytes(content)
    with pytest.raises(HalftoneError) as caught:
        read_kept(path)
    assert caught.value.code == "latents-unreadable"


@pytest.mark.parametrize(
    ("path", "fingerprint", "same"),
    [("/m/tiny", "abc", True), ("/m/tiny", "mended", True), ("/copy/tiny", "abc", True), ("/m/other", "else", False)],
)
def test_latents_belong_to_a_model_where_it_lay_or_to_a_copy_of_it(
    tmp_path: Path, path: str, fingerprint: str, same: bool
) -> None:
    kept = read_kept(write_kept(tmp_path / "kept.safetensors", path, fingerprint))
    if same:
        check_same_model(kept, MODEL, "x")
        return
    with pytest.raises(HalftoneError) as caught:
        check_same_model(kept, MODEL, "x")
    assert "Use the model /m/other." in str(caught.value)
