"""What the window notices of pictures that other programs make."""

from datetime import UTC, datetime
from pathlib import Path

import pytest
from PySide6.QtCore import QObject
from PySide6.QtGui import QColor, QImage
from pytestqt.qtbot import QtBot
from tests.helpers import samples

from halftone.contract.request import PictureRequest
from halftone.gallery.history import History
from halftone.gui.create.history_panel import by_day
from halftone.gui.create.picture.picture_images import HistoryWatch, read_thumbnails
from halftone.gui.create.rows.mask_editor import png
from halftone.session.pictures.history import Made

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
