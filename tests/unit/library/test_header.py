"""The header reader against damage of every kind, and against thousands of random mutations."""

import io
import json
import pickle
import random
from collections import Counter, OrderedDict
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.helpers.model_files import ramp, with_header
from tests.helpers.mutations import GOOD, MUTATIONS, is_clear

from halftone.contract.errors import HalftoneError
from halftone.library.files.header import MAX_HEADER, MAX_TENSORS, Header, parse_header, read_header, refuse_misnamed

PATH = Path("model.safetensors")


def read(content: bytes) -> Header:
    return parse_header(io.BytesIO(content), len(content), PATH)


def refused(content: bytes) -> HalftoneError:
    with pytest.raises(HalftoneError) as caught:
        read(content)
    return caught.value


def test_a_sound_file_is_read(tmp_path: Path) -> None:
    path = tmp_path / "m.safetensors"
    path.write_bytes(GOOD)
    header = read_header(path)
    assert header.metadata == {"format": "pt"}
    assert {tensor.name: (tensor.dtype, tensor.shape, tensor.end - tensor.start) for tensor in header.tensors} == {
        "a.weight": ("F16", (2, 3), 12),
        "b": ("F32", (), 4),
        "empty": ("F16", (0, 3), 0),
    }
    first = header.tensors[0]
    assert path.read_bytes()[first.start : first.end] == ramp(2, 3).tobytes(), "offsets count from the file's beginning"


@pytest.mark.parametrize("header", [b"{}", b"{ }   ", b' {"x":1}', b'{"__metadata__":{}}\n'])
def test_headers_without_tensors(header: bytes) -> None:
    if header.startswith(b" "):
        assert refused(with_header(header)).code == "model-bad-header"
    else:
        assert read(with_header(header)).tensors == ()


@pytest.mark.parametrize("length", [7, 8, 40, len(GOOD) - 1])
def test_a_file_that_is_cut_off(length: int) -> None:
    error = refused(GOOD[:length])
    assert error.code == "model-truncated"
    assert error.facts["actual"] == length
    assert int(str(error.facts["expected"])) > length


def entry(**changes: object) -> str:
    return json.dumps({"dtype": "F16", "shape": [2], "data_offsets": [0, 4]} | changes)


def two(first: list[int], second: list[int]) -> str:
    return f'{{"a":{entry(data_offsets=first)},"b":{entry(data_offsets=second)}}}'


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("[]", "not valid JSON"),
        ("null", "not valid JSON"),
        ('{"a":', "not valid JSON"),
        ('{"a":1}', "entry a is wrong"),
        (f'{{"a":{entry()}}} x', "extra text"),
        (f'{{"a":{entry()},}}', "not valid JSON"),
        (f'{{"a":{entry()},"a":{entry()}}}', "contains the name a twice"),
        ('{"a":{"dtype":"F16","dtype":"F16","shape":[2],"data_offsets":[0,4]}}', "contains the name dtype twice"),
        (f'{{"__metadata__":{{"k":1}},"a":{entry()}}}', "__metadata__ is wrong"),
        (f'{{"a":{entry(dtype="F17")}}}', "unknown type F17"),
        (f'{{"a":{entry(extra=1)}}}', "unknown field"),
        ('{"a":{"dtype":"F16","shape":[2]}}', "it has no data_offsets"),
        (f'{{"a":{entry(shape=[3])}}}', "which does not match its shape"),
        (f'{{"a":{entry(shape=[2**40, 2**40])}}}', "which does not match its shape"),
        (f'{{"a":{entry(shape=[-2])}}}', "a is wrong"),
        (f'{{"a":{entry(shape=[2.0])}}}', "a is wrong"),
        (f'{{"a":{entry(shape=[True])}}}', "a is wrong"),
        (f'{{"a":{entry(shape=[2**80])}}}', "a is wrong"),
        (f'{{"a":{entry(shape="2")}}}', "a is wrong"),
        (f'{{"a":{entry(data_offsets=[4, 0])}}}', "ends before it starts"),
        (f'{{"a":{entry(data_offsets=[0, 4, 8])}}}', "a is wrong"),
        (f'{{"a":{entry(data_offsets=[-4, 0])}}}', "a is wrong"),
        (f'{{"a":{entry(data_offsets=[2, 6])}}}', "2 bytes before tensor a"),
        (two([0, 4], [2, 6]), "a and b overlap"),
        (two([0, 4], [0, 4]), "a and b overlap"),
        (two([0, 4], [6, 10]), "2 bytes before tensor b"),
        ('{"a":{"dtype":"F16","shape":[NaN],"data_offsets":[0,4]}}', "NaN is not a JSON number"),
        ('{"a":{"dtype":"F16","shape":[' + "9" * 5000 + '],"data_offsets":[0,4]}}', "not valid JSON"),
        ('{"a":' + "[" * 100_000, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ('{"\\ud800":{}}', "is wrong"),
        ('{"a\u0001":{}}', "not valid JSON"),
    ],
    ids=str,
)
def test_a_wrong_header_is_named(header: str, said: str) -> None:
    error = refused(with_header(header.encode(), bytes(64)))
    assert error.code == "model-bad-header"
    assert said in str(error)
    assert len(str(error)) < 400


