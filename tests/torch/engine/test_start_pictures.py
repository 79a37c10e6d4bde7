"""Pictures made of another one: brought to size, inpainted, only where the mask says so, and extended at their sides."""

import json
import shutil
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from tests.bench.families import run
from tests.bench.families.table import CASES
from tests.helpers.engine_runs import Meddler, Recorder, generate, pixels

from halftone.contract.errors import HalftoneError
from halftone.contract.messages import PictureReady
from halftone.contract.request import Start
from halftone.engine.inputs.filling import around
from halftone.engine.inputs.start_pictures import Canvas, canvas, fitted
from halftone.engine.service import DiffusersEngine
from halftone.metadata.picture import RECEIPT_KEY


def drawing(path: Path, width: int, height: int, seed: int = 0) -> str:
    """Soft colours, as a photograph has."""
    small = np.random.default_rng(seed).integers(0, 255, (4, 4, 3), dtype=np.uint8)
    Image.fromarray(small).resize((width, height), Image.Resampling.BICUBIC).save(path)
    return str(path)


def spot(path: Path, width: int, height: int, box: tuple[int, int, int, int]) -> str:
    """A mask that is white inside of the box."""
    mask = Image.new("L", (width, height))
    mask.paste(255, box)
    mask.save(path)
    return str(path)


def array(path: str) -> NDArray[np.uint8]:
    with Image.open(path) as opened:
        return np.asarray(opened.convert("RGB"))


# --- brought to size ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("resize", ["stretch", "crop", "fill"])
def test_a_picture_of_another_shape(resize: Any) -> None:
    """Red, green, blue side by side: stretched all three are there, cut to a square only the middle one is."""
    wide = Image.new("RGB", (96, 32), (0, 255, 0))
    wide.paste((255, 0, 0), (0, 0, 32, 32))
    wide.paste((0, 0, 255), (64, 0, 96, 32))
    made = np.asarray(fitted(wide, (48, 48), resize))
    assert made.shape == (48, 48, 3)
    if resize == "crop":
        assert (made[:, 12:36] == (0, 255, 0)).all()
        assert not (made == (255, 0, 0)).all(axis=2).any()
    else:
        rows = range(48) if resize == "stretch" else range(20, 28)
        assert all((made[row, 2] == (255, 0, 0)).all() and (made[row, 45] == (0, 0, 255)).all() for row in rows)
    if resize == "fill":
        assert (made[12:16, 4].argmax(axis=1) == 0).all(), "what is filled has the colours around"
        assert (made[32:36, 43].argmax(axis=1) == 2).all()


def test_holes_get_the_colours_around_them() -> None:
    picture = Image.new("RGB", (33, 20), (200, 40, 10))
    known = Image.new("L", (33, 20))
    known.paste(255, (0, 0, 5, 20))
    picture.paste(0, (5, 0, 33, 20))
    assert np.abs(np.asarray(around(picture, known)).astype(int) - (200, 40, 10)).max() <= 1
    assert around(picture, Image.new("L", (33, 20))) is picture, "nothing is known"


def test_a_size_that_was_not_asked_for_is_the_pictures_own(tmp_path: Path) -> None:
    image = drawing(tmp_path / "a.png", 70, 44)
    own = canvas(image, None, Start(), (None, None), 8)
    assert (own.image.size, own.mask, own.overlay) == ((64, 40), None, None)
    assert canvas(image, None, Start(), (140, None), 8).image.size == (140, 88)
    assert canvas(image, None, Start(), (None, 88), 8).image.size == (136, 88)
    assert own.notes == ()
    (note,) = canvas(image, None, Start(resize="crop"), (32, 32), 8).notes
    assert str(note) == "The start picture is 70 × 44 and was cropped to 32 × 32."


@pytest.mark.parametrize(
    ("own", "asked", "multiple", "made", "said"),
    [
        ((1, 1), (None, None), 8, (8, 8), "smaller than the model can use, and was enlarged to 8 × 8."),
        ((1, 1), (64, 64), 8, (64, 64), "smaller than the model can use, and was enlarged to 64 × 64."),
        ((15, 15), (None, None), 16, (16, 16), "smaller than the model can use, and was enlarged to 16 × 16."),
        ((1, 1), (64, 32), 8, (64, 32), " and was stretched to 64 × 32."),
        ((1, 40), (None, None), 8, (8, 40), " and was stretched to 8 × 40."),
        ((8, 8), (None, None), 8, (8, 8), ""),
        ((32, 32), (64, 64), 8, (64, 64), ""),
    ],
)
def test_a_start_picture_that_is_too_small_is_enlarged_and_this_is_said(
    own: tuple[int, int], asked: Any, multiple: int, made: tuple[int, int], said: str
) -> None:
    found = canvas(Image.new("RGB", own), None, Start(), asked, multiple)
    assert found.image.size == made
    assert len(found.notes) == bool(said)
    assert all(
        str(note).startswith(f"The start picture is {own[0]} × {own[1]}") and str(note).endswith(said) for note in found.notes
    )


