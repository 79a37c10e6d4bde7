"""The Gallery page in the real window: pictures are found, selected, compared, reused, sent on and moved to the bin."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import cast

import msgspec
import pytest
from PIL import Image
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDrag, QDragEnterEvent, QDropEvent, QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu
from pytestqt.qtbot import QtBot
from tests.gui.create.test_create_page import own_bin
from tests.gui.create.test_upscale import settings as upscaler_settings
from tests.gui.create.test_videos import other_codec, remembered
from tests.gui.stage import Stage
from tests.helpers import samples

from halftone.contract.request import PictureRequest
from halftone.contract.vocabulary import POCKET
from halftone.gallery.history import History
from halftone.gui.create.picture.painted_mask import is_empty
from halftone.gui.create.picture.picture_files import copy_all
from halftone.gui.gallery.gallery_page import GalleryPage
from halftone.gui.text import notice_message
from halftone.session.events import Replaced
from halftone.session.pictures.gallery import FAVOURITE, Query
from halftone.session.pictures.picture_list import PictureList
from halftone.settings.store import Settings

PROMPTS = ("a red lighthouse at dusk", "a blue jug and two pears", "a house on a hill", "a lighthouse in a storm")
SHAPES = ((64, 64), (96, 64), (64, 96), (128, 64))


def made(folder: Path, count: int = 4, model: str = POCKET) -> list[Path]:
    """Pictures of Halftone's, the newest last, with their files."""
    paths: list[Path] = []
    with History() as history:
        for number in range(count):
            path, (width, height) = folder / f"{number}.png", SHAPES[number % 4]
            Image.new("RGB", (width, height), (60 * (number % 4), 90, 120)).save(path)
            facts = msgspec.structs.replace(samples.picture_facts(str(path)), seed=100 + number, width=width, height=height)
            history.add(facts, PictureRequest(prompt=PROMPTS[number % 4], model=model, seed=100 + number, steps=11), b"")
            paths.append(path)
    return paths


def gallery(stage: Stage, count: int) -> GalleryPage:
    stage.window.resize(1440, 900)
    stage.controller.go("gallery")
    page = cast("GalleryPage", stage.workspace.page("gallery"))
    stage.wait(lambda: len(page.grid.rows) == count)
    return page