def test_text_that_is_no_text() -> None:
    assert "UTF-8" in str(refused(with_header(b'{"\xff":1}')))


def test_bytes_that_belong_to_no_tensor() -> None:
    assert "1 bytes at its end" in str(refused(GOOD + b"x"))


@pytest.mark.parametrize(
    ("start", "code", "said"),
    [
        (b"version https://git-lfs.github.com/spec/v1\n", "model-bad-header", "Git LFS pointer"),
        (b"<!DOCTYPE html><html>", "model-bad-header", "web page"),
        (b"\n <HTML><body>", "model-bad-header", "web page"),
        (b"GGUF\x03\0\0\0\xff\xff\xff\xff", "model-bad-header", "GGUF"),
        (b"not a model at all\n", "model-bad-header", "it is a text file under another name"),
        ("\t你好世界。\r\n".encode(), "model-bad-header", "it is a text file under another name"),
        (b"PK\x03\x04\x14\0\0\0archive/data.pkl", "model-pickle", "pickle"),
        (b"\x80\x02}q\0(X\x05\0\0", "model-pickle", "pickle"),
        (b"\xff" * 64, "model-bad-header", "10^19 bytes"),
        (
            (MAX_HEADER + 1).to_bytes(8, "little") + b"{",
            "model-bad-header",
            "32000001 bytes long, and Halftone reads headers of up to 32000000",
        ),
    ],
)
def test_other_files_under_the_name_are_recognised(start: bytes, code: str, said: str) -> None:
    error = refused(start + bytes(2048))
    assert error.code == code
    assert said in str(error)


@pytest.mark.parametrize(
    ("content", "code", "said"),
    [
        (b"", "file-empty", "is empty"),
        (b"<!DOCTYPE html>\n<html>", "model-bad-header", "it is a web page, not a model"),
        (b"\xef\xbb\xbf\r\n<html lang='en'>", "model-bad-header", "it is a web page, not a model"),
        (b"version https://git-lfs.github.com/spec/v1\n", "model-bad-header", "Git LFS pointer"),
        (b"GGUF\x03\0\0\0", "model-bad-header", "GGUF"),
        (b"Invalid username or password.", "model-bad-header", "it is a text file under another name"),
        (b'{"error": "gone"}', "model-bad-header", "it is a text file under another name"),
        *((pickle.dumps({"a": 1}, protocol), None, "") for protocol in range(pickle.HIGHEST_PROTOCOL + 1)),
        (pickle.dumps(OrderedDict(a=1), 0), None, ""),
        (pickle.dumps(0x1950A86A20F9469CFC6C, 0), None, ""),
        (b"PK\x03\x04", None, ""),
        (b"\x00\x01\x02", None, ""),
    ],
)
def test_a_file_called_a_pickle_is_looked_at(tmp_path: Path, content: bytes, code: str | None, said: str) -> None:
    file = tmp_path / "a.ckpt"
    file.write_bytes(content)
    if code is None:
        refuse_misnamed(file)
        return
    with pytest.raises(HalftoneError, match=said) as caught:
        refuse_misnamed(file)
    assert caught.value.code == code


def test_a_hostile_header_is_refused_at_its_first_wrong_entry() -> None:
    """Numbers where tensors should be: nothing is built from them."""
    body = b"{" + b",".join(b'"%d":0' % number for number in range(200_000)) + b"}"
    assert "the entry 0 is wrong" in str(refused(with_header(body)))


@pytest.mark.parametrize("mutation", MUTATIONS)
def test_thousands_of_mutations_give_a_header_or_one_clear_refusal(mutation: Callable[[random.Random], bytes]) -> None:
    chance = random.Random(20)
    codes: Counter[str] = Counter()
    for _ in range(10_000):
        content = mutation(chance)
        try:
            header = read(content)
        except HalftoneError as error:
            codes[error.code if is_clear(error) else str(error)] += 1
        else:
            codes["read"] += 1
            assert all(0 <= tensor.start <= tensor.end <= len(content) for tensor in header.tensors)
    assert set(codes) <= {"read", "model-bad-header", "model-truncated", "file-empty", "not-safetensors"}
    assert codes["model-bad-header"] > 2000
    assert codes["read"] > 100


def test_a_file_of_more_tensors_than_any_model_is_refused_by_their_number() -> None:
    entries = (f'"{index}":{{"dtype":"F16","shape":[0],"data_offsets":[0,0]}}' for index in range(MAX_TENSORS + 1))
    error = refused(with_header(("{" + ",".join(entries) + "}").encode()))
    assert f"it names more than the {MAX_TENSORS} tensors that Halftone reads" in str(error)


def test_a_name_that_stands_twice_among_very_many_is_found_in_one_pass() -> None:
    """Counting each name anew would take hours."""
    names = [*range(300_000), 299_999]
    pairs = ",".join(f'"{name}":""' for name in names)
    error = refused(with_header(f'{{"__metadata__":{{{pairs}}}}}'.encode()))
    assert "it contains the name 299999 twice" in str(error)
