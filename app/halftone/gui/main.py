"""Opens the window. Its first paint comes before anything heavy is imported; the worker starts while the rest is built."""

import importlib
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING

from PySide6.QtCore import QCoreApplication, QObject, QTimer, QtMsgType, Signal, qInstallMessageHandler
from PySide6.QtWidgets import QApplication

from halftone import __version__
from halftone.gui import icons, theme
from halftone.gui.garbage import Collector, keep
from halftone.gui.shell.window import MainWindow
from halftone.settings.glance import glance

if TYPE_CHECKING:
    from halftone.gui.first_window import FirstWindow

_log = logging.getLogger("halftone.gui")
_SIGNALS_MS = 400
_END_SECONDS = 5.0
"""How long the end waits for what is read or written in the background."""
_SWITCH_SECONDS = 0.0002
"""How long work in the background keeps the interpreter from the window; Python's own 5 ms add up over the parts of one paint."""
_QT_LEVELS = {
    QtMsgType.QtDebugMsg: logging.DEBUG,
    QtMsgType.QtInfoMsg: logging.INFO,
    QtMsgType.QtWarningMsg: logging.WARNING,
    QtMsgType.QtCriticalMsg: logging.ERROR,
    QtMsgType.QtFatalMsg: logging.CRITICAL,
}


_BEFORE_WORKER = ("msgspec", "halftone.settings.store", "halftone.gui.process", "halftone.gui.controller")
_AFTERWARDS = (
    "PySide6.QtSvg",
    "halftone.gui.shell.topbar",
    "halftone.gui.create.picture.picture_text",
    "halftone.gui.create.form.model_part",
    "halftone.gui.create.form.request_form",
    "halftone.gui.create.history_panel",
    "halftone.gui.create.picture.picture_centre",
    "halftone.gui.create.create_page",
    "halftone.gui.shell.workspace",
)
"""Modules in the order of need, each small enough for one turn of the event loop."""


_BROKEN = (
    "Halftone could not open its window because a part of the program is missing or damaged. Your pictures and settings are "
    "untouched. Close this, start the launcher with the word setup to repair the program, and see {0} for what was wrong."
)
"""English only: the translations may be what is missing."""


def main(argv: list[str] | None = None, files: tuple[str, ...] = (), *, new_window: bool = False) -> int:
    """Run the window until it is closed; returns the exit code. Where another one is open already, that comes to the front and
    gets the files. new_window: open another one all the same.
    """
    app = make_app([sys.argv[0], *(sys.argv[1:] if argv is None else argv)])
    if not new_window and _others_took(files):
        return 0
    Collector(app)
    first = glance()
    theme.watcher().choose(first.theme)
    window = MainWindow(first)
    window.keep_on_screen()
    window.painted.connect(window.keep_on_screen)
    opening = Opening(window, files, first=not new_window)
    window.show()
    waker = _listen_to_signals(app, window, opening)
    code = app.exec()
    waker.stop()
    opening.close()
    _end_background_work(code)
    return code


def _end_background_work(code: int) -> None:
    """Wait for work in the background. Where it hangs, as on a network drive that does not answer, end without it: the end of the
    interpreter would wait for ever.
    """
    from halftone.gui.background import end

    if not end(_END_SECONDS):
        _log.warning("work in the background did not end in time")
        logging.shutdown()
        os._exit(code)


def _others_took(files: tuple[str, ...]) -> bool:
    """Whether a first window took the files. One that was killed left its mark, and does not answer."""
    from halftone.settings.places import window_mark

    try:
        if not window_mark().exists():
            return False  # the first paint comes sooner without asking over the network
        from halftone.gui.first_window import call_first

        return call_first(files)
    except OSError:
        return False


def make_app(argv: list[str]) -> QApplication:
    """The application object, not dressed yet and without a window."""
    sys.setswitchinterval(_SWITCH_SECONDS)
    QCoreApplication.setApplicationName("Halftone")
    QCoreApplication.setApplicationVersion(__version__)
    app = QApplication(argv)
    app.setStyle("Fusion")
    return app


