"""TensorBoard's event files, without TensorBoard.

A file is a row of TFRecords: eight bytes length, their checksum, the data, its checksum (CRC-32C, masked; tensorflow's
`record_writer.cc`). The data is an `Event` message (`event.proto`, `summary.proto`); only scalars are read, and records with
other numbers only are read together.
"""

import os
import struct
from pathlib import Path
from typing import Any, BinaryIO, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from halftone.contract.wording import Words
from halftone.library.run_logs.messages import BYTES, DOUBLE, FLOAT, INT32, INT64, MANY, STRING, Form, message_type
from halftone.library.run_logs.records import Bytes, checksums, layout_of, masked_crc
from halftone.library.run_logs.series import Collector, Numbers, quantity_of
from halftone.settings.regular_files import open_regular

_HEAD: Final = struct.Struct("<QI")
_FOOT: Final = 4
_LARGEST: Final = 2**31
"""Bytes of a record; a longer one is a broken length."""
_LOOKED_AT: Final = 2**14
"""Bytes of a record that can be a scalar; pictures and graphs are skipped."""
_CHUNK: Final = 2**22
"""Bytes of a file that are read together."""
_LAYOUTS: Final = 32
"""Kinds of records of one length that are read together; further kinds are read one by one."""
_WRONG: Final = Words("a checksum is wrong")
_TENSOR: Final = (
    ("dtype", 1, INT32),
    ("tensor_content", 4, BYTES),
    ("float_val", 5, FLOAT, MANY),
    ("double_val", 6, DOUBLE, MANY),
)
_FORM: Final[Form] = (
    ("TensorProto", _TENSOR),
    ("Value", (("tag", 1, STRING), ("simple_value", 2, FLOAT), ("tensor", 8, "TensorProto"))),
    ("Summary", (("value", 1, "Value", MANY),)),
    ("Event", (("wall_time", 1, DOUBLE), ("step", 2, INT64), ("summary", 5, "Summary"))),
)


def is_events(path: Path) -> bool:
    return "tfevents" in path.name


def read_events(path: Path, into: Collector) -> None:
    """Scalars of an event file up to a broken record, which is noted. OSError if it cannot be read."""
    with open_regular(path) as file:
        walk = _Walk(file)
        seat = 0
        while walk.going:
            chunk = walk.more()
            lot = _Lot(into, seat)
            if lot.read(chunk):
                return into.note("damaged", _WRONG)
            seat += len(chunk.starts)
            into.on_way(walk.share)
    if walk.damaged:
        return into.note("damaged", _WRONG)
    return into.note("cut-off") if walk.cut_off else None


class _Chunk(NamedTuple):
    """Records. starts, lengths: of their data; a length of 0: too large for a scalar."""

    data: bytes
    starts: list[int]
    lengths: list[int]


