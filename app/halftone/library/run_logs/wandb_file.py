"""wandb's file of a run ("run-ID.wandb"), without wandb: rows of the history and the configuration.

Blocks of 32 KiB as in LevelDB's log format, with zlib's CRC-32 over the type and the data; in them messages of
`wandb_internal.proto`, of which only numbers and settings are read.
"""

import json
import struct
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from halftone.contract.wording import Words
from halftone.library.run_logs.lines import Piece
from halftone.library.run_logs.messages import INT64, MANY, STRING, Form, message_type
from halftone.library.run_logs.series import Collector
from halftone.library.run_logs.settings import known_settings
from halftone.library.run_logs.text import Reader
from halftone.settings.regular_files import open_regular

_START: Final = b":W&B\xe1\xbe\x00"
_BLOCK: Final = 2**15
_HEAD: Final = struct.Struct("<IHB")
_WHOLE, _FIRST, _MIDDLE, _LAST = 1, 2, 3, 4
_LONGEST: Final = 2**24
"""Bytes of a record; a longer one holds no numbers of training."""
_ITEM: Final = (("key", 1, STRING), ("nested_key", 2, STRING, MANY), ("value_json", 16, STRING))
_FORM: Final[Form] = (
    ("Item", _ITEM),
    ("Step", (("num", 1, INT64),)),
    ("History", (("item", 1, "Item", MANY), ("step", 2, "Step"))),
    ("Config", (("update", 1, "Item", MANY),)),
    ("Run", (("config", 4, "Config"),)),
    ("Record", (("history", 2, "History"), ("config", 5, "Config"), ("run", 17, "Run"))),
)
_STEPS: Final = ("global_step", "train/global_step", "trainer/global_step", "step", "_step")


def is_wandb(path: Path) -> bool:
    return path.suffix.lower() == ".wandb"


def read_wandb(path: Path, into: Collector) -> None:
    """History and configuration up to a broken record, which is noted. OSError if it cannot be read."""
    record_type, broken = message_type("Record", _FORM)
    reader = Reader(into)
    with open_regular(path) as file:
        if file.read(len(_START)) != _START:
            return into.note("unknown-form", Words("export the history as CSV and use that"))
        for seat, data in enumerate(_records(file, into)):
            try:
                _take(record_type.FromString(data), reader, into)
            except broken:
                into.note("damaged", Words("record {0} is not a message", (str(seat + 1),)))
    return None


def _take(record: Any, reader: Reader, into: Collector) -> None:
    if record.HasField("history"):
        row = _row(record.history.item)
        if record.history.HasField("step"):
            row.setdefault("_step", record.history.step.num)
        reader.row(row, _STEPS, Piece("", 0))
    elif record.HasField("run"):
        into.settings += known_settings(_row(record.run.config.update).items(), into.file)
    elif record.HasField("config"):
        into.settings += known_settings(_row(record.config.update).items(), into.file)


def _row(items: Any) -> dict[str, Any]:
    return {item.key or "/".join(item.nested_key): _value(item.value_json) for item in items}


def _value(text: str) -> Any:
    """A number, or other JSON; None for other text."""
    try:
        return float(text)
    except ValueError:
        pass
    try:
        return json.loads(text) if len(text) < 1000 else None
    except (ValueError, RecursionError):
        return None


def _records(file: BinaryIO, into: Collector) -> Iterator[bytes]:
    """Whole records up to the first that is broken or cut off."""
    begun: list[bytes] | None = None
    place = len(_START)
    while True:
        if (left := _BLOCK - place % _BLOCK) < _HEAD.size:
            place += len(file.read(left))
            continue
        head = file.read(_HEAD.size)
        if not head:
            return None if begun is None else into.note("cut-off")
        if len(head) < _HEAD.size:
            return into.note("cut-off")
        checksum, length, kind = _HEAD.unpack(head)
        data = file.read(length)
        place += _HEAD.size + len(data)
        if len(data) < length:
            return into.note("cut-off")
        if zlib.crc32(data, zlib.crc32(bytes((kind,)))) != checksum or kind not in {_WHOLE, _FIRST, _MIDDLE, _LAST}:
            return into.note("damaged", Words("a checksum is wrong"))
        if kind == _WHOLE:
            begun = None
            yield data
        elif kind == _FIRST:
            begun = [data]
        elif begun is not None:
            if len(begun) * _BLOCK < _LONGEST:
                begun.append(data)
            if kind == _LAST:
                yield b"".join(begun) if len(begun) * _BLOCK < _LONGEST else b""
                begun = None
