"""How many clicks the usual journeys take, with the real worker. Run by `test_journey.py` on a virtual screen.

Typing and keys are no clicks; a stroke with the brush and a drop are one each.
"""

import json
import shutil
import sqlite3
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import cast

import numpy as np
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QFileDialog, QLineEdit
from pytestqt.qtbot import QtBot
from tests.e2e.person import PROMPT, Person, settings
from tests.unit.metadata.test_comfy import plain

from halftone.gui.create.form.model_menu import ModelMenu
from halftone.gui.create.grid_dialog import GridDialog
from halftone.gui.device.device_page import DevicePage
from halftone.gui.gallery.gallery_page import GalleryPage
from halftone.gui.models.models_page import ModelsPage
from halftone.settings.places import data_dir, resources
from halftone.settings.store import Settings

SHORT = "float32"


def second_model(folder: Path) -> Path:
    """A model beside the demo model."""
    left_out = shutil.ignore_patterns("training", "examples")
    return Path(shutil.copytree(resources() / "pocket", folder / "second", ignore=left_out))


def test_the_first_picture_takes_one_click(qtbot: QtBot) -> None:
    person = Person(qtbot, Settings(), measured=False)
    way_on = cast("DevicePage", person.workspace.page("device")).first_picture
    person.wait(way_on.isEnabled)
    person.click(way_on)
    person.wait(lambda: len(person.pictures) == 1)
    person.idle()
    assert person.clicks == 1
    (ready,) = person.pictures
    assert Path(ready.facts.path).exists()
    person.wait(lambda: person.page.centre.sight == "picture")
    person.leave()


