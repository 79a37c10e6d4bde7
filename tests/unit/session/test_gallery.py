"""The gallery lists what was made and what lies in watched folders, searches, describes, marks and follows the bin."""

import os
import sqlite3
import time
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from tests.helpers import samples
from tests.helpers.sessions import HandClock, HeldExecutor

from halftone.contract.request import PictureRequest
from halftone.gallery.catalogue import Catalogue
from halftone.gallery.history import History
from halftone.session.events import Replaced
from halftone.session.pictures import gallery
from halftone.session.pictures.gallery import FAVOURITE, Gallery, Query, thumbnails
from halftone.session.pictures.gallery_state import DESCRIBED, GalleryState
from halftone.session.store import Store
from halftone.settings.places import data_dir

SAID = "a green tower\nNegative prompt: rain\nSteps: 20, Sampler: Euler a, CFG scale: 7, Seed: 99, Size: 64x32"


class Desk:
    """A gallery whose work is done when the test says."""

    def __init__(self, folder: Path) -> None:
        self.folder, self.store, self.executor, self.clock = folder, Store(), HeldExecutor(), HandClock()
        self.gallery = Gallery(self.store, self.executor, self.clock)

    @property
    def state(self) -> GalleryState:
        return self.store.state.gallery

    @property
    def listed(self) -> list[str]:
        with Catalogue() as catalogue:
            paths = catalogue.paths(list(self.state.rows.ids))
        return [Path(paths[number]).stem for number in self.state.rows.ids]

    def number(self, name: str) -> int:
        return self.state.rows.ids[self.listed.index(name)]

    def make(self, name: str, prompt: str = "a sun", seed: int = 7) -> Path:
        """A picture of Halftone's, with its file."""
        path = self.folder / f"{name}.png"
        Image.new("RGB", (64, 32), "red").save(path)
        with History() as history:
            facts = msgspec.structs.replace(samples.picture_facts(str(path)), seed=seed, width=64, height=32)
            history.add(facts, PictureRequest(prompt=prompt, model="pocket"), b"")
        return path

    def open(self) -> None:
        self.gallery.open()
        self.executor.settle()

    def watch(self, *folders: Path) -> None:
        settings = msgspec.structs.replace(self.store.state.settings, gallery_folders=tuple(map(str, folders)))
        self.store.take(Replaced(part=settings))
        self.executor.settle()

    def select(self, *names: str) -> None:
        self.gallery.select([self.number(name) for name in names])
        self.executor.settle()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_nothing_is_read_before_the_gallery_is_opened(desk: Desk) -> None:
    desk.make("one")
    desk.executor.settle()
    assert not desk.state.read
    desk.open()
    assert desk.state.read
    assert desk.listed == ["one"]
    assert desk.state.total == 1
    assert desk.state.models == (("pocket", 1),)


def test_a_picture_that_is_made_appears(desk: Desk) -> None:
    desk.make("one")
    desk.open()
    desk.make("two")
    desk.store.take(Replaced(part=replace(desk.store.state.history, newest=2)))
    desk.executor.settle()
    assert set(desk.listed) == {"one", "two"}


def test_the_last_query_wins_whatever_comes_first(desk: Desk) -> None:
    desk.make("lighthouse", "a red lighthouse")
    desk.make("jug", "a blue jug")
    desk.open()
    desk.gallery.show(Query(words="lighthouse"))
    desk.gallery.show(Query(words="jug"))
    for answer in reversed(desk.executor.work()):
        answer()
    desk.executor.settle()
    assert desk.listed == ["jug"]
    assert desk.state.query == Query(words="jug")


