"""Reads the header of a GGUF file and trusts nothing in it.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md: "GGUF", a version, the number of tensors and of pairs, the
pairs, one entry a tensor, then the tensors' bytes. Vocabularies are skipped.
"""

import os
import struct
from pathlib import Path
from typing import BinaryIO, Final, Literal

from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.library.files.header import Header, TensorInfo, count_numbers, quoted, read_header
from halftone.settings.regular_files import open_regular

MAGIC: Final = b"GGUF"
GGUF: Final = ".gguf"
_VERSIONS: Final = (2, 3)
_MAX_HEADER: Final = 100_000_000
"""Bytes, most of them of a vocabulary that is skipped."""
_MAX_TENSORS: Final = 100_000
_MAX_PAIRS: Final = 200_000
_MAX_WORDS: Final = 2_000_000
"""Texts in all arrays together; the largest vocabularies hold a quarter of a million."""
_MAX_NAME: Final = 1024
_MAX_TEXT: Final = 2**20
_KEPT: Final = 4096
"""Characters of a text that are kept: those that identify a model are short."""
_MAX_DIMS: Final = 8
_MAX_DEPTH: Final = 4
_CLAIMS: Final = {"tensors": "it claims to hold {0} tensors", "pairs": "it claims to hold {0} pairs"}
_OWN_SHAPE: Final = "comfy.gguf.orig_shape."
"""Prefix of the pairs in which converters keep the shape of a tensor that they had to reshape."""

_TEXT: Final = 8
_ARRAY: Final = 9
_SCALARS: Final = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}

BLOCKS: Final[dict[int, tuple[str, int, int]]] = {
    0: ("F32", 1, 4),
    1: ("F16", 1, 2),
    2: ("Q4_0", 32, 18),
    3: ("Q4_1", 32, 20),
    6: ("Q5_0", 32, 22),
    7: ("Q5_1", 32, 24),
    8: ("Q8_0", 32, 34),
    9: ("Q8_1", 32, 40),
    10: ("Q2_K", 256, 84),
    11: ("Q3_K", 256, 110),
    12: ("Q4_K", 256, 144),
    13: ("Q5_K", 256, 176),
    14: ("Q6_K", 256, 210),
    15: ("Q8_K", 256, 292),
    16: ("IQ2_XXS", 256, 66),
    17: ("IQ2_XS", 256, 74),
    18: ("IQ3_XXS", 256, 98),
    19: ("IQ1_S", 256, 50),
    20: ("IQ4_NL", 32, 18),
    21: ("IQ3_S", 256, 110),
    22: ("IQ2_S", 256, 82),
    23: ("IQ4_XS", 256, 136),
    24: ("I8", 1, 1),
    25: ("I16", 1, 2),
    26: ("I32", 1, 4),
    27: ("I64", 1, 8),
    28: ("F64", 1, 8),
    29: ("IQ1_M", 256, 56),
    30: ("BF16", 1, 2),
    34: ("TQ1_0", 256, 54),
    35: ("TQ2_0", 256, 66),
    39: ("MXFP4", 32, 17),
    40: ("NVFP4", 64, 36),
    41: ("Q1_0", 128, 18),
}
"""Type of a tensor -> its name, numbers in one block, bytes of one block."""

PACKED: Final = frozenset({"Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K", "IQ4_NL", "IQ4_XS"})
"""Types of GGUF that diffusers can unpack."""


def read_any(path: Path) -> Header:
    """The header of a GGUF or safetensors file, by its ending."""
    return read_gguf(path) if path.suffix.lower() == GGUF else read_header(path)


def read_gguf(path: Path) -> Header:
    """The header of a GGUF file; errors as `parse_gguf`, and OSError if the file cannot be read at all."""
    with open_regular(path) as file:
        return parse_gguf(file, os.fstat(file.fileno()).st_size, path)


def parse_gguf(file: BinaryIO, size: int, path: Path) -> Header:
    """The header of an open file of `size` bytes, with shapes as in torch; `path` is for errors.

    metadata: pairs of a text or a number, as text. Raises HalftoneError model-truncated for a file shorter than its header says,
    model-bad-header for anything else that is wrong.
    """
    reader = _Reader(file, size, path)
    if reader.take(4) != MAGIC:
        raise reader.bad(Words("it does not start like a GGUF file"))
    version = reader.number("I")
    if version not in _VERSIONS:
        if int.from_bytes(version.to_bytes(4, "little"), "big") in _VERSIONS:
            raise reader.bad(Words("it is big-endian"))
        raise reader.bad(Words("its GGUF version {0} is unknown", (str(version),)))
    count = reader.counted(_MAX_TENSORS, 8 + 4 + 8 + 4 + 8, "tensors")
    pairs = reader.counted(_MAX_PAIRS, 8 + 4 + 1, "pairs")
    metadata, shapes = _pairs(reader, pairs)
    entries = _entries(reader, count, shapes)
    alignment = metadata.get("general.alignment", "32")
    if not alignment.isdecimal() or not 0 < int(alignment) <= 2**20:
        raise reader.bad(Words("its alignment cannot be {0}", (alignment[:20],)))
    return Header(_placed(reader, entries, int(alignment)), metadata)


