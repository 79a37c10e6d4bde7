"""Logs as training programs write them: with tqdm itself, and in the shapes of the programs' own source."""

import csv
import io
import json
import math
import struct
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from tqdm import tqdm

from halftone.library.run_logs.records import masked_crc

Losses = Sequence[float]
BAD = math.nan


def kohya(path: Path, losses: Losses, *, between: Mapping[int, str] | None = None, head: str = "") -> Path:
    """What train_network.py prints. between: after how many steps it says something more."""
    file = io.StringIO()
    file.write(head + "running training / 学習開始\n  num train images * repeats / 学習画像の数×繰り返し回数: 200\n")
    total = 0.0
    with tqdm(total=1600, smoothing=0, desc="steps", file=file, mininterval=0, miniters=1, ncols=100) as progress:
        file.write("\nepoch 1/8\n")
        for step, loss in enumerate(losses, 1):
            progress.update(1)
            total += loss
            progress.set_postfix(avr_loss=total / step)
            if between and step in between:
                file.write(f"\n{between[step]}\n")
    path.write_text(file.getvalue(), "utf-8")
    return path


def diffusers(
    path: Path, losses: Losses, *, rate: float = 1e-4, between: Mapping[int, str] | None = None, head: str = ""
) -> Path:
    """What train_text_to_image.py prints."""
    file = io.StringIO()
    file.write(head + "***** Running training *****\n  Num examples = 20\n  Total optimization steps = 5000\n")
    with tqdm(total=5000, desc="Steps", file=file, mininterval=0, miniters=1, ncols=100) as progress:
        for step, loss in enumerate(losses, 1):
            progress.update(1)
            progress.set_postfix(step_loss=loss, lr=rate)
            if between and step in between:
                file.write(f"\n{between[step]}\n")
    path.write_text(file.getvalue(), "utf-8")
    return path


def trainer_state(path: Path, entries: Iterable[Mapping[str, float]]) -> Path:
    """As transformers' TrainerState.save_to_json."""
    state = {"best_metric": None, "epoch": 1.0, "log_history": list(entries), "max_steps": 100, "stateful_callbacks": {}}
    path.write_text(json.dumps(state, indent=2, sort_keys=True) + "\n")
    return path


def metrics_csv(path: Path, rows: Iterable[Mapping[str, object]]) -> Path:
    """As Lightning's CSVLogger: every name is a column, and a row holds those of one call."""
    kept = list(rows)
    names = sorted({name for row in kept for name in row})
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=names)
        writer.writeheader()
        writer.writerows(kept)
    return path


def _varint(value: int) -> bytes:
    found = bytearray()
    value &= 2**64 - 1
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    return bytes((*found, value))


def _field(number: int, data: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(data)) + data


def record(data: bytes) -> bytes:
    """A TFRecord."""
    length = struct.pack("<Q", len(data))
    return length + struct.pack("<I", masked_crc(length)) + data + struct.pack("<I", masked_crc(data))


def scalar_event(tag: str, value: float, step: int, wall: float = 1.7e9) -> bytes:
    """An Event with one simple_value, as SummaryWriter.add_scalar makes it."""
    summary = _field(1, _field(1, tag.encode()) + _varint(2 << 3 | 5) + struct.pack("<f", value))
    return _varint(1 << 3 | 1) + struct.pack("<d", wall) + _varint(2 << 3) + _varint(step) + _field(5, summary)


def events(path: Path, scalars: Iterable[tuple[str, int, float]]) -> Path:
    """(tag, step, value) of each."""
    version = _varint(1 << 3 | 1) + struct.pack("<d", 1.7e9) + _field(3, b"brain.Event:2")
    path.write_bytes(b"".join(map(record, (version, *(scalar_event(tag, value, step) for tag, step, value in scalars)))))
    return path


def wandb_run(path: Path, rows: Iterable[Mapping[str, object]], settings: Mapping[str, object] | None = None) -> Path:
    """As wandb's own writer: blocks of 32 KiB, of which a record that is too long fills several."""
    records = [_field(17, _field(4, b"".join(_field(1, _item(*one)) for one in (settings or {}).items())))]
    for number, row in enumerate(rows):
        items = b"".join(_field(1, _item(*one)) for one in row.items())
        records.append(_field(2, items + _field(2, _varint(1 << 3) + _varint(number))))
    found = bytearray(b":W&B\xe1\xbe\x00")
    for data in records:
        rest, begun = data, False
        while rest or not begun:
            left = 2**15 - len(found) % 2**15
            if left < 7:
                found += bytes(left)
                continue
            part, rest = rest[: left - 7], rest[left - 7 :]
            kind = (3 if rest else 4) if begun else (2 if rest else 1)
            found += struct.pack("<IHB", zlib.crc32(bytes((kind,)) + part), len(part), kind) + part
            begun = True
    path.write_bytes(found)
    return path


def _item(name: str, value: object) -> bytes:
    """Nested names come apart."""
    parts = name.split("/")
    key = _field(1, name.encode()) if len(parts) == 1 else b"".join(_field(2, part.encode()) for part in parts)
    return key + _field(16, json.dumps(value).encode())


def steady(count: int, level: float = 0.12, seed: int = 0) -> list[float]:
    """A noisy loss around a level, the same for the same seed."""
    state = seed * 7919 + 1
    found: list[float] = []
    for _ in range(count):
        state = state * 1103515245 + 12345 & 0x7FFFFFFF
        found.append(level * (0.6 + 0.8 * state / 0x7FFFFFFF))
    return found
