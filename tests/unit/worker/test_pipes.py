"""The writer of frames: over a real pipe, with a reader that is quick, slow or gone."""

import os
import threading
from collections.abc import Iterator

import pytest

from halftone.contract.messages import AnyEvent, PreviewReady, StepDone
from halftone.contract.wire import FrameReader, event_reader
from halftone.worker.pipes import BEHIND_BYTES, FrameWriter, chunks

STEP = StepDone(seq=0, job="a", step=1, steps=2, peak=None, finite=None, seconds=0.1)
PREVIEW = PreviewReady(seq=1, job="a", step=1, width=512, height=512)
BLOB = bytes(BEHIND_BYTES + 1)
PATIENCE_SECONDS = 30.0


@pytest.fixture
def pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        try:
            os.close(end)
        except OSError:  # the test closed it
            continue


def read(descriptor: int, reader: FrameReader[AnyEvent], count: int) -> list[tuple[AnyEvent, bytes]]:
    frames: list[tuple[AnyEvent, bytes]] = []
    for data in chunks(descriptor):
        frames += reader.feed(data)
        if len(frames) >= count:
            break
    return frames


def test_what_was_sent_is_written_when_send_returns(pipe: tuple[int, int]) -> None:
    writer = FrameWriter(pipe[1], on_broken=lambda: None)
    writer.send(STEP)
    os.set_blocking(pipe[0], False)
    assert event_reader().feed(os.read(pipe[0], 1 << 16)) == [(STEP, b"")]
    writer.close(PATIENCE_SECONDS)


def test_a_slow_reader_stops_nobody_and_gets_everything_later(pipe: tuple[int, int]) -> None:
    writer = FrameWriter(pipe[1], on_broken=lambda: None)
    assert not writer.is_behind()
    writer.send(PREVIEW, BLOB)
    assert writer.is_behind()
    writer.send(STEP)
    reader = event_reader()
    assert read(pipe[0], reader, 2) == [(PREVIEW, BLOB), (STEP, b"")]
    writer.send(STEP)
    assert read(pipe[0], reader, 1) == [(STEP, b"")]
    assert not writer.is_behind()
    writer.close(PATIENCE_SECONDS)


def test_a_reader_that_is_gone_is_told_once(pipe: tuple[int, int]) -> None:
    gone = threading.Event()
    writer = FrameWriter(pipe[1], on_broken=gone.set)
    os.close(pipe[0])
    writer.send(STEP)
    assert gone.wait(PATIENCE_SECONDS)
    writer.send(STEP)
    writer.close(PATIENCE_SECONDS)


def test_an_event_that_no_wire_carries_is_refused_to_its_sender(pipe: tuple[int, int]) -> None:
    writer = FrameWriter(pipe[1], on_broken=lambda: None)
    with pytest.raises(TypeError):
        writer.send(StepDone(step=1, steps=2, peak=object(), finite=None, seconds=0.1))  # pyright: ignore[reportArgumentType]
    writer.close(PATIENCE_SECONDS)


def test_chunks_end_with_the_pipe(pipe: tuple[int, int]) -> None:
    os.write(pipe[1], b"abc")
    os.close(pipe[1])
    assert b"".join(chunks(pipe[0])) == b"abc"
