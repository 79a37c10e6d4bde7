"""Reads a safetensors header and trusts nothing in it.

Format: https://github.com/huggingface/safetensors#format: eight bytes with the header's length N (little-endian),
N bytes of JSON, then the tensors' bytes without gap or overlap.
"""

import codecs
import json
import math
import os
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, NamedTuple, NoReturn, TypeVar, cast

import msgspec

from halftone.contract.echoes import echo
from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.settings.regular_files import open_regular

MAX_HEADER: Final = 32_000_000
"""Bytes of a header that is read; models have some hundred thousand, the reference reader stops at 100 MB. Memory and time stay
within a small multiple of it.
"""
MAX_TENSORS: Final = 100_000
"""Tensors in one file; the largest models have some thousands."""

ITEM_BITS: Final[dict[str, int]] = {
    name: bits
    for bits, names in {
        4: "F4",
        6: "F6_E2M3 F6_E3M2",
        8: "BOOL U8 I8 F8_E4M3 F8_E5M2 F8_E8M0 F8_E4M3FNUZ F8_E5M2FNUZ",
        16: "U16 I16 F16 BF16",
        32: "U32 I32 F32",
        64: "U64 I64 F64 C64",
    }.items()
    for name in names.split()
}
COMFY_QUANT: Final = ".comfy_quant"
"""The end of the names of ComfyUI's notes on how a layer's weight is quantised, which are texts."""
_Size = Annotated[int, msgspec.Meta(ge=0, le=2**63 - 1)]
_Kind = TypeVar("_Kind")


class _Entry(msgspec.Struct, forbid_unknown_fields=True):
    dtype: str
    shape: list[_Size]
    data_offsets: tuple[_Size, _Size]


class TensorInfo(msgspec.Struct, frozen=True, gc=False):
    """dtype as in the file ("F16"); start, end: bytes from the beginning of the file."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    start: int
    end: int


class Header(msgspec.Struct, frozen=True):
    """tensors: in the order of their bytes. metadata: the writer's free text pairs."""

    tensors: tuple[TensorInfo, ...]
    metadata: dict[str, str]


def file_stamp(path: str) -> str:
    """Changes when the file is rewritten; "" if it cannot be read."""
    try:
        facts = os.stat(path)
    except (OSError, ValueError):
        return ""
    return f"{facts.st_size}-{facts.st_mtime_ns}"


def file_version(path: Path) -> tuple[int, int, int]:
    """Changes when the file is rewritten in this session, also where another one takes its place. Raises OSError."""
    facts = path.stat()
    return facts.st_size, facts.st_mtime_ns, facts.st_ino


class UsedFile(NamedTuple):
    """A file or a folder at one time. version: see `path_version`."""

    path: str
    version: str


def used_files(paths: Iterable[str]) -> tuple[UsedFile, ...]:
    """As they are now."""
    return tuple(UsedFile(path, path_version(path)) for path in paths)


def path_version(path: str) -> str:
    """Changes when the file, or one in the folder, is rewritten; "" if it cannot be read."""
    place = Path(path)
    try:
        files = sorted(file for file in place.iterdir() if os.path.isfile(file)) if os.path.isdir(place) else [place]
        facts = [(file.name, file.stat()) for file in files]
    except (OSError, ValueError):
        return ""
    return ",".join(f"{name} {found.st_size}-{found.st_mtime_ns}" for name, found in facts)


def read_header(path: Path) -> Header:
    """The header of a safetensors file, read once a version; errors as `parse_header`, OSError if it cannot be read."""
    return _read(path, file_version(path))


@lru_cache(maxsize=32)
def _read(path: Path, _version: tuple[int, int, int]) -> Header:
    with open_regular(path) as file:
        return parse_header(file, os.fstat(file.fileno()).st_size, path)


def parse_header(file: BinaryIO, size: int, path: Path) -> Header:
    """The header of an open file of `size` bytes; `path` is for errors.

    Raises HalftoneError file-empty, not-safetensors for a short text, model-truncated for a file shorter than its header says,
    model-pickle for a pickle or zip under a wrong name, model-bad-header for anything else that is wrong.
    """
    first = file.read(8)
    if len(first) < 8:
        raise _too_short(path, first, size)
    length = int.from_bytes(first, "little")
    if length > MAX_HEADER:
        _refuse_length(path, first, length)
    if 8 + length > size:
        raise _truncated(path, 8 + length, size)
    try:
        text = file.read(length).decode()
    except UnicodeDecodeError as error:
        raise _bad(path, Words("it is not UTF-8 text")) from error
    tensors, metadata = _parsed(path, text, 8 + length)
    end = tensors[-1].end if tensors else 8 + length
    if end > size:
        raise _truncated(path, end, size)
    if end < size:
        raise _bad(path, Words("{0} bytes at its end belong to no tensor", (str(size - end),)))
    return Header(tuple(tensors), metadata)


