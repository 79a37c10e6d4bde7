"""The folder of pictures that a LoRA learns from."""

from pathlib import Path

import pytest
from PIL import Image

from halftone.contract.error_codes import ErrorCode
from halftone.contract.errors import HalftoneError
from halftone.contract.training import TrainConfig, TrainPicture
from halftone.library.models import describe
from halftone.library.training_data.training_pictures import (
    Reading,
    Shapes,
    brought_to,
    caption_of,
    read_pictures,
    reading_of,
    usable,
)

SHAPES = Shapes(64, 8, 3)


def read(folder: Path, **changes: object) -> dict[str, TrainPicture]:
    config = TrainConfig(model="pocket", pictures=str(folder), output="", **changes)  # type: ignore[arg-type]
    return {picture.name: picture for picture in read_pictures(config, SHAPES)}


def stripes(size: tuple[int, int], mode: str = "RGB") -> Image.Image:
    return Image.linear_gradient("L").resize(size).convert(mode)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    stripes((64, 64)).save(tmp_path / "good.png")
    stripes((90, 60)).save(tmp_path / "wide.JPG")
    stripes((32, 40)).save(tmp_path / "small.png")
    stripes((9, 9)).save(tmp_path / "tiny.png")
    stripes((64, 64), "L").save(tmp_path / "grey.png")
    Image.new("RGB", (64, 64), (250, 252, 255)).save(tmp_path / "white.png")
    Image.new("RGB", (64, 64), (3, 0, 0)).save(tmp_path / "black.png")
    Image.new("RGBA", (64, 64), (0, 0, 0, 0)).save(tmp_path / "clear.png")
    turned = Image.Exif()
    turned[0x0112] = 6
    stripes((60, 90)).save(tmp_path / "turned.jpg", exif=turned)
    whole = (tmp_path / "good.png").read_bytes()
    (tmp_path / "cut.png").write_bytes(whole[: len(whole) // 2])
    (tmp_path / "text.png").write_text("no picture", encoding="utf-8")
    (tmp_path / "notes.md").write_text("not looked at", encoding="utf-8")
    for name in ("good", "wide", "small", "grey", "white", "black", "clear"):
        (tmp_path / f"{name}.txt").write_text("\ufeffa hill\nat dusk\n", encoding="utf-8")
    (tmp_path / "turned.txt").write_bytes(b"a hill in M\xe4rz")
    return tmp_path


def test_a_caption_of_which_only_the_beginning_is_read_is_told(folder: Path) -> None:
    reading = Reading(lambda text: len(text.split()), 5)
    config = TrainConfig(model="pocket", pictures=str(folder), output="", word="sks style")
    long = {"good": "a hill at the sea", "small": "a hill at the sea", "white": "a hill at the sea", "wide": "a small hill"}
    for name, caption in long.items():
        (folder / f"{name}.txt").write_text(caption, encoding="utf-8")
    found = {picture.name: picture.note for picture in read_pictures(config, SHAPES, reading)}
    assert [found[name] for name in ("good.png", "small.png", "white.png", "wide.JPG")] == ["caption-long"] * 2 + ["white", ""]


def test_pocket_reads_so_much_of_a_caption() -> None:
    reading = reading_of(describe("pocket"))
    assert reading is not None
    assert reading.room == 75
    assert reading.count("(a hill)") == reading.count("a hill") + 2, "its brackets are no weights"


def test_what_is_found_in_each_picture(folder: Path) -> None:
    found = {name: (picture.problem, picture.note, picture.shape) for name, picture in read(folder).items()}
    assert found == {
        "black.png": ("", "black", (64, 64)),
        "clear.png": ("", "white", (64, 64)),
        "cut.png": ("unreadable", "", (0, 0)),
        "good.png": ("", "", (64, 64)),
        "grey.png": ("", "", (64, 64)),
        "small.png": ("", "small", (56, 72)),
        "text.png": ("unreadable", "", (0, 0)),
        "tiny.png": ("too-small", "no-caption", (64, 64)),
        "turned.jpg": ("", "caption-unreadable", (72, 56)),
        "white.png": ("", "white", (64, 64)),
        "wide.JPG": ("", "", (72, 56)),
    }
    assert {picture.caption for picture in read(folder).values()} == {"a hill at dusk", ""}
    assert (read(folder)["turned.jpg"].width, read(folder)["turned.jpg"].height) == (90, 60)


def test_what_the_user_left_out_is_not_there(folder: Path) -> None:
    assert "cut.png" not in read(folder, left_out=("cut.png",))


def test_the_word_stands_before_the_caption_or_alone() -> None:
    told, silent = TrainPicture(name="a", caption="a hill"), TrainPicture(name="b")
    assert [caption_of(one, word) for one in (told, silent) for word in ("zx", "")] == ["zx, a hill", "a hill", "zx", ""]


@pytest.mark.parametrize(("own", "count", "shape"), [((90, 60), 1, (64, 64)), ((60, 90), 3, (56, 72)), ((300, 100), 9, (88, 48))])
def test_the_nearest_of_so_many_shapes(own: tuple[int, int], count: int, shape: tuple[int, int]) -> None:
    assert Shapes(64, 8, count).nearest(own) == shape


def test_a_picture_fills_its_shape_and_is_flipped(folder: Path) -> None:
    picture = Image.linear_gradient("L").rotate(90).convert("RGB")
    picture.save(folder / "across.png")
    plain, flipped = (brought_to(folder / "across.png", (72, 56), flip=flip) for flip in (False, True))
    assert plain.size == flipped.size == (72, 56)
    assert plain.tobytes() == flipped.transpose(Image.Transpose.FLIP_LEFT_RIGHT).tobytes() != flipped.tobytes()


def code(act: object) -> ErrorCode:
    with pytest.raises(HalftoneError) as raised:
        act()  # type: ignore[operator]
    return raised.value.code


def test_a_folder_that_teaches_nothing_is_told(tmp_path: Path) -> None:
    assert code(lambda: read(tmp_path / "nowhere")) == "train-no-folder"
    assert code(lambda: read(tmp_path)) == "train-no-pictures"
    (tmp_path / "10_cat").mkdir()
    (tmp_path / "10_cat" / "b.png").write_bytes(b"")
    assert code(lambda: read(tmp_path)) == "train-pictures-inside"
    (tmp_path / "a.png").write_bytes(b"")
    assert code(lambda: usable(str(tmp_path), read(tmp_path).values())) == "train-none-readable"


def test_pictures_of_a_telephone_are_told_and_what_a_mac_puts_beside_them_is_none(folder: Path) -> None:
    before = set(read(folder))
    (folder / "IMG_1.HEIC").write_bytes(b"\0\0\0\x18ftypheic")
    (folder / "._white.png").write_bytes(b"\0")
    after = read(folder)
    assert set(after) - before == {"IMG_1.HEIC"}
    assert after["IMG_1.HEIC"].problem == "unreadable"


@pytest.mark.parametrize(("ending", "coding"), [("txt", "utf-16"), ("txt", "utf-8-sig"), ("caption", "utf-8")])
def test_captions_as_others_write_them(tmp_path: Path, ending: str, coding: str) -> None:
    Image.linear_gradient("L").save(tmp_path / "a.png")
    (tmp_path / f"a.{ending}").write_text("ein Hügel", coding)
    assert read(tmp_path)["a.png"].caption == "ein Hügel"