def test_an_example_and_a_prompt_take_one_click_each(qtbot: QtBot) -> None:
    person = Person(qtbot, settings(precision=SHORT))
    person.click(person.page.centre.empty.cards[0])
    person.wait(lambda: len(person.pictures) == 1)
    person.idle()
    assert person.clicks == 1
    QTest.keyClick(person.window, Qt.Key.Key_L, Qt.KeyboardModifier.ControlModifier)
    QTest.keyClick(person.page.form.prompt, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    QTest.keyClicks(person.page.form.prompt, PROMPT)
    person.click(person.page.form.footer.generate_button)
    person.wait(lambda: len(person.pictures) == 2)
    person.idle()
    assert person.clicks == 2
    assert person.latest.prompt == PROMPT
    person.leave()


def test_another_model_takes_two_clicks(qtbot: QtBot, tmp_path: Path) -> None:
    second = second_model(tmp_path)
    person = Person(qtbot, Settings(first_run_done=True, library_asked=True, model_folders=(str(tmp_path),)), early=True)
    person.wait(lambda: any(one.path == str(second) for one in person.controller.models))
    person.click(person.page.form.model_part.row)
    menu = person.page.form.model_part.findChild(ModelMenu)
    assert menu is not None
    place = menu.choices.index_of(str(second))
    person.click(menu.list.viewport(), menu.list.visualRect(place).center())
    person.wait(lambda: person.controller.model is not None and person.controller.model.path == str(second))
    assert person.clicks == 2
    person.idle()
    person.leave()


def test_a_folder_of_models_takes_two_clicks(qtbot: QtBot, tmp_path: Path) -> None:
    second = second_model(tmp_path / "models")
    person = Person(qtbot, Settings(first_run_done=True, library_asked=True), early=True)
    person.click(person.workspace.top.tabs["models"])
    page = cast("ModelsPage", person.workspace.page("models"))
    person.click(page.add)
    dialog = page.findChild(QFileDialog)
    assert dialog is not None
    name = dialog.findChild(QLineEdit, "fileNameEdit")
    assert name is not None
    QGuiApplication.clipboard().setText(str(tmp_path / "models"))
    QTest.keyClick(name, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)  # what is typed letter by letter, Qt completes
    QTest.keyClick(name, Qt.Key.Key_Return)
    person.wait(lambda: str(second) in {row.entry.path for row in page.cards.items})
    assert person.clicks == 2
    person.idle()
    person.leave()


def test_a_part_of_a_picture_takes_three_clicks(qtbot: QtBot) -> None:
    person = Person(qtbot, settings(precision=SHORT))
    person.generate(3)
    person.idle()
    person.wait(lambda: person.page.centre.sight == "picture")
    before = person.latest
    person.click(person.page.centre.toolbar.inpaint)
    editor = person.page.centre.editor
    person.wait(lambda: editor.built and not editor.canvas.image().isNull())
    box = editor.canvas.own_rect().toRect()
    middle, right = box.center(), QPoint(box.width() // 5, 0)
    person.drag(editor.canvas, (middle, middle + right / 2, middle + right))
    person.click(person.page.form.footer.generate_button)
    person.wait(lambda: len(person.pictures) == 2)
    person.idle()
    assert person.clicks == 3
    made = person.latest
    assert made.masked
    assert made.image == str(person.pictures[0].facts.path)
    assert made.prompt == before.prompt
    assert 0 < changed_share(person) < 0.4, "only what was painted"
    person.leave()


def changed_share(person: Person) -> float:
    """The share of the first picture's pixels that are others in the second."""
    first, second = (Image.open(ready.facts.path).convert("RGB") for ready in person.pictures)
    changed = np.abs(np.asarray(first, dtype=int) - np.asarray(second, dtype=int)).max(axis=2) > 0
    return float(changed.mean())


def test_variations_of_last_weeks_picture_take_three_clicks(qtbot: QtBot) -> None:
    last_week = Person(qtbot, settings(precision=SHORT))
    last_week.draw_small()
    for prompt in ("a lighthouse in a storm", PROMPT):
        last_week.make(prompt)
    last_week.leave()
    then = (datetime.now(UTC) - timedelta(days=7)).isoformat()
    with sqlite3.connect(next(data_dir().rglob("history*.sqlite*"))) as database:
        database.execute("UPDATE picture SET made_at = ?", (then,))
    database.close()

    person = Person(qtbot, settings(precision=SHORT))
    person.draw_small()
    person.make(PROMPT)
    person.click(person.workspace.top.tabs["gallery"])
    page = cast("GalleryPage", person.workspace.page("gallery"))
    person.wait(lambda: len(page.grid.rows) == 3)
    QTest.keyClick(person.window, Qt.Key.Key_F, Qt.KeyboardModifier.ControlModifier)
    QTest.keyClicks(page.filters.search, "lighthouse")
    person.wait(lambda: len(page.grid.rows) == 1)
    box = page.grid.lines.box(0)
    person.click(page.grid.viewport(), QPoint(box.left + box.width // 2, box.top + box.height // 2))
    person.wait(page.inspector.vary.isEnabled)
    (shown,) = page.state.details
    assert (datetime.now(UTC) - shown.made_at).days == 7
    person.click(page.inspector.vary)
    person.wait(lambda: len(person.pictures) == 5)
    person.idle()
    assert person.clicks == 3
    assert person.page.isVisible()
    assert person.latest.prompt == "a lighthouse in a storm"
    assert person.latest.variation_strength > 0
    person.leave()


def test_a_grid_takes_three_clicks(qtbot: QtBot) -> None:
    person = Person(qtbot, settings(precision=SHORT))
    person.draw_small()
    person.page.form.edit(prompt=PROMPT)
    person.click(person.page.form.footer.more)
    person.click_entry("Grid…")
    person.wait(lambda: person.page.findChild(GridDialog) is not None)
    dialog = cast("GridDialog", person.page.findChild(GridDialog))
    person.wait(dialog.make.isVisible)
    person.click(dialog.make)
    person.wait(lambda: len(person.pictures) == 9)
    person.idle()
    assert person.clicks == 3
    requests = [made.request for made in person.controller.state.history.pictures]
    assert len({(one.guidance, one.steps) for one in requests}) == 9
    assert len({ready.facts.seed for ready in person.pictures}) == 1
    person.leave()


def test_the_settings_of_a_comfyui_picture_take_one_drop(qtbot: QtBot, tmp_path: Path) -> None:
    graph, chunks = plain(), PngInfo()
    graph["3"]["inputs"] |= {"seed": 77, "steps": 5, "cfg": 3.5, "sampler_name": "euler", "scheduler": "normal"}
    graph["4"]["inputs"]["ckpt_name"] = "second.safetensors"
    graph["5"]["inputs"] |= {"width": 128, "height": 192}
    chunks.add_text("prompt", json.dumps(graph))
    Image.new("RGB", (128, 192)).save(tmp_path / "ComfyUI_00001_.png", pnginfo=chunks)
    second = second_model(tmp_path / "models")
    known = Settings(first_run_done=True, library_asked=True, model_folders=(str(tmp_path / "models"),))
    person = Person(qtbot, known, early=True)
    person.wait(lambda: any(one.path == str(second) for one in person.controller.models))

    person.drop(tmp_path / "ComfyUI_00001_.png")
    person.wait(lambda: bool(person.page.centre.imported.words))
    person.wait(lambda: person.controller.model is not None and person.controller.model.path == str(second))
    assert person.clicks == 1
    wanted = person.page.form.request()
    assert (wanted.seed, wanted.steps, wanted.guidance, wanted.width, wanted.height) == (77, 5, 3.5, 128, 192)
    assert (wanted.prompt, wanted.negative) == ("a sun\nNegative prompt: (red:1.2)", "ink, embedding:bad")
    assert wanted.sampler == "Euler Normal"
    person.idle()
    person.leave()
