"""Pictures are saved by the pattern, in the format and with the metadata that a request names; nothing is overwritten."""

from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from tests.bench.families.flows import flux_dev
from tests.helpers.engine_runs import generate
from tests.helpers.read_back import parse_parameters, read_picture

from halftone.contract.errors import HalftoneError
from halftone.contract.messages import PictureSaving
from halftone.contract.request import PictureRequest, Saving
from halftone.contract.vocabulary import PictureFormat
from halftone.engine.service import DiffusersEngine
from halftone.health.pictures.requests import check_request
from halftone.metadata.source_type import source_type_in
from halftone.settings.picture_files import has_jpeg_xl

SMALL: dict[str, Any] = {"prompt": "a red/blue sun", "steps": 2, "seed": 5, "width": 64, "height": 64, "batch": 2}


def saved(engine: DiffusersEngine, model: Path, folder: Path, saving: Saving) -> list[str]:
    """The files that a batch of two makes, by their place in the folder."""
    report, _ = generate(engine, model, "float32", output=str(folder), saving=saving, **SMALL)
    return [Path(picture.path).relative_to(folder).as_posix() for picture in report.images]


def test_files_are_named_by_the_pattern(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    pattern = Saving(file_names="{model}/{prompt} {seed}")
    first = saved(engine, models["sd15"], tmp_path, pattern)
    assert first == ["sd15/a red_blue sun 5.png", "sd15/a red_blue sun 6.png"]
    kept = (tmp_path / first[0]).read_bytes()
    again = saved(engine, models["sd15"], tmp_path, pattern)
    assert again == ["sd15/a red_blue sun 5-2.png", "sd15/a red_blue sun 6-2.png"]
    assert (tmp_path / first[0]).read_bytes() == kept


@pytest.mark.parametrize(("kind", "written"), [("png", "PNG"), ("jpg", "JPEG"), ("webp", "WEBP")])
def test_every_format_says_how_it_was_made(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path, kind: PictureFormat, written: str
) -> None:
    names = saved(engine, models["sd15"], tmp_path, Saving(picture_format=kind))
    assert names == [f"00001-5.{kind}", f"00002-6.{kind}"]
    with Image.open(tmp_path / names[0]) as image:
        assert image.format == written
    found = read_picture(tmp_path / names[0])
    assert parse_parameters(found.parameters or "").fields["Seed"] == "5"
    assert '"seed":5' in (found.receipt or "").replace(" ", "")
    assert source_type_in(found.texts) == "trainedAlgorithmicMedia"


def test_the_label_of_ai_is_left_out_on_request(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    names = saved(engine, models["sd15"], tmp_path, Saving(ai_label=False))
    found = read_picture(tmp_path / names[0])
    assert found.parameters
    assert not source_type_in(found.texts)


def test_forge_finds_the_guidance_that_flux_learnt(engine: DiffusersEngine, tmp_path: Path) -> None:
    flux_dev().save_pretrained(tmp_path / "flux")
    wanted: dict[str, Any] = SMALL | {"batch": 1, "guidance": 2.5, "options": {"max_sequence_length": 8}}
    report, _ = generate(engine, tmp_path / "flux", "float32", output=str(tmp_path), **wanted)
    fields = parse_parameters(read_picture(Path(report.images[0].path)).parameters or "").fields
    assert (fields["CFG scale"], fields["Distilled CFG Scale"]) == ("1", "2.5")


def test_without_metadata_the_file_says_nothing(engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path) -> None:
    names = saved(engine, models["sd15"], tmp_path, Saving(save_metadata=False))
    found = read_picture(tmp_path / names[0])
    assert (found.parameters, found.receipt) == (None, None)


def test_a_picture_without_metadata_is_noted_before_it_is_written_too(
    engine: DiffusersEngine, models: dict[str, Path], tmp_path: Path
) -> None:
    saving = Saving(save_metadata=False)
    report, heard = generate(engine, models["sd15"], "float32", output=str(tmp_path), saving=saving, **SMALL)
    noted = [event.facts.path for event in heard.of(PictureSaving)]
    assert noted == [picture.path for picture in report.images]


@pytest.mark.skipif(has_jpeg_xl(), reason="JPEG XL can be written here")
def test_a_format_that_cannot_be_written_is_refused_before_any_work() -> None:
    with pytest.raises(
        HalftoneError,
        match=r"Picture format cannot be jxl without the Python package pillow-jxl-plugin\.",
    ):
        check_request(PictureRequest(prompt="a", saving=Saving(picture_format="jxl")))


def test_a_prompt_too_long_for_a_jpeg_is_refused_unless_it_stays_outside() -> None:
    long = PictureRequest(prompt="日" * 40_000, saving=Saving(picture_format="jpg"))
    with pytest.raises(HalftoneError, match="too long"):
        check_request(long)
    check_request(PictureRequest(prompt="日" * 40_000, saving=Saving(picture_format="jpg", save_metadata=False)))
