import io
import struct
import tracemalloc
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.helpers.gguf_files import gguf, text

from halftone.contract.errors import HalftoneError
from halftone.library.files.gguf_header import parse_gguf, read_gguf
from halftone.library.files.header import Header

PATH = Path("m.gguf")
GOOD = gguf(
    {"double_blocks.0.img_attn.qkv.weight": ("Q4_K", (6, 256)), "img_in.weight": ("BF16", (4, 64)), "flag": ("F32", ())},
    {
        "general.architecture": "flux",
        "general.file_type": 15,
        "general.quantised": True,
        "tokenizer.ggml.tokens": ["a", "b", "café"],
        "comfy.gguf.orig_shape.img_in.weight": [2, 2, 64],
    },
)


def parsed(data: bytes) -> Header:
    return parse_gguf(io.BytesIO(data), len(data), PATH)


def outcome(data: bytes) -> Header | HalftoneError:
    try:
        return parsed(data)
    except HalftoneError as error:
        return error


def is_said(error: HalftoneError) -> bool:
    return error.code in {"model-bad-header", "model-truncated"} and "\n" not in str(error)


def refusal(data: bytes) -> HalftoneError:
    with pytest.raises(HalftoneError) as caught:
        parsed(data)
    return caught.value


def test_names_types_shapes_and_pairs_are_read(tmp_path: Path) -> None:
    (tmp_path / "m.gguf").write_bytes(GOOD)
    header = read_gguf(tmp_path / "m.gguf")
    assert {tensor.name: (tensor.dtype, tensor.shape) for tensor in header.tensors} == {
        "double_blocks.0.img_attn.qkv.weight": ("Q4_K", (6, 256)),
        "img_in.weight": ("BF16", (2, 2, 64)),
        "flag": ("F32", ()),
    }
    sizes = {tensor.name: tensor.end - tensor.start for tensor in header.tensors}
    assert sizes == {"double_blocks.0.img_attn.qkv.weight": 6 * 144, "img_in.weight": 4 * 64 * 2, "flag": 4}
    assert all(tensor.start % 32 == 0 for tensor in header.tensors)
    said = {"general.architecture": "flux", "general.file_type": "15", "general.quantised": "True"}
    assert header.metadata == said, "vocabularies are not kept"


def test_a_shape_that_does_not_fit_the_tensor_is_not_believed() -> None:
    data = gguf({"a": ("F32", (4, 8))}, {"comfy.gguf.orig_shape.a": [4, 9]})
    assert parsed(data).tensors[0].shape == (4, 8)


def head(tensors: int = 0, pairs: int = 0, version: int = 3) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", version, tensors, pairs)


def tensor(name: str = "a", sizes: tuple[int, ...] = (4,), kind: int = 0, offset: int = 0) -> bytes:
    return text(name) + struct.pack(f"<I{len(sizes)}QIQ", len(sizes), *sizes, kind, offset)


CASES = [
    (b"GGML" + bytes(40), "does not start like a GGUF file"),
    (head(version=1), "version 1 is unknown"),
    (b"GGUF" + (3).to_bytes(4, "big") + bytes(16), "big-endian"),
    (head(2**40), "1099511627776 tensors"),
    (head(0, 2**40), "1099511627776 pairs"),
    (head(0, 1) + struct.pack("<Q", 2**50) + bytes(64), "a text of 1125899906842624 bytes"),
    (head(0, 1) + text("a") + struct.pack("<I", 99), "unknown type 99"),
    (head(0, 1) + text("a") + struct.pack("<IIQ", 9, 8, 2**60) + bytes(64), "texts"),
    (head(0, 1) + text("a") + struct.pack("<I", 9) + struct.pack("<IQ", 9, 1) * 9, "nested too deeply"),
    (head(0, 1) + struct.pack("<Q", 1) + b"\xff" + struct.pack("<II", 4, 1), "not UTF-8"),
    (head(0, 1) + text("general.alignment") + struct.pack("<II", 4, 0), "alignment cannot be 0"),
    (head(1) + tensor(kind=77) + bytes(64), "unknown type 77"),
    (head(1) + tensor(kind=12) + bytes(64), "blocks of 256"),
    (head(1) + tensor(sizes=(1,) * 9) + bytes(64), "9 dimensions"),
    (head(2) + tensor() + tensor(offset=32) + bytes(128), "twice"),
    (head(2) + tensor("a", (16,)) + tensor("b", offset=32) + bytes(128), "overlaps"),
]
WRONG = [found for data, _ in CASES if isinstance(found := outcome(data), HalftoneError)]


@pytest.mark.parametrize(("data", "words"), CASES)
def test_what_is_wrong_is_said_in_one_sentence(data: bytes, words: str) -> None:
    error = refusal(data)
    assert error.code == "model-bad-header"
    assert words in str(error)
    assert "\n" not in str(error)


def test_a_number_of_tensors_that_the_file_has_no_room_for_is_a_truncated_file() -> None:
    assert refusal(head(5000)).code == "model-truncated"
    assert refusal(head(1) + tensor(sizes=(2**40, 2**40)) + bytes(64)).code == "model-truncated"


@given(st.integers(0, len(GOOD) - 1))
def test_a_file_that_is_cut_off_is_said_to_be(length: int) -> None:
    if length >= len(GOOD) - 28:
        return  # only the padding behind the last tensor is lost
    assert refusal(GOOD[:length]).code == "model-truncated"


@given(st.lists(st.tuples(st.integers(0, 600), st.binary(min_size=1, max_size=9)), max_size=4), st.integers(0, len(GOOD)))
def test_damaged_files_are_read_or_refused_in_one_sentence(changes: list[tuple[int, bytes]], length: int) -> None:
    data = bytearray(GOOD[: max(8, length)])
    for place, change in changes:
        data[8 + place : 8 + place + len(change)] = change
    found = outcome(bytes(data))
    if isinstance(found, HalftoneError):
        assert is_said(found)
    else:
        assert all(0 <= tensor.start <= tensor.end <= len(data) for tensor in found.tensors)


@given(st.binary(max_size=400))
def test_any_bytes_behind_the_mark_are_read_or_refused(rest: bytes) -> None:
    for start in (b"GGUF", b"GGUF\x03\x00\x00\x00", head(1), head(0, 1)):
        found = outcome(start + rest)
        assert isinstance(found, Header) or is_said(found)


def test_a_hostile_file_takes_no_memory_that_it_has_not_itself() -> None:
    claims = [
        head(99_999, 0),
        head(0, 199_999),
        head(0, 1) + text("a") + struct.pack("<IIQ", 9, 8, 1_999_999),
        head(0, 1) + text("a") + struct.pack("<IIQ", 9, 12, 2**61),
        head(0, 1) + struct.pack("<Q", 1000),
        head(1) + text("a") + struct.pack("<I", 8) + struct.pack("<8Q", *[2**62] * 8) + struct.pack("<IQ", 0, 2**63),
    ]
    for data in claims:
        tracemalloc.start()
        assert refusal(data).code in {"model-truncated", "model-bad-header"}
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 2**20
