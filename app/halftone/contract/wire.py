"""Frames: two little-endian uint32 lengths, a msgpack head, a raw blob. Bytes may arrive in any split."""

import struct
from typing import Generic, TypeVar

import msgspec

from halftone.contract.messages import AnyCommand, AnyEvent

_LENGTHS = struct.Struct("<II")
MAX_HEAD = 64 * 2**20
MAX_BLOB = 256 * 2**20

Message = TypeVar("Message")

_encoder = msgspec.msgpack.Encoder()


class WireError(Exception):
    """The stream is no longer trustworthy: an unknown message, or lengths no sender would write."""


def pack(message: AnyCommand | AnyEvent, blob: bytes = b"") -> bytes:
    """One frame."""
    head = _encoder.encode(message)
    return _LENGTHS.pack(len(head), len(blob)) + head + blob


class FrameReader(Generic[Message]):
    """Turns bytes into messages. Feed it what arrived; it returns what is complete."""

    def __init__(self, kind: type[Message] | object) -> None:
        self._decoder: msgspec.msgpack.Decoder[Message] = msgspec.msgpack.Decoder(kind)
        self._buffer = bytearray()
        self.error: WireError | None = None
        """Set once the stream broke; nothing is read after that."""

    def feed(self, data: bytes) -> list[tuple[Message, bytes]]:
        """The messages that are complete now. A broken stream raises WireError, after the good messages before the break."""
        self._buffer += data
        frames: list[tuple[Message, bytes]] = []
        try:
            while self.error is None and (frame := self._take()) is not None:
                frames.append(frame)
        except WireError as error:
            self.error = error
        if self.error is not None and not frames:
            raise self.error
        return frames

    def _take(self) -> tuple[Message, bytes] | None:
        if len(self._buffer) < _LENGTHS.size:
            return None
        head_size, blob_size = _LENGTHS.unpack_from(self._buffer)
        if head_size > MAX_HEAD or blob_size > MAX_BLOB:
            raise WireError(f"a frame of {head_size} + {blob_size} bytes cannot be right")
        end = _LENGTHS.size + head_size + blob_size
        if len(self._buffer) < end:
            return None
        head = bytes(self._buffer[_LENGTHS.size : _LENGTHS.size + head_size])
        blob = bytes(self._buffer[_LENGTHS.size + head_size : end])
        del self._buffer[:end]
        try:
            return self._decoder.decode(head), blob
        except msgspec.MsgspecError as error:
            raise WireError(str(error)) from error


def command_reader() -> FrameReader[AnyCommand]:
    return FrameReader[AnyCommand](AnyCommand)


def event_reader() -> FrameReader[AnyEvent]:
    return FrameReader[AnyEvent](AnyEvent)
