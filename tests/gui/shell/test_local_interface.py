"""The local interface of the window: scripts make pictures through its queue."""

import http.client
import json
import socket
import threading
from typing import Any

import msgspec
import pytest
from PySide6.QtGui import QGuiApplication
from pytestqt.qtbot import QtBot
from tests.gui.stage import PATIENCE, Stage

from halftone.gui.shell.local_interface import LocalInterface
from halftone.gui.text import notice_message
from halftone.serve import server
from halftone.serve.server import token
from halftone.session.state import Notice


def ask(port: int, name: str, body: object = None) -> tuple[int, Any]:
    """Status and answer; a GET without a body."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"Bearer {token()}"}
        connection.request("GET" if data is None else "POST", f"/sdapi/v1/{name}", data, headers)
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def test_it_is_off_until_its_setting_is_on_and_uses_the_windows_queue(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    try:
        controller = stage.controller
        local = LocalInterface(controller, port=0)
        assert local.server is None
        with qtbot.waitSignal(controller.noticed) as told:
            controller.session.settings.update(msgspec.structs.replace(controller.settings, serve=True))
        stage.wait(lambda: local.server is not None)
        started = local.server
        assert started is not None
        assert told.args is not None
        assert told.args[0].kind in ("serving", "not-serving")
        port = int(started.address.rpartition(":")[2])
        answers: list[tuple[int, Any]] = []
        client = threading.Thread(target=lambda: answers.append(ask(port, "txt2img", {"prompt": "a red sun", "steps": 4})))
        client.start()
        qtbot.waitUntil(lambda: bool(answers), timeout=PATIENCE)
        client.join()
        ((status, answer),) = answers
        assert status == 200, answer
        assert len(answer["images"]) == 1
        qtbot.waitUntil(lambda: len(controller.state.history.pictures) == 1, timeout=PATIENCE)
        controller.session.settings.update(msgspec.structs.replace(controller.settings, serve=False))
        qtbot.waitUntil(lambda: local.server is None, timeout=PATIENCE)
    finally:
        stage.close()


def test_its_token_is_read_off_the_windows_thread_and_copied_from_memory(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    stage, go, threads = Stage(qtbot), threading.Event(), set[threading.Thread]()

    def read() -> str:
        threads.add(threading.current_thread())
        assert go.wait(PATIENCE / 1000)
        return token()

    monkeypatch.setattr(server, "token", read)
    try:
        controller = stage.controller
        local = stage.workspace._local = LocalInterface(controller, port=0)

        def turn(on: bool) -> None:
            controller.session.settings.update(msgspec.structs.replace(controller.settings, serve=on))

        turn(True)
        turn(False)
        go.set()
        stage.idle()
        assert local.server is None, "it was turned off meanwhile"
        turn(True)
        stage.wait(lambda: local.server is not None)
        assert threading.main_thread() not in threads
        monkeypatch.setattr(server, "token", lambda: "another")
        stage.workspace.act(Notice(number=1, kind="serving"), "copy-token")
        assert QGuiApplication.clipboard().text() == token()
        turn(False)
        stage.idle()
    finally:
        go.set()
        stage.close()


def test_a_port_in_use_is_tried_again_only_when_the_setting_is_turned_on_again(qtbot: QtBot) -> None:
    stage = Stage(qtbot)
    try:
        controller = stage.controller

        def change(**changes: Any) -> list[Notice]:
            """The messages on the port after a change of settings."""
            before = len(controller.state.notices)
            controller.session.settings.update(msgspec.structs.replace(controller.settings, **changes))
            stage.idle()
            return [notice for notice in controller.state.notices[before:] if str(port) in notice.facts]

        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = taken.getsockname()[1]
            local = LocalInterface(controller, port=port)
            (notice,) = change(serve=True)
            what_to_do = f"Close the program that uses port {port}, then turn the setting on again."
            assert notice_message(notice).text == what_to_do
            assert change(notify_after=77) == []
            assert change(serve=False) == []
            assert len(change(serve=True)) == 1
        change(serve=False)
        change(serve=True)
        assert local.server is not None
        change(serve=False)
    finally:
        stage.close()
