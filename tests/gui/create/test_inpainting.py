"""Inpainting and outpainting on the canvas itself, with the mouse and with the keys."""

import time
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, QPointF, QRect, QSize, Qt
from PySide6.QtGui import QColor, QImage, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage
from tests.helpers import scripted

from halftone.contract.request import PictureRequest
from halftone.gui import theme
from halftone.gui.create.picture.edit_canvas import EditCanvas, SideGrip
from halftone.gui.create.picture.painted_mask import PaintedMask, is_empty, stroke_box
from halftone.session.pictures.outpainting import Grip

LEFT, RIGHT = Qt.MouseButton.LeftButton, Qt.MouseButton.RightButton


def canvas(qtbot: QtBot, width: int, height: int, size: tuple[int, int] = (240, 140)) -> EditCanvas:
    theme.set_theme("dark")
    made = EditCanvas()
    qtbot.addWidget(made)
    made.resize(*size)
    picture = QImage(width, height, QImage.Format.Format_RGB32)
    picture.fill(QColor("#336699"))
    made.edit(picture, QImage())
    made.show()
    return made


def at(canvas: EditCanvas, x: float, y: float) -> QPoint:
    """A pixel of the picture, on the widget."""
    box = canvas.own_rect()
    return QPointF(box.x() + x * canvas.zoom(), box.y() + y * canvas.zoom()).toPoint()


def drag(canvas: EditCanvas, begin: tuple[int, int], end: tuple[int, int], button: Qt.MouseButton = LEFT) -> None:
    QTest.mousePress(canvas, button, pos=at(canvas, *begin))
    QTest.mouseMove(canvas, at(canvas, *end))
    QTest.mouseRelease(canvas, button, pos=at(canvas, *end))


def values(canvas: EditCanvas, *places: tuple[int, int]) -> list[int]:
    return [canvas.painting.image.pixelColor(*place).value() for place in places]


# --- strokes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("begin", "end", "width", "box"),
    [
        ((50, 50), (50, 50), 10, QRect(44, 44, 12, 12)),
        ((20, 50), (60, 50), 10, QRect(14, 44, 52, 12)),
        ((60, 50), (20, 50), 10, QRect(14, 44, 52, 12)),
        ((0, 0), (0, 0), 10, QRect(0, 0, 6, 6)),
        ((-50, -50), (-40, -40), 10, QRect()),
        ((95, 95), (200, 95), 4, QRect(92, 92, 8, 6)),
    ],
)
def test_the_pixels_of_a_stroke(begin: tuple[int, int], end: tuple[int, int], width: float, box: QRect) -> None:
    found = stroke_box(QPointF(*begin), QPointF(*end), width, QSize(100, 100))
    assert found == box or (found.isEmpty() and box.isEmpty())


def test_a_stroke_changes_nothing_beside_its_box() -> None:
    mask = PaintedMask(QSize(101, 64))
    mask.begin()
    box = mask.draw(QPointF(20, 20), QPointF(70, 40), 9, erase=False)
    mask.finish()
    painted = [(x, y) for x in range(101) for y in range(64) if mask.image.pixelColor(x, y).value()]
    assert painted
    assert all(box.contains(*place) for place in painted)
    mask.undo()
    assert is_empty(mask.image)
    assert not mask.can_undo
    mask.redo()
    assert not is_empty(mask.image)


def test_an_inversion_is_taken_back_without_a_copy_of_the_mask() -> None:
    mask = PaintedMask(QSize(4096, 4096))
    mask.invert()
    assert mask.held == 0
    assert mask.image.pixelColor(0, 0).value() == 255
    mask.undo()
    assert mask.image.pixelColor(0, 0).value() == 0
    mask.redo()
    assert mask.image.pixelColor(0, 0).value() == 255


def test_the_memory_of_strokes_that_can_be_taken_back_is_limited() -> None:
    mask = PaintedMask(QSize(4096, 4096))
    for number in range(12):
        mask.fill(number)
    assert mask.held == 2**28
    for _ in range(12):
        mask.undo()
    assert not mask.can_undo
    assert mask.image.pixelColor(0, 0).value() == 3
    assert mask.held == 2**28


def test_painting_erasing_filling_inverting_and_taking_back(qtbot: QtBot) -> None:
    view = canvas(qtbot, 100, 50)
    view.set_brush(20)
    places = ((30, 25), (50, 25), (70, 25), (50, 2))
    drag(view, (30, 25), (70, 25))
    assert values(view, *places) == [255, 255, 255, 0]
    QTest.mouseClick(view, RIGHT, pos=at(view, 50, 25))
    assert values(view, *places) == [255, 0, 255, 0]
    view.setFocus()
    qtbot.keyClick(view, Qt.Key.Key_E)
    drag(view, (30, 25), (31, 25))
    assert values(view, *places) == [0, 0, 255, 0]
    seen = [values(view, *places)]
    for change, wanted in (("invert", [255, 255, 0, 255]), ("fill", [255] * 4), ("clear", [0] * 4)):
        view.change(change)
        assert values(view, *places) == wanted
        seen.append(wanted)
    for wanted in (*seen[-2::-1], [255, 0, 255, 0], [255, 255, 255, 0], [0] * 4):
        view.change("undo")
        assert values(view, *places) == wanted
    view.change("redo")
    assert values(view, *places) == [255, 255, 255, 0]


