import errno
import os
import struct
import subprocess
from pathlib import Path

import pytest
from PIL import Image, ImageChops, ImageStat
from tests.helpers.pictures import resolved
from tests.helpers.read_back import read_picture

from halftone.contract.errors import HalftoneError
from halftone.contract.request import ResolvedRequest, Start
from halftone.metadata.picture import (
    EXIF_FOLDER,
    MAKER_NOTE,
    NOTE_PREFIX,
    UNICODE,
    USER_COMMENT,
    check_output,
    check_picture,
    check_room_for_text,
    exif_of,
    numbered,
    output_error,
    save_picture,
)
from halftone.metadata.source_type import source_type, source_type_in
from halftone.settings.picture_files import has_jpeg_xl, opened_picture

JPEG_XL = pytest.param(".jxl", marks=pytest.mark.skipif(not has_jpeg_xl(), reason="needs Pillow's plugin for JPEG XL"))
ENDINGS = [".png", ".jpg", ".JPEG", ".webp", JPEG_XL]
TEXT = "a sun\nNegative prompt: rain\nSteps: 20, Sampler: Euler, Seed: 1"
RECEIPT = '{"schema":1}'


def picture(width: int = 32) -> Image.Image:
    return Image.linear_gradient("L").resize((width, 24)).convert("RGB")


def code_of(path: Path | str) -> str:
    with pytest.raises(HalftoneError) as caught:
        check_output(path)
    return caught.value.code


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("text", [TEXT, "太阳 ☀ 𝄞\nSteps: 1, Sampler: Euler, Seed: 2"])
def test_parameters_and_receipt_come_back(tmp_path: Path, ending: str, text: str) -> None:
    path = tmp_path / f"p{ending}"
    save_picture(picture(), path, text, RECEIPT)
    found = read_picture(path)
    assert (found.parameters, found.receipt) == (text, RECEIPT)
    assert os.listdir(tmp_path) == [path.name], "no temporary file is left"


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize(
    ("request_", "kind"),
    [
        (resolved(), "trainedAlgorithmicMedia"),
        (resolved(image="/a.png"), "trainedAlgorithmicMedia"),
        (resolved(image="/a.png", mask="/m.png"), "compositeWithTrainedAlgorithmicMedia"),
        (resolved(image="/a.png", start=Start(outpaint=(64, 0, 0, 0))), "compositeWithTrainedAlgorithmicMedia"),
    ],
)
def test_iptcs_source_type_is_in_every_format_and_in_no_ones_way(
    tmp_path: Path, ending: str, request_: ResolvedRequest, kind: str
) -> None:
    path = tmp_path / f"p{ending}"
    save_picture(picture(), path, TEXT, RECEIPT, source_type(request_))
    found = read_picture(path)
    assert (found.parameters, found.receipt) == (TEXT, RECEIPT)
    assert f"digitalsourcetype/{kind}".encode() in path.read_bytes()
    if ending != ".jxl":  # whose plugin gives no XMP back
        assert source_type_in(found.texts) == kind


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_picture_without_metadata_says_nothing(tmp_path: Path, ending: str) -> None:
    path = tmp_path / f"p{ending}"
    save_picture(picture(), path, "", "")
    found = read_picture(path)
    assert (found.parameters, found.receipt) == (None, None)
    assert b"digitalsourcetype" not in path.read_bytes()
    with Image.open(path) as image:
        assert not image.getexif()
        assert image.size == (32, 24)


@pytest.mark.parametrize("ending", [".jpg", ".webp", JPEG_XL])
def test_a_higher_quality_loses_less(tmp_path: Path, ending: str) -> None:
    noise = Image.effect_noise((64, 64), 60).convert("RGB")
    sizes: list[int] = []
    losses: list[float] = []
    for quality in (20, 95):
        path = tmp_path / f"{quality}{ending}"
        save_picture(noise, path, "", "", quality=quality)
        sizes.append(path.stat().st_size)
        with opened_picture(path) as image:
            losses.append(ImageStat.Stat(ImageChops.difference(noise, image.convert("RGB"))).mean[0])
    assert sizes[0] < sizes[1]
    assert losses[0] > losses[1]


def test_latin_text_is_stored_as_text_and_other_text_as_international_text(tmp_path: Path) -> None:
    save_picture(picture(), tmp_path / "a.png", "café", "{}")
    save_picture(picture(), tmp_path / "b.png", "日", "{}")
    assert b"tEXtparameters\0caf\xe9" in (tmp_path / "a.png").read_bytes()
    assert b"iTXtparameters\0" in (tmp_path / "b.png").read_bytes()


@pytest.mark.parametrize("receipt", ["", "odd", "even", "x" * 70_000])
def test_texts_in_exif_have_the_type_that_a1111_reads(receipt: str) -> None:
    """It takes no bytes, as Pillow would write them."""
    found = Image.Exif()
    found.load(exif_of(TEXT, receipt))
    tags = found.get_ifd(EXIF_FOLDER)
    assert tags[USER_COMMENT].removeprefix(UNICODE).decode("utf-16-be") == TEXT
    assert tags.get(MAKER_NOTE) == (None if len(receipt) > 60_000 else NOTE_PREFIX + receipt.encode())
    assert struct.pack(">HH", USER_COMMENT, 7) in exif_of(TEXT, receipt)


@pytest.mark.parametrize("ending", [JPEG_XL])
def test_exif_in_jpeg_xl_begins_with_its_offset(tmp_path: Path, ending: str) -> None:
    """Civitai reads no other (ISO/IEC 18181-2)."""
    path = tmp_path / f"a{ending}"
    save_picture(picture(), path, TEXT, RECEIPT)
    assert b"Exif\0\0\0\0MM\0*" in path.read_bytes()


