"""Opens the window. The worker is started only after the first paint, so that the window is there at once."""

import logging
import logging.handlers
import signal
import sys
from types import TracebackType

from PySide6.QtCore import QCoreApplication, QTimer, QtMsgType, qInstallMessageHandler
from PySide6.QtWidgets import QApplication

from halftone import __version__
from halftone.gui import icons, theme
from halftone.gui.controller import Controller
from halftone.gui.garbage import Collector
from halftone.gui.i18n import set_language
from halftone.gui.process import WorkerLink
from halftone.gui.window import MainWindow
from halftone.settings import places, store

_log = logging.getLogger("halftone.gui")
_SIGNALS_MS = 400
_QT_LEVELS = {
    QtMsgType.QtDebugMsg: logging.DEBUG,
    QtMsgType.QtInfoMsg: logging.INFO,
    QtMsgType.QtWarningMsg: logging.WARNING,
    QtMsgType.QtCriticalMsg: logging.ERROR,
    QtMsgType.QtFatalMsg: logging.CRITICAL,
}


def main(argv: list[str] | None = None) -> int:
    """Run the window until it is closed; returns the exit code."""
    _start_log()
    app = make_app([sys.argv[0], *(sys.argv[1:] if argv is None else argv)])
    settings = store.load()
    set_language(settings.language)
    theme.set_theme(settings.theme)
    Collector(app)
    link = WorkerLink()
    controller = Controller(link, settings)
    window = MainWindow(controller)
    window.show()
    QTimer.singleShot(0, controller, controller.start)
    _log.info("window open, version %s", __version__)
    waker = _listen_to_signals(app)
    code = app.exec()
    waker.stop()
    controller.stop()
    return code


def make_app(argv: list[str]) -> QApplication:
    """The application object, dressed but without a window."""
    QCoreApplication.setApplicationName("Halftone")
    QCoreApplication.setApplicationVersion(__version__)
    app = QApplication(argv)
    app.setStyle("Fusion")
    app.setWindowIcon(icons.app_icon())
    return app


def _listen_to_signals(app: QApplication) -> QTimer:
    """Ctrl+C in the terminal, or a polite kill, closes the window. The timer lets Python look at signals while Qt waits."""
    for name in ("SIGINT", "SIGTERM"):
        signal.signal(getattr(signal, name), lambda *_given: app.quit())
    timer = QTimer(app)
    timer.setInterval(_SIGNALS_MS)
    timer.timeout.connect(lambda: None)
    timer.start()
    return timer


def _start_log() -> None:
    handler = logging.handlers.RotatingFileHandler(
        places.log_dir() / "window.log", maxBytes=2 * 2**20, backupCount=3, encoding="utf-8", delay=True
    )
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    root = logging.getLogger()
    root.addHandler(handler)
    root.setLevel(logging.INFO)
    sys.excepthook = _log_exception
    qInstallMessageHandler(_log_qt)


def _log_exception(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """An exception in a slot is logged; the window goes on."""
    if issubclass(kind, KeyboardInterrupt):
        QCoreApplication.quit()
        return
    _log.error("Unexpected error in the window", exc_info=(kind, error, trace))


def _log_qt(level: QtMsgType, context: object, message: str) -> None:
    del context
    logging.getLogger("halftone.qt").log(_QT_LEVELS.get(level, logging.INFO), "%s", message)
