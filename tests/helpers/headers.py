"""Headers of model files without the files: tensors as compact patterns, from names and shapes alone."""

import math
import re
from collections.abc import Iterable, Mapping
from itertools import product
from pathlib import Path

from tests.helpers.model_files import with_header

from halftone.library.files.header import Header, TensorInfo

_ITEM = re.compile(r"\{([^}]*)\}")


def tensors(*patterns: str) -> dict[str, tuple[int, ...]]:
    """ "blocks.{0-3}.{q,k}.weight[8,4]" is eight tensors; without brackets a tensor has the shape (4,)."""
    found: dict[str, tuple[int, ...]] = {}
    for pattern in " ".join(patterns).split():
        name, _, shape = pattern.rstrip("]").partition("[")
        edges = tuple(int(edge) for edge in shape.split(",")) if shape else (4,)
        choices = [_choices(group) for group in _ITEM.findall(name)]
        for chosen in product(*choices):
            words = iter(chosen)
            found[_ITEM.sub(lambda _, words=words: next(words), name)] = edges
    return found


def _choices(group: str) -> list[str]:
    found: list[str] = []
    for entry in group.split(","):
        first, dash, last = entry.partition("-")
        found += [str(number) for number in range(int(first), int(last) + 1)] if dash and last.isdecimal() else [entry]
    return found


def header_of(
    shapes: Mapping[str, tuple[int, ...]], metadata: Mapping[str, str] | None = None, dtype: str = "F16", size: int = 2
) -> Header:
    """size: bytes of one number."""
    placed: list[TensorInfo] = []
    end = 0
    for name, shape in shapes.items():
        placed.append(TensorInfo(name, dtype, shape, end, end := end + math.prod(shape) * size))
    return Header(tuple(placed), dict(metadata or {}))


def header(*patterns: str, metadata: Mapping[str, str] | None = None) -> Header:
    return header_of(tensors(*patterns), metadata)


def write_sparse(path: Path, header: Header) -> Path:
    """The file of such a header, of its full size: its zeros take no room on the disk."""
    entries = [
        f'"{tensor.name}":{{"dtype":"{tensor.dtype}","shape":{list(tensor.shape)},"data_offsets":[{tensor.start},{tensor.end}]}}'
        for tensor in header.tensors
    ]
    said = ",".join(f'"{key}":"{value}"' for key, value in header.metadata.items())
    start = with_header(("{" + ",".join([f'"__metadata__":{{{said}}}', *entries]) + "}").encode())
    path.write_bytes(start)
    with path.open("r+b") as file:
        file.truncate(len(start) + _end(header.tensors))
    return path


def _end(placed: Iterable[TensorInfo]) -> int:
    return max((tensor.end for tensor in placed), default=0)
