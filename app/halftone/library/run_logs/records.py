"""TensorBoard's records, many at once: their checksums, and the places of the numbers in one of them."""

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.uint8]
Field = tuple[int, int, int, int]
"""(number, kind, begin, end) of a field of a message: where its content stands."""
_VARINT, _FIXED64, _LENGTH, _FIXED32 = 0, 1, 2, 5
_EVENT: Final = {"wall": 1, "step": 2, "summary": 5}
_VALUE: Final = {"simple": 2, "tensor": 8}
_TENSOR: Final = {"content": 4, "floats": 5}
_KINDS: Final = {4: "<f4", 8: "<f8", 2: "<f2"}


def _table() -> tuple[int, ...]:
    """The table of CRC-32C (Castagnoli), reflected polynomial 0x82F63B78."""
    found: list[int] = []
    for byte in range(256):
        crc = byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
        found.append(crc)
    return tuple(found)


_TABLE: Final = _table()
_TABLE_MANY: Final = np.array(_TABLE, np.uint32)


def masked_crc(data: bytes) -> int:
    """The checksum of a TFRecord."""
    crc = 0xFFFFFFFF
    table = _TABLE
    for byte in data:
        crc = table[(crc ^ byte) & 0xFF] ^ crc >> 8
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF


def checksums(rows: Bytes) -> NDArray[np.uint32]:
    """The same of many at once. Shape of rows [N, bytes]."""
    crc = np.full(len(rows), 0xFFFFFFFF, np.uint32)
    for column in np.ascontiguousarray(rows.T):
        crc = _TABLE_MANY[(crc ^ column) & 0xFF] ^ (crc >> 8)
    crc = ~crc
    return (((crc >> 15) | (crc << 17)) + np.uint32(0xA282EAD8)).astype(np.uint32)


class Layout(NamedTuple):
    """Places of the numbers in an event with one scalar. fixed: bytes that others of its kind share, shape [bytes]; step: (begin,
    end); wall, value: their beginnings, wall is -1 for none; kind: of the value, as in numpy.
    """

    fixed: NDArray[np.bool_]
    step: tuple[int, int]
    wall: int
    value: int
    kind: str

    def steps(self, rows: Bytes) -> NDArray[np.int64]:
        """Little-endian groups of seven bits."""
        found = np.zeros(len(rows), np.uint64)
        for at, column in enumerate(range(*self.step)):
            found |= (rows[:, column] & 0x7F).astype(np.uint64) << np.uint64(7 * at)
        return found.view(np.int64)

    def values(self, rows: Bytes) -> NDArray[np.float64]:
        return self._numbers(rows, self.value, self.kind)

    def walls(self, rows: Bytes) -> NDArray[np.float64]:
        """Return NaN where none is given."""
        found = self._numbers(rows, self.wall, "<f8") if self.wall >= 0 else np.zeros(len(rows))
        return np.where(found == 0, np.nan, found)

    def _numbers(self, rows: Bytes, begin: int, kind: str) -> NDArray[np.float64]:
        size = np.dtype(kind).itemsize
        return np.ascontiguousarray(rows[:, begin : begin + size]).view(kind)[:, 0].astype(np.float64)

    def alike(self, rows: Bytes) -> NDArray[np.bool_]:
        """Which rows are laid out as the first of them is."""
        same = (rows[:, self.fixed] == rows[0, self.fixed]).all(axis=1)
        begin, end = self.step
        return same & ((rows[:, begin:end] & 0x80) == (rows[0, begin:end] & 0x80)).all(axis=1)


def layout_of(data: bytes) -> Layout | None:
    """None for an event without exactly one scalar and a step."""
    try:
        event = list(_fields(data, 0, len(data)))
        (step,) = _named(event, _EVENT["step"], _VARINT)
        walls = _named(event, _EVENT["wall"], _FIXED64)
        (summary,) = _named(event, _EVENT["summary"], _LENGTH)
        (value,) = _fields(data, *summary)
        place, kind = _scalar(data, value)
    except (ValueError, IndexError):
        return None
    wall = walls[0][0] if walls else -1
    fixed = np.ones(len(data), np.bool_)
    for begin, end in (step, (wall, wall + 8) if walls else (0, 0), (place, place + np.dtype(kind).itemsize)):
        fixed[begin:end] = False
    return Layout(fixed, step, wall, place, kind)


def _scalar(data: bytes, value: Field) -> tuple[int, str]:
    """(its place, its kind) in a value of a summary. ValueError if it is no plain scalar."""
    parts = list(_fields(data, value[2], value[3]))
    for begin, _ in _named(parts, _VALUE["simple"], _FIXED32):
        return begin, "<f4"
    ((begin, end),) = _named(parts, _VALUE["tensor"], _LENGTH)
    inside = list(_fields(data, begin, end))
    spans = _named(inside, _TENSOR["content"], _LENGTH) + _named(inside, _TENSOR["floats"], _LENGTH)
    ((begin, end),) = spans
    if end - begin not in _KINDS:
        raise ValueError(value)
    return begin, _KINDS[end - begin]


def _named(fields: list[Field], number: int, kind: int) -> list[tuple[int, int]]:
    return [field[2:] for field in fields if field[:2] == (number, kind)]


def _fields(data: bytes, place: int, end: int) -> Iterator[Field]:
    """The fields of a message of protocol buffers. ValueError or IndexError if it is none."""
    while place < end:
        tag, place = _varint(data, place)
        number, kind = tag >> 3, tag & 7
        begin = place
        if kind == _VARINT:
            _, place = _varint(data, place)
        elif kind == _LENGTH:
            length, begin = _varint(data, place)
            place = begin + length
        else:
            place += {_FIXED64: 8, _FIXED32: 4}.get(kind, 1 << 40)
        if place > end:
            raise ValueError(data)
        yield number, kind, begin, place


def _varint(data: Any, place: int) -> tuple[int, int]:
    found = 0
    for at in range(10):
        byte = data[place + at]
        found |= (byte & 0x7F) << 7 * at
        if byte < 0x80:
            return found, place + at + 1
    raise ValueError(data)
