"""The local interface over HTTP: who is let in, and what a stop ends."""

import http.client
import time
from collections.abc import Iterator

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
