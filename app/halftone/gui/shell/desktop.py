"""What the window shows outside itself: a note when a long job ends, and progress on its button in the taskbar.

Both follow the settings. Where the desktop has no such thing, `note_problem` and `taskbar_problem` say why.
"""

import ctypes
import shutil
import sys
import time
from collections.abc import Callable
from functools import cache
from html import escape
from typing import Final

from PySide6.QtCore import QObject, QProcess, QTimer
from PySide6.QtGui import QGuiApplication
from PySide6.QtWidgets import QSystemTrayIcon

from halftone.contract.vocabulary import Outcome
from halftone.contract.wording import Words
from halftone.gui import icons
from halftone.gui.controller import Controller
from halftone.gui.create.job_list import kind_name
from halftone.gui.i18n import tr
from halftone.gui.kit import figures
from halftone.gui.shell.window import MainWindow
from halftone.session.state import Ended
from halftone.settings.store import Settings

_ENTRY: Final = "application://halftone.desktop"
_LAUNCHER: Final = "com.canonical.Unity"
_NOTE_MS: Final = 10_000
_STEPS: Final = 100


def note_due(outcome: Outcome, seconds: float, settings: Settings, *, active: bool) -> bool:
    """Whether the end of a job is worth a note. active: the window is in front, and shows it itself."""
    return settings.notify and not active and outcome != "cancelled" and seconds >= settings.notify_after


def note_problem() -> Words | None:
    """Why no note can be shown here."""
    if QGuiApplication.platformName() == "offscreen":
        return Words("There is no desktop.")
    if _notify_send() or (QSystemTrayIcon.isSystemTrayAvailable() and QSystemTrayIcon.supportsMessages()):
        return None
    return Words("This desktop shows no notifications.")


def taskbar_problem() -> Words | None:
    """Why no progress can be shown in the taskbar here."""
    if QGuiApplication.platformName() == "offscreen":
        return Words("There is no desktop.")
    if sys.platform == "win32":
        return None
    if sys.platform == "darwin":
        return Words("The Dock shows no progress.")
    return None if has_launcher() else Words("This desktop's taskbar shows no progress.")


class Desktop(QObject):
    """Tells the desktop about the jobs of one window."""

    def __init__(self, window: MainWindow, controller: Controller) -> None:
        super().__init__(window)
        self._window = window
        self._controller = controller
        self._tray: QSystemTrayIcon | None = None
        self._shown: int | None = None
        self._show_progress: Callable[[int | None], object] | None = None
        controller.job_ended.connect(self._ended)
        controller.changed.connect(self._progressed)

    def _ended(self, ended: Ended) -> None:
        now = time.monotonic()
        seconds = now - (now if ended.job.started is None else ended.job.started)
        active = self._window.isActiveWindow() and not self._window.isMinimized()
        if note_due(ended.outcome, seconds, self._controller.settings, active=active) and note_problem() is None:
            name, took = kind_name(ended.job), figures.duration(seconds)
            done = ended.outcome == "done"
            self._note(tr("{0}: finished after {1}.", name, took) if done else tr("{0}: failed after {1}.", name, took))

    def _note(self, text: str) -> None:
        if _notify_send():
            QProcess.startDetached("notify-send", ["--app-name=Halftone", "--icon=halftone", "--", "Halftone", escape(text)])
            return
        if self._tray is None:
            self._tray = QSystemTrayIcon(icons.app_icon(), self)
            self._tray.messageClicked.connect(self._raise)
        self._tray.show()  # only a shown icon can show a message
        self._tray.showMessage("Halftone", text, icons.app_icon(), _NOTE_MS)
        QTimer.singleShot(_NOTE_MS, self._tray, self._tray.hide)

    def _raise(self) -> None:
        self._window.showNormal() if self._window.isMinimized() else self._window.show()
        self._window.raise_()
        self._window.activateWindow()

    def _progressed(self) -> None:
        running = next(iter(self._controller.state.begun), None)
        wanted = running is not None and self._controller.settings.taskbar_progress
        share = round((running.fraction or 0) * _STEPS) if running is not None and wanted else None
        if share == self._shown or (self._show_progress is None and taskbar_problem() is not None):
            return
        if self._show_progress is None:
            self._show_progress = _windows_button(int(self._window.winId())) if sys.platform == "win32" else _tell_launcher
        self._shown = share
        self._show_progress(share)


def _notify_send() -> bool:
    """Whether freedesktop's own program for notes is there."""
    return sys.platform not in ("win32", "darwin") and shutil.which("notify-send") is not None


@cache
def has_launcher() -> bool:
    """Whether a dock or a taskbar listens to Unity's protocol, as those of KDE and Ubuntu do. The bus is asked once."""
    try:
        from PySide6.QtDBus import QDBusConnection
    except ImportError:
        return False
    bus = QDBusConnection.sessionBus()
    return bus.isConnected() and _LAUNCHER in bus.interface().registeredServiceNames().value()


def _tell_launcher(share: int | None) -> None:
    """Send Unity's LauncherEntry signal, which names the program by its desktop file."""
    from PySide6.QtDBus import QDBusConnection, QDBusMessage

    message = QDBusMessage.createSignal("/", "com.canonical.Unity.LauncherEntry", "Update")
    message.setArguments([_ENTRY, {"progress": (share or 0) / _STEPS, "progress-visible": share is not None}])
    QDBusConnection.sessionBus().send(message)


def _windows_button(window: int) -> Callable[[int | None], object]:
    """ITaskbarList3 of the shell, by its places in the table of functions: HrInit 3, SetProgressValue 9, SetProgressState 10."""
    if sys.platform != "win32":
        return lambda _share: None
    taskbar = ctypes.c_void_p()
    ole = ctypes.windll.ole32
    ole.CoInitialize(None)
    kind = _guid("56FDF344-FD6D-11D0-958A-006097C9A090")
    interface = _guid("EA1AFB91-9E28-4B86-90E9-5E9F8A5EEFAF")
    if ole.CoCreateInstance(ctypes.byref(kind), None, 1, ctypes.byref(interface), ctypes.byref(taskbar)) < 0:
        return lambda _share: None
    table = ctypes.cast(taskbar, ctypes.POINTER(ctypes.POINTER(ctypes.c_void_p)))[0]
    begin = ctypes.WINFUNCTYPE(ctypes.c_long, ctypes.c_void_p)(table[3] or 0)
    put_value = ctypes.WINFUNCTYPE(
        ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_ulonglong, ctypes.c_ulonglong
    )(table[9] or 0)  # fmt: skip
    put_state = ctypes.WINFUNCTYPE(ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_int)(table[10] or 0)
    begin(taskbar)

    def show(share: int | None) -> None:
        put_state(taskbar, window, 0 if share is None else 2)  # TBPF_NOPROGRESS, TBPF_NORMAL
        if share is not None:
            put_value(taskbar, window, share, _STEPS)

    return show


def _guid(text: str) -> ctypes.Array[ctypes.c_char]:
    from uuid import UUID

    return ctypes.create_string_buffer(UUID(text).bytes_le, 16)
