"""The local interface over HTTP: who is let in, and what a stop ends."""

import http.client
import json
import random
import socket
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest
from tests.helpers.sessions import Desk

from halftone.serve.interface import Interface
from halftone.serve.server import Server

_SECRET = "secret"
_BASIC = "Basic OnNlY3JldA=="
"""No user, and the secret as the password."""


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server(Interface(Desk().session, lambda call: call()), _SECRET, port=0)
    made.start()
    yield made
    made.stop()


def connection_to(server: Server) -> http.client.HTTPConnection:
    return http.client.HTTPConnection("127.0.0.1", int(server.address.rpartition(":")[2]), timeout=10)


def ask(connection: http.client.HTTPConnection, headers: dict[str, str]) -> int:
    """The status of an answer."""
    connection.request("GET", "/sdapi/v1/cmd-flags", headers=headers)
    answer = connection.getresponse()
    answer.read()
    return answer.status


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 401),
        ({"Authorization": f"Bearer {_SECRET}"}, 200),
        ({"Authorization": _BASIC}, 200),
        ({"Authorization": _BASIC, "Host": "localhost:7860"}, 200),
        ({"Authorization": _BASIC, "Host": "localhost"}, 200),
        ({"Authorization": _BASIC, "Host": "[::1]:7860"}, 403),
        ({"Authorization": _BASIC, "Host": "example.org"}, 403),
        ({"Authorization": _BASIC, "Origin": "http://localhost"}, 403),
        ({"Authorization": "Bearer other"}, 401),
        ({"Authorization": "Basic é"}, 401),
        ({"Authorization": "Basic x"}, 401),
    ],
)
def test_who_is_let_in(server: Server, headers: dict[str, str], status: int) -> None:
    connection = connection_to(server)
    try:
        assert ask(connection, headers) == status
    finally:
        connection.close()


def test_a_stop_ends_connections_that_are_kept_open(server: Server) -> None:
    connection = connection_to(server)
    connection.auto_open = 0
    connection.connect()
    assert ask(connection, {"Authorization": _BASIC}) == 200
    begun = time.monotonic()
    server.stop()
    assert time.monotonic() - begun < 0.4
    with pytest.raises((http.client.HTTPException, OSError)):
        ask(connection, {"Authorization": _BASIC})
    connection.close()


def raw(server: Server, data: bytes) -> bytes:
    """What the server says to these bytes; empty where it closes without a word."""
    port = int(server.address.rpartition(":")[2])
    with socket.create_connection(("127.0.0.1", port), timeout=10) as connection:
        connection.sendall(data)
        with suppress(OSError):  # it closed already
            connection.shutdown(socket.SHUT_WR)
        said = b""
        while piece := connection.recv(65536):
            said += piece
    return said


def head(method: str = "POST", target: str = "/sdapi/v1/txt2img", **headers: str) -> bytes:
    known = {"Host": "127.0.0.1", "Authorization": f"Bearer {_SECRET}", **headers}
    lines = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in known.items())
    return f"{method} {target} HTTP/1.1\r\n{lines}\r\n".encode()


