"""Random actions in the whole window: whether any raises, makes the window wait, or leaves two truths on the screen.

    QT_QPA_PLATFORM=offscreen PYTHONPATH=app:. python tests/bench/bench_actions.py [--actions 4000] [--seed 1]

A person who clicks, types, drags, scrolls and presses keys anywhere, on every page, while a scripted worker makes pictures; who
queues, paints, sorts models and pictures, changes the language, the theme and the text size, and whose worker is killed and whose
model folder vanishes. Dialogs and menus are used as they open, or closed. Counted are exceptions and warnings of Qt, the longest
processor time that one turn of the event loop took, and differences between what parts of the window say of the same thing once
they had time to settle.
"""

# ruff: noqa: E402 - the places must be set before Qt and Halftone are imported

import argparse
import logging
import os
import random
import sys
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Final

_HOME = tempfile.mkdtemp()
os.environ |= {"HALFTONE_DATA": f"{_HOME}/halftone", "HOME": _HOME, "XDG_DATA_HOME": f"{_HOME}/share"}
os.environ["QT_QPA_PLATFORM"] = "offscreen"
sys.path[:0] = [str(Path(__file__).resolve().parents[2]), str(Path(__file__).resolve().parents[2] / "app")]

from PySide6.QtCore import QMimeData, QObject, QPoint, QPointF, Qt, QTimer, QtMsgType, QUrl, Slot, qInstallMessageHandler
from PySide6.QtGui import QDesktopServices, QDropEvent, QKeySequence, QWheelEvent
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QApplication,
    QComboBox,
    QDialog,
    QLineEdit,
    QMenu,
    QPlainTextEdit,
    QSlider,
    QWidget,
)
from tests.bench.deeds import Deeds, write_pictures
from tests.bench.truths import truths
from tests.gui.stage import link
from tests.helpers import model_files

from halftone.gui import main, theme
from halftone.gui.controller import Controller
from halftone.gui.i18n import set_language
from halftone.gui.shell.pages import PAGES
from halftone.gui.shell.window import MainWindow
from halftone.gui.shell.workspace import Workspace
from halftone.settings import store

STALL: Final = 1.0
"""Seconds of processor time."""
_BEAT_MS: Final = 5
_SETTLE_MS: Final = 600
"""Longer than the pause before the window is built anew in another text size."""
_FRAMES: Final = 12
"""Of a traceback that are shown."""
_TURNS: Final = 5
"""Of the event loop that are shown."""
_WORDS: Final = (
    "a red sun",
    "(hills:1.2)",
    "<lora:x:1>",
    "__colour__",
    "{a|b}",
    "-1",
    "999999999999",
    "ü 太阳",
    "",
    "BREAK",
    "0",
)
_KEYS: Final = (
    *("Return", "Escape", "Tab", "Backtab", "Delete", "Space", "Up", "Down", "Left", "Right", "Home", "End", "PgUp", "PgDown"),
    *("Ctrl+Return", "Ctrl+Z", "Ctrl+A", "Ctrl+V", "Ctrl+C", "Ctrl+F", "Ctrl+Up", "Ctrl+Down", "Alt+Up", "Alt+Down", "F1", "F6"),
    *("F7", "F8", "F11", "Ctrl+1", "Ctrl+2", "Ctrl+3", "Ctrl+4", "Ctrl+5", "Ctrl+,", "Ctrl+L", "Ctrl+D", "Ctrl+R", "Ctrl+H"),
    *("B", "0", "1", "Menu", "Shift+F10", "Ctrl+S"),
)  # fmt: skip
_NEVER: Final = ("Quit", "Close")


class Loop:
    """Beats on the event loop and keeps the most processor time between two beats, for each thing that was done."""

    def __init__(self) -> None:
        self.doing = ""
        self.most: dict[str, float] = {}
        self._last = time.thread_time()
        self._timer = QTimer()
        self._timer.setInterval(_BEAT_MS)
        self._timer.timeout.connect(self._beat)
        self._timer.start()

    def _beat(self) -> None:
        now = time.thread_time()
        self.most[self.doing] = max(now - self._last, self.most.get(self.doing, 0.0))
        self._last = now

    @property
    def longest(self) -> list[tuple[float, str]]:
        """The longest turns in seconds, each with what was done before it."""
        return sorted(((seconds, doing) for doing, seconds in self.most.items()), reverse=True)[:_TURNS]


