"""Any file as lines of text, in a stream: encodings, colours and carriage returns of progress bars are handled."""

import codecs
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO, Final, NamedTuple

from halftone.settings.regular_files import open_regular

_CHUNK: Final = 2**18
_LONGEST: Final = 2**16
"""Letters of a line that are read in one go; a longer one comes in pieces."""
PIECE: Final = re.compile(r"([^\r\n]*)(\r\n?|\n)")
_CONTROL: Final = re.compile(
    r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]{0,200}(?:\x07|\x1b\\)?|[@-Z\\-_])|[\x00-\x08\x0b\x0e-\x1f]"
)
"""Colours and movements (ECMA-48), and other invisible characters."""
_MARKS: Final = (
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)


class Piece(NamedTuple):
    """A line, or a part of it between two carriage returns. number: of the line, from 1, as in editors."""

    text: str
    number: int


class Block(NamedTuple):
    """Many pieces, each with its end (CR, LF or both). number: of the first line; share: of the file that was read."""

    text: str
    number: int
    share: float = 1.0


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
    with open_regular(path) as file:
        return encoding_of(file.read(4096)) is not None


def blocks(path: Path, chunk: int = _CHUNK) -> Iterator[Block]:
    """Lines of a text file without colours, with replacements for undecodable letters, in blocks of so many bytes of the file.

    OSError if it cannot be read.
    """
    with open_regular(path) as file:
        size = max(1, os.fstat(file.fileno()).st_size)
        number = 1
        rest = ""
        for text in _decoded(file, chunk):
            whole = rest + text
            end = max(whole.rfind("\n"), whole.rfind("\r", 0, len(whole) - 1)) + 1
            rest = whole[end:]
            if len(rest) > _LONGEST:
                end, rest = len(whole), ""
            if end:
                found = _shown(whole[:end])
                yield Block(found, number, file.tell() / size)
                number += found.count("\n")
        if rest:
            yield Block(_shown(f"{rest}\n"), number)


def _shown(text: str) -> str:
    """Without colours, in pieces that are not too long and that all end."""
    if "\x1b" in text or "\0" in text:
        text = _CONTROL.sub("", text)
    text = text if text.endswith(("\r", "\n")) else f"{text}\r"
    place = 0
    while len(text) - place > _LONGEST:
        end = max(text.rfind("\n", place, place + _LONGEST), text.rfind("\r", place, place + _LONGEST)) + 1
        if not end:
            end = place + _LONGEST
            text = f"{text[:end]}\r{text[end:]}"
        place = end
    return text


def _decoded(file: BinaryIO, chunk: int) -> Iterator[str]:
    first = file.read(chunk)
    decoder = codecs.getincrementaldecoder(encoding_of(first[:4096]) or "utf-8")(errors="replace")
    found = first
    while found:
        yield decoder.decode(found)
        found = file.read(chunk)
    yield decoder.decode(b"", final=True)