def _parsed(path: Path, text: str, base: int) -> tuple[list[TensorInfo], dict[str, str]]:
    """base: where the tensors' bytes begin in the file."""
    tensors: list[TensorInfo] = []
    metadata: dict[str, str] = {}
    seen: set[str] = set()
    for name, value in _pairs(path, text):
        if name in seen:
            raise _bad(path, Words("it contains the name {0} twice", (quoted(name),)))
        seen.add(name)
        if name == "__metadata__":
            metadata = _converted(path, name, value, dict[str, str])
        elif len(tensors) == MAX_TENSORS:
            raise _bad(path, Words("it names more than the {0} tensors that Halftone reads", (str(MAX_TENSORS),)))
        else:
            tensors.append(_tensor(path, name, _converted(path, name, value, _Entry), base))
    tensors.sort(key=lambda tensor: (tensor.start, tensor.end))
    _refuse_gaps(path, tensors, base)
    return tensors, metadata


_KEY: Final = re.compile(r"\s*(?=\")")
_COLON: Final = re.compile(r"\s*:\s*")
_NEXT: Final = re.compile(r"\s*([,}])")
_EMPTY: Final = re.compile(r"\{\s*\}")


def _pairs(path: Path, text: str) -> Iterator[tuple[str, object]]:
    """The pairs of the outermost object, one at a time: a hostile header is refused before all of it is in memory."""
    try:
        end = match.end() if (match := _EMPTY.match(text)) else 1
        more = match is None
        if not text.startswith("{"):
            raise ValueError("no object")
        while more:
            name, end = _DECODER.raw_decode(text, _after(_KEY, text, end).end())
            value, end = _DECODER.raw_decode(text, _after(_COLON, text, end).end())
            yield name, value
            separator = _after(_NEXT, text, end)
            end, more = separator.end(), separator[1] == ","
        if text[end:].strip(" \t\r\n"):
            raise _bad(path, Words("it is not valid JSON (extra text at the end)"))
    except _TwinError as error:
        raise _bad(path, Words("it contains the name {0} twice", (quoted(str(error)),))) from error
    except _ConstantError as error:
        raise _bad(path, Words("it is not valid JSON ({0} is not a JSON number)", (str(error),))) from error
    except RecursionError as error:
        raise _bad(path, Words("it is nested too deeply")) from error
    except ValueError as error:
        raise _bad(path, Words("it is not valid JSON")) from error


def _after(pattern: re.Pattern[str], text: str, position: int) -> re.Match[str]:
    if (match := pattern.match(text, position)) is None:
        raise ValueError(f"unexpected text at {position}")
    return match


class _TwinError(Exception):
    """JSON allows a key twice, and readers disagree which counts: two programs would see two models."""


def _no_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        counted = Counter(name for name, _ in pairs)
        raise _TwinError(next(name for name, count in counted.items() if count > 1))
    return found


class _ConstantError(Exception):
    """NaN and the infinities, which Python's reader knows and JSON does not."""


def _no_constant(name: str) -> NoReturn:
    raise _ConstantError(name)


_DECODER: Final = json.JSONDecoder(object_pairs_hook=_no_twins, parse_constant=_no_constant)


def _converted(path: Path, name: str, value: object, kind: type[_Kind]) -> _Kind:
    """The value of an entry. Raises model-bad-header that names the wrong field."""
    try:
        name.encode()
        return msgspec.convert(value, kind)
    except (msgspec.ValidationError, UnicodeEncodeError) as error:
        why = _wrong_field(value) if kind is _Entry else Words("it holds more than pairs of text")
        raise _bad(path, Words("the entry {0} is wrong ({1})", (quoted(name), why))) from error


_FIELDS: Final[dict[str, Any]] = {"dtype": str, "shape": list[_Size], "data_offsets": tuple[_Size, _Size]}


def _wrong_field(value: object) -> Words:
    """The first wrong field of an entry, as words in brackets."""
    if not isinstance(value, dict):
        return Words("it describes no tensor")
    given = cast("dict[str, object]", value)
    for field, kind in _FIELDS.items():
        try:
            msgspec.convert(given.get(field), kind)
        except (msgspec.ValidationError, UnicodeEncodeError):
            return Words("its {0} is wrong", (field,)) if field in given else Words("it has no {0}", (field,))
    return Words("it has an unknown field") if given.keys() - _FIELDS.keys() else Words("its name is not text")


