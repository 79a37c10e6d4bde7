import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.helpers.pictures import picture_facts

from halftone.contract.request import PictureRequest
from halftone.gallery.history import History, NewerHistoryError
from halftone.settings.places import data_dir

REQUEST = PictureRequest(prompt="日の出", seed=3, options={"eta": 0.5})


@pytest.fixture
def history() -> Iterator[History]:
    with History() as opened:
        yield opened


def test_pictures_come_back_newest_first(history: History) -> None:
    for index in range(3):
        history.add(picture_facts(path=f"/p/{index}.png", seed=index), REQUEST, b"png")
    entries = history.recent(2)
    assert [entry.facts.seed for entry in entries] == [2, 1]
    assert (entries[0].request, entries[0].thumbnail, entries[0].path) == (REQUEST, b"png", Path("/p/2.png"))
    assert entries[0].made_at.count("T") == 1


def test_a_picture_written_again_is_listed_once(history: History) -> None:
    history.add(picture_facts(seed=1), REQUEST, b"")
    history.add(picture_facts(seed=2), REQUEST, b"")
    assert [entry.facts.seed for entry in history.recent()] == [2]


def test_only_files_that_are_surely_gone_are_forgotten(history: History, tmp_path: Path) -> None:
    kept, deleted, away = tmp_path / "kept.png", tmp_path / "deleted.png", Path("/no/such/drive/a.png")
    kept.touch()
    for path in (kept, deleted, away):
        history.add(picture_facts(path=str(path)), REQUEST, b"")
    assert history.forget_missing() == 1
    assert {entry.path for entry in history.recent()} == {kept, away}
    assert kept.exists()


def test_two_programs_share_the_list(history: History) -> None:
    with History() as other:
        history.add(picture_facts(path="/p/1.png"), REQUEST, b"")
        other.add(picture_facts(path="/p/2.png"), REQUEST, b"")
        assert len(history.recent()) == len(other.recent()) == 2


def test_an_entry_that_cannot_be_read_is_left_out(history: History) -> None:
    history.add(picture_facts(path="/p/1.png"), REQUEST, b"")
    database = sqlite3.connect(data_dir() / "history.sqlite")
    with database:
        database.execute("UPDATE picture SET request = x'00'")
    database.close()
    assert history.recent() == []


@pytest.mark.logs("history was damaged")
def test_a_damaged_list_is_set_aside() -> None:
    path = data_dir() / "history.sqlite"
    path.write_bytes(b"no database at all, but long enough to be taken for one" * 40)
    with History() as history:
        history.add(picture_facts(), REQUEST, b"")
        assert len(history.recent()) == 1
    assert (data_dir() / "history-damaged-1.sqlite").exists()


@pytest.mark.logs("history was damaged")
def test_pictures_that_stand_in_the_log_of_a_damaged_list_are_kept_with_it(history: History) -> None:
    path, log = data_dir() / "history.sqlite", data_dir() / "history.sqlite-wal"
    with sqlite3.connect(path) as other:
        other.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    history.add(picture_facts(), REQUEST, b"")
    rows = log.read_bytes()
    with path.open("r+b") as file:
        file.write(b"damaged")
    other.close()
    History().close()
    assert (data_dir() / "history-damaged-1.sqlite-wal").read_bytes() == rows != b""


def test_a_list_of_a_newer_version_is_left_as_it_is(history: History) -> None:
    history.add(picture_facts(), REQUEST, b"")
    newer = sqlite3.connect(data_dir() / "history.sqlite")
    newer.execute("PRAGMA user_version = 99")
    newer.commit()
    before = {path.name for path in data_dir().iterdir()}
    with pytest.raises(NewerHistoryError, match="a newer Halftone"):
        History()
    assert {path.name for path in data_dir().iterdir()} == before
    assert newer.execute("SELECT COUNT(*) FROM picture").fetchone() == (1,)
    newer.close()
