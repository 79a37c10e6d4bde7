"""Opening the pictures that a user gives."""

from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from halftone.contract.errors import HalftoneError
from halftone.metadata.given import picture_size
from halftone.metadata.reading import read_picture
from halftone.settings.picture_files import opened_picture, turned


def test_size_and_texts_of_a_large_picture_are_read_though_its_pixels_are_not(tmp_path: Path) -> None:
    path = tmp_path / "large.png"
    Image.new("1", (8200, 8200)).save(path)
    assert picture_size(str(path)) == (8200, 8200)
    assert read_picture(path).parameters is None
    with pytest.raises(HalftoneError) as caught, opened_picture(path):
        pass
    assert caught.value.code == "picture-too-large"


@pytest.mark.parametrize("error", [MemoryError(), ZeroDivisionError(), RuntimeError("out of memory")])
def test_a_fault_of_what_is_done_with_a_picture_is_not_the_pictures(tmp_path: Path, error: Exception) -> None:
    path = tmp_path / "small.png"
    Image.new("RGB", (4, 4)).save(path)
    with pytest.raises(type(error)), opened_picture(path):
        raise error


def test_a_damaged_picture_is_unreadable(tmp_path: Path) -> None:
    path = tmp_path / "cut.png"
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (64, 64, 3), np.uint8)).save(path)
    path.write_bytes(path.read_bytes()[:900])
    with pytest.raises(HalftoneError) as caught, opened_picture(path) as picture:
        picture.load()
    assert caught.value.code == "image-unreadable"


def test_grey_of_16_bits_keeps_its_tones(tmp_path: Path) -> None:
    path = tmp_path / "deep.png"
    Image.fromarray(np.array([[0, 30_000], [32_768, 65_535]], np.uint16)).save(path)
    with opened_picture(path) as picture:
        assert np.asarray(turned(picture).convert("L")).tolist() == [[0, 116], [127, 255]]
