"""Marks: short patterns of a tensor's name and shape, for a file's header.

"img_in.weight[*,384]": this name, with two edges of which the second is 384. "[64,...]": further edges may follow. Without
brackets any shape fits. "blocks.0.{scale,weight}": either of the two. "double_blocks.*": any name that begins so.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from functools import cache
from typing import Final

import msgspec

from halftone.library.files.header import TensorInfo

Shapes = Mapping[str, tuple[int, ...]]

_MARK: Final = re.compile(r"(?P<start>[^{\[]*)(?:\{(?P<either>[^}]*)\}(?P<end>[^\[]*))?(?:\[(?P<shape>[^\]]*)\])?")


class Mark(msgspec.Struct, frozen=True):
    """names: any of them. shape: None for any edge, or for any shape. whole: no further edges may follow."""

    names: tuple[str, ...]
    shape: tuple[int | None, ...] | None = None
    whole: bool = True


class View:
    """The tensors of one part of a file, by name."""

    def __init__(self, shapes: Shapes) -> None:
        self.shapes = shapes
        self._sorted = sorted(shapes)

    def has(self, mark: str) -> bool:
        found = read_mark(mark)
        return any(self._fits(name, found) for name in found.names)

    def all(self, marks: Iterable[str]) -> bool:
        return all(self.has(mark) for mark in marks)

    def any(self, marks: Iterable[str]) -> bool:
        return any(self.has(mark) for mark in marks)

    def edge(self, name: str, index: int) -> int | None:
        """One edge of a tensor; None without the tensor or the edge."""
        shape = self.shapes.get(name, ())
        return shape[index] if -len(shape) <= index < len(shape) else None

    def begins(self, start: str) -> bool:
        place = bisect_left(self._sorted, start)
        return place < len(self._sorted) and self._sorted[place].startswith(start)

    def below(self, prefix: str) -> "View":
        """What is named with this prefix, without it."""
        if not prefix:
            return self
        place = bisect_left(self._sorted, prefix)
        found: dict[str, tuple[int, ...]] = {}
        while place < len(self._sorted) and (name := self._sorted[place]).startswith(prefix):
            found[name[len(prefix) :]] = self.shapes[name]
            place += 1
        return View(found)

    def _fits(self, name: str, mark: Mark) -> bool:
        if name.endswith("*"):
            return self.begins(name[:-1])
        shape = self.shapes.get(name)
        if shape is None or mark.shape is None:
            return shape is not None
        if len(shape) < len(mark.shape) or (mark.whole and len(shape) > len(mark.shape)):
            return False
        return all(wanted in (None, edge) for wanted, edge in zip(mark.shape, shape, strict=False))


def view_of(tensors: Iterable[TensorInfo]) -> View:
    return View({tensor.name: tensor.shape for tensor in tensors})


@cache
def read_mark(text: str) -> Mark:
    """Raises ValueError for what is no mark."""
    match = _MARK.fullmatch(text)
    if match is None:
        raise ValueError(text)
    either = match["either"].split(",") if match["either"] is not None else [""]
    names = tuple(match["start"] + middle + (match["end"] or "") for middle in either)
    if match["shape"] is None:
        return Mark(names)
    edges = match["shape"].split(",")
    whole = edges[-1] != "..."
    return Mark(names, tuple(None if edge == "*" else int(edge) for edge in (edges if whole else edges[:-1])), whole)
