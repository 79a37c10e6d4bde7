"""The start picture of the form: chosen, dropped, painted over, extended; sent, taken back, and refused in a sentence."""

import os
from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from PIL import Image
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent, QImage
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QAbstractButton, QStyle, QStyleOptionComboBox
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage, opened
from tests.helpers import samples

from halftone.contract.request import PictureRequest, Start
from halftone.gui.create.kept_pictures import keep
from halftone.gui.create.picture.picture_receipt import receipt_rows
from halftone.session.pictures.draft import kept
from halftone.settings.places import masks_dir


@pytest.fixture
def picture(tmp_path: Path) -> str:
    colours = np.random.default_rng(0).integers(0, 255, (48, 64, 3), dtype=np.uint8)
    Image.fromarray(colours).save(tmp_path / "hills.png")
    return str(tmp_path / "hills.png")


def chosen(stage: Stage, path: str) -> None:
    part = stage.page.form.start_part
    part.use(path)
    stage.wait(lambda: part.size_button.isVisibleTo(part))


def test_a_picture_is_chosen_and_sent(qtbot: QtBot, picture: str) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    part = form.start_part
    assert (part.row.value.text(), form.request().image, form.request().start) == ("None", None, Start())
    chosen(stage, picture)
    assert (part.row.value.text(), part.caption.text()) == ("0.75", "Input: 64 × 48.")
    part.strength.set_value(0.4)
    part.resize_mode.setCurrentIndex(part.resize_mode.findData("crop"))
    request = form.request()
    assert (request.image, request.mask, request.start) == (picture, None, Start(strength=0.4, resize="crop"))
    part.size_button.click()
    assert form.size_field.value() == (64, 48)
    part.remove_button.click()
    assert (form.request().image, form.request().start, part.row.value.text()) == (None, Start(), "None")
    stage.close()


def test_a_picture_that_is_dropped_on_the_row_is_taken(qtbot: QtBot, picture: str, tmp_path: Path) -> None:
    stage = Stage(qtbot)
    part = stage.page.form.start_part
    for path, taken in ((tmp_path / "notes.txt", False), (Path(picture), True)):
        data = QMimeData()
        data.setUrls([QUrl.fromLocalFile(str(path))])
        keys, buttons = Qt.KeyboardModifier.NoModifier, Qt.MouseButton.LeftButton
        event = QDropEvent(QPointF(4, 4), Qt.DropAction.CopyAction, data, buttons, keys)
        assert part.drop.eventFilter(part.row, event) is taken
        assert (stage.page.form.request().image == picture) is taken
    assert part.row.isChecked()
    stage.idle()
    stage.close()


def test_a_picture_that_was_made_is_used_as_the_next_start(qtbot: QtBot, tmp_path: Path) -> None:
    stage = Stage(qtbot)
    stage.picture()
    assert stage.page.centre.toolbar.start.isEnabled()
    stage.page.centre.toolbar.start.click()
    shown = stage.page.centre.shown
    assert shown is not None
    assert stage.page.form.request().image == shown.facts.path
    stage.idle()
    stage.close()


def test_what_cannot_be_used_is_said_and_stops_generate(qtbot: QtBot, picture: str, tmp_path: Path) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    (tmp_path / "none.png").write_bytes(b"no picture")
    for path, said in (
        (tmp_path / "gone.png", f"There is no picture at {tmp_path / 'gone.png'}. Check the path."),
        (tmp_path / "none.png", f"{tmp_path / 'none.png'} is not a readable picture. Choose a PNG, JPEG or WebP file."),
    ):
        form.start_part.choose(str(path))
        stage.wait(lambda said=said: form.start_part.note.text() == said)
        assert form.refusal() == said
        assert not form.generate_button.isEnabled()
    chosen(stage, picture)
    assert form.refusal() == ""
    form.follow(replace(samples.POCKET, name="Sana", pipeline="SanaPipeline"))
    assert (form.refusal(), form.start_part.row.isHidden(), form.start_part.isHidden()) == ("", True, True)
    assert form.unused_note.text() == "Not used by Sana: Image to image."
    assert (form.request().image, stage.controller.state.draft.image) == (None, picture)
    form.start_part.choose(None)
    assert form.unused_note.isHidden()
    form.follow(replace(samples.POCKET, pipeline="FluxFillPipeline"))
    assert form.refusal() == "This model needs a picture under Image to image."
    chosen(stage, picture)
    assert form.refusal() == "This model needs a mask under Image to image."
    stage.close()


def test_a_strength_is_only_there_where_it_acts(qtbot: QtBot, picture: str) -> None:
    stage = Stage(qtbot)
    part = stage.page.form.start_part
    chosen(stage, picture)
    stage.page.form.follow(replace(samples.POCKET, pipeline="QwenImageEditPlusPipeline"))
    assert part.strength.isHidden()
    assert stage.page.form.request().start == Start()
    stage.close()


# --- masks --------------------------------------------------------------------------------------------------------------