class Desktop(QObject):
    """Takes what the window wants other programs to open."""

    @Slot(QUrl)
    def open(self, url: QUrl) -> None:
        del url


class Person:
    """Does something at random. `counts`: how often each kind of thing was done."""

    def __init__(self, window: MainWindow, pictures: Path, dice: random.Random, deeds: Deeds) -> None:
        self._window, self._pictures, self._dice, self._deeds = window, pictures, dice, deeds
        self.counts: Counter[str] = Counter()
        self._kinds: dict[str, tuple[int, Callable[[QWidget], bool]]] = {
            "click": (10, self._click),
            "list": (4, self._list),
            "type": (4, self._type),
            "key": (5, self._key),
            "wheel": (3, self._wheel),
            "drag": (2, self._drag),
            "choose": (2, self._choose),
            "resize": (1, self._resize),
            "drop": (1, self._drop),
            "page": (2, self._page),
            "deed": (8, self._deed),
        }

    def act(self) -> str:
        """One action, in the topmost menu or dialog if there is one. Returns what it was."""
        popup = QApplication.activePopupWidget()
        if popup is not None:
            return self._use_popup(popup)
        dialogs = [one for one in QApplication.topLevelWidgets() if isinstance(one, QDialog) and one.isVisible()]
        place = dialogs[-1] if dialogs else self._dice.choice(self._windows())
        if dialogs and self._dice.random() < 0.4:
            dialogs[-1].reject()
            return "close dialog"
        for _ in range(5):
            weights = [weight for weight, _act in self._kinds.values()]
            kind = self._dice.choices(list(self._kinds), weights)[0]
            if self._kinds[kind][1](place):
                self.counts[kind] += 1
                return f"{kind} in {type(place).__name__}: {self._seen}"
        return "nothing"

    def _windows(self) -> list[QWidget]:
        others = [one for one in QApplication.topLevelWidgets() if one.isVisible() and one.isWindow() and one is not self._window]
        for one in others:
            if self._dice.random() < 0.1:
                one.close()
        return [self._window, self._window, *(one for one in others if one.isVisible() and type(one).__name__ != "QTipLabel")]

    def _use_popup(self, popup: QWidget) -> str:
        self.counts["menu"] += 1
        if isinstance(popup, QMenu) and self._dice.random() < 0.7:
            actions = [one for one in popup.actions() if one.isEnabled() and not one.isSeparator() and one.text() not in _NEVER]
            if actions:
                chosen = self._dice.choice(actions)
                text = chosen.text()
                popup.close()
                chosen.trigger()
                return f"menu: {text}"
        QTest.keyClick(popup, Qt.Key.Key_Escape)
        if popup.isVisible():
            popup.close()
        return "close menu"

    def _of(self, place: QWidget, kind: type) -> QWidget | None:
        found = [
            one for one in place.findChildren(kind) if one.isVisible() and one.isEnabled() and one.window() is place.window()
        ]
        chosen = self._dice.choice(found) if found else None
        self._seen = "" if chosen is None else f"{type(chosen).__name__} {chosen.accessibleName() or chosen.objectName()}"
        return chosen

    def _click(self, place: QWidget) -> bool:
        found = self._of(place, QAbstractButton)
        if found is None:
            return False
        QTest.mouseClick(found, Qt.MouseButton.LeftButton)
        return True

    def _list(self, place: QWidget) -> bool:
        found = self._of(place, QAbstractItemView)
        if not isinstance(found, QAbstractItemView):
            return False
        size = found.viewport().rect()
        at = QPoint(self._dice.randrange(max(1, size.width())), self._dice.randrange(max(1, size.height())))
        buttons = (Qt.MouseButton.LeftButton, Qt.MouseButton.LeftButton, Qt.MouseButton.RightButton)
        modifiers = (Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ControlModifier, Qt.KeyboardModifier.ShiftModifier)
        QTest.mouseClick(found.viewport(), self._dice.choice(buttons), self._dice.choice(modifiers), at)
        return True

    def _type(self, place: QWidget) -> bool:
        found = self._of(place, self._dice.choice((QLineEdit, QPlainTextEdit)))
        if found is None:
            return False
        found.setFocus()
        words = self._dice.choice(_WORDS)
        if words.isascii():
            QTest.keyClicks(found, words)
        elif isinstance(found, QLineEdit):
            found.insert(words)
        elif isinstance(found, QPlainTextEdit):
            found.insertPlainText(words)
        return True

    def _key(self, place: QWidget) -> bool:
        target = QApplication.focusWidget() or place
        self._seen = self._dice.choice(_KEYS)
        QTest.keySequence(target, QKeySequence(self._seen))
        return True

    def _wheel(self, place: QWidget) -> bool:
        at = QPoint(self._dice.randrange(place.width()), self._dice.randrange(place.height()))
        target = place.childAt(at) or place
        self._seen = type(target).__name__
        local, by = QPointF(target.mapFrom(place, at)), QPoint(0, self._dice.choice((-120, 120, 480)))
        keys = self._dice.choice((Qt.KeyboardModifier.NoModifier, Qt.KeyboardModifier.ControlModifier))
        event = QWheelEvent(
            local, QPointF(place.mapToGlobal(at)), by, by, Qt.MouseButton.NoButton, keys, Qt.ScrollPhase.NoScrollPhase, False
        )
        QApplication.sendEvent(target, event)
        return True

    def _drag(self, place: QWidget) -> bool:
        found = self._of(place, self._dice.choice((QWidget, QSlider)))
        if found is None or found.width() < 4 or found.height() < 4:
            return False
        ends = [QPoint(self._dice.randrange(found.width()), self._dice.randrange(found.height())) for _ in range(2)]
        QTest.mousePress(found, Qt.MouseButton.LeftButton, pos=ends[0])
        QTest.mouseMove(found, ends[1])
        QTest.mouseRelease(found, Qt.MouseButton.LeftButton, pos=ends[1])
        return True

    def _choose(self, place: QWidget) -> bool:
        found = self._of(place, QComboBox)
        if not isinstance(found, QComboBox) or not found.count():
            return False
        index = self._dice.randrange(found.count())
        found.setCurrentIndex(index)
        found.activated.emit(index)
        return True

    def _resize(self, place: QWidget) -> bool:
        del place
        self._seen = ""
        self._window.resize(self._dice.choice((1024, 1180, 1440)), self._dice.choice((640, 720, 900)))
        return True

    def _drop(self, place: QWidget) -> bool:
        files = sorted(self._pictures.rglob("*.*"))
        if not files or place is not self._window:
            return False
        chosen = self._dice.choice(files)
        self._seen = chosen.name
        data = QMimeData()
        data.setUrls([QUrl.fromLocalFile(str(chosen))])
        at = QPoint(self._dice.randrange(place.width()), self._dice.randrange(place.height()))
        target = place.childAt(at)
        while target is not None and not target.acceptDrops():
            target = target.parentWidget()
        if target is None:
            return False
        event = QDropEvent(
            QPointF(target.mapFrom(place, at)),
            Qt.DropAction.CopyAction,
            data,
            Qt.MouseButton.LeftButton,
            Qt.KeyboardModifier.NoModifier,
        )
        QApplication.sendEvent(target, event)
        return True

    def _deed(self, place: QWidget) -> bool:
        """Nobody reaches the window behind a dialog."""
        if isinstance(place, QDialog):
            return False
        self._seen = self._deeds.do()
        return True

    def _page(self, place: QWidget) -> bool:
        del place
        self._seen = self._dice.choice([page.key for page in PAGES.values() if page.key])
        QTest.keySequence(self._window, QKeySequence(self._seen))
        return True


