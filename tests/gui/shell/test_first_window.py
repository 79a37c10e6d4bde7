"""A second start calls the first window."""

import sys

from PySide6.QtCore import QProcess
from PySide6.QtNetwork import QLocalServer, QLocalSocket
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot
from tests.gui.stage import PATIENCE

from halftone.gui.first_window import FirstWindow, call_first, server_name


def test_the_first_window_gets_the_files_and_comes_to_the_front(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    window.showMinimized()
    first = FirstWindow(window)
    assert first.listen()
    process = QProcess()
    code = "from halftone.gui.first_window import call_first; print(call_first(('/a/\\xfc.png', '/b.png')))"
    with qtbot.waitSignal(first.called, timeout=PATIENCE) as called:
        process.start(sys.executable, ["-c", code])
    qtbot.waitUntil(lambda: process.state() == QProcess.ProcessState.NotRunning, timeout=PATIENCE)
    assert called.args == [("/a/ü.png", "/b.png")]
    assert bytes(process.readAllStandardOutput().data()).strip() == b"True"
    assert not window.isMinimized()
    first.close()


def test_nobody_answers_where_there_is_no_window(qtbot: QtBot) -> None:
    assert not call_first(())


def test_the_socket_of_a_killed_window_is_no_obstacle(qtbot: QtBot) -> None:
    listen = f"from PySide6.QtNetwork import QLocalServer; s = QLocalServer(); print(s.listen('{server_name()}'), flush=True)"
    code = f"{listen}; import os, signal; os.kill(os.getpid(), signal.SIGKILL)"
    process = QProcess()
    process.start(sys.executable, ["-c", code])
    assert process.waitForFinished(20_000)
    assert not call_first(())
    window = QWidget()
    qtbot.addWidget(window)
    first = FirstWindow(window)
    assert first.listen()
    first.close()
    assert not QLocalServer().isListening()


def test_what_is_no_call_is_refused(qtbot: QtBot) -> None:
    window = QWidget()
    qtbot.addWidget(window)
    first = FirstWindow(window)
    assert first.listen()
    heard: list[object] = []
    first.called.connect(heard.append)
    socket = QLocalSocket()
    socket.connectToServer(server_name())
    assert socket.waitForConnected(2000)
    socket.write(b"no json\n")
    socket.flush()
    qtbot.waitUntil(lambda: socket.state() == QLocalSocket.LocalSocketState.UnconnectedState)
    assert heard == []
    first.close()
