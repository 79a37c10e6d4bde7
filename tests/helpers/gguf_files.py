"""GGUF headers for tests, written byte by byte."""

import struct
from collections.abc import Mapping, Sequence

from halftone.library.files.gguf_header import BLOCKS

Value = str | int | bool | Sequence[int] | Sequence[str]
_NUMBERS = {name: number for number, (name, _, _) in BLOCKS.items()}


def gguf(tensors: Mapping[str, tuple[str, tuple[int, ...]]], pairs: Mapping[str, Value] | None = None, version: int = 3) -> bytes:
    """A file of zeros. tensors: name -> (type, shape as torch has it)."""
    pairs = {"general.architecture": "flux"} if pairs is None else pairs
    head = b"GGUF" + struct.pack("<IQQ", version, len(tensors), len(pairs))
    head += b"".join(text(name) + _value(value) for name, value in pairs.items())
    offset = 0
    for name, (kind, shape) in tensors.items():
        head += text(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *reversed(shape))
        head += struct.pack("<IQ", _NUMBERS[kind], offset)
        offset += -(-_length(kind, shape) // 32) * 32
    head += bytes(-len(head) % 32)
    return head + bytes(offset)


def text(words: str) -> bytes:
    data = words.encode()
    return struct.pack("<Q", len(data)) + data


def _value(value: Value) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", 7, value)
    if isinstance(value, int):
        return struct.pack("<II", 4, value)
    if isinstance(value, str):
        return struct.pack("<I", 8) + text(value)
    if all(isinstance(entry, int) for entry in value):
        return struct.pack("<IIQ", 9, 5, len(value)) + b"".join(struct.pack("<i", entry) for entry in value)
    return struct.pack("<IIQ", 9, 8, len(value)) + b"".join(text(str(entry)) for entry in value)


def _length(kind: str, shape: tuple[int, ...]) -> int:
    _, block, size = BLOCKS[_NUMBERS[kind]]
    total = 1
    for edge in shape:
        total *= edge
    return total // block * size
