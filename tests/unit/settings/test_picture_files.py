"""Opening the pictures that a user gives."""

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from halftone.contract.errors import HalftoneError, sentence
from halftone.metadata.given import picture_size
from halftone.metadata.reading import read_picture
from halftone.settings.picture_files import check_there, opened_picture, turned


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
    assert caught.value.code == "image-damaged"
    assert sentence(caught.value.as_facts()) == f"The picture {path} is damaged or ends early, so it cannot be read."


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF"])
def test_one_that_is_cut_anywhere_is_damaged(tmp_path: Path, kind: str) -> None:
    path = tmp_path / "cut"
    Image.fromarray(np.random.default_rng(1).integers(0, 256, (64, 64, 3), np.uint8)).save(path, kind)
    whole = path.read_bytes()
    for length in (16, 40, 300, len(whole) // 2):
        path.write_bytes(whole[:length])
        with pytest.raises(HalftoneError) as caught, opened_picture(path) as picture:
            picture.load()
        assert caught.value.code == "image-damaged"


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such files in its folders")
@pytest.mark.parametrize(
    ("make", "said"),
    [
        (os.mkdir, "a folder, not a picture"),
        (os.mkfifo, "a named pipe, not a picture"),
        (lambda path: path.symlink_to("/dev/zero"), "a device, not a picture"),
    ],
)
def test_what_is_no_file_is_named(tmp_path: Path, make: Callable[[Path], object], said: str) -> None:
    path = tmp_path / "hills.png"
    make(path)
    for look in (check_there, lambda path: picture_size(str(path)), read_picture):
        with pytest.raises(HalftoneError) as caught:
            look(path)
        assert sentence(caught.value.as_facts()) == f"{path} is {said}."


def test_grey_of_16_bits_keeps_its_tones(tmp_path: Path) -> None:
    path = tmp_path / "deep.png"
    Image.fromarray(np.array([[0, 30_000], [32_768, 65_535]], np.uint16)).save(path)
    with opened_picture(path) as picture:
        assert np.asarray(turned(picture).convert("L")).tolist() == [[0, 116], [127, 255]]