class _Walk:
    """From record to record through a file."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._size = os.fstat(file.fileno()).st_size
        self._rest = b""
        self._good: set[bytes] = set()
        """Heads whose checksums are right: most records are of few lengths."""
        self.going = True
        self.damaged = False
        self.cut_off = False

    @property
    def share(self) -> float:
        return self._file.tell() / max(1, self._size)

    def more(self) -> _Chunk:
        read = self._file.read(_CHUNK)
        data = self._rest + read
        found = _Chunk(data, [], [])
        place, end = 0, len(data)
        while place + _HEAD.size <= end:
            head = data[place : place + _HEAD.size]
            length, checksum = _HEAD.unpack(head)
            if head not in self._good:
                if length > _LARGEST or checksum != masked_crc(head[:8]):
                    self.going, self.damaged = False, True
                    return found
                self._good.add(head)
            after = place + _HEAD.size + length + _FOOT
            if length <= _LOOKED_AT and after > end:
                break
            found.starts.append(place + _HEAD.size)
            found.lengths.append(length if length <= _LOOKED_AT else 0)
            place = after
        self._rest = data[place:]
        self._ended(over=place - end, read=read)
        return found

    def _ended(self, *, over: int, read: bytes) -> None:
        """over: bytes of the last, large record beyond what was read."""
        if over > 0:
            self.cut_off = self._file.seek(over, 1) > self._size
            self.going = not self.cut_off
        elif not read:
            self.going, self.cut_off = False, bool(self._rest)


class _Lot:
    """Reads the scalars of a chunk. seat: of its first record."""

    def __init__(self, into: Collector, seat: int) -> None:
        self._into = into
        self._seat = seat
        self._type, self._broken = message_type("Event", _FORM)
        self._found: dict[str, list[tuple[NDArray[Any], ...]]] = {}
        self._end = 0

    def read(self, chunk: _Chunk) -> bool:
        """Whether a checksum was wrong; what is before it counts."""
        data = np.frombuffer(chunk.data, np.uint8)
        starts, lengths = np.array(chunk.starts, np.int64), np.array(chunk.lengths, np.int64)
        groups: list[tuple[NDArray[np.int64], Bytes]] = []
        self._end = len(starts)
        for length in np.unique(lengths[lengths > 0]):
            at = np.flatnonzero(lengths == length)
            rows = data[starts[at][:, None] + np.arange(length + _FOOT)]
            wrong = checksums(rows[:, :length]) != np.ascontiguousarray(rows[:, length:]).view("<u4")[:, 0]
            if wrong.any():
                self._end = min(self._end, int(at[wrong.argmax()]))
            groups.append((at, rows[:, :length]))
        for at, rows in groups:
            whole = at < self._end
            self._take(at[whole], rows[whole])
        self._put()
        return self._end < len(starts)

    def _take(self, at: NDArray[np.int64], rows: Bytes) -> None:
        """Records of one length: those with the layout of the first, then those like the first of the rest."""
        for _ in range(_LAYOUTS):
            if not len(at):
                return
            like = self._together(at, rows)
            at, rows = at[~like], rows[~like]
        for index, row in zip(at, rows, strict=True):
            self._one(int(index), row.tobytes())

    def _together(self, at: NDArray[np.int64], rows: Bytes) -> NDArray[np.bool_]:
        """Read the first record and all like it; which these are."""
        data = rows[0].tobytes()
        layout = layout_of(data)
        values = self._one(int(at[0]), data)
        like = np.zeros(len(at), np.bool_)
        like[0] = True
        if layout is None or len(values) != 1:
            return like
        tag, step, value = values[0]
        if (int(layout.steps(rows[:1])[0]), repr(float(layout.values(rows[:1])[0]))) == (step, repr(value)):
            like = layout.alike(rows)
            more = like.copy()
            more[0] = False
            self._keep(tag, at[more], layout.steps(rows[more]), layout.values(rows[more]), layout.walls(rows[more]))
        return like

    def _one(self, index: int, data: bytes) -> list[tuple[str, int, float]]:
        """Reads one record; (tag, step, value) of its scalars."""
        try:
            event = self._type.FromString(data)
        except self._broken:
            self._into.note("damaged", Words("record {0} is not an event", (str(self._seat + index + 1),)))
            return []
        found: list[tuple[str, int, float]] = []
        for value in event.summary.value:
            number = _scalar(value)
            if number is not None:
                found.append((value.tag, event.step, number))
                wall = event.wall_time or np.nan
                self._keep(value.tag, np.array([index]), np.array([event.step]), np.array([number]), np.array([wall]))
        return found

    def _keep(self, tag: str, at: NDArray[Any], steps: NDArray[Any], values: NDArray[Any], walls: NDArray[Any]) -> None:
        if quantity_of(tag) is not None:
            self._found.setdefault(tag, []).append((at, steps, values, walls))

    def _put(self) -> None:
        """In the order of the file."""
        for tag, parts in self._found.items():
            at, steps, values, walls = (np.concatenate(one) for one in zip(*parts, strict=True))
            order = np.argsort(at, kind="stable")
            quantity = quantity_of(tag)
            if quantity is not None and len(order):
                lines = np.zeros(len(order), np.int64)
                seats = at[order] + self._seat
                numbers = Numbers(steps[order], values[order].astype(np.float64), lines, seats, walls[order])
                self._into.put_many(tag, quantity, numbers)


def _scalar(value: Any) -> float | None:
    """The number of `add_scalar`: a plain value in the first form of summaries, a tensor of one number in the second."""
    if not value.HasField("tensor"):
        return value.simple_value if value.HasField("simple_value") else None
    tensor = value.tensor
    for numbers in (tensor.float_val, tensor.double_val):
        if len(numbers) == 1:
            return numbers[0]
    kinds = {(1, 4): "<f", (2, 8): "<d", (19, 2): "<e"}
    kind = kinds.get((tensor.dtype, len(tensor.tensor_content)))
    return None if kind is None else struct.unpack(kind, tensor.tensor_content)[0]
