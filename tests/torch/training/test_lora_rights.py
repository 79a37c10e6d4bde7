"""What a training keeps for itself is its owner's alone; what it makes for the user has the rights of any file."""

import os
import stat
from collections.abc import Generator
from pathlib import Path

import pytest
from tests.helpers.trainings import tiny_training, train

pytestmark = pytest.mark.skipif(os.name != "posix", reason="rights are POSIX's")


@pytest.fixture(autouse=True)
def usual() -> Generator[None]:
    """Others may read what is made, as on most systems."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def rights(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_settings_state_and_cache_are_for_the_owner_and_the_lora_for_all(tmp_path: Path) -> None:
    report = train(tiny_training(tmp_path, output=str(tmp_path / "out"), save_every=2, test_every=2))
    folder = Path(report.folder)
    cached = list((folder / "cache").rglob("*.safetensors"))
    assert len(cached) == 3 + 4, "pictures, captions and no caption"
    assert {rights(path) for path in (*cached, folder / "run.json", folder / "state.safetensors")} == {0o600}
    assert {rights(path) for path in (folder / "cache", folder / "cache" / "latents", folder / "cache" / "words")} == {0o700}
    made = (Path(report.path), folder / "lora-000002.safetensors", *(folder / "test pictures").glob("*.png"))
    assert {rights(path) for path in made} == {0o644}
    assert rights(folder) == 0o755


def test_a_cache_that_an_older_version_let_others_read_is_closed(tmp_path: Path) -> None:
    config = tiny_training(tmp_path, output=str(tmp_path / "out"), steps=1)
    cache = Path(train(config).folder) / "cache"
    for path in (cache, *cache.rglob("*")):
        path.chmod(0o755 if path.is_dir() else 0o644)
    train(config, resume=cache.parent)
    assert {rights(path) & 0o077 for path in (cache, *cache.rglob("*"))} == {0}


@pytest.mark.logs("the LoRA lies in")
def test_a_lora_that_found_no_other_place_lies_where_only_its_owner_reads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HALFTONE_DATA", str(tmp_path / "data"))
    from halftone.training.lora.files import write_somewhere

    taken = tmp_path / "taken"
    taken.write_text("a file", "utf-8")
    path, _ = write_somewhere(taken / "lora.safetensors", b"lora")
    assert (rights(path), rights(path.parent)) == (0o600, 0o700)
