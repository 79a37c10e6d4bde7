"""Every message crosses the wire unchanged, and what is no message is an error."""

from typing import Any, get_args

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.helpers.strategies import structs

from halftone.contract.messages import AnyCommand, AnyEvent, Command, Event, Generate, JobEnded
from halftone.contract.request import Numerics, PictureRequest
from halftone.contract.wire import WireError, command_reader, event_reader, pack

COMMANDS: tuple[type[Any], ...] = get_args(AnyCommand)
EVENTS: tuple[type[Any], ...] = get_args(AnyEvent)


@pytest.mark.parametrize("kind", COMMANDS, ids=lambda kind: kind.__name__)
@settings(max_examples=20)
@given(data=st.data())
def test_commands_round_trip(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    message = data.draw(structs(kind))
    assert command_reader().feed(pack(message)) == [(message, b"")]


@pytest.mark.parametrize("kind", EVENTS, ids=lambda kind: kind.__name__)
@settings(max_examples=20)
@given(data=st.data())
def test_events_round_trip(kind: type[msgspec.Struct], data: st.DataObject) -> None:
    message = data.draw(structs(kind))
    blob = data.draw(st.binary(max_size=20))
    assert event_reader().feed(pack(message, blob)) == [(message, blob)]


def test_every_message_belongs_to_a_union() -> None:
    assert set(Command.__subclasses__()) == set(COMMANDS)
    assert set(Event.__subclasses__()) == set(EVENTS)


@pytest.mark.parametrize("reader", [command_reader, event_reader])
@pytest.mark.parametrize(
    "head",
    [
        {"type": "Sing"},
        {"type": "Cancel"},
        {"type": "Cancel", "job": "a", "loud": True},
        {"type": "JobEnded", "outcome": "maybe"},
        {},
        7,
    ],
    ids=["unknown", "field missing", "field unknown", "value unknown", "no type", "no message"],
)
def test_what_is_no_message_is_an_error(reader: Any, head: object) -> None:
    body = msgspec.msgpack.encode(head)
    frame = len(body).to_bytes(4, "little") + bytes(4) + body
    with pytest.raises(WireError):
        reader().feed(frame)


def test_an_event_is_no_command() -> None:
    with pytest.raises(WireError):
        command_reader().feed(pack(JobEnded(outcome="done")))


def test_a_request_for_a_prompt_alone_is_almost_nothing() -> None:
    request = PictureRequest(prompt="a red sun")
    assert msgspec.json.decode(msgspec.json.encode(request)) == {"prompt": "a red sun"}
    assert len(pack(Generate(job="1", request=request))) < 60


def test_only_what_differs_is_written() -> None:
    request = PictureRequest(prompt="x", steps=9, numerics=Numerics(precision="float32"))
    assert msgspec.to_builtins(request) == {"prompt": "x", "steps": 9, "numerics": {"precision": "float32"}}


@pytest.mark.parametrize("kind", [*COMMANDS, *EVENTS], ids=lambda kind: kind.__name__)
def test_messages_are_frozen_and_named_after_their_class(kind: type[msgspec.Struct]) -> None:
    assert kind.__struct_config__.frozen
    assert kind.__struct_config__.forbid_unknown_fields
    assert kind.__struct_config__.tag == kind.__name__
