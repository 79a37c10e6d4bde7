"""The pictures of the guide in one language: `python -m tests.gui.shots_guide resources/guide en` or `zh_CN`; a part of them
with `device`, `create`, `train` or `recovered` behind it.

A real worker makes what they show: it measures this machine, draws with Pocket and its fragile twin, checks, and trains. It takes
some minutes. Run with QT_QPA_PLATFORM=offscreen.
"""

# ruff: noqa: E402 - the platform and the path must be set before Qt and Halftone are imported

import collections
import os
import sys
import tempfile
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from typing import Final, Literal, cast

os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")
os.environ["HALFTONE_DATA"] = tempfile.mkdtemp(prefix="halftone-guide-")
sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[2] / "app")]

import msgspec
from PIL import Image
from PySide6.QtCore import QEventLoop, QPoint, QRect, QTimer
from PySide6.QtGui import QImage, QPainter, QPixmap
from PySide6.QtWidgets import QWidget
from tests.gui.shots import landscape

from halftone.gui import theme
from halftone.gui.controller import Controller
from halftone.gui.i18n import set_language
from halftone.gui.main import make_app
from halftone.gui.process import WorkerLink
from halftone.gui.shell.window import MainWindow
from halftone.gui.shell.workspace import Workspace
from halftone.gui.train.train_page import TrainPage
from halftone.settings.store import Settings

WIDTH: Final = 700
"""Pixels of the guide's column: wider pictures are made so wide."""
QUALITY: Final = 88
PROMPT: Final = "a red sun over green hills"
SIZE: Final = (1120, 700)


class Person:
    """Sits before a real window over a real worker."""

    def __init__(self, language: Literal["en", "zh_CN"], folder: Path) -> None:
        set_language(language)
        theme.set_theme("dark")
        self.folder = folder
        self.work = Path(tempfile.mkdtemp(prefix="halftone-guide-"))
        settings = Settings(first_run_done=True, theme="dark", language=language)
        self.link = WorkerLink()
        self.controller = Controller(self.link, settings)
        self.window = MainWindow()
        self.workspace = Workspace(self.window, self.controller)
        collections.deque(self.workspace.move_in(), maxlen=0)
        self.window.resize(*SIZE)
        self.window.show()
        self.controller.session.start()
        self.wait(lambda: self.controller.state.worker == "ready" and self.controller.model is not None)
        self.page = self.workspace.create_page

    def pause(self, milliseconds: int = 300) -> None:
        loop = QEventLoop()
        QTimer.singleShot(milliseconds, loop.quit)
        loop.exec()

    def wait(self, condition: Callable[[], bool]) -> None:
        while not condition():
            self.pause(50)

    def idle(self) -> None:
        self.pause(500)
        self.wait(lambda: not self.controller.state.jobs and not self.controller.background.busy)
        self.pause(500)

    def picture(self) -> None:
        self.page.form.set_request(msgspec.structs.replace(self.page.form.request(), prompt=PROMPT, seed=7))
        self.page.form.area.verticalScrollBar().setValue(0)
        self.page.generate()
        self.idle()

    def keep(self, name: str, pixmap: QPixmap) -> None:
        """As a small WebP, no wider than the guide's column."""
        whole = self.work / f"{name}.png"
        pixmap.save(str(whole))
        with Image.open(whole) as opened:
            image = opened.convert("RGB")
        if image.width > WIDTH:
            image = image.resize((WIDTH, round(image.height * WIDTH / image.width)), Image.Resampling.LANCZOS)
        image.save(self.folder / f"{name}.webp", quality=QUALITY, method=6)

    def shoot(self, name: str) -> None:
        self.pause()
        self.keep(name, self.window.grab())

    def shoot_part(self, name: str, first: QWidget, last: QWidget) -> None:
        """From the top of one widget to the bottom of another."""
        self.pause()
        top = first.mapTo(self.window, QPoint(0, 0))
        bottom = last.mapTo(self.window, QPoint(0, last.height()))
        self.keep(name, self.window.grab(QRect(top.x(), top.y(), last.width(), bottom.y() - top.y())))

    def leave(self) -> None:
        self.controller.session.queue.clear_waiting()
        self.link.stop()
        self.wait(lambda: not self.controller.background.busy)
        self.window.close()


def mask(file: Path) -> str:
    """White where the sun is."""
    image = QImage(128, 128, QImage.Format.Format_RGB32)
    image.fill(0)
    painter = QPainter(image)
    painter.setBrush(0xFFFFFF)
    painter.drawEllipse(38, 8, 56, 56)
    painter.end()
    image.save(str(file))
    return str(file)


