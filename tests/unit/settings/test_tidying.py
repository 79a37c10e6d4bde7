"""Tidying at the start of the program: left-over parts go, older folders are closed, and nothing is looked at twice."""

import os
import stat
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from halftone.settings.places import cache_dir, data_dir, settings_file
from halftone.settings.tidying import tidy_places

posix = pytest.mark.skipif(os.name != "posix", reason="rights of others are those of POSIX")


def filled(folder: Path) -> Path:
    (folder / "inner").mkdir()
    file = folder / "inner" / "kept.json"
    file.touch()
    file.chmod(0o644)
    return file


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@posix
def test_a_folder_that_was_open_to_others_is_closed_with_all_in_it() -> None:
    file = filled(data_dir())
    settings_file().touch()
    settings_file().chmod(0o644)
    data_dir().chmod(0o755)
    tidy_places(None)
    assert [mode(path) for path in (data_dir(), file.parent, file, settings_file())] == [0o700, 0o700, 0o600, 0o600]


@posix
def test_files_in_a_closed_folder_are_not_looked_at() -> None:
    file = filled(data_dir())
    tidy_places(None)
    assert mode(file) == 0o644


def test_left_over_parts_are_cleared_and_every_folder_is_listed_once(tmp_path: Path) -> None:
    file = filled(cache_dir())
    left = file.with_name(".kept.0123abcd.part")
    left.touch()
    listed: Counter[str] = Counter()
    listening = [True]

    def hear(event: str, details: tuple[object, ...]) -> None:
        if listening and event in ("os.listdir", "os.scandir"):
            listed[str(details[0])] += 1

    sys.addaudithook(hear)
    tidy_places(str(tmp_path))
    listening.clear()
    assert not left.exists()
    assert file.exists()
    assert (listed[str(file.parent)], listed[str(cache_dir())]) == (1, 1)


def test_old_start_pictures_of_scripts_go_and_new_ones_stay(tmp_path: Path) -> None:
    folders = [cache_dir() / "serve" / name for name in ("old", "new")]
    for folder, days in zip(folders, (3, 0), strict=True):
        folder.mkdir(parents=True)
        (folder / "image.png").write_bytes(b"picture")
        then = time.time() - days * 86_400
        os.utime(folder, (then, then))
    tidy_places(str(tmp_path))
    assert [folder.exists() for folder in folders] == [False, True]
