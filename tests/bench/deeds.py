"""What a person does on purpose in the window, chosen at random: the deeds that random clicks seldom come to."""

import json
import os
import random
import signal
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any, Final, cast

import msgspec
from PIL import Image
from PIL.PngImagePlugin import PngInfo
from PySide6.QtCore import QPoint, Qt
from PySide6.QtTest import QTest
from tests.unit.metadata.test_comfy import plain

from halftone.gui.controller import Controller
from halftone.gui.gallery.gallery_page import GalleryPage
from halftone.gui.models.models_page import ModelsPage
from halftone.gui.process import WorkerLink
from halftone.gui.shell.pages import PageName
from halftone.gui.shell.workspace import Workspace
from halftone.session.pictures.presets import preset_of, proposed, save_preset

_LOOKS: Final = {"theme": ("dark", "light"), "language": ("en", "zh_CN"), "text_size": (80, 100, 150)}
_IN_GALLERY: Final = (
    *("delete", "save", "compare", "copy", "large", "reuse", "vary", "seed-only", "copy-prompt", "start", "inpaint", "upscale"),
    *("right-panel", "full-screen"),
)  # fmt: skip
_SEARCHED: Final = ("", "red", "lora", "nothing has this name", "太阳")
_A1111: Final = "a red sun\nNegative prompt: ink\nSteps: 5, Sampler: Euler a, CFG scale: 3.5, Seed: 77, Size: 128x192"


def write_pictures(folder: Path) -> None:
    """Pictures as A1111 and ComfyUI save them, one that says nothing, and one that is broken."""
    folder.mkdir()
    for name, key, words in (("a1111", "parameters", _A1111), ("comfy", "prompt", json.dumps(plain()))):
        chunks = PngInfo()
        chunks.add_text(key, words)
        Image.new("RGB", (128, 192), "red").save(folder / f"{name}.png", pnginfo=chunks)
    Image.new("RGB", (64, 64), "blue").save(folder / "silent.jpg")
    (folder / "broken.png").write_bytes(b"\x89PNG\r\n\x1a\nno more")


class Deeds:
    """Does one of `names` at a time. vanishing: the folder of a model that is away now and then."""

    def __init__(
        self, workspace: Workspace, controller: Controller, link: WorkerLink, vanishing: Path, dice: random.Random
    ) -> None:
        self._workspace, self._controller, self._link, self._dice = workspace, controller, link, dice
        self._vanishing, self._away = vanishing, vanishing.with_name("away")
        self._all: dict[str, tuple[int, Callable[[], object]]] = {
            "look": (2, self._look),
            "generate": (6, self._generate),
            "queue": (8, self._queue),
            "models": (6, self._models),
            "gallery": (8, self._gallery),
            "grid": (1, self._grid),
            "preset": (1, self._preset),
            "paint": (3, self._paint),
            "precision": (2, self._precision),
            "kill": (1, self._kill),
            "vanish": (1, self._vanish),
        }

    def do(self) -> str:
        """Do one. Returns what it was."""
        weights = [weight for weight, _deed in self._all.values()]
        name = self._dice.choices(list(self._all), weights)[0]
        return f"{name} {self._all[name][1]() or ''}".strip()

    def _page(self, name: PageName) -> Any:
        self._controller.go(name)
        return self._workspace.page(name)

    def _look(self) -> str:
        field = self._dice.choice(list(_LOOKS))
        value = self._dice.choice(_LOOKS[field])
        settings = msgspec.structs.replace(self._controller.settings, **{field: value})
        self._controller.session.settings.update(settings)
        return f"{field} {value}"

    def _generate(self) -> None:
        self._page("create").generate()

    def _queue(self) -> str:
        """As the list of the queue does for its keys, its drags and its cross."""
        page, jobs = self._workspace.create_page, self._controller.state.jobs
        if not jobs:
            return ""
        job, deed = self._dice.choice(jobs), self._dice.choice(("move", "drop", "edit", "remove", "repeat", "pause"))
        match deed:
            case "move":
                page.queue.list.moved.emit(job, self._dice.choice((-1, 1)))
            case "drop":
                page.queue.list.dropped.emit(job, self._dice.randrange(len(jobs)))
            case "edit":
                page.queue.list.doubled.emit(job)
            case "remove":
                page.queue.list.removed.emit(job)
            case "repeat":
                self._controller.session.queue.retry(job)
            case _:
                page.queue.pause.click()
        return deed

    def _models(self) -> str:
        page = cast("ModelsPage", self._page("models"))
        deed = self._dice.choice(("search", "menu", "menu", "menu", "select", "table"))
        rows = page.rows.listing.rows
        if deed == "search":
            page.search.setText(self._dice.choice(_SEARCHED))
        elif deed == "table":
            self._dice.choice((page.as_cards, page.as_table)).click()
        elif rows:
            row = self._dice.choice(rows)
            page.view.chosen.emit(row)
            if deed == "menu":
                menu = page.menu_of(row)
                action = self._dice.choice([one for one in menu.actions() if one.isEnabled() and not one.isSeparator()])
                action.trigger()
                deed = action.text()
                menu.deleteLater()
        return deed

    def _gallery(self) -> str:
        page = cast("GalleryPage", self._page("gallery"))
        deed = self._dice.choice(("search", "select", "select", "select all", *_IN_GALLERY))
        count = len(page.grid.rows)
        if deed == "search":
            page.filters.search.setText(self._dice.choice(_SEARCHED))
        elif deed == "select all":
            page.grid.select_all()
        elif deed == "select" and count:
            page.grid.select_only(self._dice.randrange(count))
        elif deed in _IN_GALLERY:
            page.act(deed)
        return deed

    def _grid(self) -> None:
        self._page("create").open_grid()

    def _preset(self) -> None:
        """Keep what is in the form; the name is one that may be there."""
        draft, name = self._controller.state.draft, self._dice.choice(("one", "two", "three"))
        made = preset_of(name, draft, proposed(draft))
        self._controller.session.presets.change(partial(save_preset, made), lambda _all: None, lambda _error: None)

    def _paint(self) -> None:
        """Three strokes on the picture that is shown."""
        page = self._page("create")
        page.inpaint()
        canvas = page.centre.editor.canvas if page.centre.editor.built else None
        if canvas is None or not canvas.isVisible():
            return
        for _ in range(3):
            ends = [QPoint(self._dice.randrange(canvas.width()), self._dice.randrange(canvas.height())) for _ in range(2)]
            QTest.mousePress(canvas, Qt.MouseButton.LeftButton, pos=ends[0])
            QTest.mouseMove(canvas, ends[1])
            QTest.mouseRelease(canvas, Qt.MouseButton.LeftButton, pos=ends[1])

    def _precision(self) -> None:
        self._controller.session.settings.choose_precision(self._dice.choice((None, "auto", "float16", "float32")))

    def _kill(self) -> str:
        """Kill the worker; where it was killed too often, try again."""
        if self._link.hopeless:
            self._controller.session.restart()
            return "try again"
        if self._link.pid:
            os.kill(self._link.pid, signal.SIGKILL)
        return "the worker"

    def _vanish(self) -> str:
        """The folder of a model goes away, or comes back."""
        there = self._vanishing.exists()
        first, second = (self._vanishing, self._away) if there else (self._away, self._vanishing)
        if first.exists() and not second.exists():
            first.rename(second)
        return "gone" if there else "back"
