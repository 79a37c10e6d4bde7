"""What the terminal takes of a start picture: its strength, its mask, its sides; refused in a sentence, told in every place."""

from pathlib import Path

import msgspec
import pytest
from PIL import Image
from tests.unit.cli.test_commands import Run

from halftone.contract.request import Start
from halftone.gallery.history import History
from halftone.settings.places import resources

PICTURE = str(resources() / "pocket" / "examples" / "1.png")
NEW = ("generate", "a sun", "-m", "pocket", "--image", PICTURE)
REFUSED: tuple[tuple[tuple[str, ...], str], ...] = (
    (("--strength", "1.5"), "Denoising strength cannot be 1.5. Choose a value from 0.01 to 1.0."),
    (("--strength", "0"), "Denoising strength cannot be 0.0. Choose a value from 0.01 to 1.0."),
    (("--outpaint", "0,0,0,0"), "--outpaint cannot be 0,0,0,0. Use LEFT,TOP,RIGHT,BOTTOM in pixels, for instance 0,0,128,0."),
    (("--resize", "squeeze"), "--resize cannot be squeeze. Use stretch, crop or fill."),
    (("--masked-content", "void"), "--masked-content cannot be void. Use original, fill or noise."),
    (("--outpaint", "8,8"), "--outpaint cannot be 8,8. Use LEFT,TOP,RIGHT,BOTTOM in pixels, for instance 0,0,128,0."),
    (("--outpaint", "8,0,0,9999"), "--outpaint cannot be 9999. Choose a value from 0 to 2048."),
    (("--outpaint", "8,0,0,0", "--width", "512"), "--outpaint cannot be given together with a size."),
    (("--only-masked", "8"), "--only-masked cannot be used without a mask. Use --mask as well."),
    (("--mask", "BLACK"), "The mask BLACK is all black, so nothing would change."),
    (("--mask", "WIDE"), "The mask WIDE is 64 × 32, but the picture is 128 × 128."),
    (("--option", "strength=0.5"), "--option cannot be strength=0.5. Use --strength."),
)


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Run:
    return Run(capfd)


@pytest.mark.parametrize(("words", "said"), REFUSED, ids=[words[0] + words[1] for words, _ in REFUSED])
def test_what_cannot_be_done_is_said_before_anything_is_loaded(
    run: Run, tmp_path: Path, words: tuple[str, ...], said: str
) -> None:
    masks = {"BLACK": Image.new("L", (128, 128)), "WIDE": Image.new("L", (64, 32), 255)}
    for name, mask in masks.items():
        mask.save(tmp_path / f"{name}.png")
        words = tuple(str(tmp_path / f"{name}.png") if word == name else word for word in words)
        said = said.replace(name, str(tmp_path / f"{name}.png"))
    found = run(*NEW, *words)
    assert (found.code, found.err.startswith(said)) == (2, True), found.err


def test_a_strength_without_a_picture_is_refused(run: Run) -> None:
    found = run("generate", "a sun", "-m", "pocket", "--strength", "0.5")
    assert found.err.startswith("--strength cannot be used without a picture. Use --image as well.")


def test_all_of_it_reaches_the_request_and_the_json(run: Run, tmp_path: Path) -> None:
    Image.new("L", (128, 128), 255).save(tmp_path / "m.png")
    words = ("--mask", str(tmp_path / "m.png"), "--mask-blur", "2", "--masked-content", "fill", "--only-masked", "16")
    found = run(*NEW, *words, "--strength", "0.6", "--resize", "crop", "--output", str(tmp_path / "a.png"), "--json")
    start = Start(strength=0.6, resize="crop", mask_blur=2, masked_content="fill", only_masked=16)
    assert found.object["start"] == {
        "image": PICTURE,
        "mask": str(tmp_path / "m.png"),
        **msgspec.structs.asdict(start),
        "outpaint": [0, 0, 0, 0],
    }
    with History() as history:
        request = history.recent(1)[0].request
    assert (request.image, request.start) == (PICTURE, start)
    run(*NEW, "--outpaint", "8,16,24,32", "--output", str(tmp_path / "b.png"))
    with History() as history:
        assert history.recent(1)[0].request.start == Start(outpaint=(8, 16, 24, 32))
