"""Fuzzed safetensors headers: each gives a header or one clear refusal, in little memory.

    PYTHONPATH=app:. python tests/bench/bench_header.py [--small]

Random bytes of a sound file are changed, or values in its header; besides, headers are made large (a million numbers where
tensors should be, brackets a hundred thousand deep, one very long name). A refusal is a HalftoneError in one sentence, with a
remedy. The memory is the largest that Python held at any time while reading, against the size of the header.
"""

import io
import random
import tracemalloc
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from tests.bench.common import Options, Row, alone
from tests.helpers.model_files import with_header
from tests.helpers.mutations import MUTATIONS, is_clear

from halftone.contract.errors import HalftoneError
from halftone.library.files.header import parse_header

ENOUGH = 10_000
MULTIPLE = 16.0
"""Times the header's size that reading a large one may take."""


def rows(options: Options) -> list[Row]:
    number = 500 if options.small else 2 * ENOUGH
    chance = random.Random(20)
    found = Counter(_outcome(MUTATIONS[index % len(MUTATIONS)](chance)) for index in range(number))
    crashes = sum(count for name, count in found.items() if name.startswith("crash"))
    unclear = found["unclear"]
    largest = max(_memory(content) for content in _large(10_000 if options.small else 1_000_000))
    told = f"{number} headers: {found['read']} read, {number - found['read'] - crashes - unclear} refused, "
    sound = not crashes and not unclear
    return [
        ("fuzzed headers", f"{told}{unclear} unclear, {crashes} crashes", f"none of either in {ENOUGH}", sound),
        ("memory to read a large header over its size", f"{largest:.1f}", f"at most {MULTIPLE:g}", largest <= MULTIPLE),
    ]


def _outcome(content: bytes) -> str:
    try:
        header = parse_header(io.BytesIO(content), len(content), Path("m.safetensors"))
    except HalftoneError as error:
        return error.code if is_clear(error) else "unclear"
    except Exception as error:  # noqa: BLE001 - that is what is looked for
        return f"crash: {type(error).__name__}"
    inside = all(0 <= tensor.start <= tensor.end <= len(content) for tensor in header.tensors)
    return "read" if inside else "crash: a tensor outside of the file"


def _large(number: int) -> Iterator[bytes]:
    yield with_header(b"{" + b",".join(b'"%d":0' % index for index in range(number)) + b"}")
    yield with_header(b'{"a":' + b"[" * number)
    yield with_header(b'{"' + b"a" * number + b'":{}}')
    yield with_header(b'{"a":{"dtype":"F16","shape":[' + b"1," * number + b'1],"data_offsets":[0,2]}}', bytes(2))
    entry = b'{"dtype":"F16","shape":[1],"data_offsets":[%d,%d]}'
    some = number // 10
    yield with_header(
        b"{" + b",".join(b'"t%d":' % index + entry % (2 * index, 2 * index + 2) for index in range(some)) + b"}", bytes(2 * some)
    )


def _memory(content: bytes) -> float:
    """Largest memory while reading, over the size of the content, which itself is not counted."""
    tracemalloc.start()
    try:
        _outcome(content)
        return tracemalloc.get_traced_memory()[1] / len(content)
    finally:
        tracemalloc.stop()


if __name__ == "__main__":
    alone(rows, __doc__)