def posted(body: bytes, name: str = "txt2img") -> bytes:
    return head(target=f"/sdapi/v1/{name}", Content_Length=str(len(body))) + body


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (posted(b"[" * 100_000), 422),
        (posted(b'{"prompt": ' + b'{"a":' * 100_000), 422),
        (posted(b'{"prompt": "\xff\xfe"}'), 422),
        (posted(b"\xff"), 422),
        (posted(b'{"prompt": "a", "cfg_scale": "nan"}'), 422),
        (posted(b'{"prompt": "a", "cfg_scale": "-inf"}'), 422),
        (posted(b'{"prompt": "a", "hr_scale": NaN}'), 422),
        (posted(b'{"prompt": "a", "steps": ' + b"9" * 20 + b"}"), 422),
        (posted(b'{"prompt": "a", "seed": ' + b"9" * 300 + b"}"), 422),
        (posted(b'{"prompt": "a", "seed": "' + b"9" * 5000 + b'"}'), 422),
        (posted(b'{"prompt": "a", "steps": 0}'), 422),
        (posted(b'{"prompt": "a", "width": 100}'), 422),
        (posted(b'{"prompt": "a", "height": 20000}'), 422),
        (posted(b'{"prompt": "a", "enable_hr": true, "hr_scale": 100}'), 422),
        (head(Content_Length="9" * 30), 413),
        (head(Content_Length="9" * 5000), 413),
        (head(Content_Length="-5"), 400),
        (head(Content_Length="many"), 400),
        (head(Content_Length="\u0663".encode().decode("latin-1")), 400),
        (head(target="http://["), 404),
        (head("GET", "//[", Content_Length="4") + b"GET ", 404),
        (head("OPTIONS"), 405),
        (head("PUT"), 405),
        (head("DELETE"), 405),
        (head("HEAD"), 405),
        (head("BREW"), 405),
        (head("PUT", Authorization="Bearer no"), 401),
        (head("OPTIONS", Origin="https://pages.example"), 403),
        (b"GET / HTTP/9.9\r\n\r\n", 505),
        (b"nonsense\r\n\r\n", 400),
        (head("GET", X="a" * 70_000), 431),
    ],
)
def test_what_is_no_request_is_refused(server: Server, data: bytes, status: int) -> None:
    said = raw(server, data)
    top, _, body = said.partition(b"\r\n\r\n")
    assert top.split()[1] == str(status).encode()
    assert not body or isinstance(json.loads(body)["detail"], str)


def test_the_body_of_a_get_is_not_the_next_request(server: Server) -> None:
    hidden = head("GET", "/sdapi/v1/cmd-flags")
    said = raw(server, head("GET", "/sdapi/v1/cmd-flags", Content_Length=str(len(hidden))) + hidden)
    assert said.count(b"HTTP/1.1 ") == 1


def test_too_many_connections_are_closed_and_others_go_on(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("halftone.serve.server._CONNECTIONS", 4)
    port = int(server.address.rpartition(":")[2])
    several = [socket.create_connection(("127.0.0.1", port), timeout=10) for _ in range(6)]
    several[-1].settimeout(10)
    assert several[-1].recv(1) == b""
    for one in several:
        one.close()
    for _ in range(100):
        if raw(server, head("GET", "/sdapi/v1/cmd-flags")).startswith(b"HTTP/1.1 200"):
            return
        time.sleep(0.05)
    pytest.fail("it did not answer again")


def test_nothing_that_is_sent_makes_it_fail(server: Server) -> None:
    """Valid requests with bytes changed, cut off or repeated: an answer below 500, or none, and it goes on."""
    drawn = random.Random(20)
    picture = json.dumps({"image": "data:image/png;base64," + "iVBORw0KGgo" * 9}).encode()
    seeds = [posted(picture, "png-info"), posted(b'{"CLIP_stop_at_last_layers": 2}', "options"), head("GET", "/sdapi/v1/options")]
    for turn in range(600):
        data = bytearray(drawn.choice(seeds))
        for _ in range(drawn.randint(1, 6)):
            place = drawn.randrange(len(data))
            match drawn.randrange(4):
                case 0:
                    data[place] = drawn.randrange(256)
                case 1:
                    del data[place : place + drawn.randint(1, 30)]
                case 2:
                    data[place:place] = bytes(drawn.randrange(256) for _ in range(drawn.randint(1, 20)))
                case _:
                    data[place:place] = data[place : place + 40]
            data = data or bytearray(b"G")
        said = raw(server, bytes(data))
        status = int(said.split()[1]) if said.startswith(b"HTTP/1.1 ") else 0
        assert status < 500 or status == 505, (turn, bytes(data), said)
    assert raw(server, head("GET", "/sdapi/v1/cmd-flags")).startswith(b"HTTP/1.1 200")
