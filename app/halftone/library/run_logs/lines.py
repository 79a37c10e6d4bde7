"""Any file as lines of text, in a stream: encodings, colours and carriage returns of progress bars taken care of."""

import codecs
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

_CHUNK: Final = 2**20
_LONGEST: Final = 2**16
"""Letters of a line that are looked at in one go; a longer one comes in pieces."""
_CONTROL: Final = re.compile(
    r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)?|[@-Z\\-_])|[\x00-\x08\x0b\x0e-\x1f]"
)
"""Colours and movements (ECMA-48), and what else no terminal shows."""
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class Piece(NamedTuple):
    """A line, or what stands between two carriage returns of one. number: of the line, from 1, as editors count."""

    text: str
    number: int


def encoding_of(first: bytes) -> str | None:
    """By the first bytes of a file; None if they are no text."""
    for mark, name in _MARKS:
        if first.startswith(mark):
            return name
    if b"\0" not in first:
        return "utf-8"
    if first[1::2].count(0) > len(first) // 3:
        return "utf-16-le"
    if first[0::2].count(0) > len(first) // 3:
        return "utf-16-be"
    return None


def is_text(path: Path) -> bool:
    """Whether a file begins as text does; OSError if it cannot be read."""
    with path.open("rb") as file:
        return encoding_of(file.read(4096)) is not None


def pieces(path: Path) -> Iterator[Piece]:
    """Lines of a text file without colours; letters that cannot be decoded become signs. OSError if it cannot be read."""
    with path.open("rb") as file:
        number = 1
        for text, ended in _cut(_decoded(file)):
            yield Piece(_CONTROL.sub("", text) if "\x1b" in text or "\0" in text else text, number)
            number += ended


def _decoded(file: BinaryIO) -> Iterator[str]:
    first = file.read(_CHUNK)
    decoder = codecs.getincrementaldecoder(encoding_of(first[:4096]) or "utf-8")(errors="replace")
    chunk = first
    while chunk:
        yield decoder.decode(chunk)
        chunk = file.read(_CHUNK)
    yield decoder.decode(b"", final=True)


def _cut(texts: Iterator[str]) -> Iterator[tuple[str, bool]]:
    """(a piece, whether a line ends with it), none longer than _LONGEST."""
    rest = ""
    for text in texts:
        *whole, rest = (rest + text).split("\n")
        for line in whole:
            yield from _shown(line, ended=True)
        while len(rest) > _LONGEST:
            cut = rest.rfind("\r", 0, _LONGEST) + 1 or _LONGEST
            yield from _shown(rest[:cut], ended=False)
            rest = rest[cut:]
    if rest:
        yield from _shown(rest, ended=True)


def _shown(line: str, *, ended: bool) -> Iterator[tuple[str, bool]]:
    """A bar is drawn again after each carriage return."""
    drawn = line.split("\r") if "\r" in line else [line]
    kept = [piece[at : at + _LONGEST] for piece in drawn for at in range(0, len(piece), _LONGEST)] or [""]
    for piece in kept[:-1]:
        yield piece, False
    yield kept[-1], ended
