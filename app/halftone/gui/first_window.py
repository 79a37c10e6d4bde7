"""One window for each user and data folder: a second start brings it to the front and hands its files over."""

import hashlib
import os
import sys
from typing import Final

import msgspec
from PySide6.QtCore import QObject, Signal
from PySide6.QtNetwork import QLocalServer, QLocalSocket
from PySide6.QtWidgets import QWidget

from halftone.settings.places import data_dir, window_mark

_CONNECT_MS: Final = 500
_ANSWER_MS: Final = 3000
_MOST_BYTES: Final = 2**20
_TOKEN: Final = "XDG_ACTIVATION_TOKEN"
"""What Wayland asks of a program that wants to the front: whoever starts the second process gives it one."""
_ANYONE: Final = -1


class Call(msgspec.Struct, frozen=True):
    """What a second start asks of the first window. files: to be opened; token: of Wayland."""

    files: tuple[str, ...] = ()
    token: str = ""


def server_name() -> str:
    """One for each data folder, so for each user."""
    return f"halftone-{hashlib.sha256(str(data_dir()).encode()).hexdigest()[:16]}"


def call_first(files: tuple[str, ...], name: str = "") -> bool:
    """Whether a first window is there and took the call. One that does not answer in time does not count."""
    socket = QLocalSocket()
    socket.connectToServer(name or server_name())
    if not socket.waitForConnected(_CONNECT_MS):
        return False
    _let_others_come_to_front()
    socket.write(msgspec.json.encode(Call(files, os.environ.get(_TOKEN, ""))) + b"\n")
    socket.flush()
    answered = socket.waitForReadyRead(_ANSWER_MS)
    socket.disconnectFromServer()
    return answered


def _let_others_come_to_front() -> None:
    """Windows lets only the process that the user started come to the front; it may pass this on."""
    if sys.platform == "win32":
        import ctypes

        ctypes.windll.user32.AllowSetForegroundWindow(_ANYONE)


class FirstWindow(QObject):
    """Listens for later starts."""

    called = Signal(object)
    """The files of another start."""

    def __init__(self, window: QWidget) -> None:
        super().__init__(window)
        self._window = window
        self._server = QLocalServer(self)
        self._server.setSocketOptions(QLocalServer.SocketOption.UserAccessOption)
        self._server.newConnection.connect(self._connected)

    def listen(self, name: str = "") -> bool:
        """Whether later starts can be heard. The socket of a window that was killed is removed: nobody answers there."""
        name = name or server_name()
        if not self._server.listen(name):
            QLocalServer.removeServer(name)
            if not self._server.listen(name):
                return False
        window_mark().touch()
        return True

    def close(self) -> None:
        self._server.close()
        window_mark().unlink(missing_ok=True)

    def _connected(self) -> None:
        while self._server.hasPendingConnections():
            socket = self._server.nextPendingConnection()
            socket.readyRead.connect(lambda socket=socket: self._read(socket))
            socket.disconnected.connect(socket.deleteLater)
            if socket.canReadLine():
                self._read(socket)

    def _read(self, socket: QLocalSocket) -> None:
        if socket.bytesAvailable() > _MOST_BYTES:
            socket.abort()
            return
        if not socket.canReadLine():
            return
        try:
            call = msgspec.json.decode(bytes(socket.readLine().data()), type=Call)
        except msgspec.MsgspecError:
            socket.abort()
            return
        socket.write(b"ok\n")
        socket.flush()
        self.to_front(call.token)
        self.called.emit(call.files)

    def to_front(self, token: str = "") -> None:
        """As far as the system lets a program do that by itself; else its button in the task bar calls for attention."""
        if token:
            os.environ[_TOKEN] = token  # which Qt reads once when a window is activated
        window = self._window
        if window.isMinimized():
            window.showNormal()
        window.show()
        window.raise_()
        window.activateWindow()
