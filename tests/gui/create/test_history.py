"""The history: its days and thumbnails, which picture is marked, its menu, and what other programs add to it."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from PySide6.QtCore import QObject, QPoint, Qt
from PySide6.QtGui import QColor, QImage
from PySide6.QtWidgets import QMenu
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage
from tests.helpers import samples, scripted

from halftone.contract.messages import Generate
from halftone.contract.request import PictureRequest
from halftone.gallery.history import History
from halftone.gui.create.history_panel import by_day
from halftone.gui.create.kept_pictures import png
from halftone.gui.create.picture.picture_images import HistoryWatch, read_thumbnails
from halftone.gui.views.list_model import item_of
from halftone.session.events import Replaced
from halftone.session.pictures.fix import Fix
from halftone.session.pictures.history import Made
from halftone.session.state import Ended, Job

REQUEST = PictureRequest(prompt="a sun", model="pocket")


def test_a_thumbnail_is_read_from_the_list_or_from_the_file(qtbot: QtBot, tmp_path: Path) -> None:
    image = QImage(900, 300, QImage.Format.Format_RGB32)
    image.fill(QColor("blue"))
    image.save(str(tmp_path / "1.png"))
    image.fill(QColor("red"))
    with History() as history:
        history.add(samples.picture_facts(str(tmp_path / "1.png")), REQUEST, b"")
        history.add(samples.picture_facts(str(tmp_path / "2.png")), REQUEST, png(image.scaled(64, 64)))
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
    pictures = [
        Made(facts=samples.picture_facts(str(place)), request=REQUEST, made_at=day(number)) for place, number in enumerate(days)
    ]
    assert [row.facts.path if isinstance(row, Made) else row.day for row in by_day(pictures)] == rows


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
        writer.add(samples.picture_facts(str(tmp_path / "1.png")), PictureRequest(prompt="a sun", model="pocket"), b"")
        writer.close()
    assert told == [1]


def test_no_picture_is_marked_while_another_is_made_in_its_place(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot)
    stage.picture("one")
    stage.close()
    stage = Stage(qtbot, {"generate": [scripted.Wait(path=str(tmp_path / "go")), *scripted.usual("generate")]})
    page = stage.page
    stage.wait(lambda: bool(page.history.paths()))
    (old,) = page.history.paths()

    def marked() -> list[str]:
        return [item_of(index).facts.path for index in page.history.list.selectedIndexes()]

    assert marked() == [old]
    page.generate()
    assert marked() == []
    page.pick(old)
    assert marked() == [old], "the user looks at it meanwhile"
    page.centre.follow()
    assert marked() == []
    (tmp_path / "go").touch()
    stage.idle()
    stage.wait(lambda: len(page.history.paths()) == 2)
    assert marked() == page.history.paths()[:1]
    stage.close()


@pytest.mark.parametrize("gesture", ["right click", "press and let go elsewhere"])
def test_only_a_click_moves_the_mark_of_the_history(qtbot: QtBot, gesture: str) -> None:
    stage = Stage(qtbot)
    history = stage.page.history
    stage.picture("one")
    stage.picture("two")
    shown, other = history.paths()
    stage.wait(lambda: history.list.current() is not None)
    view, old = history.list, history.list.visualRect(history.model.index_of(other)).center()
    if gesture == "right click":
        qtbot.mouseClick(view.viewport(), Qt.MouseButton.RightButton, pos=old)
    else:
        qtbot.mousePress(view.viewport(), Qt.MouseButton.LeftButton, pos=old)
        qtbot.mouseRelease(view.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(-50, -50))
    marked = history.list.current()
    assert isinstance(marked, Made)
    assert marked.facts.path == shown == stage.page.centre.marked
    stage.close()


def test_a_picture_is_repeated_from_the_menu_of_the_history(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    history = stage.page.history
    stage.picture("one")
    stage.page.form.edit(prompt="two")
    history.menu_requested.emit(history.paths()[0], QPoint(0, 0))
    (menu,) = (one for one in stage.page.findChildren(QMenu) if one.isVisible())
    next(one for one in menu.actions() if one.text() == "Repeat").trigger()
    menu.close()
    stage.idle()
    stage.wait(lambda: len(history.paths()) == 2)
    again, first = stage.controller.state.history.pictures
    assert again.request == first.request
    assert stage.page.centre.shown is again
    stage.close()


def test_the_picture_of_a_fix_stays_in_its_banner_after_a_death(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    controller, centre = stage.controller, stage.page.centre
    again = Job(id="second", root="first", command=Generate(job="second", request=PictureRequest(prompt="sun")), title="sun")
    centre.following = False
    controller.take(Replaced(part=Fix(state="running", step=2, job="first")))
    centre.job_ended(Ended(job=again, outcome="done", error=None, report=None))
    assert not centre.following
    controller.take(Replaced(part=Fix()))
    stage.idle()
    stage.close()
