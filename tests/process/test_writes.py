"""The watch over all writes (`tests/helpers/writing`) can fail: in this process, and in one that a test starts."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.helpers.writing import recorder

_ELSEWHERE = Path(__file__).parent / "must-not-be-written"
_DATABASE = Path(__file__)


def _said(writes_are_recorded: Path, before: int) -> str:
    """What was recorded since, taken back so that this test does not fail of it."""
    said = recorder.recorded(writes_are_recorded, before)
    os.truncate(writes_are_recorded, before)
    return said


def _renamed(place: Path) -> None:
    os.rename(place / "a", place / "b")


@pytest.mark.parametrize(
    ("event", "write"),
    [
        ("open", lambda place: (place / "a").write_text("x")),
        ("os.mkdir", lambda place: place.mkdir()),
        ("os.remove", lambda place: place.unlink()),
        ("os.rename", _renamed),
        ("os.truncate", lambda place: os.truncate(place, 0)),
        ("os.symlink", lambda place: place.symlink_to("x")),
        ("sqlite3.connect", sqlite3.connect),
    ],
)
def test_a_write_elsewhere_is_recorded(writes_are_recorded: Path, event: str, write: Callable[[Path], object]) -> None:
    before = writes_are_recorded.stat().st_size
    try:
        write(_ELSEWHERE / "gone" if event != "sqlite3.connect" else _ELSEWHERE / "gone" / "a.db")
    except (OSError, sqlite3.Error):
        said = _said(writes_are_recorded, before)
    else:
        raise AssertionError("it was written")
    assert said.startswith(f"{event} {_ELSEWHERE}")
    assert "outside all folders of the tests" in said


def test_making_a_folder_that_is_there_writes_nothing(writes_are_recorded: Path) -> None:
    before = writes_are_recorded.stat().st_size
    exec("folder.mkdir(exist_ok=True)", {"__name__": "halftone.engine.loading.compiling", "folder": _DATABASE.parent})
    assert writes_are_recorded.stat().st_size == before


def test_the_compiled_card_may_be_kept_and_nothing_beside_it(writes_are_recorded: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it was not compiled yet, the first test that needs it failed once it had passed."""
    monkeypatch.setattr(recorder, "CARD", str(_ELSEWHERE / "cache" / "card"))
    before = writes_are_recorded.stat().st_size

    def recorded(folder: str) -> int:
        with pytest.raises(FileNotFoundError):
            _renamed(_ELSEWHERE / "cache" / folder)
        with pytest.raises(FileNotFoundError):
            (_ELSEWHERE / "cache" / folder).mkdir()
        return len(_said(writes_are_recorded, before).splitlines())

    assert recorded("card") == 0
    assert recorded("card-2") == 3


def test_a_write_of_a_process_that_a_test_starts_is_recorded(writes_are_recorded: Path) -> None:
    before = writes_are_recorded.stat().st_size
    code = f"import os, pathlib; pathlib.Path({str(_ELSEWHERE / 'gone' / 'a')!r}).write_text('x')"
    assert subprocess.run([sys.executable, "-P", "-c", code], stderr=subprocess.DEVNULL, check=False).returncode == 1
    assert _said(writes_are_recorded, before).startswith(f"open {_ELSEWHERE}")


def test_what_only_reads_may_not_write_beside_what_it_reads(writes_are_recorded: Path, tmp_path: Path) -> None:
    before = writes_are_recorded.stat().st_size
    exec("open(place, 'w').close()", {"__name__": "halftone.library.index.walk", "place": tmp_path / "a"})
    said = _said(writes_are_recorded, before)
    assert said == f"open {tmp_path / 'a'} by halftone.library.index.walk: nobody asked for it"


def test_what_is_asked_for_may_be_written(writes_are_recorded: Path, own_data: Path, tmp_path: Path) -> None:
    before = writes_are_recorded.stat().st_size
    (tmp_path / "a").write_text("x")
    for name, place in (("halftone.metadata.picture", tmp_path), ("halftone.library.index.walk", own_data)):
        exec("open(place, 'w').close()", {"__name__": name, "place": place / "b"})
    sqlite3.connect(f"{_DATABASE.as_uri()}?mode=ro&immutable=1", uri=True).close()
    assert writes_are_recorded.stat().st_size == before
