"""The opening of the real program, each time in a process of its own."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from PySide6.QtCore import QMargins, QRect, QSize
from PySide6.QtWidgets import QStyle
from pytestqt.qtbot import QtBot

from halftone.client.command import worker_environment
from halftone.gui import theme
from halftone.gui.shell.skeleton import Skeleton
from halftone.gui.shell.window import MainWindow, fitted
from halftone.settings import store
from halftone.settings.glance import Glance, widths

OPEN = """
import signal, sys
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background job ignores it, and so does what it starts
for name in {{"SIGTERM", "SIGHUP"}} & set(dir(signal)):
    signal.signal(getattr(signal, name), signal.SIG_DFL)
from PySide6.QtCore import QTimer
from PySide6.QtWidgets import QApplication
from halftone.gui import main
from halftone.gui.shell.skeleton import Skeleton

{before}
def opened(window):
    return not isinstance(window.centralWidget(), Skeleton)

class Seen(main.Opening):
    def __init__(self, window, files=(), *, first=False):
        super().__init__(window, files, first=first)
        {hook}

main.Opening = Seen
{start}
print("end", code)
"""
"""The real `main`; `hook` says what happens meanwhile."""


def run(hook: str, tmp_path: Path, *, before: str = "", start: str = "code = main.main([])") -> subprocess.CompletedProcess[str]:
    environment = worker_environment() | {"HALFTONE_DATA": str(tmp_path), "QT_QPA_PLATFORM": "offscreen"}
    code = OPEN.format(hook=hook, before=before, start=start)
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False, timeout=120)


def test_the_workspace_moves_in_after_the_first_paint(tmp_path: Path) -> None:
    hook = (
        'window.painted.connect(lambda: print("painted", "halftone.gui.shell.workspace" in sys.modules)); '
        'self.ready.connect(lambda: (print("ready", opened(window), "QPushButton" in window.styleSheet()), '
        "QTimer.singleShot(50, QApplication.instance().exit)))"
    )
    done = run(hook, tmp_path)
    assert done.stdout.splitlines() == ["painted False", "ready True True", "end 0"], done.stderr
    assert "window open" in (tmp_path / "logs" / "window.log").read_text()


def test_closing_before_the_workspace_is_there_ends_the_program(tmp_path: Path) -> None:
    done = run("window.painted.connect(lambda: QTimer.singleShot(0, window.close))", tmp_path)
    assert done.stdout.splitlines() == ["end 0"], done.stderr


@pytest.mark.skipif(os.name == "nt", reason="Windows has no such signal to send")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGINT", "SIGHUP"])
def test_a_polite_kill_ends_the_program_without_a_question_and_keeps_its_place(tmp_path: Path, name: str) -> None:
    hook = f"self.ready.connect(lambda: __import__('os').kill(__import__('os').getpid(), {int(signal.Signals[name])}))"
    done = run(hook, tmp_path)
    assert done.stdout.splitlines() == ["end 0"], done.stderr
    kept = store.load(tmp_path / "settings.toml")
    assert set(kept.geometry) == {"main"}
    assert widths(kept.splitters["create"])


AT_WORK = """
import time, threading
from PySide6.QtCore import QObject
from halftone.gui.background import Background

def work(seconds):
    begun.set()
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.001)
    print("worked", flush=True)

begun = threading.Event()
def begin(window, seconds):
    owner = Background(window)
    for _ in range(3):
        owner.run(lambda: work(seconds), lambda _done: None)
    begun.wait()
    window.close()
