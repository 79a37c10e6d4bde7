"""Pictures that are dragged over Create or pasted: what each target would take, what was taken, and taking it back."""

import json
from pathlib import Path
from typing import cast

import pytest
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent, QGuiApplication, QImage
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot
from tests.gui.stage import Stage
from tests.helpers import scripted
from tests.unit.metadata.test_comfy import plain

from halftone.gui.create.picture.drop_targets import Use
from halftone.gui.gallery.gallery_page import GalleryPage
from halftone.gui.text import notice_message
from halftone.session.pictures.draft import Draft, Seed, undone
from halftone.settings.places import masks_dir

TEXT = "a sun\nSteps: 31, Sampler: Euler a, CFG scale: 4.5, Seed: 42, Size: 128x192, Version: v1.10"
KEYS, BUTTONS, COPY = Qt.KeyboardModifier.NoModifier, Qt.MouseButton.LeftButton, Qt.DropAction.CopyAction


def files(*paths: Path) -> QMimeData:
    data = QMimeData()
    data.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    return data


def drag_over(widget: QWidget, data: QMimeData) -> bool:
    event = QDragEnterEvent(QPoint(5, 5), COPY, data, BUTTONS, KEYS)
    QApplication.sendEvent(widget, event)
    return event.isAccepted()


def drop(stage: Stage, data: QMimeData, use: Use, *, at_once: bool = False) -> None:
    """Drag from the page to a target, and let go. at_once: before it is known what the picture holds."""
    page, targets = stage.page, stage.page.dropped.targets
    assert drag_over(page, data)
    assert targets.isVisible()
    card = targets.cards[use]
    if not at_once:
        stage.wait(lambda: card.words != "Reading…")
    QApplication.sendEvent(page, QDragLeaveEvent())
    assert drag_over(card, data)
    QApplication.sendEvent(card, QDropEvent(QPointF(5, 5), COPY, data, BUTTONS, KEYS))


@pytest.fixture
def made_by_a1111(tmp_path: Path) -> Path:
    chunks, path = PngInfo(), tmp_path / "sun.png"
    chunks.add_text("parameters", TEXT)
    Image.new("RGB", (128, 192)).save(path, pnginfo=chunks)
    return path


def words(stage: Stage) -> dict[Use, tuple[str, bool]]:
    return {use: (card.words, card.isEnabled()) for use, card in stage.page.dropped.targets.cards.items()}


def test_each_target_says_what_it_would_take(qtbot: QtBot, tmp_path: Path, made_by_a1111: Path) -> None:
    stage = Stage(qtbot)
    targets = stage.page.dropped.targets
    Image.new("RGB", (64, 48)).save(tmp_path / "plain.png")
    (tmp_path / "broken.png").write_bytes(b"nothing")
    told = "Prompt, seed, size, steps, sampler, guidance from A1111."
    paint, none = "Paint the area to regenerate.", "This picture contains no settings."
    broken = "This is not a readable picture."
    wanted: dict[Path, tuple[tuple[str, bool], ...]] = {
        made_by_a1111: ((told, True), ("128 × 192", True), (paint, True)),
        tmp_path / "plain.png": ((none, False), ("64 × 48", True), (paint, True)),
        tmp_path / "broken.png": ((none, False), (broken, False), (broken, False)),
    }
    for path, said in wanted.items():
        assert drag_over(stage.page, files(path))
        stage.wait(lambda said=said: tuple(words(stage).values()) == said)
    QApplication.sendEvent(stage.page, QDragLeaveEvent())
    stage.wait(targets.isHidden)
    assert not drag_over(stage.page, files(tmp_path / "notes.txt"))
    stage.close()


def test_settings_are_taken_told_and_taken_back(qtbot: QtBot, made_by_a1111: Path) -> None:
    stage = Stage(qtbot)
    form, strip = stage.page.form, stage.page.centre.imported
    form.prompt.setPlainText("mine")
    drop(stage, files(made_by_a1111), "settings")
    stage.wait(lambda: bool(strip.words))
    assert strip.words == "Prompt, seed, size, steps, sampler, guidance from A1111."
    assert (form.prompt.toPlainText(), form.request().steps, form.request().seed) == ("a sun", 31, 42)
    form.steps.set_value(12)
    assert strip.bar is not None
    assert [act.label for act in strip.bar.message.actions] == ["Undo"], "a fix has an undo too"
    strip.bar.acted.emit("undo")
    assert strip.isHidden()
    assert (form.prompt.toPlainText(), form.request().seed) == ("mine", None)
    assert form.request().steps == 12, "what was changed since stays"
    stage.close()