def run(actions: int, seed: int) -> bool:
    errors: list[str] = []
    app = main.make_app(sys.argv[:1])
    sys.excepthook = lambda _kind, error, trace: errors.append(_traced(error, trace))
    qInstallMessageHandler(lambda level, _where, text: _note_qt(level, text, errors))
    logging.getLogger().addHandler(_Errors(errors))
    desktop = Desktop()
    for scheme in ("file", "http", "https"):
        QDesktopServices.setUrlHandler(scheme, desktop, "open")  # pyright: ignore[reportArgumentType] - the stub wants bytes, PySide6 a str
    models, pictures = Path(_HOME, "files"), Path(_HOME, "pictures")
    write_pictures(pictures)
    for name in ("model", "vanishing"):
        model_files.write_folder(models / name)
    store.save(store.Settings(first_run_done=True, library_asked=True, model_folders=(str(models),)))
    theme.set_theme("dark")
    set_language("en")
    worker, dice = link(), random.Random(seed)
    controller = Controller(worker, store.load(), early=True)
    window = MainWindow()
    workspace = Workspace(window, controller)
    for _ in workspace.move_in():
        pass
    window.resize(1440, 900)
    window.show()
    controller.session.start()
    deeds = Deeds(workspace, controller, worker, models / "vanishing", dice)
    loop, person = Loop(), Person(window, pictures, dice, deeds)
    left, lies = actions, Counter[str]()

    def step() -> None:
        nonlocal left
        if left <= 0:
            app.exit(0)
            return
        left -= 1
        wait, found = 0, list[str]()
        try:
            loop.doing = person.act()
            found = truths(workspace, controller) if left % 10 == 0 else []
            wait = _SETTLE_MS if found else 0
        finally:
            QTimer.singleShot(wait, lambda: settled(found))

    def settled(before: list[str]) -> None:
        """Count what still disagrees after a while without an action."""
        try:
            still = truths(workspace, controller) if before else []
            lies.update(f"{words} (after {loop.doing})" for words in still if words in before)
        finally:
            QTimer.singleShot(0, step)

    started = time.monotonic()
    QTimer.singleShot(500, step)
    app.exec()
    controller.session.stop()
    seconds = time.monotonic() - started
    done = ", ".join(f"{kind} {count}" for kind, count in person.counts.most_common())
    print(f"{actions - left} actions in {seconds:.0f} s, seed {seed}: {done}")
    print(f"exceptions and warnings: {len(errors)}; two truths: {sum(lies.values())}")
    for taken, doing in loop.longest:
        print(f"processor time in one turn: {taken * 1000:.0f} ms ({doing})")
    for text, count in (*Counter(errors).most_common(12), *lies.most_common(12)):
        print(f"--- {count} ×\n{text}")
    return not errors and not lies and all(taken <= STALL for taken, _doing in loop.longest)


class _Errors(logging.Handler):
    def __init__(self, errors: list[str]) -> None:
        super().__init__(logging.ERROR)
        self._errors = errors

    def emit(self, record: logging.LogRecord) -> None:
        self._errors.append(logging.Formatter("%(name)s: %(message)s").format(record))


def _traced(error: BaseException, trace: TracebackType | None) -> str:
    if isinstance(error, RecursionError):
        sys.setrecursionlimit(sys.getrecursionlimit() + 200)  # this function needs frames, too
    return "".join([*traceback.format_tb(trace, limit=-_FRAMES), repr(error)])


_KNOWN: Final = ("This plugin does not support",)
"""Warnings of the offscreen platform itself."""


def _note_qt(level: QtMsgType, text: str, errors: list[str]) -> None:
    if level != QtMsgType.QtDebugMsg and level != QtMsgType.QtInfoMsg and not any(known in text for known in _KNOWN):
        errors.append(f"Qt: {text}")


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--actions", type=int, default=4000, help="how many (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="of the dice, so that a run can be repeated (default: %(default)s)")
    return parser.parse_args()


if __name__ == "__main__":
    chosen = options()
    good = run(chosen.actions, chosen.seed)
    sys.stdout.flush()
    os._exit(0 if good else 1)
