import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from tests.helpers.pictures import picture_facts

from halftone.contract.request import PictureRequest
from halftone.gallery.history import History
from halftone.gallery.processes import own_process
from halftone.settings.databases import NewerDatabaseError
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


def test_a_long_list_is_read_without_its_thumbnails(history: History) -> None:
    history.add(picture_facts(seed=1), REQUEST, b"png")
    (entry,) = history.recent(thumbnails=False)
    assert (entry.request, entry.thumbnail) == (REQUEST, b"")


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
    with pytest.raises(NewerDatabaseError, match="a newer Halftone"):
        History()
    assert {path.name for path in data_dir().iterdir()} == before
    assert newer.execute("SELECT COUNT(*) FROM picture").fetchone() == (1,)
    newer.close()


def spoilt(page_of: str) -> int:
    """Overwrite the last page that holds these words; the number of pictures on the list."""
    path = data_dir() / "history.sqlite"
    with History() as history:
        for index in range(60):
            history.add(picture_facts(path=f"/p/{index}.png", seed=index), REQUEST, bytes(1500))
    database = sqlite3.connect(path)
    database.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    size = database.execute("PRAGMA page_size").fetchone()[0]
    database.close()
    content = bytearray(path.read_bytes())
    place = content.rindex(page_of.encode()) // size * size
    content[place : place + size] = b"\xff" * size
    path.write_bytes(content)
    return 60


@pytest.mark.logs("history was damaged")
@pytest.mark.parametrize("page", ["/p/30.png", "/p/59.png"])
def test_one_bad_page_is_set_aside_with_the_list_and_the_other_pictures_are_saved(page: str) -> None:
    number = spoilt(page)
    with History() as history:
        history.add(picture_facts(path="/p/new.png"), REQUEST, b"")
        found = {entry.facts.path for entry in history.recent(1000)}
    assert "/p/new.png" in found
    assert number - 10 <= len(found) <= number
    assert (data_dir() / "history-damaged-1.sqlite").exists()
    with History() as again:
        assert len(again.recent(1000)) == len(found)
    assert not (data_dir() / "history-damaged-2.sqlite").exists()


@pytest.mark.logs("history was damaged")
def test_a_bad_page_that_only_reading_finds_is_set_aside_too() -> None:
    spoilt("/p/30.png")
    with History() as history, History() as other:
        assert len(history.recent(1000)) >= 50
        assert len(other.recent(1000)) >= 50, "it uses the list that the first one began"
    assert not (data_dir() / "history-damaged-2.sqlite").exists()


def test_what_killed_processes_noted_is_known(history: History) -> None:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        start = psutil.Process(other.pid).create_time()
        alive, killed, earlier = own_process(), f"process {other.pid} {start}", f"process {os.getpid()} 5.00"
        for number, job in enumerate((alive, killed, earlier, "process 7", "a1b2")):
            history.expect(job, picture_facts(path=f"/p/{number}.png", seed=1), REQUEST, b"")
        assert set(history.killed_processes()) == {earlier, "process 7"}, "the number was given to another process"
        other.kill()
        other.wait()
    assert set(history.killed_processes()) == {killed, earlier, "process 7"}
