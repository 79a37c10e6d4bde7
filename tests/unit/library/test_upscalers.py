"""Upscale models in the folders of the settings: recognised, and looked at again only where a file has changed."""

import os
from pathlib import Path

from tests.helpers.model_files import ramp, safetensors

from halftone.library.add_ons.upscalers import known_upscalers, upscalers_among
from halftone.library.models import list_models
from halftone.settings.store import Settings

COMPACT = {"body.0.weight": ramp(64, 3, 3, 3), "body.1.weight": ramp(64), "body.2.weight": ramp(64, 64, 3, 3)}
LORA = {"lora_unet_a.lora_down.weight": ramp(2)}


def test_a_file_that_is_written_anew_is_looked_at_anew(tmp_path: Path) -> None:
    settings = Settings(model_folders=(str(tmp_path),))
    file = tmp_path / "4x.safetensors"
    for turn, (tensors, found) in enumerate(((COMPACT, True), (LORA, False), (COMPACT, True))):
        file.write_bytes(safetensors(tensors))
        os.utime(file, (turn, turn))
        assert known_upscalers(settings) == ({"4x": str(file)} if found else {})
        assert upscalers_among(list_models(settings.model_folders), settings) == known_upscalers(settings)
    file.unlink()
    assert known_upscalers(settings) == {}


def test_in_their_own_folder_every_file_is_one_and_elsewhere_what_is_damaged_is_none(tmp_path: Path) -> None:
    own, models = tmp_path / "own", tmp_path / "models"
    for folder in (own, models):
        folder.mkdir()
        (folder / "odd.safetensors").write_bytes(b"no header")
    assert known_upscalers(Settings(model_folders=(str(models),))) == {}
    assert known_upscalers(Settings(model_folders=(str(models),), upscaler_folders=(str(own),))) == {
        "odd": str(own / "odd.safetensors")
    }


def test_a_file_that_could_not_be_read_once_is_looked_at_again(tmp_path: Path) -> None:
    """Another program may have held it, and it is still as it was."""
    settings, file, kept = Settings(model_folders=(str(tmp_path),)), tmp_path / "4x.safetensors", tmp_path / "kept"
    kept.write_bytes(safetensors(COMPACT))
    size = kept.stat().st_size
    file.write_bytes(b"\xff" * size)
    for content, found in ((b"\xff" * size, {}), (kept.read_bytes(), {"4x": str(file)})):
        file.write_bytes(content)
        os.utime(file, (1, 1))
        assert known_upscalers(settings) == found