class _Reader:
    """Walks through the header: no step leaves the file, and none reads more than a header may have."""

    def __init__(self, file: BinaryIO, size: int, path: Path) -> None:
        self.file, self.size, self.path = file, size, path
        self.at = 0
        self.words = 0

    def take(self, length: int) -> bytes:
        start = self.at
        self.skip(length)
        self.file.seek(start)
        if len(data := self.file.read(length)) < length:
            raise self.short(self.at)
        return data

    def skip(self, length: int) -> None:
        self.at += length
        if self.at > self.size:
            raise self.short(self.at)
        if self.at > _MAX_HEADER:
            raise self.bad(Words("it is larger than {0} bytes", (str(_MAX_HEADER),)))
        self.file.seek(self.at)

    def number(self, kind: str) -> int:
        return int(struct.unpack("<" + kind, self.take(struct.calcsize(kind)))[0])

    def counted(self, most: int, least_bytes: int, what: Literal["tensors", "pairs"]) -> int:
        """A count of entries that the rest of the file can hold."""
        count = self.number("Q")
        if count > most:
            raise self.bad(Words(_CLAIMS[what], (str(count),)))
        if count * least_bytes > self.size - self.at:
            raise self.short(self.at + count * least_bytes)
        return count

    def text(self, most: int) -> str:
        length = self.number("Q")
        if length > most:
            raise self.bad(Words("it contains a text of {0} bytes", (str(length),)))
        try:
            return self.take(length).decode()
        except UnicodeDecodeError as error:
            raise self.bad(Words("it contains text that is not UTF-8")) from error

    def short(self, expected: int) -> HalftoneError:
        return HalftoneError("model-truncated", path=str(self.path), expected=expected, actual=self.size)

    def bad(self, detail: Words) -> HalftoneError:
        return HalftoneError("model-bad-header", path=str(self.path), detail=detail)


def _pairs(reader: _Reader, count: int) -> tuple[dict[str, str], dict[str, tuple[int, ...]]]:
    """(pair -> its text, tensor -> its own shape)."""
    metadata: dict[str, str] = {}
    shapes: dict[str, tuple[int, ...]] = {}
    for _ in range(count):
        name, kind = reader.text(_MAX_NAME), reader.number("I")
        if kind == _ARRAY:
            shape = _array(reader, 0, keep=name.startswith(_OWN_SHAPE))
            if shape:
                shapes[name.removeprefix(_OWN_SHAPE)] = shape
        elif kind == _TEXT:
            metadata[name] = reader.text(_MAX_TEXT)[:_KEPT]
        else:
            letter = _scalar(reader, kind)
            metadata[name] = str(struct.unpack("<" + letter, reader.take(struct.calcsize(letter)))[0])
    return metadata, shapes


def _scalar(reader: _Reader, kind: int) -> str:
    letter = _SCALARS.get(kind)
    if letter is None:
        raise reader.bad(Words("it contains a value of unknown type {0}", (str(kind),)))
    return letter


def _array(reader: _Reader, depth: int, *, keep: bool) -> tuple[int, ...]:
    """Skip an array; its numbers where `keep` and they can be a shape, else ()."""
    if depth == _MAX_DEPTH:
        raise reader.bad(Words("it is nested too deeply"))
    kind, count = reader.number("I"), reader.number("Q")
    if kind in (_TEXT, _ARRAY):
        reader.words += count
        if reader.words > _MAX_WORDS:
            raise reader.bad(Words("it claims to hold {0} texts", (str(reader.words),)))
        for _ in range(count):
            if kind == _TEXT:
                reader.skip(reader.number("Q"))
            else:
                _array(reader, depth + 1, keep=False)
        return ()
    letter = _scalar(reader, kind)
    if keep and letter in "Ii" and 0 < count <= _MAX_DIMS:
        return tuple(max(0, reader.number(letter)) for _ in range(count))
    reader.skip(count * struct.calcsize(letter))
    return ()


def _entries(reader: _Reader, count: int, shapes: dict[str, tuple[int, ...]]) -> dict[str, TensorInfo]:
    """start, end: behind the header."""
    found: dict[str, TensorInfo] = {}
    for _ in range(count):
        name, dims = reader.text(_MAX_NAME), reader.number("I")
        if name in found:
            raise reader.bad(Words("it contains the name {0} twice", (quoted(name),)))
        if dims > _MAX_DIMS:
            raise reader.bad(Words("tensor {0} has {1} dimensions", (quoted(name), str(dims))))
        sizes = tuple(reader.number("Q") for _ in range(dims))
        kind, offset = reader.number("I"), reader.number("Q")
        block = BLOCKS.get(kind)
        if block is None:
            raise reader.bad(Words("tensor {0} has the unknown type {1}", (quoted(name), str(kind))))
        total = count_numbers(sizes)
        length = total // block[1] * block[2]
        if total % block[1] or (sizes and sizes[0] % block[1]):
            raise reader.bad(Words("tensor {0} is not divisible into blocks of {1}", (quoted(name), str(block[1]))))
        own = shapes.get(name, ())
        shape = own if count_numbers(own) == total and own else tuple(reversed(sizes))
        found[name] = TensorInfo(name, block[0], shape, offset, offset + length)
    return found


def _placed(reader: _Reader, entries: dict[str, TensorInfo], alignment: int) -> tuple[TensorInfo, ...]:
    """In the order of their bytes, of which no two tensors share one."""
    base = -(-reader.at // alignment) * alignment
    moved = (TensorInfo(one.name, one.dtype, one.shape, base + one.start, base + one.end) for one in entries.values())
    placed = sorted(moved, key=lambda tensor: (tensor.start, tensor.end))
    end = 0
    for tensor in placed:
        if tensor.start < end:
            raise reader.bad(Words("tensor {0} overlaps another", (quoted(tensor.name),)))
        end = tensor.end
    if end > reader.size:
        raise reader.short(end)
    return tuple(placed)