def test_the_note_about_a_small_start_picture_reaches_the_receipt(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    image = drawing(tmp_path / "a.png", 1, 1)
    _, events = generate(engine, models["sd15"], image=image, width=None, height=None)
    (picture,) = events.of(PictureReady)
    assert picture.facts.width == 8
    with Image.open(picture.facts.path) as made:
        note = "The start picture is 1 × 1, smaller than the model can use, and was enlarged to 8 × 8."
        assert note in json.loads(made.info[RECEIPT_KEY])["request"]["reasons"]


# --- only a part --------------------------------------------------------------------------------------------------------


def white(size: tuple[int, int]) -> Image.Image:
    return Image.new("RGB", size, "white")


def test_what_the_mask_leaves_is_as_it_was(tmp_path: Path) -> None:
    image = drawing(tmp_path / "a.png", 64, 64)
    given = canvas(image, spot(tmp_path / "m.png", 64, 64, (24, 24, 40, 40)), Start(mask_blur=2), (64, 64), 8)
    assert given.overlay is not None
    assert given.mask is not None
    laid, before = np.asarray(given.overlay.lay(white((64, 64)))), array(image)
    assert (laid[28:36, 28:36] > 250).all()
    outside = np.ones((64, 64), bool)
    outside[16:48, 16:48] = False
    assert (laid[outside] == before[outside]).all()
    between = laid[32, 16:48].astype(int).sum(axis=1)
    assert len(set(between)) > 6, "the edge is soft"
    assert set(np.unique(np.asarray(given.mask))) == {0, 255}


@pytest.mark.parametrize("content", ["original", "fill", "noise"])
def test_what_the_masked_part_begins_with(tmp_path: Path, content: Any) -> None:
    picture = Image.new("RGB", (64, 64), (10, 200, 30))
    picture.paste((255, 0, 0), (24, 24, 40, 40))
    picture.save(tmp_path / "a.png")
    mask = spot(tmp_path / "m.png", 64, 64, (22, 22, 42, 42))
    start = Start(masked_content=content, mask_blur=1)
    begun = np.asarray(canvas(str(tmp_path / "a.png"), mask, start, (64, 64), 8).image)
    middle = begun[28:36, 28:36].reshape(-1, 3)
    assert (begun[:8] == (10, 200, 30)).all()
    if content == "original":
        assert (middle == (255, 0, 0)).all()
    elif content == "fill":
        assert np.abs(middle.astype(int) - (10, 200, 30)).max() <= 2
    else:
        assert middle.std(axis=0).min() > 40


def test_only_the_masked_part_is_computed_in_the_whole_size(tmp_path: Path) -> None:
    """A small spot of a large picture: enlarged to what is computed, and laid back where it was."""
    image = drawing(tmp_path / "a.png", 400, 300)
    mask = spot(tmp_path / "m.png", 400, 300, (300, 20, 340, 40))
    given = canvas(image, mask, Start(only_masked=8, mask_blur=0), (128, 64), 8)
    assert given.overlay is not None
    assert given.image.size == (128, 64)
    left, top, right, bottom = given.overlay.box
    assert (right - left) / (bottom - top) == pytest.approx(2, abs=0.05)
    assert left <= 292 < 348 <= right <= 400
    assert 0 <= top <= 12 < 48 <= bottom
    laid, before = np.asarray(given.overlay.lay(white((128, 64)))), array(image)
    changed = (laid != before).any(axis=2)
    assert laid.shape == before.shape
    assert changed[20:40, 300:340].all()
    assert changed.sum() == 20 * 40


def test_a_part_at_the_edge_finds_its_place_inside(tmp_path: Path) -> None:
    image = drawing(tmp_path / "a.png", 100, 60)
    mask = spot(tmp_path / "m.png", 100, 60, (0, 50, 10, 60))
    given = canvas(image, mask, Start(only_masked=4, mask_blur=0), (64, 64), 8)
    assert given.overlay is not None
    assert given.overlay.box == (0, 46, 14, 60)
    high = canvas(image, mask, Start(only_masked=200, mask_blur=0), (32, 64), 8)
    assert high.overlay is not None
    left, top, right, bottom = high.overlay.box
    assert (left, right, bottom - top) == (0, 100, 200), "as wide as the picture, and higher than it"
    assert high.image.size == (32, 64)
    assert (np.asarray(high.overlay.lay(white((32, 64))))[50:, :10] == 255).all()


# --- beyond the edge ----------------------------------------------------------------------------------------------------


def test_a_picture_is_extended_and_what_was_there_is_kept(tmp_path: Path) -> None:
    image = drawing(tmp_path / "a.png", 60, 40)
    given = canvas(image, None, Start(outpaint=(16, 0, 30, 8), mask_blur=2), (None, None), 8)
    assert given.overlay is not None
    assert given.mask is not None
    assert given.overlay.picture.size == (106, 48)
    assert given.image.size == given.mask.size == (112, 48), "a multiple of 8 is computed"
    laid, before = np.asarray(given.overlay.lay(white((112, 48)))), array(image)
    assert (laid[:, :16] == 255).all()
    assert (laid[:, 76:] == 255).all()
    assert (laid[40:] == 255).all()
    assert (laid[:24, 32:60] == before[:24, 16:44]).all(), "kept to the last bit"
    assert (np.asarray(given.mask)[:, :16] == 255).all()
    assert (np.asarray(given.mask)[:24, 32:60] == 0).all()
    begun = np.asarray(given.image).astype(int)
    assert np.abs(begun[8, 17] - begun[8, 14]).max() < 120, "it begins with the colours at the edge"
    assert begun[:, :12].std() > 5, "and with some noise"


@pytest.mark.parametrize("blur", [1, 4, 9])
def test_an_extended_picture_changes_up_to_five_times_the_blur_deep(blur: int) -> None:
    given = canvas(Image.new("RGB", (128, 64)), None, Start(outpaint=(16, 0, 0, 0), mask_blur=blur), (None, None), 8)
    assert given.overlay is not None
    changed = np.flatnonzero(np.asarray(given.overlay.alpha)[32, 16:])
    assert 3 * blur <= changed.max() + 1 <= 5 * blur


def test_without_a_soft_edge_nothing_old_is_changed(tmp_path: Path) -> None:
    image = drawing(tmp_path / "a.png", 64, 64)
    given = canvas(image, None, Start(outpaint=(0, 64, 0, 0), mask_blur=0), (None, None), 8)
    assert given.overlay is not None
    assert (np.asarray(given.overlay.lay(white((64, 128))))[64:] == array(image)).all()


def test_a_control_picture_shows_the_same_part() -> None:
    scene = Image.new("RGB", (200, 100))
    scene.paste("white", (100, 0, 200, 100))
    whole = Image.new("RGB", (100, 50))
    given = Canvas(white((64, 64)))
    assert given.along(scene).size == (64, 64)
    from halftone.engine.inputs.start_pictures import Overlay

    given = Canvas(white((64, 64)), overlay=Overlay(whole, Image.new("L", (100, 50)), (50, 0, 100, 50)))
    assert (np.asarray(given.along(scene))[:, 4:] == 255).all()


# --- through the engine -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("family", ["sd15", "sdxl"])
def test_inpainting_changes_nothing_but_the_masked_part(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, family: str
) -> None:
    image = drawing(tmp_path / "a.png", 64, 64)
    mask = spot(tmp_path / "m.png", 64, 64, (32, 32, 64, 64))
    size: dict[str, Any] = {"width": 64, "height": 64}
    report, _ = generate(engine, models[family], family=family, image=image, mask=mask, start=Start(mask_blur=1), **size)
    made, before = pixels(report), array(image)
    assert (made[:24] == before[:24]).all()
    assert (made[36:, 36:] != before[36:, 36:]).any()


@pytest.mark.parametrize("family", ["sd15", "sdxl"])
def test_a_picture_is_extended_by_every_family(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, family: str
) -> None:
    image = drawing(tmp_path / "a.png", 40, 32)
    start = Start(outpaint=(0, 0, 24, 8), mask_blur=1)
    sizes: dict[str, Any] = {"width": None, "height": None}
    report, _ = generate(engine, models[family], family=family, image=image, start=start, steps=2, **sizes)
    (facts,) = report.images
    assert (facts.width, facts.height, facts.state) == (64, 40, "clean")
    assert (pixels(report)[:24, :32] == array(image)[:24, :32]).all()


@pytest.mark.parametrize("name", ["SD 3", "FLUX.1 dev", "Z-Image", "SD 2.x inpaint"])
def test_what_was_there_is_kept_by_those_that_compute_in_patches(engine: DiffusersEngine, tmp_path: Path, name: str) -> None:
    case = next(case for case in CASES if case.name == name)
    model = run.save(case, tmp_path / name)
    image = drawing(tmp_path / "a.png", 56, 64)
    start = Start(outpaint=(0, 0, 20, 0), mask_blur=1, strength=1.0)
    more: dict[str, Any] = {"width": None, "height": None, "options": case.options}
    report, _ = generate(engine, model, family="sd15", image=image, start=start, steps=2, **more)
    assert (report.images[0].width, report.images[0].height, report.images[0].state) == (76, 64, "clean")
    assert (pixels(report)[:, :50] == array(image)[:, :50]).all()


def test_only_the_masked_part_of_a_large_picture(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    image = drawing(tmp_path / "a.png", 150, 90)
    mask = spot(tmp_path / "m.png", 150, 90, (100, 50, 120, 70))
    report, _ = generate(engine, models["sd15"], image=image, mask=mask, start=Start(only_masked=6, mask_blur=1, strength=0.8))
    made, before = pixels(report), array(image)
    assert made.shape == before.shape
    assert (report.images[0].width, report.images[0].height) == (150, 90)
    assert (made[54:66, 104:116] != before[54:66, 104:116]).any()
    assert (made[:, :80] == before[:, :80]).all()


@pytest.mark.logs("was not saved")
def test_kept_latents_are_laid_over_the_picture_that_they_were_made_from(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    """The file could not be written, so only its latents are there: decoded, they take their place in the picture again."""
    image = drawing(tmp_path / "a.png", 150, 90)
    mask = spot(tmp_path / "m.png", 150, 90, (100, 50, 120, 70))
    given: dict[str, Any] = {"image": image, "mask": mask, "start": Start(only_masked=6, strength=0.8)}
    whole, _ = generate(engine, models["sd15"], **given)
    folder, emit = tmp_path / "out", Recorder()
    folder.mkdir()
    with pytest.raises(HalftoneError):
        generate(engine, models["sd15"], **given, output=str(folder / "b.png"), control=Meddler(folder.rmdir), emit=emit)
    latents = emit.of(PictureReady)[0].facts.latents
    assert latents is not None
    copy = shutil.copy(latents, tmp_path / "kept.safetensors")
    again, _ = generate(engine, models["sd15"], resume_latents=latents)
    assert (pixels(again) == pixels(whole)).all()
    for change, code in ((partial(drawing, Path(image), 150, 90, 1), "input-changed"), (Path(image).unlink, "image-gone")):
        change()
        with pytest.raises(HalftoneError) as caught:
            generate(engine, models["sd15"], resume_latents=str(copy))
        assert caught.value.code == code


def test_the_receipt_and_the_parameters_tell_it(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    (tmp_path / "private").mkdir()
    image = drawing(tmp_path / "private" / "a.png", 64, 32)
    mask = spot(tmp_path / "private" / "m.png", 32, 16, (0, 0, 16, 16))
    start = Start(resize="crop", strength=0.8)
    report, _ = generate(engine, models["sd15"], image=image, mask=mask, start=start)
    with Image.open(report.images[0].path) as made:
        text, receipt = made.info["parameters"], made.info[RECEIPT_KEY]
    for said in (
        "Denoising strength: 0.8",
        "Start picture: a.png",
        "Resize mode: Crop and resize",
        "Mask: m.png",
        "Mask blur: 4",
    ):
        assert said in text
    assert '"image":"a.png","mask":"m.png"' in receipt
    assert "private" not in receipt + text
    assert "The mask is 32 × 16 and was scaled to the picture's 64 × 32." in receipt
    assert "The start picture is 64 × 32 and was cropped to 32 × 32." in receipt


def test_a_strength_that_was_not_said_is_the_pipelines_own(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    image = drawing(tmp_path / "a.png", 32, 32)
    plain, _ = generate(engine, models["sdxl"], family="sdxl", image=image, steps=10)
    said, _ = generate(engine, models["sdxl"], family="sdxl", image=image, steps=10, start=Start(strength=0.3))
    assert (pixels(plain) == pixels(said)).all()
    with Image.open(plain.images[0].path) as made:
        assert "Denoising strength: 0.3" in made.info["parameters"]
        assert "Strength: the pipeline's own default." in made.info[RECEIPT_KEY]


def test_what_a_model_cannot_do_with_a_picture_is_said(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    image = drawing(tmp_path / "a.png", 32, 32)
    for start, code in ((Start(), "start-no-picture"), (Start(outpaint=(8, 0, 0, 0)), "start-no-mask")):
        sizes: dict[str, Any] = {"width": None, "height": None} if start.extends else {}
        with pytest.raises(HalftoneError) as caught:
            generate(engine, models["sana"], family="sana", image=image, start=start, **sizes)
        assert caught.value.code == code