def test_painting_with_the_keys_alone(qtbot: QtBot) -> None:
    view = canvas(qtbot, 100, 100, (240, 240))
    for _ in range(5):
        qtbot.keyClick(view, Qt.Key.Key_BracketRight)
    assert view.brush == 13
    for _ in range(4):
        qtbot.keyClick(view, Qt.Key.Key_Left)
    qtbot.keyPress(view, Qt.Key.Key_Space)
    for _ in range(8):
        qtbot.keyClick(view, Qt.Key.Key_Right)
    qtbot.keyRelease(view, Qt.Key.Key_Space)
    assert values(view, (5, 50), (30, 50), (50, 50), (70, 50), (95, 50)) == [0, 255, 255, 255, 0]


def wheel(view: EditCanvas, keys: Qt.KeyboardModifier) -> None:
    place, none = QPointF(view.rect().center()), QPoint()
    turned = QPoint(0, 120)
    phase = Qt.ScrollPhase.NoScrollPhase
    event = QWheelEvent(place, view.mapToGlobal(place), none, turned, Qt.MouseButton.NoButton, keys, phase, False)
    QApplication.sendEvent(view, event)


def test_a_zoomed_and_moved_picture_is_painted_where_the_pointer_is(qtbot: QtBot) -> None:
    view = canvas(qtbot, 100, 100, (240, 240))
    before = view.zoom()
    wheel(view, Qt.KeyboardModifier.ControlModifier)
    assert (view.brush, view.zoom()) == (9, before)
    for _ in range(5):
        wheel(view, Qt.KeyboardModifier.NoModifier)
    assert view.zoom() > before * 2
    middle = QPoint(120, 120)
    place = view.own_rect().center()
    QTest.mousePress(view, Qt.MouseButton.MiddleButton, pos=middle)
    QTest.mouseMove(view, middle + QPoint(30, 12))
    QTest.mouseRelease(view, Qt.MouseButton.MiddleButton, pos=middle + QPoint(30, 12))
    moved = view.own_rect().center() - place
    assert (abs(moved.x() - 30) <= 1, abs(moved.y() - 12) <= 1) == (True, True)
    assert is_empty(view.painting.image)
    QTest.mouseClick(view, LEFT, pos=at(view, 40, 60))
    assert values(view, (40, 60), (60, 40)) == [255, 0]


def test_the_mask_and_its_edge_are_seen(qtbot: QtBot) -> None:
    view = canvas(qtbot, 100, 100, (240, 240))
    view.set_brush(40)
    QTest.mouseClick(view, LEFT, pos=at(view, 50, 50))
    QTest.mouseMove(view, QPoint(2, 2))
    names: tuple[theme.ThemeName, ...] = ("dark", "light")
    for name in names:
        theme.set_theme(name)
        shown = view.grab().toImage()
        assert shown.pixelColor(at(view, 50, 50)) != QColor("#336699"), "tinted"
        assert shown.pixelColor(at(view, 85, 25)) == QColor("#336699")
        line = [shown.pixelColor(x, at(view, 0, 50).y()).lightness() for x in range(at(view, 20, 0).x(), at(view, 50, 0).x())]
        assert max(line) > 200, "a bright edge"
        assert min(line) < 40, "with a dark one around it"
    theme.set_theme("dark")


def test_sixty_strokes_in_a_second_on_a_large_picture(qtbot: QtBot) -> None:
    view = canvas(qtbot, 2048, 2048, (900, 800))
    view.repaint()
    began = time.process_time()
    for index in range(60):
        drag(view, (200 + index * 20, 300), (240 + index * 20, 900))
        QApplication.processEvents()
    taken = time.process_time() - began
    print(f"60 strokes took {taken:.2f} s")
    assert taken < 2, "of processor time"


# --- sides --------------------------------------------------------------------------------------------------------------


def grip_at(view: EditCanvas, grip: Grip) -> SideGrip:
    return next(one for one in view.grips if one.grip == grip)


