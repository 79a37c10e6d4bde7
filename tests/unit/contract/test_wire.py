"""Frames: bytes may arrive in any split, lengths may lie, and a broken stream stays broken."""

from contextlib import suppress
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from halftone.contract.messages import AnyEvent, JobEnded, PhaseChanged, PreviewReady
from halftone.contract.wire import MAX_BLOB, MAX_HEAD, WireError, event_reader, pack

FRAMES: list[tuple[AnyEvent, bytes]] = [
    (PhaseChanged(seq=0, job="a", phase="load"), b""),
    (PreviewReady(seq=1, job="a", step=1, width=4, height=2), bytes(range(24))),
    (JobEnded(seq=2, job="a", outcome="done"), b""),
]
STREAM = b"".join(pack(event, blob) for event, blob in FRAMES)
GOOD = pack(*FRAMES[0])
UNKNOWN = b"\x02\x00\x00\x00" + bytes(4) + b"\xa1x"


@given(st.lists(st.integers(0, len(STREAM)), max_size=12))
def test_bytes_arrive_in_any_split(cuts: list[int]) -> None:
    edges = [0, *sorted(cuts), len(STREAM)]
    reader = event_reader()
    received = [frame for start, end in pairwise(edges) for frame in reader.feed(STREAM[start:end])]
    assert received == FRAMES


def test_bytes_arrive_one_by_one() -> None:
    reader = event_reader()
    assert [frame for byte in STREAM for frame in reader.feed(bytes([byte]))] == FRAMES


def test_nothing_is_given_before_a_frame_is_complete() -> None:
    reader = event_reader()
    assert reader.feed(GOOD[:-1]) == []
    assert reader.feed(GOOD[-1:]) == FRAMES[:1]


@pytest.mark.parametrize(("head", "blob"), [(MAX_HEAD + 1, 0), (1, MAX_BLOB + 1), (2**32 - 1, 2**32 - 1)])
def test_lengths_that_no_sender_writes_are_refused_before_the_bytes_come(head: int, blob: int) -> None:
    with pytest.raises(WireError, match="cannot be right"):
        event_reader().feed(head.to_bytes(4, "little") + blob.to_bytes(4, "little"))


def test_a_head_length_that_lies_is_an_error() -> None:
    lying = (len(GOOD) - 8 - 3).to_bytes(4, "little") + GOOD[4:]
    with pytest.raises(WireError):
        event_reader().feed(lying)


def test_good_messages_before_a_broken_one_are_given() -> None:
    reader = event_reader()
    assert reader.feed(GOOD + UNKNOWN) == FRAMES[:1]
    assert reader.error is not None


def test_nothing_is_read_after_the_break() -> None:
    reader = event_reader()
    with pytest.raises(WireError):
        reader.feed(UNKNOWN)
    with pytest.raises(WireError):
        reader.feed(GOOD)


@given(st.binary(max_size=200))
def test_garbage_gives_no_message_and_no_other_error(garbage: bytes) -> None:
    reader = event_reader()
    with suppress(WireError):
        assert reader.feed(garbage) == []