def _tensor(path: Path, name: str, entry: _Entry, base: int) -> TensorInfo:
    bits = ITEM_BITS.get(entry.dtype)
    if bits is None:
        raise _bad(path, Words("tensor {0} has the unknown type {1}", (quoted(name), quoted(entry.dtype))))
    start, end = entry.data_offsets
    if end < start:
        raise _bad(path, Words("tensor {0} ends before it starts", (quoted(name),)))
    if count_numbers(entry.shape) * bits != (end - start) * 8:
        raise _bad(path, Words("tensor {0} has {1} bytes, which does not match its shape", (quoted(name), str(end - start))))
    return TensorInfo(name, entry.dtype, tuple(entry.shape), base + start, base + end)


def count_numbers(shape: Sequence[int]) -> int:
    """Numbers in the tensor; stops multiplying once no file could hold them."""
    if 0 in shape:
        return 0
    total = 1
    for size in shape:
        total *= size
        if total > 2**63:
            return total
    return total


def _refuse_gaps(path: Path, tensors: list[TensorInfo], base: int) -> None:
    for at, (end, tensor) in enumerate(zip((base, *(before.end for before in tensors)), tensors, strict=False)):
        if tensor.start < end:
            raise _bad(path, Words("tensors {0} and {1} overlap", (quoted(tensors[at - 1].name), quoted(tensor.name))))
        if tensor.start > end:
            gap = str(tensor.start - end)
            raise _bad(path, Words("{0} bytes before tensor {1} belong to no tensor", (gap, quoted(tensor.name))))


_OTHERS: Final[tuple[tuple[re.Pattern[bytes], Words], ...]] = (
    (re.compile(rb"version "), Words("it is a Git LFS pointer, not the file")),
    (re.compile(rb"(?:\xef\xbb\xbf)?\s*<(?:!doctyp|html)", re.IGNORECASE), Words("it is a web page, not a model")),
    (re.compile(rb"GGUF"), Words("it is a GGUF file under another name")),
)
"""How files begin that are no models of this form."""
_TEXT: Final = Words("it is a text file under another name")
_PICKLED_TEXT: Final = re.compile(rb"PK|[(\]}]|[IL]-?[0-9]|c[\w.]+\n")
"""How a zip file begins, and a pickle of protocol 0, which is text."""
_BEGINNING: Final = 512


def refuse_misnamed(path: Path) -> None:
    """Raise HalftoneError file-empty or model-bad-header for a file called a pickle that begins as something else, OSError where
    it cannot be read.
    """
    with open_regular(path) as file:
        first = file.read(_BEGINNING)
    if not first:
        raise HalftoneError("file-empty", path=str(path))
    if (what := _other_kind(first)) is not None and not _PICKLED_TEXT.match(first):
        raise _bad(path, what)


def _other_kind(first: bytes) -> Words | None:
    """What a file is that begins so, None for what shows nothing."""
    known = next((what for begins, what in _OTHERS if begins.match(first)), None)
    return _TEXT if known is None and _is_text(first) else known


def _is_text(first: bytes) -> bool:
    """Whether a file begins as text does (UTF-8; the last letter may be cut off)."""
    try:
        letters = codecs.getincrementaldecoder("utf-8")().decode(first)
    except UnicodeDecodeError:
        return False
    return all(letter.isprintable() or letter in "\t\n\r" for letter in letters)


def _refuse_length(path: Path, first: bytes, length: int) -> NoReturn:
    """Name the kind of file whose first eight bytes are no possible length."""
    if first.startswith((b"PK\x03\x04", b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")):
        raise HalftoneError("model-pickle", path=str(path))
    if (what := _other_kind(first)) is not None:
        raise _bad(path, what)
    exponent = math.log10(length)
    said = str(length) if exponent < 12 else f"10^{exponent:.0f}"
    raise _bad(path, Words("it claims to be {0} bytes long, and Halftone reads headers of up to {1}", (said, str(MAX_HEADER))))


def _too_short(path: Path, first: bytes, size: int) -> HalftoneError:
    """The error of a file that ends within its first eight bytes."""
    if not first:
        return HalftoneError("file-empty", path=str(path))
    if _is_text(first):
        return HalftoneError("not-safetensors", path=str(path), detail=Words("it is a short text file"))
    return _truncated(path, 8, size)


def _truncated(path: Path, expected: int, actual: int) -> HalftoneError:
    return HalftoneError("model-truncated", path=str(path), expected=expected, actual=actual)


def _bad(path: Path, detail: Words) -> HalftoneError:
    return HalftoneError("model-bad-header", path=str(path), detail=detail)


def quoted(name: str) -> str:
    """A name from an untrusted file, harmless and short."""
    return echo(name, 80)