class Opening(QObject):
    """Builds what is in the window after its first paint, a piece at each turn of the event loop."""

    ready = Signal()

    def __init__(self, window: MainWindow, files: tuple[str, ...] = (), *, first: bool = False) -> None:
        """files: to be opened in it; first: later starts call this window."""
        super().__init__(window)
        self._window = window
        self._files = files
        self._take: Callable[[tuple[str, ...]], object] = self._files_wait
        self._wants_first = first
        self._first: FirstWindow | None = None
        self._ends: list[Callable[[], object]] = []
        self._leave: Callable[[Callable[[], object]], object] = lambda then: then()
        self._steps = self._open()
        self._timer = QTimer(self)
        self._timer.setInterval(0)
        self._timer.timeout.connect(self._step)
        window.painted.connect(self._timer.start)

    def _listen(self) -> "FirstWindow | None":
        from halftone.gui.first_window import FirstWindow

        found = FirstWindow(self._window)
        found.called.connect(self._called)
        try:
            if found.listen():
                return found
        except OSError as error:
            _log.warning("later starts cannot be heard: %s", error)
        return None

    def _called(self, files: tuple[str, ...]) -> None:
        self._take(files)

    def _files_wait(self, files: tuple[str, ...]) -> None:
        """Until the window is built."""
        self._files = (*self._files, *files)

    def _step(self) -> None:
        try:
            done = next(self._steps, self) is self
        except Exception:  # noqa: BLE001 - whatever it was, an empty window must not stay
            self._timer.stop()
            _log.exception("the window could not be built")
            self._give_up()
            return
        if done:
            self._timer.stop()
            keep()
            self.ready.emit()

    def _give_up(self) -> None:
        """A window that stays empty helps nobody: say what to do, and end."""
        from PySide6.QtWidgets import QMessageBox

        box = QMessageBox(QMessageBox.Icon.Critical, "Halftone", _BROKEN.format(_log_name()), parent=self._window)
        box.finished.connect(lambda: QCoreApplication.exit(1))
        box.open()

    def _open(self) -> Iterator[None]:
        start_log()
        yield
        self._first = self._listen() if self._wants_first else None
        yield
        yield from _imported(_BEFORE_WORKER)
        from halftone.gui.controller import Controller
        from halftone.gui.i18n import set_language
        from halftone.gui.process import WorkerLink
        from halftone.settings import store
        from halftone.settings.slots import take_slot
        from halftone.settings.tidying import tidy_places

        settings, slot, options = store.load(), take_slot(), list[str]()
        if slot is not None:
            options = ["--alive", str(slot.worker_lock)]
        make = partial(WorkerLink, *options)
        controller = Controller(make(), settings, early=True, slot=slot, more=make)
        self._ends.append(controller.session.stop)
        self._leave = partial(controller.session.leave, keep_queue=True)
        controller.background.run(lambda: tidy_places(settings.pictures_folder), lambda _done: None)
        controller.session.start()
        yield
        yield from _imported(_AFTERWARDS)
        from halftone.gui.shell.workspace import Workspace

        set_language(settings.language)
        theme.begin(settings.theme)
        self._window.setWindowIcon(icons.app_icon())
        yield
        workspace = Workspace(self._window, controller)
        yield from workspace.move_in()
        self._take = workspace.open_files
        workspace.open_files(self._files)
        _log.info("window open, version %s", __version__)

    def leave(self, then: Callable[[], object]) -> None:
        """Ask the worker, if there is one, to leave, with a little time for it; `then` is called in any case."""
        self._leave(then)

    def close(self) -> None:
        """Stop building, and end the worker if it runs."""
        self._timer.stop()
        if self._first is not None:
            self._first.close()
        while self._ends:
            self._ends.pop()()


def _log_name() -> str:
    """The window's log, as a message names it."""
    from halftone.settings import places

    try:
        return str(places.log_dir() / "window.log")
    except OSError:
        return "the log"


def _imported(names: tuple[str, ...]) -> Iterator[None]:
    for name in names:
        importlib.import_module(name)
        yield


def _listen_to_signals(app: QApplication, window: MainWindow, opening: Opening) -> QTimer:
    """Ctrl+C in the terminal, a polite kill, or the end of that terminal ends the program in order, without a question: there may
    be nobody to answer. Jobs stop after their step, and a training saves what it has learnt; the second signal does not wait.

    The timer lets Python look at signals while Qt waits.
    """
    asked: list[int] = []

    def end(number: int, _frame: object) -> None:
        asked.append(number)
        window.leaving()
        if len(asked) > 1:
            app.exit(0)
        else:
            opening.leave(lambda: app.exit(0))

    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:  # nohup ignores one
            signal.signal(number, end)
    timer = QTimer(app)
    timer.setInterval(_SIGNALS_MS)
    timer.timeout.connect(lambda: None)
    timer.start()
    return timer


def start_log() -> None:
    """Everything that is logged, unexpected errors and Qt's own messages too, goes to a rotating file."""
    from halftone.settings import places
    from halftone.settings.streams import LogFile

    root = logging.getLogger()
    try:
        root.addHandler(LogFile(places.log_dir() / "window.log", most=2 * 2**20, backups=3))
    except OSError:
        root.addHandler(logging.NullHandler())  # a disk that takes no log is no reason to stay closed
    root.setLevel(logging.INFO)
    sys.excepthook = _log_exception
    qInstallMessageHandler(_log_qt)


def _log_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Log an exception in a slot; the window continues."""
    if issubclass(kind, KeyboardInterrupt):
        QCoreApplication.quit()
        return
    _log.error("Unexpected error in the window", exc_info=(kind, error, trace))


def _log_qt(level: QtMsgType, context: object, message: str) -> None:
    del context
    logging.getLogger("halftone.qt").log(_QT_LEVELS.get(level, logging.INFO), "%s", message)