def test_a_receipt_too_long_for_exif_is_left_out(tmp_path: Path) -> None:
    save_picture(picture(), tmp_path / "a.jpg", TEXT, "x" * 70_000)
    found = read_picture(tmp_path / "a.jpg")
    assert (found.parameters, found.receipt) == (TEXT, None)


def test_prompts_that_are_let_through_fit_into_a_jpeg_with_all_else(tmp_path: Path) -> None:
    path = tmp_path / "a.jpg"
    longest = "日" * 30_000
    check_room_for_text(path, longest)
    save_picture(picture(), path, longest + "\nSteps: 20, Model: " + "m" * 255, RECEIPT)
    with pytest.raises(HalftoneError, match=r"too long to store in .*a\.jpg"):
        check_room_for_text(path, longest + "日" * 1_000)
    for ending in (".png", ".webp"):
        check_room_for_text(path.with_suffix(ending), longest * 10)
        save_picture(picture(), path.with_suffix(ending), longest * 10, RECEIPT)


def test_an_existing_file_is_only_replaced_when_asked(tmp_path: Path) -> None:
    path = tmp_path / "a.png"
    path.write_text("mine")
    assert code_of(path) == "output-exists"
    with pytest.raises(HalftoneError, match=r"exists\. Halftone never overwrites your files\."):
        save_picture(picture(), path, TEXT, RECEIPT)
    assert path.read_text() == "mine"
    assert os.listdir(tmp_path) == ["a.png"]
    save_picture(picture(), check_output(path, overwrite=True), TEXT, RECEIPT, overwrite=True)
    assert read_picture(path).parameters == TEXT


def test_output_that_cannot_work_is_refused_before_any_work(tmp_path: Path) -> None:
    assert check_output(tmp_path) == tmp_path
    assert check_output(str(tmp_path / "a.png")) == tmp_path / "a.png"
    assert code_of(tmp_path / "a.gif") == "output-bad-type"
    assert code_of(tmp_path / "name") == "output-bad-type"
    assert code_of(tmp_path / "missing" / "a.png") == "output-folder-missing"
    (tmp_path / "file").touch()
    with pytest.raises(HalftoneError) as caught:
        check_output(tmp_path / "file" / "below" / "a.png")
    assert str(caught.value) == f"{tmp_path / 'file'} is a file, not a folder. Choose a folder, or another name."
    assert code_of(tmp_path / f"{'x' * 300}.png") == "output-failed"
    (tmp_path / "lost.png").symlink_to(tmp_path / "nowhere")
    assert code_of(tmp_path / "lost.png") == "output-exists"
    (tmp_path / "b-3.png").touch()
    assert check_output(tmp_path / "b.png", pictures=2) == tmp_path / "b.png"
    with pytest.raises(HalftoneError, match=r"b-3\.png exists"):
        check_output(tmp_path / "b.png", pictures=3)


def test_a_picture_that_the_disk_has_no_room_for_is_refused_before_it_is_made(tmp_path: Path) -> None:
    assert check_output(tmp_path, pixels=1024 * 1024) == tmp_path
    with pytest.raises(HalftoneError) as caught:
        check_output(tmp_path, pixels=10**15)
    assert caught.value.code == "disk-full"


@pytest.mark.skipif(not Path("/proc/self").exists(), reason="only Linux has it")
def test_a_folder_of_the_system_is_not_called_full() -> None:
    with pytest.raises(HalftoneError) as caught:
        check_output(Path("/proc/picture.png"))
    assert caught.value.code in ("output-failed", "output-read-only"), "the latter for who may not write there"
    assert "room" not in str(caught.value)


def test_files_that_are_named_are_numbered(tmp_path: Path) -> None:
    assert [numbered(tmp_path / "a.b.png", index).name for index in range(3)] == ["a.b.png", "a.b-2.png", "a.b-3.png"]


def test_what_is_no_picture_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "a.png").write_bytes(b"no picture")
    for name, said in (("a.png", "is not a readable picture"), ("missing.png", "There is no picture at")):
        with pytest.raises(HalftoneError, match=said):
            check_picture(tmp_path / name)


def test_a_full_device_is_called_full() -> None:
    with Path("/dev/full").open("wb", buffering=0) as full, pytest.raises(OSError, match="No space") as caught:
        full.write(b"x")
    assert output_error(caught.value, Path("/tmp/a.png"), 3_000_000).code == "disk-full"


def test_a_full_disk_leaves_nothing_behind(tiny_disk: Path) -> None:
    assert code_of(tiny_disk / "a.png") == "disk-full"
    noise = Image.effect_noise((512, 512), 90.0)
    with pytest.raises(HalftoneError, match="Disk full: ") as caught:
        save_picture(noise, tiny_disk / "a.png", TEXT, RECEIPT)
    assert caught.value.code == "disk-full"
    assert os.listdir(tiny_disk) == []


def test_a_read_only_disk_is_refused(tiny_disk: Path) -> None:
    subprocess.run(["mount", "-o", "remount,ro", tiny_disk], check=True)
    assert code_of(tiny_disk / "a.png") == "output-read-only"
    with pytest.raises(HalftoneError) as caught:
        save_picture(picture(), tiny_disk / "a.png", TEXT, RECEIPT)
    assert caught.value.code == "output-read-only"


def test_a_limit_on_files_is_not_called_a_full_disk(tmp_path: Path) -> None:
    for number, said in ((errno.EFBIG, "file too large"), (errno.EDQUOT, "quota exceeded")):
        error = output_error(OSError(number, os.strerror(number)), tmp_path / "a.png", 100)
        assert error.code == "output-failed"
        assert said in str(error)