def at(page: GalleryPage, place: int) -> QPoint:
    """The middle of a picture in the viewport."""
    box = page.grid.lines.box(place)
    return QPoint(box.left + box.width // 2 + 20, box.top + box.height // 2 - page.grid.verticalScrollBar().value())


def click(page: GalleryPage, place: int, keys: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier) -> None:
    QTest.mouseClick(page.grid.viewport(), Qt.MouseButton.LeftButton, keys, at(page, place))


def chosen(stage: Stage, page: GalleryPage) -> list[str]:
    """The names of the selected pictures, once they are described."""
    stage.wait(lambda: len(page.state.details) == len(page.state.selected))
    return [Path(one.path).stem for one in page.state.details]


def test_a_picture_is_selected_and_described(qtbot: QtBot, tmp_path: Path) -> None:
    made(tmp_path)
    stage = Stage(qtbot)
    page = gallery(stage, 4)
    click(page, 0)
    assert chosen(stage, page) == ["3"]
    assert page.inspector.prompt.text() == PROMPTS[3]
    assert page.inspector.reuse.isEnabled()
    assert not page.inspector.missing.isVisible()
    stage.wait(lambda: not page.inspector.preview.empty)
    assert "a lighthouse in a storm, 1 of 4" in page.grid.accessibleDescription()
    stage.close()


class CountedIds(list[int]):
    """Numbers that count how often all of them are looked at."""

    walks = 0

    def __iter__(self) -> Iterator[int]:
        type(self).walks += 1
        return super().__iter__()


def test_a_click_does_not_look_at_every_picture(qtbot: QtBot, tmp_path: Path) -> None:
    made(tmp_path)
    stage = Stage(qtbot)
    page = gallery(stage, 4)
    state = stage.controller.state.gallery
    rows = replace(state.rows, ids=CountedIds(state.rows.ids))
    stage.controller.take(Replaced(part=replace(state, rows=rows)))
    stage.wait(lambda: page.grid.rows is rows)
    before = CountedIds.walks
    for place in (0, 2, 1):
        click(page, place)
        chosen(stage, page)
    assert page.grid.rows is rows
    assert CountedIds.walks == before
    stage.close()


def test_several_are_selected_with_keys_and_mouse(qtbot: QtBot, tmp_path: Path) -> None:
    made(tmp_path, 8)
    stage = Stage(qtbot)
    page = gallery(stage, 8)
    click(page, 1)
    click(page, 3, Qt.KeyboardModifier.ShiftModifier)
    assert chosen(stage, page) == ["6", "5", "4"]
    click(page, 2, Qt.KeyboardModifier.ControlModifier)
    assert chosen(stage, page) == ["6", "4"]
    assert page.inspector.title.text() == "2 pictures"
    assert page.inspector.compare.isVisible()
    QTest.keyClick(page.grid, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    assert len(page.grid.selection()) == 8
    QTest.keyClick(page.grid, Qt.Key.Key_Home)
    assert chosen(stage, page) == ["7"]
    QTest.keyClick(page.grid, Qt.Key.Key_Right)
    QTest.keyClick(page.grid, Qt.Key.Key_Right, Qt.KeyboardModifier.ShiftModifier)
    assert chosen(stage, page) == ["6", "5"]
    QTest.keyClick(page.grid, Qt.Key.Key_End)
    assert chosen(stage, page) == ["0"]
    stage.close()


def test_a_rubber_band_selects_what_it_touches(qtbot: QtBot, tmp_path: Path) -> None:
    made(tmp_path, 3)
    stage = Stage(qtbot)
    page = gallery(stage, 3)
    view, last = page.grid.viewport(), page.grid.lines.box(2)
    outside = QPoint(last.left + last.width + 120, last.top + last.height + 60)
    QTest.mousePress(view, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, outside)
    QTest.mouseMove(view, at(page, 1))
    QTest.mouseRelease(view, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, at(page, 1))
    assert chosen(stage, page) == ["1", "0"]
    QTest.mouseClick(view, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, outside)
    assert page.grid.selection() == []
    stage.close()


def test_the_search_finds_while_one_types(qtbot: QtBot, tmp_path: Path) -> None:
    made(tmp_path)
    stage = Stage(qtbot)
    page = gallery(stage, 4)
    page.focus_search()
    QTest.keyClicks(page.filters.search, "lighthouse")
    stage.wait(lambda: len(page.grid.rows) == 2)
    QTest.keyClicks(page.filters.search, " submarine")
    stage.wait(lambda: page.stack.currentWidget() is page.nothing)
    assert page.nothing.title.text() == "Nothing matches “lighthouse submarine”."
    page.nothing.act.click()
    stage.wait(lambda: len(page.grid.rows) == 4)
    assert page.filters.search.text() == ""
    page.focus_search()
    QTest.keyClicks(page.filters.search, "hill")
    stage.wait(lambda: len(page.grid.rows) == 1)
    QTest.keyClick(page.filters.search, Qt.Key.Key_Escape)
    stage.wait(lambda: len(page.grid.rows) == 4)
    assert page.stack.currentWidget() is page.grid
    stage.close()


def test_favourites_and_collections_are_filters(qtbot: QtBot, tmp_path: Path) -> None:
    made(tmp_path)
    stage = Stage(qtbot)
    page = gallery(stage, 4)
    click(page, 1)
    assert chosen(stage, page) == ["2"]
    page.inspector.favourite.click()
    stage.wait(lambda: page.state.favourites == 1)
    page.create_collection("Hills")
    stage.wait(lambda: page.state.collections == (("Hills", 1),))
    page.filters.mark.chosen.emit(FAVOURITE)
    stage.wait(lambda: len(page.grid.rows) == 1)
    assert page.state.query == Query(mark=FAVOURITE)
    page.filters.mark.chosen.emit("Hills")
    stage.wait(lambda: page.state.query.mark == "Hills" and len(page.grid.rows) == 1)
    stage.close()


def test_settings_are_reused_on_create(qtbot: QtBot, tmp_path: Path) -> None:
    made(tmp_path)
    stage = Stage(qtbot)
    page = gallery(stage, 4)
    click(page, 2)
    page.act("reuse")
    stage.wait(lambda: stage.shows("create"))
    draft = stage.controller.state.draft
    assert (draft.prompt, draft.seed.number, draft.steps) == (PROMPTS[1], 101, 11)
    stage.close()


def test_a_missing_model_is_named_and_the_rest_is_kept(qtbot: QtBot, tmp_path: Path) -> None:
    made(tmp_path, 1, model="/models/Harbor XL.safetensors")
    stage = Stage(qtbot)
    page = gallery(stage, 1)
    click(page, 0)
    page.act("reuse")
    stage.wait(lambda: stage.shows("create"))
    assert stage.controller.state.draft.prompt == PROMPTS[0]
    notice = stage.controller.state.notices[-1]
    assert (notice.kind, notice.facts[0]) == ("other-model", "Harbor XL.safetensors")
    stage.close()


def test_only_the_seed_is_reused(qtbot: QtBot, tmp_path: Path) -> None:
    made(tmp_path)
    stage = Stage(qtbot)
    stage.page.form.prompt.setPlainText("mine")
    page = gallery(stage, 4)
    click(page, 0)
    page.act("seed-only")
    stage.wait(lambda: stage.shows("create"))
    draft = stage.controller.state.draft
    assert (draft.prompt, draft.seed.number, draft.seed.locked) == ("mine", 103, True)
    stage.close()


def test_a_picture_is_sent_to_image_to_image(qtbot: QtBot, tmp_path: Path) -> None:
    paths = made(tmp_path)
    stage = Stage(qtbot)
    page = gallery(stage, 4)
    click(page, 0)
    page.act("start")
    stage.wait(lambda: stage.shows("create"))
    assert stage.controller.state.draft.image == str(paths[3])
    stage.wait(lambda: not stage.controller.background.busy)
    stage.close()


def test_a_picture_is_sent_to_inpainting_and_can_be_painted_on(qtbot: QtBot, tmp_path: Path) -> None:
    paths = made(tmp_path)
    stage = Stage(qtbot)
    page = gallery(stage, 4)
    click(page, 0)
    chosen(stage, page)
    page.inspector.to_inpaint.trigger()
    stage.wait(lambda: stage.shows("create"))
    editor = stage.page.centre.editor
    stage.wait(lambda: editor.built and editor.canvas.isVisible() and not editor.canvas.image().isNull())
    assert stage.controller.state.draft.image == str(paths[3])
    box = editor.canvas.own_rect().toRect()
    for act in (QTest.mousePress, QTest.mouseRelease):
        act(editor.canvas, Qt.MouseButton.LeftButton, pos=box.center())
    assert not is_empty(editor.canvas.painting.image)
    editor.done.click()
    stage.wait(lambda: bool(stage.controller.state.draft.mask))
    assert stage.page.form.request().mask
    stage.idle()
    stage.close()


def test_a_picture_is_sent_to_an_upscale_model(qtbot: QtBot, tmp_path: Path) -> None:
    paths = made(tmp_path)
    stage = Stage(qtbot, settings=upscaler_settings(tmp_path / "up"))
    page = gallery(stage, 4)
    click(page, 0)
    chosen(stage, page)
    page.inspector.to_upscale.trigger()
    (menu,) = (one for one in page.findChildren(QMenu) if one.isVisible())
    stage.wait(lambda: menu.actions()[0].text() == "4x-Sharp")
    menu.actions()[0].trigger()
    menu.close()
    stage.wait(lambda: stage.page.centre.shown is not None and stage.page.centre.shown.facts.upscaled is not None)
    upscaled = stage.latest.upscaled
    assert upscaled is not None
    assert upscaled.source == str(paths[3])
    stage.idle()
    stage.close()


def test_a_picture_is_seen_large_and_keys_lead_on(qtbot: QtBot, tmp_path: Path) -> None:
    made(tmp_path)
    stage = Stage(qtbot)
    page = gallery(stage, 4)
    click(page, 0)
    QTest.keyClick(page.grid, Qt.Key.Key_Space)
    stage.wait(lambda: page.stack.currentWidget() is page.viewer and not page.viewer.canvas.image().isNull())
    assert page.viewer.where.text() == "1 of 4"
    QTest.keyClick(page.viewer.canvas, Qt.Key.Key_Right)
    stage.wait(lambda: page.viewer.where.text() == "2 of 4")
    assert page.viewer.shown is not None
    assert Path(page.viewer.shown.path).stem == "2"
    QTest.keyClick(page.viewer.canvas, Qt.Key.Key_Escape)
    assert page.stack.currentWidget() is page.grid
    assert chosen(stage, page) == ["2"]
    stage.close()


def test_a_video_plays_beside_the_grid_and_large(qtbot: QtBot, tmp_path: Path) -> None:
    remembered(tmp_path)
    stage = Stage(qtbot)
    page = gallery(stage, 1)
    frames: list[str] = []
    page.inspector.player.framed.connect(lambda _image: frames.append("beside"))
    page.viewer.player.framed.connect(lambda _image: frames.append("large"))
    click(page, 0)
    chosen(stage, page)
    stage.wait(lambda: frames.count("beside") > 2)
    page.act("large")
    stage.wait(lambda: frames.count("large") > 2)
    assert not page.inspector.unplayed.isVisible()
    assert not page.viewer.unplayed.isVisible()
    stage.close()


def test_a_video_of_an_unknown_codec_says_so_beside_the_grid_and_large(qtbot: QtBot, tmp_path: Path) -> None:
    made(tmp_path, 1)
    other_codec(Path(remembered(tmp_path).path))
    stage = Stage(qtbot)
    page = gallery(stage, 2)
    click(page, 0)
    assert chosen(stage, page) == ["00001-7"]
    stage.wait(page.inspector.unplayed.isVisible)
    assert page.inspector.unplayed.text().startswith("The video 00001-7.mp4 uses a codec that Halftone cannot decode.")
    page.act("large")
    stage.wait(page.viewer.unplayed.isVisible)
    page.viewer.stepped.emit(1)
    assert chosen(stage, page) == ["0"]
    stage.wait(lambda: not page.inspector.unplayed.isVisible() and not page.viewer.unplayed.isVisible())
    stage.close()


def test_two_pictures_are_compared_with_a_wipe(qtbot: QtBot, tmp_path: Path) -> None:
    made(tmp_path)
    stage = Stage(qtbot)
    page = gallery(stage, 4)
    click(page, 0)
    click(page, 1, Qt.KeyboardModifier.ControlModifier)
    page.act("compare")
    stage.wait(lambda: page.stack.currentWidget() is page.viewer)
    compare = page.viewer.compare
    stage.idle()
    assert compare.grab().toImage().pixelColor(compare.width() // 2 - 40, compare.height() // 2).red() == 180
    compare.move_wipe(QPointF(0.0, 0.5))
    assert compare.grab().toImage().pixelColor(compare.width() // 2 - 40, compare.height() // 2).red() == 120
    QTest.keyClick(compare, Qt.Key.Key_Right)
    assert compare.wipe.x() == pytest.approx(0.02)
    QTest.keyClick(compare, Qt.Key.Key_Escape)
    assert page.stack.currentWidget() is page.grid
    stage.close()


def test_selected_pictures_are_copied_as_files(qtbot: QtBot, tmp_path: Path) -> None:
    paths = made(tmp_path)
    stage = Stage(qtbot)
    page = gallery(stage, 4)
    click(page, 0)
    click(page, 1, Qt.KeyboardModifier.ShiftModifier)
    assert chosen(stage, page) == ["3", "2"]
    QTest.keyClick(page.grid, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    stage.wait(lambda: any(notice.kind == "copied" for notice in stage.controller.state.notices))
    urls = QGuiApplication.clipboard().mimeData().urls()
    assert [Path(url.toLocalFile()) for url in urls] == [paths[3], paths[2]]
    stage.close()


def test_deleted_pictures_come_back(qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    own_bin(tmp_path, monkeypatch)
    paths = made(tmp_path)
    stage = Stage(qtbot)
    page = gallery(stage, 4)
    click(page, 0)
    click(page, 1, Qt.KeyboardModifier.ShiftModifier)
    QTest.keyClick(page.grid, Qt.Key.Key_Delete)
    stage.wait(lambda: bool(stage.controller.state.notices))
    notice = stage.controller.state.notices[-1]
    if notice.kind != "deleted":
        pytest.skip("no bin here")
    stage.wait(lambda: len(page.grid.rows) == 2)
    assert not paths[3].exists()
    assert notice.facts[0] == "2 pictures"
    reads: list[object] = []
    read = PictureList.read

    def counted(pictures: PictureList, then: Callable[[], object] = lambda: None) -> None:
        reads.append(then)
        read(pictures, then)

    monkeypatch.setattr(PictureList, "read", counted)
    stage.workspace.act(notice, "undo")
    stage.wait(lambda: len(page.grid.rows) == 4)
    assert paths[3].exists()
    assert paths[2].exists()
    assert set(chosen(stage, page)) == {"3", "2"}
    assert len(page.grid.selection()) == 2
    stage.idle()
    assert len(reads) == 1, "once for all that came back"
    stage.close()


def test_a_missing_file_says_so_and_can_leave_the_list(qtbot: QtBot, tmp_path: Path) -> None:
    paths = made(tmp_path)
    stage = Stage(qtbot)
    page = gallery(stage, 4)
    paths[3].unlink()
    click(page, 0)
    assert chosen(stage, page) == ["3"]
    assert page.inspector.missing.isVisible()
    assert not page.inspector.show_file.isEnabled()
    assert page.inspector.reuse.isEnabled()
    assert page.state.selected[0] in page.grid.pictures.gone
    page.inspector.drop_wanted.emit()
    stage.wait(lambda: len(page.grid.rows) == 3)
    stage.close()


def test_a_folder_of_another_program_is_added(qtbot: QtBot, tmp_path: Path) -> None:
    folder = tmp_path / "others"
    folder.mkdir()
    Image.new("RGB", (64, 64), "red").save(folder / "photo.png")
    stage = Stage(qtbot)
    stage.controller.go("gallery")
    page = cast("GalleryPage", stage.workspace.page("gallery"))
    stage.wait(lambda: page.nothing.title.text() == "No pictures yet.")
    page.add_folder(str(folder))
    stage.wait(lambda: len(page.grid.rows) == 1)
    page.grid.select_only(0)
    assert chosen(stage, page) == ["photo"]
    assert page.inspector.silent.text() == "This file has no settings inside."
    assert not page.inspector.reuse.isEnabled()
    assert stage.controller.settings.gallery_folders == (str(folder),)
    stage.close()


def test_a_dropped_folder_is_watched(qtbot: QtBot, tmp_path: Path) -> None:
    folder = tmp_path / "others"
    folder.mkdir()
    Image.new("RGB", (64, 64), "red").save(folder / "photo.png")
    stage = Stage(qtbot)
    page = gallery(stage, 0)
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(folder))])
    drop = QDropEvent(QPointF(9, 9), Qt.DropAction.CopyAction, data, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier)
    page.dropEvent(drop)
    stage.wait(lambda: len(page.grid.rows) == 1)
    assert stage.controller.settings.gallery_folders == (str(folder),)
    stage.close()


def test_a_new_picture_appears_as_it_is_made(qtbot: QtBot, tmp_path: Path) -> None:
    made(tmp_path, 2)
    stage = Stage(qtbot)
    page = gallery(stage, 2)
    stage.picture("a red sun over green hills")
    stage.wait(lambda: len(page.grid.rows) == 3)
    stage.close()


def test_keys_of_the_page_act_on_it(qtbot: QtBot, tmp_path: Path) -> None:
    made(tmp_path)
    stage = Stage(qtbot)
    page = gallery(stage, 4)
    click(page, 0)
    assert chosen(stage, page) == ["3"]
    QTest.keyClick(stage.window, Qt.Key.Key_F7)
    assert page.side.isHidden()
    QTest.keyClick(stage.window, Qt.Key.Key_F7)
    assert not page.side.isHidden()
    QTest.keyClick(stage.window, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    assert page.filters.search.hasFocus()
    QTest.keyClick(stage.window, Qt.Key.Key_R, Qt.KeyboardModifier.ControlModifier)
    stage.wait(lambda: stage.shows("create"))
    assert stage.controller.state.draft.prompt == PROMPTS[3]
    QTest.keyClick(stage.window, Qt.Key.Key_2, Qt.KeyboardModifier.ControlModifier)
    assert stage.shows("gallery")
    stage.close()


def test_a_narrow_window_has_a_drawer(qtbot: QtBot, tmp_path: Path) -> None:
    made(tmp_path)
    stage = Stage(qtbot)
    page = gallery(stage, 4)
    stage.window.resize(1024, 640)
    stage.wait(page.side.isHidden)
    page.toggle_right()
    assert page.side.geometry().right() == page.width() - 1
    assert page.grid.width() == page.width()
    stage.window.resize(1440, 900)
    stage.wait(lambda: page.side.parentWidget() is page.splitter)
    assert not page.side.isHidden()
    stage.close()


def test_another_language_keeps_query_and_selection(qtbot: QtBot, tmp_path: Path) -> None:
    made(tmp_path)
    stage = Stage(qtbot, settings=Settings(first_run_done=True, language="en"))
    page = gallery(stage, 4)
    page.filters.search.setText("lighthouse")
    stage.wait(lambda: len(page.grid.rows) == 2)
    click(page, 1)
    assert chosen(stage, page) == ["0"]
    stage.controller.session.settings.update(msgspec.structs.replace(stage.controller.settings, language="zh_CN"))
    stage.wait(lambda: stage.workspace.page("gallery") is not page)
    again = cast("GalleryPage", stage.workspace.page("gallery"))
    assert again.filters.search.text() == "lighthouse"
    assert chosen(stage, again) == ["0"]
    assert again.inspector.prompt.text() == PROMPTS[0]
    stage.close()


def test_pictures_of_other_programs_appear_while_the_page_is_open(qtbot: QtBot, tmp_path: Path) -> None:
    folder = tmp_path / "others"
    folder.mkdir()
    Image.new("RGB", (64, 64), "red").save(folder / "photo.png")
    stage = Stage(qtbot)
    page = gallery(stage, 0)
    page.add_folder(str(folder))
    stage.wait(lambda: len(page.grid.rows) == 1)
    Image.new("RGB", (64, 64), "blue").save(folder / "later.png")
    stage.wait(lambda: len(page.grid.rows) == 2)
    (folder / "photo.png").unlink()
    stage.wait(lambda: len(page.grid.rows) == 1)
    stage.controller.go("create")
    Image.new("RGB", (64, 64), "green").save(folder / "last.png")
    stage.controller.go("gallery")
    stage.wait(lambda: len(page.grid.rows) == 2)
    stage.close()


def drag(page: GalleryPage, place: int) -> None:
    view, start = page.grid.viewport(), at(page, place)
    QTest.mousePress(view, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, start)
    QTest.mouseMove(view, start + QPoint(40, 40))


def test_one_and_several_pictures_are_dragged_out_and_onto_create(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dragged: list[QMimeData] = []
    monkeypatch.setattr(QDrag, "exec", lambda drag, _action: dragged.append(drag.mimeData()))
    paths = made(tmp_path)
    stage = Stage(qtbot)
    page = gallery(stage, 4)
    drag(page, 1)  # it was not selected, and its file is not known yet
    stage.wait(lambda: len(dragged) == 1)
    assert [url.toLocalFile() for url in dragged[0].urls()] == [str(paths[2])]
    QTest.mouseRelease(page.grid.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, at(page, 1))
    page.grid.select_all()
    paths[0].unlink()
    drag(page, 0)
    stage.wait(lambda: len(dragged) == 2)
    assert [url.toLocalFile() for url in dragged[1].urls()] == [str(path) for path in paths[:0:-1]]
    stage.controller.go("create")
    copy, left, none = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
    over = QDragEnterEvent(QPoint(5, 5), copy, dragged[0], left, none)
    QApplication.sendEvent(stage.page, over)
    assert over.isAccepted()
    stage.idle()
    stage.close()


def test_a_drag_that_ends_before_the_files_are_known_drags_nothing(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    dragged: list[QMimeData] = []
    monkeypatch.setattr(QDrag, "exec", lambda drag, _action: dragged.append(drag.mimeData()))
    made(tmp_path)
    stage = Stage(qtbot)
    page = gallery(stage, 4)
    drag(page, 1)
    QTest.mouseRelease(page.grid.viewport(), Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, at(page, 1))
    stage.idle()
    assert dragged == []
    stage.close()


def test_many_selected_pictures_are_copied(qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halftone.session.pictures.gallery.DESCRIBED", 2)
    made(tmp_path)
    stage = Stage(qtbot)
    page = gallery(stage, 4)
    page.grid.setFocus()
    QTest.keyClick(page.grid, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    QTest.keyClick(page.grid, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    stage.wait(lambda: any(notice.kind == "copied" for notice in stage.controller.state.notices))
    assert len(QGuiApplication.clipboard().mimeData().urls()) == 4
    assert page.escape()
    assert page.grid.selection() == []
    assert not page.escape()
    stage.close()


def test_a_key_that_several_pictures_cannot_follow_is_forgotten(
    qtbot: QtBot, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("halftone.session.pictures.gallery.DESCRIBED", 2)
    made(tmp_path)
    stage = Stage(qtbot)
    page = gallery(stage, 4)
    reused: list[object] = []
    page.reuse_wanted.connect(reused.append)
    page.grid.select_all()
    page.act("reuse")
    stage.idle()
    click(page, 1)
    assert chosen(stage, page) == ["2"]
    stage.idle()
    assert reused == []
    stage.close()


def test_several_are_saved_and_the_missing_one_is_named(qtbot: QtBot, tmp_path: Path) -> None:
    paths = made(tmp_path)
    (tmp_path / "there").mkdir()
    stage = Stage(qtbot)
    gallery(stage, 4)
    paths[1].unlink()
    copy_all(stage.controller, [str(path) for path in paths], str(tmp_path / "there"))
    stage.wait(lambda: any(one.kind == "not-saved" for one in stage.controller.state.notices))
    saved, left = (notice_message(one) for one in stage.controller.state.notices[-2:])
    assert saved.title.startswith("Saved 3 pictures")
    assert (left.title, left.text) == ("Not saved: 1.png.", "The file no longer exists.")
    assert sorted(path.name for path in (tmp_path / "there").iterdir()) == ["0.png", "2.png", "3.png"]
    stage.close()


def test_four_pictures_are_compared_with_a_cross(qtbot: QtBot, tmp_path: Path) -> None:
    made(tmp_path)
    stage = Stage(qtbot)
    page = gallery(stage, 4)
    page.grid.select_all()
    page.act("compare")
    stage.wait(lambda: page.stack.currentWidget() is page.viewer)
    stage.idle()
    compare = page.viewer.compare
    shot, middle = compare.grab().toImage(), QPoint(compare.width() // 2, compare.height() // 2)
    reds = [shot.pixelColor(middle + QPoint(x, y)).red() for y in (-40, 40) for x in (-40, 40)]
    assert reds == [180, 120, 60, 0]
    stage.close()


@pytest.mark.parametrize(("text", "width"), [(100, 1440), (100, 1024), (150, 1440), (150, 1024), (200, 1440), (200, 1024)])
def test_the_search_shows_its_words_and_no_filter_is_cut(qtbot: QtBot, tmp_path: Path, text: int, width: int) -> None:
    made(tmp_path, 2)
    stage = Stage(qtbot, settings=Settings(first_run_done=True, text_size=text))
    page = gallery(stage, 2)
    stage.window.resize(width, 640 if width == 1024 else 900)
    stage.idle()
    bar = page.filters
    words = bar.search.fontMetrics().horizontalAdvance(bar.search.placeholderText())
    assert bar.search.width() >= words + 40
    parts = [one for one in (bar.search, *bar.filters, bar.folder, bar.slider, page.guide, page.unfold) if one.isVisible()]
    ends = [(one.geometry().left(), one.geometry().right()) for one in parts]
    assert all(end < start for (_, end), (start, _) in pairwise(ends))
    assert ends[-1][1] < bar.width()
    assert all(one.width() >= one.minimumSizeHint().width() for one in bar.filters if one.isVisible() and one.text())
    stage.close()