@pytest.mark.parametrize(
    ("grip", "by", "sides"),
    [
        ((1, 0), (40, 0), (0, 0, 64, 0)),
        ((-1, 0), (-20, 9), (32, 0, 0, 0)),
        ((0, -1), (3, -60), (0, 96, 0, 0)),
        ((1, 1), (41, 19), (0, 0, 64, 32)),
    ],
)
def test_an_edge_is_dragged(qtbot: QtBot, grip: Grip, by: tuple[int, int], sides: tuple[int, int, int, int]) -> None:
    view = canvas(qtbot, 512, 256, (360, 360))
    assert view.zoom() == 0.625
    handle, told = grip_at(view, grip), list[tuple[int, int, int, int]]()
    view.extended.connect(told.append)
    own = view.own_rect()
    start = handle.rect().center()
    QTest.mousePress(handle, LEFT, pos=start)
    place = handle.mapToGlobal(start)
    for part in (1, 2):
        to = QPoint(place.x() + by[0] * part // 2, place.y() + by[1] * part // 2)
        QTest.mouseMove(handle, handle.mapFromGlobal(to))
    moved = view.own_rect()
    assert (moved.topLeft() - own.topLeft()).manhattanLength() <= 2, "what is seen of the picture stays where it is"
    assert view.zoom() == 0.625
    QTest.mouseRelease(handle, LEFT)
    assert (view.sides, told[-1]) == (sides, sides)
    assert view.rect().contains(view.picture_rect().toAlignedRect()), "fitted again"


def test_an_edge_is_moved_with_the_arrow_keys(qtbot: QtBot) -> None:
    view = canvas(qtbot, 500, 256, (360, 360))
    handle = grip_at(view, (-1, -1))
    assert handle.accessibleName() == "Outpaint: Top left"
    for key in (Qt.Key.Key_Left, Qt.Key.Key_Left, Qt.Key.Key_Up, Qt.Key.Key_Right):
        qtbot.keyClick(handle, key)
    assert view.sides == (12, 8, 0, 0)


# --- in the window ------------------------------------------------------------------------------------------------------


def test_a_part_is_inpainted_with_three_clicks(qtbot: QtBot) -> None:
    stage = Stage(qtbot, {"generate": scripted.usual("generate")})
    stage.picture()
    page = stage.page
    stage.wait(lambda: page.centre.sight == "picture")
    page.form.prompt.setPlainText("")
    source = page.history.paths()[0]
    page.centre.toolbar.inpaint.click()
    editor = page.centre.editor
    assert (page.centre.sight, editor.isVisible(), page.centre.canvas.isVisible()) == ("editing", True, False)
    stage.wait(lambda: not editor.canvas.image().isNull())
    drag(editor.canvas, (10, 10), (40, 40))
    sent: list[PictureRequest] = []
    page.form.submitted.connect(lambda request, _endless: sent.append(request))
    page.form.generate_button.click()
    (request,) = sent
    assert (request.image, request.prompt) == (source, "a red sun over green hills")
    assert request.mask is not None
    assert QImage(request.mask).pixelColor(25, 25).value() == 255
    assert (request.width, request.height) == (64, 64)
    assert page.centre.sight in ("dots", "preview")
    stage.idle()
    stage.wait(lambda: page.centre.sight == "picture")
    assert page.history.paths()[0] != source
    stage.close()


def test_the_numbers_of_the_row_and_the_edges_keep_in_step(qtbot: QtBot) -> None:
    stage = Stage(qtbot, {"generate": scripted.usual("generate")})
    stage.picture()
    page, part = stage.page, stage.page.form.start_part
    stage.wait(page.centre.toolbar.inpaint.isEnabled)
    page.centre.toolbar.inpaint.click()
    part.row.setChecked(True)
    editor = page.centre.editor
    stage.wait(lambda: not editor.canvas.image().isNull())
    qtbot.keyClick(grip_at(editor.canvas, (1, 0)), Qt.Key.Key_Right)
    assert part.side_fields.value() == (0, 0, 8, 0)
    assert editor.size_label.text() == "72 × 64"
    part.side_fields.set_value((16, 0, 8, 24))
    assert editor.canvas.sides == (16, 0, 8, 24)
    assert editor.size_label.text() == "88 × 88"
    qtbot.keyClick(editor.canvas, Qt.Key.Key_Escape)
    assert page.centre.sight == "picture"
    assert stage.controller.state.draft.start.outpaint == (16, 0, 8, 24)
    page.centre.editor.open_editor()
    stage.wait(lambda: editor.canvas.sides == (16, 0, 8, 24))
    part.remove_button.click()
    assert page.centre.sight == "picture", "without a start picture there is nothing to edit"
    stage.close()


def test_a_mask_from_a_file_is_shown_on_the_canvas(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot, {"generate": scripted.usual("generate")})
    stage.picture()
    page, part = stage.page, stage.page.form.start_part
    stage.wait(page.centre.toolbar.inpaint.isEnabled)
    page.centre.toolbar.inpaint.click()
    editor = page.centre.editor
    stage.wait(lambda: not editor.canvas.image().isNull())
    mask = QImage(32, 32, QImage.Format.Format_Grayscale8)
    mask.fill(255)
    mask.save(str(tmp_path / "mask.png"))
    part.choose_mask(str(tmp_path / "mask.png"))
    stage.wait(lambda: values(editor.canvas, (32, 32)) == [255])
    part.choose_mask(None)
    stage.wait(lambda: is_empty(editor.canvas.painting.image))
    stage.close()


def test_a_model_that_cannot_inpaint_says_so(qtbot: QtBot) -> None:
    stage = Stage(qtbot, {"generate": scripted.usual("generate")})
    stage.picture()
    bar = stage.page.centre.toolbar
    bar.set_picture(True, masks=False)
    assert (bar.inpaint.isEnabled(), bar.inpaint.toolTip()) == (False, "Not supported by this model.")
    stage.close()
