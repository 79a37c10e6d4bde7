import os
from pathlib import Path

import pytest

from halftone.settings import places
from halftone.settings.atomic import create_atomically, write_atomically


@pytest.fixture
def moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(places.OVERRIDE, str(tmp_path / "all"))
    return tmp_path / "all"


def test_everything_moves_with_the_override(moved: Path) -> None:
    kinds = (places.data_dir, places.cache_dir, places.log_dir, places.pictures_dir, places.checks_dir)
    folders = [kind() for kind in kinds]
    assert all(folder.is_dir() and moved in folder.parents for folder in folders)
    assert len(set(folders)) == len(folders)
    assert places.settings_file().parent == moved


def test_the_resources_are_found() -> None:
    assert (places.resources() / "pocket" / "halftone.json").is_file()


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_atomically(path, b"one")
    write_atomically(path, b"two")
    assert path.read_bytes() == b"two"
    with pytest.raises(FileExistsError):
        create_atomically(path, b"three")
    assert path.read_bytes() == b"two"
    assert os.listdir(tmp_path) == ["a.json"]


def test_a_failed_write_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    with pytest.raises(OSError, match="folder"):
        write_atomically(tmp_path / "folder", b"x")
    assert os.listdir(tmp_path) == ["folder"]
