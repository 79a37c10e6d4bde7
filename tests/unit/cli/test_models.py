"""The command that lists models: each as what it is, and what it runs with."""

import json
from pathlib import Path

import pytest
from safetensors.numpy import load_file, save_file
from tests.helpers.headers import header, write_sparse
from tests.helpers.hub import save_flux
from tests.helpers.model_files import write_folder
from tests.unit.library.test_denoisers import packed
from tests.unit.library.test_recognise import CLIP_L
from typer.testing import CliRunner

from halftone.cli.app import application
from halftone.cli.options.requests import known_model
from halftone.contract.errors import HalftoneError
from halftone.settings.places import resources
from halftone.settings.store import Settings, save


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The demo model's UNet alone, a transformer of FLUX, and what is no model."""
    place = tmp_path / "models"
    place.mkdir()
    (file,) = (resources() / "pocket" / "unet").glob("*.safetensors")
    save_file(load_file(file), place / "mine.safetensors")
    (place / "flux.gguf").write_bytes(packed())
    (place / "notes.safetensors").write_bytes(b"no")
    return place


def told(*words: str) -> str:
    result = CliRunner().invoke(application(), ["models", *words])
    assert result.exit_code == 0
    return result.stdout


def test_transformers_are_listed_as_what_they_are(folder: Path) -> None:
    save(Settings(model_folders=(str(folder),)))
    first, *rest = told().splitlines()
    assert first == "pocket"
    assert rest[1:] == [
        f"{folder}/flux.gguf",
        "  Transformer of FLUX.1 schnell, q4_k, 0.0\N{NO-BREAK SPACE}MB",
        "  Runs with the other parts of a diffusers folder of FLUX.1 schnell "
        "(huggingface.co/black-forest-labs/FLUX.1-schnell), once you have that.",
        f"{folder}/mine.safetensors",
        "  UNet of Stable Diffusion 1.x, FP16, 17.3\N{NO-BREAK SPACE}MB",
        "  Runs with the other parts of Pocket (demo).",
    ]


def test_a_file_that_is_listed_alone_is_found_too(folder: Path) -> None:
    save(Settings(model_folders=(str(folder / "mine.safetensors"),)))
    found = json.loads(told("--json"))["models"]
    assert [(one["name"], one["state"], one["runs_with"]) for one in found[1:]] == [
        ("mine", "needs-parts", str(resources() / "pocket"))
    ]


def test_a_model_of_the_folders_is_known_by_its_name(tmp_path: Path) -> None:
    saved = Settings(model_folders=(str(tmp_path),))
    for place in ("one/Tiny", "two/tiny", "mine"):
        write_folder(tmp_path / place)
    assert known_model("MINE", saved).id == str(tmp_path / "mine")
    for name in ("tiny", "x/mine", "gone"):  # there are two, it is a path, there is none
        with pytest.raises(HalftoneError) as caught:
            known_model(name, saved)
        assert caught.value.code == "model-missing"


def test_other_files_are_no_models(tmp_path: Path) -> None:
    write_sparse(tmp_path / "text.safetensors", header(CLIP_L.format("")))
    save(Settings(model_folders=(str(tmp_path),)))
    assert [one["path"] for one in json.loads(told("--json"))["models"]] == [str(resources() / "pocket")]


def test_a_model_that_lacks_a_small_file_says_which(tmp_path: Path) -> None:
    save_flux(tmp_path / "whole.safetensors")
    save(Settings(model_folders=(str(tmp_path),)))
    assert "needs one more small file: google-t5/t5-base/tokenizer.json (1.4\N{NO-BREAK SPACE}MB)." in told()
    assert [one["state"] for one in json.loads(told("--json"))["models"]] == ["ready", "needs-files"]
