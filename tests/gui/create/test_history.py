"""Which pictures the window knows, whoever made them and in whatever order the answers come."""

from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from PySide6.QtCore import QBuffer, QObject
from PySide6.QtGui import QColor, QImage
from pytestqt.qtbot import QtBot
from tests.helpers import samples

from halftone.contract.facts import PictureFacts
from halftone.contract.request import PictureRequest
from halftone.gallery.history import History
from halftone.gui.background import Background
from halftone.gui.create.history_panel import Thumb, by_day
from halftone.gui.create.picture_history import HistoryWatch, Made, Shelf, read_thumbnails, remember

REQUEST = PictureRequest(prompt="a sun", model="pocket")


class ByHand(Background):
    """Work whose two halves, the work and its answer, are done when the test says."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._alive = parent
        self.waiting: list[tuple[Callable[[], Any], Callable[[Any], None]]] = []

    def run(
        self,
        work: Callable[[], Any],
        ready: Callable[[Any], None],
        failed: Callable[[Exception], None] | None = None,
        *,
        receiver: QObject | None = None,
    ) -> None:
        self.waiting.append((work, ready))

    def finish(self) -> None:
        """All of it, in its order."""
        while self.waiting:
            work, ready = self.waiting.pop(0)
            ready(work())


@pytest.fixture
def by_hand(qtbot: QtBot) -> ByHand:
    return ByHand(QObject())


def picture(folder: Path, name: str) -> PictureFacts:
    (folder / name).write_bytes(b"a picture")
    return samples.picture_facts(str(folder / name))


def paths(found: list[Made]) -> list[str]:
    return [Path(made.facts.path).name for made in found]


def test_a_picture_remembered_while_the_list_is_read_stays_known(by_hand: ByHand, tmp_path: Path) -> None:
    shelf, shown = Shelf(by_hand, by_hand), list[list[str]]()
    one, two = picture(tmp_path, "1.png"), picture(tmp_path, "2.png")
    remember(one, REQUEST, b"", b"")
    shelf.start(lambda found: shown.append(paths(found)))
    read, take = by_hand.waiting.pop()
    answer = read()
    shelf.add(two, REQUEST, b"", b"", lambda _made: None)
    by_hand.finish()
    take(answer)
    assert shelf.get(two.path) is not None
    assert shown == [["2.png", "1.png"]]


def test_a_picture_in_the_bin_can_come_back_after_another_was_made(by_hand: ByHand, tmp_path: Path) -> None:
    shelf, shown = Shelf(by_hand, by_hand), list[list[str]]()
    one, two = picture(tmp_path, "1.png"), picture(tmp_path, "2.png")
    for made in (one, two):
        shelf.add(made, REQUEST, b"", b"", lambda _made: None)
    by_hand.finish()
    in_bin = Path(one.path).rename(tmp_path / "bin")
    with History() as elsewhere:
        elsewhere.add(picture(tmp_path, "3.png"), REQUEST, b"")
    shelf.load_new(lambda found: shown.append(paths(found)))
    by_hand.finish()
    in_bin.rename(one.path)
    shelf.load(lambda found: shown.append(paths(found)))
    by_hand.finish()
    assert shown == [["3.png"], ["3.png", "2.png", "1.png"]]


def test_a_picture_that_lies_in_the_bin_is_not_shown_again(by_hand: ByHand, tmp_path: Path) -> None:
    shelf, shown = Shelf(by_hand, by_hand), list[list[str]]()
    one, two = picture(tmp_path, "1.png"), picture(tmp_path, "2.png")
    for made in (one, two):
        shelf.add(made, REQUEST, b"", b"", lambda _made: None)
    by_hand.finish()
    Path(one.path).rename(tmp_path / "bin")
    shelf.load(lambda found: shown.append(paths(found)))
    by_hand.finish()
    assert shown == [["2.png"]]


def test_pictures_of_this_window_are_not_told_as_new(by_hand: ByHand, tmp_path: Path) -> None:
    shelf, told = Shelf(by_hand, by_hand), list[list[str]]()
    shelf.start(lambda _found: None)
    for name in ("1.png", "2.png"):
        shelf.add(picture(tmp_path, name), REQUEST, b"", b"", lambda _made: None)
    by_hand.finish()
    shelf.load_new(lambda found: told.append(paths(found)))
    by_hand.finish()
    assert told == []


def test_what_another_program_wrote_before_an_own_picture_is_told(by_hand: ByHand, tmp_path: Path) -> None:
    shelf, told = Shelf(by_hand, by_hand), list[list[str]]()
    shelf.start(lambda _found: None)
    by_hand.finish()
    with History() as elsewhere:
        elsewhere.add(picture(tmp_path, "other.png"), REQUEST, b"")
    shelf.add(picture(tmp_path, "own.png"), REQUEST, b"", b"", lambda _made: None)
    by_hand.finish()
    shelf.load_new(lambda found: told.append(paths(found)))
    by_hand.finish()
    assert told == [["other.png"]]


def test_a_thumbnail_is_read_from_the_list_or_from_the_file(qtbot: QtBot, tmp_path: Path) -> None:
    image = QImage(900, 300, QImage.Format.Format_RGB32)
    image.fill(QColor("blue"))
    image.save(str(tmp_path / "1.png"))
    image.fill(QColor("red"))
    buffer = QBuffer()
    image.scaled(64, 64).save(buffer, b"png")
    with History() as history:
        history.add(samples.picture_facts(str(tmp_path / "1.png")), REQUEST, b"")
        history.add(samples.picture_facts(str(tmp_path / "2.png")), REQUEST, bytes(buffer.data().data()))
    found = read_thumbnails([str(tmp_path / name) for name in ("1.png", "2.png", "3.png")])
    assert {Path(path).name: (image.width(), image.pixelColor(9, 9).name()) for path, image in found.items()} == {
        "1.png": (256, "#0000ff"),
        "2.png": (64, "#ff0000"),
    }


def day(number: int) -> datetime:
    return datetime(2026, 5, number, 12, tzinfo=UTC).astimezone()


@pytest.mark.parametrize(
    ("days", "rows"),
    [
        ([], []),
        ([3, 3, 2], [3, "0", "1", 2, "2"]),
        ([3, 2, 3], [3, "0", "2", 2, "1"]),
    ],
)
def test_pictures_stand_under_their_day(days: list[int], rows: list[int | str]) -> None:
    thumbs = [Thumb(str(place), "clean", day(number), "") for place, number in enumerate(days)]
    assert [row.path if isinstance(row, Thumb) else row.day for row in by_day(thumbs)] == rows


def test_the_watch_tells_a_new_picture_and_not_a_reader(qtbot: QtBot, tmp_path: Path) -> None:
    parent, told = QObject(), list[int]()
    with History():
        pass
    watch = HistoryWatch(parent)
    watch.changed.connect(lambda: told.append(1))
    with History() as reader:
        reader.recent()
    qtbot.wait(600)
    assert told == []
    with History() as writer, qtbot.waitSignal(watch.changed):
        writer.add(msgspec.structs.replace(picture(tmp_path, "1.png")), REQUEST, b"")
        writer.close()
    assert told == [1]