def test_a_picture_of_comfyui_gives_its_settings(qtbot: QtBot, tmp_path: Path) -> None:
    chunks = PngInfo()
    chunks.add_text("prompt", json.dumps(plain()))
    Image.new("RGB", (8, 8)).save(tmp_path / "sun.png", pnginfo=chunks)
    stage = Stage(qtbot)
    drop(stage, files(tmp_path / "sun.png"), "settings")
    strip = stage.page.centre.imported
    stage.wait(lambda: bool(strip.words))
    assert strip.words.startswith("Prompt, negative prompt, seed, size, steps, sampler, guidance from ComfyUI. Not found: ")
    stage.close()


def test_image_to_image_and_inpainting_are_taken_back_too(qtbot: QtBot, made_by_a1111: Path) -> None:
    stage = Stage(qtbot)
    page = stage.page
    before = stage.controller.state.draft
    drop(stage, files(made_by_a1111), "start")
    assert (page.form.request().image, page.centre.imported.words) == (str(made_by_a1111), "Image to image: sun.png.")
    assert page.centre.imported.bar is not None
    page.centre.imported.bar.acted.emit("undo")
    assert stage.controller.state.draft == before
    drop(stage, files(made_by_a1111), "inpaint")
    assert (page.centre.sight, page.form.request().image) == ("editing", str(made_by_a1111))
    assert stage.controller.state.draft.size == (128, 192)
    page.centre.imported.bar.acted.emit("undo")
    assert page.centre.sight != "editing"
    stage.idle()
    stage.close()


@pytest.mark.parametrize("use", ["start", "inpaint"])
def test_a_picture_that_is_let_go_while_it_is_read_is_used_all_the_same(qtbot: QtBot, made_by_a1111: Path, use: Use) -> None:
    stage = Stage(qtbot)
    page = stage.page
    drop(stage, files(made_by_a1111), use, at_once=True)
    stage.wait(lambda: page.form.request().image == str(made_by_a1111))
    assert (page.centre.sight == "editing") == (use == "inpaint")
    assert page.dropped.targets.isHidden()
    stage.idle()
    stage.close()


@pytest.mark.parametrize("use", ["start", "inpaint"])
def test_a_file_that_turns_out_to_be_no_picture_says_so(qtbot: QtBot, tmp_path: Path, use: Use) -> None:
    stage = Stage(qtbot)
    (tmp_path / "broken.png").write_bytes(b"nothing")
    before = stage.controller.state.draft
    drop(stage, files(tmp_path / "broken.png"), use, at_once=True)
    stage.wait(stage.page.dropped.targets.isVisible)
    assert words(stage)[use] == ("This is not a readable picture.", False)
    assert stage.page.dropped.targets.cancel.hasFocus()
    assert stage.controller.state.draft == before
    stage.page.dropped.targets.cancel.click()
    assert stage.page.dropped.targets.isHidden()
    stage.close()


def test_a_picture_held_over_the_tab_opens_create(qtbot: QtBot, made_by_a1111: Path) -> None:
    stage = Stage(qtbot)
    tab, targets = stage.workspace.top.tabs["create"], stage.page.dropped.targets
    stage.workspace._go("gallery")
    assert not drag_over(tab, files(made_by_a1111.with_suffix(".txt")))
    assert drag_over(tab, files(made_by_a1111))
    QApplication.sendEvent(tab, QDragLeaveEvent())
    qtbot.wait(500)
    assert stage.shows("gallery"), "it went over the tab to another place"
    assert drag_over(tab, files(made_by_a1111))
    stage.wait(lambda: stage.shows("create"))
    drop(stage, files(made_by_a1111), "start")
    assert stage.page.form.request().image == str(made_by_a1111)
    stage.workspace._go("gallery")
    data = files(made_by_a1111)
    assert drag_over(tab, data)
    QApplication.sendEvent(tab, QDropEvent(QPointF(5, 5), COPY, data, BUTTONS, KEYS))
    assert stage.shows("create")
    assert targets.cancel.isVisible()
    stage.wait(lambda: words(stage)["start"] == ("128 × 192", True))
    targets.cancel.click()
    assert targets.isHidden()
    stage.idle()
    stage.close()


def test_the_gallery_sends_a_picture_to_be_painted_on(qtbot: QtBot, made_by_a1111: Path) -> None:
    stage = Stage(qtbot)
    page = cast("GalleryPage", stage.workspace.page("gallery"))
    page.inpaint_wanted.emit(str(made_by_a1111), (128, 192), "a sun")
    assert stage.shows("create")
    assert (stage.page.centre.sight, stage.page.form.request().image) == ("editing", str(made_by_a1111))
    assert (stage.controller.state.draft.size, stage.page.form.prompt.toPlainText()) == ((128, 192), "a sun")
    stage.idle()
    stage.close()