def device(person: Person) -> None:
    person.controller.session.devices.measure()
    person.idle()
    person.controller.go("device")
    person.shoot("device")
    person.workspace._go_numerics()
    person.shoot("numerics")


def create(person: Person) -> None:
    person.controller.go("create")
    person.picture()
    person.shoot("create")


def rows(person: Person, lora: str) -> None:
    """A start picture with a mask, and a LoRA."""
    if not person.page.history.paths():
        person.picture()
    form = person.page.form
    picture = person.page.history.paths()[0]
    form.start_part.use(picture)
    person.idle()
    form.start_part.choose_mask(mask(person.work / "mask.png"))
    person.idle()
    person.window.resize(SIZE[0], 1200)
    person.pause()
    form.area.ensureWidgetVisible(form.start_part)
    person.shoot_part("start", form.start_part.row, form.start_part)
    form.start_part.choose(None)
    form.start_part.row.setChecked(False)
    form.lora_part.add(lora)
    form.lora_part.row.setChecked(True)
    person.idle()
    form.area.ensureWidgetVisible(form.lora_part)
    person.shoot_part("lora", form.lora_part.row, form.lora_part)
    form.lora_part.set_items(())
    form.lora_part.row.setChecked(False)
    person.window.resize(*SIZE)


def recovered(person: Person) -> None:
    """The fragile demo model, in FP16: recovered, then checked."""
    controller = person.controller
    controller.session.fragile.make()
    person.wait(lambda: controller.model is not None and "ragile" in controller.model.name)
    controller.update_numerics(msgspec.structs.replace(controller.numerics, precision="float16"))
    person.idle()
    person.window.resize(1440, 880)
    person.picture()
    while (shown := person.workspace.toasts.shown) is not None:  # one of them stays until it is closed
        shown.closed.emit()
    person.shoot("recovered")
    assert controller.model is not None
    controller.session.checks.check(controller.model)
    person.idle()
    person.window.resize(SIZE[0] + 80, 800)
    controller.go("health")
    person.shoot("health")
    person.window.resize(*SIZE)
    controller.session.models.select("pocket")
    controller.update_numerics(msgspec.structs.replace(controller.numerics, precision="auto"))
    person.idle()


def train(person: Person) -> None:
    """A short training, and its LoRA in the form."""
    person.controller.go("train")
    page = cast("TrainPage", person.workspace.page("train"))
    pictures = person.work / "pictures"
    pictures.mkdir()
    for number in range(12):
        landscape(128, 128, number).save(str(pictures / f"hills-{number:02}.png"))
        (pictures / f"hills-{number:02}.txt").write_text("green hills, yellow sun", encoding="utf-8")
    page.form.choose_pictures(str(pictures))
    changes = {"steps": 80, "batch": 1, "rank": 8, "size": 64, "save_every": 40, "test_every": 30, "name": "ink"}
    config = msgspec.structs.replace(page.form.config(), output=str(person.work / "loras"), test_prompt=PROMPT, **changes)
    page.form.take(config)
    page.refresh()
    person.wait(page.setup.start_button.isEnabled)
    page.setup.start_button.click()
    person.wait(lambda: (record := person.controller.session.training.run.record) is not None and record.step >= 60)
    person.shoot("train")
    person.idle()
    end = person.controller.session.training.run.end
    assert end is not None
    person.controller.go("create")
    rows(person, str(getattr(end.report, "path", "")))


PARTS: Final = {"device": device, "create": create, "train": train, "recovered": recovered}


def main(folder: Path, language: Literal["en", "zh_CN"], part: str) -> None:
    app = make_app(sys.argv[:1])
    place = folder / language / "pictures"
    place.mkdir(parents=True, exist_ok=True)
    person = Person(language, place)
    if part not in ("", "device"):  # Auto goes by what was measured
        person.controller.session.devices.measure()
        person.idle()
    for name, act in PARTS.items():
        if part in ("", name):
            act(person)
    person.leave()
    app.quit()


if __name__ == "__main__":
    asked = ArgumentParser(description=__doc__)
    asked.add_argument("folder", type=Path)
    asked.add_argument("language", choices=("en", "zh_CN"))
    asked.add_argument("part", nargs="?", default="", choices=("", *PARTS))
    said = asked.parse_args()
    main(said.folder, said.language, said.part)
