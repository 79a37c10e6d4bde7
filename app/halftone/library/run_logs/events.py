"""TensorBoard's event files, without TensorBoard.

A file is a row of TFRecords: eight bytes length, their checksum, the data, its checksum (CRC-32C, masked; tensorflow's
`record_writer.cc`). The data is an `Event` message (`event.proto`, `summary.proto`); only scalars are looked at.
"""

import math
import os
import struct
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO, Final

from halftone.library.run_logs.messages import BYTES, DOUBLE, FLOAT, INT32, INT64, MANY, STRING, Form, message_type
from halftone.library.run_logs.series import Collector, quantity_of

_HEAD: Final = struct.Struct("<QI")
_FOOT: Final = struct.Struct("<I")
_LARGEST: Final = 2**31
"""Bytes of a record; a longer one is a broken length."""
_LOOKED_AT: Final = 2**14
"""Bytes of a record that can be a scalar; pictures and graphs are passed over."""
_FORM: Final[Form] = {
    "TensorProto": (
        ("dtype", 1, INT32),
        ("tensor_content", 4, BYTES),
        ("float_val", 5, FLOAT, MANY),
        ("double_val", 6, DOUBLE, MANY),
    ),
    "Value": (("tag", 1, STRING), ("simple_value", 2, FLOAT), ("tensor", 8, "TensorProto")),
    "Summary": (("value", 1, "Value", MANY),),
    "Event": (("wall_time", 1, DOUBLE), ("step", 2, INT64), ("summary", 5, "Summary")),
}


def is_events(path: Path) -> bool:
    return "tfevents" in path.name


def read_events(path: Path, into: Collector) -> None:
    """Scalars of an event file. What is broken is noted, and what stands before it kept. OSError if it cannot be read."""
    event_type, broken = message_type("Event", _FORM)
    with path.open("rb") as file:
        for seat, data in enumerate(_records(file, into)):
            try:
                event = event_type.FromString(data)
            except broken:
                into.note("damaged", f"record {seat + 1} is no event")
                continue
            for value in event.summary.value:
                quantity = quantity_of(value.tag)
                number = None if quantity is None else _scalar(value)
                if quantity is not None and number is not None:
                    into.put(value.tag, quantity, event.step, number, 0, seat, event.wall_time or math.nan)


def _records(file: BinaryIO, into: Collector) -> Iterator[bytes]:
    """Data of the records up to the first that is broken or cut off; empty for one that is too large for a scalar."""
    size = os.fstat(file.fileno()).st_size
    while head := file.read(_HEAD.size):
        if len(head) < _HEAD.size:
            return into.note("cut-off")
        length, checksum = _HEAD.unpack(head)
        if checksum != _head_crc(head[:8]) or length > _LARGEST:
            return into.note("damaged", "a checksum is wrong")
        if length > _LOOKED_AT:
            if file.seek(length + _FOOT.size, 1) > size:
                return into.note("cut-off")
            yield b""
            continue
        data, foot = file.read(length), file.read(_FOOT.size)
        if len(data) < length or len(foot) < _FOOT.size:
            return into.note("cut-off")
        if _FOOT.unpack(foot)[0] != masked_crc(data):
            return into.note("damaged", "a checksum is wrong")
        yield data
    return None


def _scalar(value: Any) -> float | None:
    """Of `add_scalar`: a plain value in the first form of summaries, a tensor of one number in the second."""
    if not value.HasField("tensor"):
        return value.simple_value if value.HasField("simple_value") else None
    tensor = value.tensor
    for numbers in (tensor.float_val, tensor.double_val):
        if len(numbers) == 1:
            return numbers[0]
    kinds = {(1, 4): "<f", (2, 8): "<d", (19, 2): "<e"}
    kind = kinds.get((tensor.dtype, len(tensor.tensor_content)))
    return None if kind is None else struct.unpack(kind, tensor.tensor_content)[0]


def _table() -> tuple[int, ...]:
    """Of CRC-32C (Castagnoli), reflected polynomial 0x82F63B78."""
    found: list[int] = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        found.append(crc)
    return tuple(found)


_TABLE: Final = _table()


@lru_cache(4096)
def _head_crc(head: bytes) -> int:
    """Most records are of few lengths."""
    return masked_crc(head)


def masked_crc(data: bytes) -> int:
    """The checksum of a TFRecord."""
    crc = 0xFFFFFFFF
    table = _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