@pytest.mark.parametrize("field", ["page", "prompt"])
def test_a_picture_without_a_file_is_pasted(qtbot: QtBot, field: str) -> None:
    stage = Stage(qtbot)
    page, targets = stage.page, stage.page.dropped.targets
    image = QImage(40, 24, QImage.Format.Format_RGB32)
    image.fill(0xFF3366)
    QGuiApplication.clipboard().setImage(image)
    focused = page.form.prompt if field == "prompt" else page
    qtbot.keyClick(focused, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
    assert targets.isVisible()
    assert tuple(words(stage).values())[:2] == (("This picture contains no settings.", False), ("40 × 24", True))
    assert targets.cancel.isVisible()
    qtbot.keyClick(targets.cards["start"], Qt.Key.Key_Escape)
    assert targets.isHidden()
    qtbot.keyClick(focused, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
    targets.cards["start"].click()
    stage.wait(lambda: page.form.request().image is not None)
    kept = page.form.request().image
    assert kept is not None
    assert Path(kept).parent == masks_dir()
    assert QImage(kept).size() == image.size()
    QGuiApplication.clipboard().setText("a moon")
    qtbot.keyClick(page.form.prompt, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
    assert (targets.isHidden(), page.form.prompt.toPlainText()) == (True, "a moon")
    stage.idle()
    stage.close()


@pytest.mark.parametrize(
    ("now", "left"),
    [
        (Draft(prompt="b", steps=9), Draft(prompt="a")),
        (Draft(prompt="c", steps=9), Draft(prompt="c")),
        (Draft(prompt="b", steps=9, batch=4), Draft(prompt="a", batch=4)),
        (Draft(prompt="b", steps=9, seed=Seed(5)), Draft(prompt="a", seed=Seed(5))),
    ],
)
def test_what_is_taken_back(now: Draft, left: Draft) -> None:
    assert undone(Draft(prompt="a"), Draft(prompt="b", steps=9), now) == left


def test_a_drag_that_leaves_the_window_leaves_nothing(qtbot: QtBot, made_by_a1111: Path) -> None:
    stage = Stage(qtbot)
    targets = stage.page.dropped.targets
    drag_over(stage.page, files(made_by_a1111))
    card = targets.cards["start"]
    stage.wait(card.isEnabled)
    QApplication.sendEvent(stage.page, QDragLeaveEvent())
    drag_over(card, files(made_by_a1111))
    qtbot.wait(150)
    assert targets.isVisible(), "it went from the page to a target"
    QApplication.sendEvent(card, QDragLeaveEvent())
    stage.wait(targets.isHidden)
    stage.idle()
    stage.close()


def test_a_picture_of_the_history_is_dragged_to_the_canvas(qtbot: QtBot) -> None:
    stage = Stage(qtbot, {"generate": scripted.usual("generate")})
    stage.picture()
    page = stage.page
    page.form.prompt.setPlainText("mine")
    (path,), model = page.history.paths(), page.history.model
    data = model.mimeData([model.index_of(path)])
    assert model.index_of(path).flags() & Qt.ItemFlag.ItemIsDragEnabled
    drop(stage, data, "settings")
    assert page.form.prompt.toPlainText() == "a red sun over green hills"
    assert page.centre.imported.words == f"Settings taken from {Path(path).name}."
    assert page.centre.imported.bar is not None
    page.centre.imported.bar.acted.emit("undo")
    assert (page.form.prompt.toPlainText(), page.form.request().seed) == ("mine", None)
    stage.idle()
    stage.close()


def test_an_address_from_a_browser_is_answered_in_a_sentence(qtbot: QtBot) -> None:
    stage, data = Stage(qtbot), QMimeData()
    data.setUrls([QUrl("https://example.org/sun.png")])
    assert drag_over(stage.page, data)
    assert stage.page.dropped.targets.isHidden()
    QApplication.sendEvent(stage.page, QDropEvent(QPointF(5, 5), COPY, data, BUTTONS, KEYS))
    notice = stage.controller.state.notices[-1]
    assert "save the picture in the browser" in notice_message(notice).title
    stage.close()


def test_a_picture_from_a_browser_needs_no_address(qtbot: QtBot) -> None:
    stage, data = Stage(qtbot), QMimeData()
    data.setUrls([QUrl("https://example.org/sun.png")])
    data.setImageData(QImage(64, 48, QImage.Format.Format_RGB32))
    assert drag_over(stage.page, data)
    assert words(stage)["start"] == ("64 × 48", True)
    stage.idle()
    stage.close()
