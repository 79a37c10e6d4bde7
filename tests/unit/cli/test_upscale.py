"""The command `upscale`, with a scripted engine."""

from pathlib import Path

import pytest
from tests.helpers import samples
from tests.helpers.model_files import ramp, safetensors
from tests.unit.cli.test_commands import Run, run

from halftone.cli.generate.pass_options import hires_of, upscaler_file
from halftone.contract.request import Hires, PictureRequest
from halftone.gallery.history import History
from halftone.settings.store import Settings, save

__all__ = ["run"]


@pytest.fixture
def picture(tmp_path: Path) -> Path:
    path = tmp_path / "sun.png"
    path.write_bytes(samples.png(64, 64))
    return path


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "up").mkdir()
    path = tmp_path / "up" / "4x-Sharp.safetensors"
    path.write_bytes(safetensors({"body.0.weight": ramp(4, 4)}))
    return path


def test_a_picture_is_made_larger_by_a_model_that_is_named(run: Run, picture: Path, model: Path) -> None:
    save(Settings(upscaler_folders=(str(model.parent),)))
    done = run("upscale", str(picture), "--with", "4x-Sharp", "--json")
    assert done.code == 0
    (made,) = done.object["pictures"]
    assert made["upscaler"] == str(model)
    assert (made["source"], made["scale"], made["dtypes"]) == (str(picture), 4, {"upscaler": "float32"})
    gone = str(model.parent / "gone" / model.name)
    assert upscaler_file(gone, Settings(upscaler_folders=(str(model.parent),))) == gone, "a path is no name"
    assert hires_of(2.0, "4x-Sharp", None, None, Settings(upscaler_folders=(str(model.parent),))) == Hires(upscaler=str(model))


def test_it_stands_on_the_list_with_what_made_its_source(run: Run, picture: Path, model: Path) -> None:
    with History() as history:
        history.add(samples.picture_facts(str(picture), seed=42), PictureRequest(prompt="a red sun", steps=9), b"")
    done = run("upscale", str(picture), "--with", str(model))
    assert "4 times larger · 4x-Sharp in FP32" in done.out
    with History() as history:
        newest, _source = history.recent()
    assert (newest.facts.seed, newest.facts.width, newest.request.prompt) == (42, 256, "a red sun")
    assert newest.facts.upscaled is not None


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("SUN", "--with", "nobody"), "There is no upscale model at"),
        (("gone.png", "--with", "MODEL"), "There is no picture at"),
        (("SUN", "--with", "old.pth"), "is a pickle file"),
        (("SUN", "SUN", "--with", "MODEL", "-o", "both.png"), "both.png does not exist. Create it"),
        (("SUN", "--with", "MODEL", "-o", "a.gif"), "Halftone cannot write the file type of"),
        (("SUN", "--with", "MODEL", "-o", "SUN"), "Halftone never overwrites your files."),
        (("MODEL", "--with", "MODEL"), "is not a readable picture. Choose a PNG, JPEG or WebP file."),
    ],
)
def test_what_cannot_work_is_said_in_one_sentence(
    run: Run, picture: Path, model: Path, words: tuple[str, ...], said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(picture.parent)
    Path("old.pth").write_bytes(b"\x80\x04never opened")
    done = run("upscale", *({"SUN": str(picture), "MODEL": str(model)}.get(word, word) for word in words))
    assert done.code == 2
    assert said in done.err.replace("\n", " ")
