"""Zoom and what is painted."""

import pytest
from PySide6.QtCore import QPointF, Qt
from PySide6.QtGui import QColor, QImage
from pytestqt.qtbot import QtBot

from halftone.gui import theme
from halftone.gui.kit.picture_canvas import LARGEST, SMALLEST, CanvasView


def canvas(qtbot: QtBot, side: int = 512, size: tuple[int, int] = (840, 640)) -> CanvasView:
    theme.set_theme("dark")
    made = CanvasView()
    qtbot.addWidget(made)
    made.resize(*size)
    image = QImage(side, side, QImage.Format.Format_RGB32)
    image.fill(QColor("#336699"))
    made.set_image(image)
    made.show()
    return made


@pytest.mark.parametrize(("side", "zoom"), [(1200, 0.5), (600, 1.0), (300, 2.0), (100, 3.0), (8, 3.0)])
def test_fit_leaves_a_margin_of_20_and_enlarges_three_times_at_most(qtbot: QtBot, side: int, zoom: float) -> None:
    view = canvas(qtbot, side)
    assert view.zoom() == pytest.approx(zoom)
    box = view.picture_rect()
    assert abs(box.center().x() - 420) <= 1
    assert abs(box.center().y() - 320) <= 1


def test_the_point_under_the_pointer_stays(qtbot: QtBot) -> None:
    view = canvas(qtbot)
    at = QPointF(300, 200)

    def picture_point() -> QPointF:
        box = view.picture_rect()
        return (at - box.topLeft()) / view.zoom()

    before = picture_point()
    view.set_zoom(2.5, at)
    after = picture_point()
    assert abs(after.x() - before.x()) < 1
    assert abs(after.y() - before.y()) < 1
    assert view.picture_rect().width() > view.width(), "it no longer fits"


@pytest.mark.parametrize(("asked", "got"), [(100.0, LARGEST), (0.0001, SMALLEST)])
def test_zoom_has_ends(qtbot: QtBot, asked: float, got: float) -> None:
    view = canvas(qtbot)
    view.set_zoom(asked)
    assert view.zoom() == got


def test_keys_of_the_canvas(qtbot: QtBot) -> None:
    view = canvas(qtbot, 1200)
    view.setFocus()
    qtbot.keyClick(view, Qt.Key.Key_1)
    assert view.zoom() == 1.0
    qtbot.keyClick(view, Qt.Key.Key_Space)
    assert view.rect().adjusted(20, 20, -20, -20).contains(view.picture_rect().toAlignedRect())
    steps: list[int] = []
    view.step_requested.connect(steps.append)
    qtbot.keyClick(view, Qt.Key.Key_Left)
    qtbot.keyClick(view, Qt.Key.Key_Right)
    assert steps == [-1, 1]
    with qtbot.waitSignal(view.delete_requested):
        qtbot.keyClick(view, Qt.Key.Key_Delete)


def test_holding_b_shows_what_came_out_before(qtbot: QtBot) -> None:
    view = canvas(qtbot)
    black = QImage(64, 64, QImage.Format.Format_RGB32)
    black.fill(0)
    view.set_before(black)
    middle = view.rect().center()

    def shown() -> str:
        return view.grab().toImage().pixelColor(middle).name()

    assert shown() == "#336699"
    qtbot.keyPress(view, Qt.Key.Key_B)
    assert shown() == "#000000"
    qtbot.keyRelease(view, Qt.Key.Key_B)
    assert shown() == "#336699"


def test_a_preview_stands_where_the_picture_will(qtbot: QtBot) -> None:
    view = canvas(qtbot)
    small = QImage(64, 64, QImage.Format.Format_RGB32)
    small.fill(QColor("#aa5500"))
    box = view.picture_rect()
    view.set_image(small, (512, 512))
    assert view.picture_rect() == box