def test_a_mask_is_painted_on_the_canvas_kept_and_sent(qtbot: QtBot, picture: str) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    part = form.start_part
    chosen(stage, picture)
    part.paint_button.click()
    editor = stage.page.centre.editor
    stage.wait(lambda: not editor.canvas.image().isNull())
    QTest.mouseClick(editor.canvas, Qt.MouseButton.LeftButton, pos=editor.canvas.own_rect().center().toPoint())
    stage.wait(lambda: form.request().mask is not None)
    mask = form.request().mask
    assert mask is not None
    assert Path(mask).parent == masks_dir()
    os.utime(mask, (0, 0))
    assert keep(QImage(mask)) == mask
    assert Path(mask).stat().st_mtime > 0, "the same mask, painted again, counts as new"
    with Image.open(mask) as opened:
        assert (opened.mode, opened.size) == ("L", (64, 48))
        assert opened.getpixel((32, 24)) == 255
        assert opened.getpixel((2, 2)) == 0
    assert part.row.value.text() == "0.75, mask"
    editor.done.click()
    assert stage.page.centre.editor.isHidden()
    part.mask_fields.blur.setValue(2)
    part.mask_fields.content.setCurrentIndex(1)
    part.mask_fields.only.setChecked(True)
    part.mask_fields.padding.setValue(16)
    wanted = Start(strength=0.75, mask_blur=2, masked_content="fill", only_masked=16)
    assert form.request().start == wanted
    part.mask_remove.click()
    assert (form.request().mask, form.request().start) == (None, Start(strength=0.75))
    stage.close()


def test_a_mask_of_another_shape_is_not_taken(qtbot: QtBot, picture: str, tmp_path: Path) -> None:
    Image.new("L", (48, 64), 255).save(tmp_path / "high.png")
    Image.new("L", (128, 96), 255).save(tmp_path / "large.png")
    stage = Stage(qtbot)
    form = stage.page.form
    chosen(stage, picture)
    form.start_part.choose_mask(str(tmp_path / "high.png"))
    stage.wait(lambda: "but the picture is" in form.start_part.note.text())
    assert form.request().mask is None
    form.start_part.choose_mask(str(tmp_path / "large.png"))
    stage.wait(lambda: form.request().mask == str(tmp_path / "large.png"))
    assert not form.start_part.note.text()
    Image.new("RGB", (64, 64)).save(tmp_path / "square.png")
    chosen(stage, str(tmp_path / "square.png"))
    stage.wait(lambda: form.request().mask is None)
    assert form.start_part.note.text() == "The mask did not fit and was removed."
    assert form.refusal() == ""
    stage.close()


# --- sides --------------------------------------------------------------------------------------------------------------


def test_a_picture_is_extended_in_its_own_size(qtbot: QtBot, picture: str) -> None:
    stage = Stage(qtbot)
    form = stage.page.form
    chosen(stage, picture)
    opened(form.start_part).side_fields.set_value((16, 0, 24, 0))
    assert opened(form.start_part).caption.text() == "Input: 64 × 48. Result: 104 × 48."
    assert not form.size_field.isEnabled()
    request = form.request()
    assert (request.width, request.height) == (None, None)
    assert request.start == Start(strength=0.75, outpaint=(16, 0, 24, 0))
    assert form._shape()[:2] == (104, 48)
    opened(form.start_part).mask_fields.only.setChecked(True)
    assert form.size_field.isEnabled()
    assert form.request().width is not None
    form.follow(replace(samples.POCKET, pipeline="KolorsPipeline"))
    assert opened(form.start_part).side_fields.isHidden()
    assert form.request().start == Start(strength=0.75)
    stage.close()


# --- kept ---------------------------------------------------------------------------------------------------------------


def test_all_of_it_comes_back_with_the_settings_of_a_picture(qtbot: QtBot, picture: str, tmp_path: Path) -> None:
    Image.new("L", (64, 48), 255).save(tmp_path / "mask.png")
    start = Start(strength=0.3, resize="fill", mask_blur=9, masked_content="noise", only_masked=40)
    request = PictureRequest(prompt="sea", image=picture, mask=str(tmp_path / "mask.png"), start=start)
    stage = Stage(qtbot)
    form = stage.page.form
    form.set_request(request)
    stage.wait(lambda: form.request().mask is not None)
    assert (form.request().image, form.request().mask, form.request().start) == (request.image, request.mask, start)
    assert '"strength":0.3' in kept(stage.controller.state.draft)
    rows = dict(receipt_rows(samples.picture_facts("a.png"), request))
    assert (rows["Image to image"], rows["Mask"]) == (f"{picture}, strength 0.30", request.mask)
    form.set_request(PictureRequest(prompt="sea"))
    assert (form.request().image, form.request().start) == (None, Start())
    gone = str(tmp_path / "gone.png")
    form.set_request(replace(request, image=gone, mask=None))
    stage.wait(lambda: form.refusal() == f"There is no picture at {gone}. Check the path.")
    assert form.start_part.row.isChecked()
    stage.close()


def test_in_the_smallest_window_no_word_and_no_tool_is_cut(qtbot: QtBot, picture: str) -> None:
    stage = Stage(qtbot)
    stage.window.resize(1024, 640)
    chosen(stage, picture)
    part = stage.page.form.start_part
    part.mask_fields.show()
    for box in (part.resize_mode, part.mask_fields.content):
        option = QStyleOptionComboBox()
        box.initStyleOption(option)
        field = QStyle.SubControl.SC_ComboBoxEditField
        room = box.style().subControlRect(QStyle.ComplexControl.CC_ComboBox, option, field, box).width()
        words = [box.itemText(index) for index in range(box.count())]
        assert [one for one in words if box.fontMetrics().horizontalAdvance(one) > room] == []
    part.paint_button.click()
    editor = stage.page.centre.editor
    stage.wait(lambda: not editor.canvas.image().isNull())
    shown = [one for one in editor.findChildren(QAbstractButton) if one.isVisible() and one.parent() is not editor.canvas]
    edges = [one.mapTo(stage.page.centre, QPoint(one.width(), 0)).x() for one in shown]
    assert max(edges) <= stage.page.centre.width(), "no tool is cut"
    stage.close()