"""


def test_the_end_waits_for_work_in_the_background(tmp_path: Path) -> None:
    hook = "window.painted.connect(lambda: QTimer.singleShot(0, lambda: begin(window, 0.5)))"
    done = run(hook, tmp_path, before=AT_WORK)
    assert (done.stdout.splitlines(), done.stderr, done.returncode) == (["worked"] * 3 + ["end 0"], "", 0)


def test_work_that_hangs_does_not_hold_up_the_end(tmp_path: Path) -> None:
    hook = "window.painted.connect(lambda: QTimer.singleShot(0, lambda: begin(window, 100)))"
    done = run(hook, tmp_path, before=AT_WORK + "main._END_SECONDS = 0.3")
    assert (done.stdout, done.stderr, done.returncode) == ("", "", 0)


def test_a_damaged_program_says_so_and_ends(tmp_path: Path) -> None:
    hook = (
        "sys.modules['halftone.gui.shell.workspace'] = None; self.looker = QTimer(self); "
        "self.looker.timeout.connect(lambda: look(window)); self.looker.start(20)"
    )
    look = (
        "from PySide6.QtWidgets import QMessageBox\n"
        "def look(window):\n"
        "    box = window.findChild(QMessageBox)\n"
        "    if box is not None and box.isVisible():\n"
        "        print('setup' in box.text(), 'window.log' in box.text())\n"
        "        box.close()\n"
    )
    done = run(hook, tmp_path, before=look)
    assert done.stdout.splitlines() == ["True True", "end 1"], done.stderr
    assert "could not be built" in (tmp_path / "logs" / "window.log").read_text()


def test_the_command_gui_opens_without_the_command_lines_libraries(tmp_path: Path) -> None:
    hook = "window.painted.connect(lambda: (print('typer' in sys.modules), QApplication.instance().exit()))"
    done = run(hook, tmp_path, start="from halftone.cli import main as command; code = command(['gui'])")
    assert done.stdout.splitlines() == ["False", "end 0"], done.stderr


def test_nothing_heavy_is_imported_for_the_first_paint() -> None:
    heavy = ("msgspec", "logging.handlers", "PySide6.QtSvg", "halftone.contract", "halftone.gui.controller")
    code = f"import sys, halftone.gui.main; print([name for name in {heavy!r} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=worker_environment(), check=True)
    assert done.stdout.strip() == "[]"


@pytest.mark.parametrize("name", ["dark", "light"])
def test_the_skeleton_has_the_surfaces_of_create(qtbot: QtBot, name: theme.ThemeName) -> None:
    assert seen(qtbot, Glance(theme=name, columns=(300, 900, 240), first_run=False), name, (292, 308, 1192, 1208)) == [
        "surface",
        "canvas",
        "canvas",
        "surface",
    ]


@pytest.mark.parametrize("name", ["dark", "light"])
def test_the_skeleton_of_a_first_run_has_the_cards_of_the_device_page(qtbot: QtBot, name: theme.ThemeName) -> None:
    glance = Glance(theme=name, first_run=True)
    assert seen(qtbot, glance, name, (8, 100, 398, 500), y=300) == ["surface", "surface-raised", "surface", "surface-raised"]


def seen(qtbot: QtBot, glance: Glance, name: theme.ThemeName, xs: tuple[int, ...], y: int = 750) -> list[str]:
    """The surfaces that a window of 1440 x 900 shows at these places, before anything is built."""
    theme.set_theme(name)
    window = MainWindow(glance)
    qtbot.addWidget(window)
    window.resize(1440, 900)
    window.show()
    assert isinstance(window.centralWidget(), Skeleton)
    image = window.grab().toImage()
    colours = theme.current()
    names = {colours.color(token).name(): token for token in ("surface", "canvas", "surface-raised")}
    return [names.get(image.pixelColor(x, y).name(), "other") for x in xs]


@pytest.mark.parametrize(
    ("wanted", "available", "place"),
    [
        ((0, 0, 1440, 900), (0, 0, 1440, 900), (2, 30, 1436, 868)),
        ((200, 100, 1440, 900), (0, 0, 1920, 1080), (200, 100, 1440, 900)),
        ((900, 400, 1200, 700), (0, 24, 1920, 1056), (718, 378, 1200, 700)),
        ((-300, -50, 1200, 700), (0, 0, 1920, 1080), (2, 30, 1200, 700)),
        ((0, 0, 1440, 900), (0, 0, 800, 600), (2, 30, 1024, 640)),
    ],
)
def test_the_window_lies_on_the_screen_with_its_frame(
    wanted: tuple[int, ...], available: tuple[int, ...], place: tuple[int, ...]
) -> None:
    frame, least = QMargins(2, 30, 2, 2), QSize(1024, 640)
    assert fitted(QRect(*wanted), frame, QRect(*available), least) == QRect(*place)


def test_a_window_beside_the_screen_is_moved_onto_it(qtbot: QtBot) -> None:
    window = MainWindow()
    qtbot.addWidget(window)
    window.setGeometry(-500, -300, 1024, 640)
    window.keep_on_screen()
    screen = window.screen().availableGeometry()
    assert window.geometry().topLeft().x() == screen.left()
    assert window.geometry().top() >= screen.top()
    assert window.size() == QSize(1024, 640)


def test_a_window_larger_than_the_screen_is_made_smaller(qtbot: QtBot) -> None:
    window = MainWindow()
    qtbot.addWidget(window)
    screen = window.screen().availableGeometry()
    window.setGeometry(screen.left(), screen.top(), screen.width() + 400, screen.height() + 400)
    window.keep_on_screen()
    assert window.height() == max(640, screen.height() - window.style().pixelMetric(QStyle.PixelMetric.PM_TitleBarHeight))
