"""Opening the pictures that a user gives."""

import errno
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from halftone.contract.errors import HalftoneError, remedy, sentence
from halftone.metadata.reading import read_picture
from halftone.metadata.start_images import picture_size
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
    assert sentence(caught.value.as_facts()) == f"The picture {path} is damaged or incomplete."


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


def _box(brand: bytes, *others: bytes) -> bytes:
    content = b"ftyp" + brand + bytes(4) + b"".join(others)
    return (len(content) + 4).to_bytes(4) + content + bytes(500)


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (_box(b"heic", b"mif1", b"heic"), "is a HEIC photo, which Halftone cannot read."),
        (_box(b"mif1", b"mif1", b"heic"), "is a HEIC photo, which Halftone cannot read."),
        (_box(b"crx ", b"crx ", b"isom"), "is a camera's raw photo, which Halftone cannot read."),
        (_box(b"isom", b"isom", b"avc1"), "is a video, not a picture."),
        (b"\x1aE\xdf\xa3" + bytes(500), "is a video, not a picture."),
        (b"RIFF\0\1\0\0AVI " + bytes(500), "is a video, not a picture."),
        (b"II*\0\x08\0\0\0\0\0" + bytes(500), "is a TIFF of a special kind, which Halftone cannot read."),
        (b"BMW is a car, and this is a text.\n" * 20, "is not a readable picture."),
        (b"GIF8 is a text", "is not a readable picture."),
        (b"", "is not a readable picture."),
    ],
)
def test_what_is_of_another_kind_is_not_called_damaged(tmp_path: Path, data: bytes, said: str) -> None:
    path = tmp_path / "hills.png"
    path.write_bytes(data)
    with pytest.raises(HalftoneError) as caught, opened_picture(path):
        pass
    facts = caught.value.as_facts()
    assert sentence(facts) == f"{path} {said}"
    assert remedy(facts) == "Choose a PNG, JPEG or WebP file."


def test_a_whole_tiff_of_another_kind_is_not_called_damaged(tmp_path: Path) -> None:
    path = tmp_path / "hills.tif"
    Image.new("L", (8, 8)).save(path)
    data = path.read_bytes()
    depth = data.index((258).to_bytes(2, "little") + (3).to_bytes(2, "little"))
    path.write_bytes(data[: depth + 8] + (7).to_bytes(2, "little") + data[depth + 10 :])  # 7 bits a sample
    with pytest.raises(HalftoneError) as caught, opened_picture(path) as picture:
        picture.load()
    assert sentence(caught.value.as_facts()) == f"{path} is a TIFF of a special kind, which Halftone cannot read."


def _refused(path: Path) -> str:
    with pytest.raises(HalftoneError) as caught, opened_picture(path) as picture:
        picture.load()
    return sentence(caught.value.as_facts())


@pytest.mark.skipif(os.name == "nt", reason="Windows makes links only for administrators")
def test_links_in_a_circle_are_no_missing_picture(tmp_path: Path) -> None:
    path = tmp_path / "hills.png"
    path.symlink_to(path)
    said = f"The picture {path} could not be read: {os.strerror(errno.ELOOP).lower()}."
    assert _refused(path) == said
    with pytest.raises(HalftoneError) as caught:
        check_there(path)
    assert sentence(caught.value.as_facts()) == said


@pytest.mark.skipif(not os.path.exists("/proc/self/mem"), reason="only Linux has this file, whose beginning gives an error")
def test_a_disk_that_fails_is_no_damaged_picture() -> None:
    path = Path("/proc/self/mem")
    assert _refused(path) == f"The picture {path} could not be read: {os.strerror(errno.EIO).lower()}."


@pytest.mark.parametrize("name", ["none.png", "hills.png/none.png"])
def test_what_is_not_there_is_missing(tmp_path: Path, name: str) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "hills.png")
    assert _refused(tmp_path / name) == f"There is no picture at {tmp_path / name}."


def test_a_picture_that_vanishes_while_it_is_read_is_still_called_what_it_was(tmp_path: Path) -> None:
    path = tmp_path / "cut.jpg"
    Image.effect_noise((64, 64), 90.0).save(path)
    path.write_bytes(path.read_bytes()[:900])

    def vanishing() -> None:
        with opened_picture(path) as picture:
            path.unlink()
            picture.load()

    with pytest.raises(HalftoneError) as caught:
        vanishing()
    assert caught.value.code == "image-damaged"


def test_a_file_that_is_missing_in_what_is_done_is_not_the_picture(tmp_path: Path) -> None:
    path = tmp_path / "small.png"
    Image.new("RGB", (4, 4)).save(path)
    with pytest.raises(FileNotFoundError), opened_picture(path):
        (tmp_path / "profile").read_bytes()
