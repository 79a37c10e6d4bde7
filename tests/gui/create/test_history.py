"""What the window notices of pictures that other programs make."""

from pathlib import Path

from PySide6.QtCore import QObject
from pytestqt.qtbot import QtBot
from tests.helpers import samples

from halftone.contract.request import PictureRequest
from halftone.gallery.history import History
from halftone.gui.create.picture.picture_images import HistoryWatch


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
