"""A person before the real window with the real worker: types, clicks, waits and leaves."""

import collections
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec
from PySide6.QtCore import QMimeData, QPoint, QPointF, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QMenu, QWidget
from pytestqt.qtbot import QtBot
from tests.helpers import samples

from halftone.contract.messages import PictureReady, StepDone
from halftone.contract.request import Numerics, PictureRequest
from halftone.gui import theme
from halftone.gui.controller import Controller
from halftone.gui.i18n import set_language
from halftone.gui.process import WorkerLink
from halftone.gui.shell.window import MainWindow
from halftone.gui.shell.workspace import Workspace
from halftone.library import records
from halftone.measure.devices import find_device
from halftone.session.pictures.draft import Seed
from halftone.settings.store import Settings

PATIENCE: Final = 240_000
PROMPT: Final = "a red sun over green hills"


class Person:
    """Sits before a real window over a real worker. clicks: how many there were so far, a drag counted as one."""

    def __init__(self, qtbot: QtBot, settings: Settings, *, measured: bool = True, early: bool = False) -> None:
        """measured: the device was tested before; early: the model is loaded ahead and folders are watched, as in the program."""
        set_language("en")
        theme.set_theme("dark")
        if measured:
            report = samples.self_test_report()
            records.save_selftest(msgspec.structs.replace(report, device=find_device("auto")))
        self.qtbot = qtbot
        self.clicks = 0
        self.link = WorkerLink()
        self.controller = Controller(self.link, settings, early=early)
        self.window = MainWindow()
        self.workspace = Workspace(self.window, self.controller)
        collections.deque(self.workspace.move_in(), maxlen=0)
        self.page = self.workspace.create_page
        self.pictures: list[PictureReady] = []
        self.steps: list[StepDone] = []
        self.controller.worker_event.connect(self._seen)
        qtbot.addWidget(self.window, before_close_func=lambda _window: self.leave())
        self.window.show()
        self.controller.session.start()
        self.wait(lambda: self.controller.state.worker == "ready" and self.controller.state.device is not None)
        self.wait(lambda: self.controller.model is not None)

    def _seen(self, event: object, _blob: object) -> None:
        if isinstance(event, PictureReady):
            self.pictures.append(event)
        if isinstance(event, StepDone):
            self.steps.append(event)

    def wait(self, condition: Callable[[], bool]) -> None:
        self.qtbot.waitUntil(condition, timeout=PATIENCE)

    def idle(self) -> None:
        self.wait(lambda: not self.controller.state.jobs and not self.controller.background.busy)

    # --- the mouse --------------------------------------------------------------------------------------------------

    def click(self, target: QWidget, at: QPoint | None = None) -> None:
        """Click on what is there to be clicked: shown, enabled, and with nothing over it."""
        self._at(target, target.rect().center() if at is None else at)
        QTest.mouseClick(target, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, at or target.rect().center())

    def click_entry(self, words: str) -> None:
        """Click on an entry of the open menu."""
        self.wait(lambda: isinstance(QApplication.activePopupWidget(), QMenu))
        menu = QApplication.activePopupWidget()
        assert isinstance(menu, QMenu)
        (entry,) = (one for one in menu.actions() if one.text() == words)
        assert entry.isEnabled()
        self.click(menu, menu.actionGeometry(entry).center())

    def drag(self, target: QWidget, line: tuple[QPoint, ...]) -> None:
        """Press, move along a line and release."""
        self._at(target, line[0])
        left, keys = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier
        QTest.mousePress(target, left, keys, line[0])
        for place in line[1:]:
            QTest.mouseMove(target, place)
        QTest.mouseRelease(target, left, keys, line[-1])

    def _at(self, target: QWidget, place: QPoint) -> None:
        window = target.window()
        reached = window.childAt(target.mapTo(window, place)) or window
        assert target.isVisible()
        assert target.isEnabled()
        assert reached is target or target.isAncestorOf(reached), f"{reached} lies over {target}"
        self.clicks += 1

    def drop(self, path: Path) -> None:
        """Drag a file over Create, on to the target that takes its settings, and let go."""
        data = QMimeData()
        data.setUrls([QUrl.fromLocalFile(str(path))])
        left, keys, copy = Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier, Qt.DropAction.CopyAction
        card = self.page.dropped.targets.cards["settings"]
        QApplication.sendEvent(self.page, QDragEnterEvent(QPoint(5, 5), copy, data, left, keys))
        self.wait(lambda: card.isVisible() and card.words != "Reading…")
        place = card.rect().center()
        self._at(card, place)
        QApplication.sendEvent(self.page, QDragLeaveEvent())
        QApplication.sendEvent(card, QDragEnterEvent(place, copy, data, left, keys))
        QApplication.sendEvent(card, QDropEvent(QPointF(place), copy, data, left, keys))

    # --- work -------------------------------------------------------------------------------------------------------

    def draw_small(self) -> None:
        """What is made from now on takes a fraction of the demo model's time."""
        self.page.form.edit(size=(64, 64), steps=6)

    def generate(self, seed: int) -> None:
        self.page.form.edit(prompt=PROMPT, seed=Seed(seed, locked=True))
        self.page.generate()

    def make(self, prompt: str) -> None:
        """Make a picture, without a click."""
        before = len(self.pictures)
        self.page.form.edit(prompt=prompt)
        self.page.generate()
        self.wait(lambda: len(self.pictures) > before)
        self.idle()

    @property
    def latest(self) -> PictureRequest:
        """What the last picture was made with."""
        latest = self.controller.state.history.latest
        assert latest is not None
        return latest.request

    def shot(self, name: str) -> None:
        self.qtbot.wait(50)
        folder = os.environ.get("HALFTONE_SHOTS")
        if folder:
            Path(folder).mkdir(parents=True, exist_ok=True)
            assert self.window.grab().save(str(Path(folder) / f"{name}.png"))

    def leave(self) -> None:
        self.controller.session.queue.clear_waiting()
        self.controller.session.stop()
        self.qtbot.waitUntil(lambda: not self.controller.background.busy, timeout=PATIENCE)


def settings(**numerics: object) -> Settings:
    return Settings(first_run_done=True, numerics=msgspec.convert(numerics, Numerics))