def test_the_first_pictures_are_shown_before_the_rest(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halftone.session.pictures.gallery._FIRST", 2)
    for name in "abc":
        desk.make(name)
    desk.open()
    desk.gallery.show(Query(words="sun"))
    for answer in desk.executor.work():
        answer()
    assert (len(desk.state.rows), desk.state.rows.whole) == (2, False)
    desk.executor.settle()
    assert (len(desk.state.rows), desk.state.rows.whole) == (3, True)


def test_a_selected_picture_is_described(desk: Desk) -> None:
    desk.make("one", "a red lighthouse", seed=41)
    desk.open()
    desk.select("one")
    (detail,) = desk.state.details
    assert detail.made is not None
    assert detail.made.request.prompt == "a red lighthouse"
    assert (detail.seed, detail.size, detail.gone, detail.favourite) == (41, (64, 32), False, False)


def test_a_missing_file_is_said_to_be_gone(desk: Desk) -> None:
    path = desk.make("one")
    desk.open()
    path.unlink()
    desk.select("one")
    assert desk.state.details[0].gone
    number = desk.number("one")
    assert thumbnails([number])[number].gone


def test_too_many_selected_pictures_are_not_described(desk: Desk) -> None:
    desk.gallery.select(range(1, DESCRIBED + 2))
    desk.executor.settle()
    assert desk.state.details == ()


def test_pictures_of_other_programs_are_listed_and_read(desk: Desk, tmp_path: Path) -> None:
    watched = tmp_path / "others"
    watched.mkdir()
    said = PngInfo()
    said.add_text("parameters", SAID)
    Image.new("RGB", (64, 32)).save(watched / "tower.png", pnginfo=said)
    Image.new("RGB", (32, 32)).save(watched / "photo.png")
    desk.open()
    desk.watch(watched)
    assert set(desk.listed) == {"tower", "photo"}
    assert desk.state.scan is None
    desk.select("tower")
    (tower,) = desk.state.details
    assert tower.said is not None
    assert (tower.said.prompt, tower.said.negative, tower.seed) == ("a green tower", "rain", 99)
    desk.select("photo")
    (photo,) = desk.state.details
    assert photo.said is None
    assert photo.silent is not None
    assert photo.silent.code == "picture-silent"
    desk.watch()
    assert desk.listed == []


def test_a_thumbnail_of_another_program_is_made_once(desk: Desk, tmp_path: Path) -> None:
    watched = tmp_path / "others"
    watched.mkdir()
    Image.new("RGB", (640, 320), "blue").save(watched / "photo.png")
    desk.open()
    desk.watch(watched)
    number = desk.number("photo")
    first = thumbnails([number])[number].image
    assert first
    with Catalogue() as catalogue:
        assert catalogue.thumbnails([number]) == {number: first}


def test_favourites_and_collections(desk: Desk) -> None:
    desk.make("one")
    desk.make("two")
    desk.open()
    desk.select("one")
    desk.gallery.mark([desk.number("one")])
    desk.gallery.mark([desk.number("one"), desk.number("two")], "Best of")
    desk.executor.settle()
    assert desk.state.favourites == 1
    assert desk.state.collections == (("Best of", 2),)
    assert desk.state.details[0].marks == {FAVOURITE, "Best of"}
    desk.gallery.show(Query(mark=FAVOURITE))
    desk.executor.settle()
    assert desk.listed == ["one"]
    desk.gallery.mark([desk.number("one")], on=False)
    desk.executor.settle()
    assert desk.listed == []


def test_a_deleted_picture_comes_back_with_all_that_is_known(desk: Desk, tmp_path: Path) -> None:
    path = desk.make("one", "a red lighthouse")
    other = tmp_path / "photo.png"
    Image.new("RGB", (32, 16)).save(other)
    desk.open()
    desk.gallery.restored([str(other)])
    desk.executor.settle()
    desk.gallery.removed([str(path), str(other)])
    desk.executor.settle()
    assert desk.listed == []
    desk.gallery.restored([str(path), str(other)])
    desk.executor.settle()
    assert set(desk.listed) == {"one", "photo"}
    desk.select("one")
    assert desk.state.details[0].made is not None


def test_restored_pictures_are_selected_although_another_list_follows(desk: Desk) -> None:
    path = desk.make("one", "a red lighthouse")
    desk.open()
    desk.gallery.removed([str(path)])
    desk.executor.settle()
    desk.gallery.restored([str(path)])
    for answer in desk.executor.work():
        answer()
    desk.gallery.show(Query(words="lighthouse"))
    desk.executor.settle()
    assert desk.state.selected == (desk.number("one"),)


def test_a_model_that_came_back_is_no_picture(desk: Desk, tmp_path: Path) -> None:
    files = [tmp_path / "x.safetensors", tmp_path / "notes.txt", tmp_path / "clip.MP4"]
    for file in files:
        file.write_bytes(b"abc")
    desk.open()
    desk.gallery.restored([str(file) for file in files])
    desk.executor.settle()
    assert desk.listed == ["clip"]


def test_nothing_is_read_again_when_nothing_changed(desk: Desk, tmp_path: Path) -> None:
    watched = tmp_path / "others"
    watched.mkdir()
    Image.new("RGB", (32, 32)).save(watched / "photo.png")
    desk.open()
    desk.watch(watched)
    before = desk.state.rows
    desk.open()
    assert desk.state.rows is before
    (watched / "photo.png").unlink()
    desk.open()
    assert desk.listed == []


def others(tmp_path: Path) -> Path:
    """The folder of another program, with a picture."""
    folder = tmp_path / "others"
    folder.mkdir()
    Image.new("RGB", (32, 32)).save(folder / "photo.png")
    return folder


def look(desk: Desk) -> None:
    """Let the time of two looks go by: one for the new file, one after it is no longer written to."""
    for _ in range(2):
        desk.clock.pass_by(1)
        desk.executor.settle()


def test_pictures_of_other_programs_come_and_go_while_the_gallery_is_open(desk: Desk, tmp_path: Path) -> None:
    folder = others(tmp_path)
    desk.open()
    desk.watch(folder)
    (folder / "new").mkdir()
    Image.new("RGB", (32, 32)).save(folder / "new" / "later.png")
    look(desk)
    assert set(desk.listed) == {"photo", "later"}
    (folder / "photo.png").unlink()
    look(desk)
    assert desk.listed == ["later"]
    folder.rename(tmp_path / "away")
    look(desk)
    Image.new("RGB", (32, 32)).save(tmp_path / "away" / "last.png")
    (tmp_path / "away").rename(folder)
    look(desk)
    assert set(desk.listed) == {"later", "last"}


@pytest.mark.logs("the gallery cannot be read")
def test_a_scan_that_failed_is_made_again(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = others(tmp_path)
    desk.open()
    with monkeypatch.context() as broken:
        broken.setattr(gallery, "list_watched", fail)
        desk.watch(folder)
    assert desk.state.error is not None
    desk.clock.pass_by(60)
    desk.executor.settle()
    assert desk.listed == ["photo"]
    assert desk.state.error is None
    Image.new("RGB", (32, 32)).save(folder / "later.png")
    look(desk)
    assert set(desk.listed) == {"photo", "later"}


@pytest.mark.logs("the gallery cannot be read")
def test_a_hidden_gallery_makes_no_failed_scan_again(desk: Desk, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = others(tmp_path)
    desk.open()
    with monkeypatch.context() as broken:
        broken.setattr(gallery, "list_watched", fail)
        desk.watch(folder)
    desk.gallery.hide()
    desk.clock.pass_by(60)
    assert desk.executor.work() == []


def fail(*_: object) -> None:
    """Stand for a disk that answers with an error."""
    raise OSError("the folder does not answer")


def test_a_picture_that_is_still_written_is_read_again_once_it_is_whole(desk: Desk, tmp_path: Path) -> None:
    folder = others(tmp_path)
    desk.open()
    desk.watch(folder)
    said = PngInfo()
    said.add_text("parameters", SAID)
    Image.new("RGB", (64, 32)).save(tmp_path / "whole.png", pnginfo=said)
    whole = (tmp_path / "whole.png").read_bytes()
    (folder / "tower.png").write_bytes(whole[:20])
    look(desk)
    (folder / "tower.png").write_bytes(whole)
    old = time.time() - 60
    os.utime(folder / "tower.png", (old, old))
    look(desk)
    desk.select("tower")
    assert desk.state.details[0].said is not None
    assert desk.state.details[0].size == (64, 32)


def test_a_hidden_gallery_does_not_watch_and_is_up_to_date_when_it_opens(desk: Desk, tmp_path: Path) -> None:
    folder = others(tmp_path)
    desk.open()
    desk.watch(folder)
    desk.gallery.hide()
    Image.new("RGB", (32, 32)).save(folder / "later.png")
    look(desk)
    assert desk.listed == ["photo"]
    desk.open()
    assert set(desk.listed) == {"photo", "later"}
    desk.gallery.stop()
    Image.new("RGB", (32, 32)).save(folder / "last.png")
    look(desk)
    assert set(desk.listed) == {"photo", "later"}


def test_a_short_scan_is_not_announced_over_pictures_that_are_shown(desk: Desk, tmp_path: Path) -> None:
    desk.open()
    desk.watch(others(tmp_path))
    desk.gallery.open()
    assert desk.state.scan is None
    desk.clock.pass_by(1)
    assert desk.state.scan is not None
    desk.executor.settle()
    assert desk.state.scan is None


def test_a_hidden_gallery_reads_when_it_is_shown(desk: Desk) -> None:
    path = desk.make("one")
    desk.gallery.open("old page")
    desk.executor.settle()
    desk.gallery.hide("old page")
    desk.gallery.removed([str(path)])
    desk.executor.settle()
    assert len(desk.state.rows) == 1
    desk.gallery.open("new page")
    desk.gallery.hide("old page")
    desk.executor.settle()
    assert len(desk.state.rows) == 0


def test_a_long_list_is_read_anew_seldom(desk: Desk) -> None:
    desk.open()
    desk.store.take(Replaced(part=replace(desk.state, total=40_000)))
    desk.make("one")
    desk.store.take(Replaced(part=replace(desk.store.state.history, newest=2)))
    desk.executor.settle()
    assert len(desk.state.rows) == 0
    desk.clock.pass_by(2)
    desk.executor.settle()
    assert desk.listed == ["one"]


@pytest.mark.logs("was damaged")
def test_a_damaged_list_is_made_again(desk: Desk) -> None:
    desk.make("one")
    (data_dir() / "gallery.sqlite").write_bytes(b"no database" * 400)
    desk.open()
    assert (desk.listed, desk.state.error) == (["one"], None)


@pytest.mark.logs("cannot be read")
def test_a_list_that_cannot_be_opened_says_why(desk: Desk) -> None:
    (data_dir() / "gallery.sqlite").mkdir(parents=True)
    desk.gallery.open()
    desk.executor.settle()
    assert str(desk.state.error) == "The file cannot be opened. Check the rights to its folder."


def write_as_newer() -> None:
    with closing(sqlite3.connect(data_dir() / "gallery.sqlite")) as database:
        database.execute("PRAGMA user_version = 9")


@pytest.mark.logs("Could not write")
def test_a_mark_that_cannot_be_written_is_told_as_such(desk: Desk) -> None:
    desk.make("one")
    desk.open()
    number = desk.number("one")
    write_as_newer()
    desk.gallery.mark([number])
    desk.gallery.removed(["/p/one.png"])
    desk.executor.settle()
    assert desk.state.error is None
    notices = desk.store.state.notices
    assert [(notice.kind, str(notice.why)) for notice in notices] == [
        ("not-written", "A newer Halftone wrote this file. Update this one.")
    ] * 2


@pytest.mark.logs("cannot be read")
def test_the_failure_of_one_task_ends_no_other(desk: Desk) -> None:
    desk.open()
    write_as_newer()
    desk.gallery.show(Query(words="sun"))
    desk.gallery.open()
    failed, *others = desk.executor.work()
    failed()
    desk.store.take(Replaced(part=replace(desk.store.state.history, newest=2)))
    assert desk.executor.work() == []
    for answer in others:
        answer()
    desk.executor.settle()
