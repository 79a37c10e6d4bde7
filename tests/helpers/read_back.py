"""Reads a picture back: what it says about itself, as other programs see it."""

import json
import re
from pathlib import Path
from typing import Final

import msgspec
from PIL import Image

from halftone.metadata.parameters import NEGATIVE
from halftone.metadata.picture import RECEIPT_KEY
from halftone.metadata.video import PARAMETERS_TAG, RECEIPT_TAG

_USER_COMMENT: Final = 0x9286
_MAKER_NOTE: Final = 0x927C
_EXIF_FOLDER: Final = 0x8769
_UNICODE: Final = b"UNICODE\0"
_NOTE_PREFIX: Final = b"halftone\0"
_PAIR: Final = re.compile(r'\s*(\w[\w \-/]+):\s*("(?:\\.|[^\\"])*"|[^,]*)(?:,|$)')
_ENOUGH_PAIRS: Final = 3
"""A last line with fewer pairs is prompt text; A1111's own rule."""


class Found(msgspec.Struct, frozen=True):
    """What a picture says about itself: A1111's text and the receipt's JSON, as they stand there; untrusted."""

    parameters: str | None
    receipt: str | None


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """fields: the pairs of the last line, in order, as text; Size stays one value ("512x768")."""

    prompt: str = ""
    negative: str = ""
    fields: dict[str, str] = msgspec.field(default_factory=dict[str, str])


def read_picture(path: Path) -> Found:
    """What a PNG, JPEG or WebP says about itself."""
    with Image.open(path) as image:
        exif = image.getexif().get_ifd(_EXIF_FOLDER)
        comment, note = exif.get(_USER_COMMENT), exif.get(_MAKER_NOTE)
        parameters, receipt = image.info.get("parameters"), image.info.get(RECEIPT_KEY)
    if isinstance(comment, bytes):
        parameters = _decoded_comment(comment)
    if isinstance(note, bytes) and note.startswith(_NOTE_PREFIX):
        receipt = note.removeprefix(_NOTE_PREFIX).decode(errors="replace")
    return Found(parameters if isinstance(parameters, str) else None, receipt if isinstance(receipt, str) else None)


def read_video(path: Path) -> Found:
    """What an MP4 says about itself."""
    import av

    with av.open(path) as container:
        return Found(container.metadata.get(PARAMETERS_TAG), container.metadata.get(RECEIPT_TAG))


def parse_parameters(text: str) -> Parameters:
    """Read A1111's text, as liberally as A1111 does; text without parameters is all prompt."""
    lines = text.strip().split("\n")
    fields = {match[1]: _unquoted(match[2]) for match in _PAIR.finditer(lines[-1]) if match[2]}
    if len(fields) < _ENOUGH_PAIRS:
        fields = {}
    else:
        lines = lines[:-1]
    prompt: list[str] = []
    negative: list[str] = []
    into = prompt
    for line in (line.strip() for line in lines):
        if into is prompt and line.startswith(NEGATIVE):
            into = negative
            into.append(line.removeprefix(NEGATIVE).strip())
        else:
            into.append(line)
    return Parameters(prompt="\n".join(prompt), negative="\n".join(negative), fields=fields)


def _decoded_comment(comment: bytes) -> str:
    """EXIF 2.32, 4.6.5: eight bytes name the encoding. Writers disagree on the byte order, so the zero bytes decide."""
    if not comment.startswith(_UNICODE):
        return comment.removeprefix(b"ASCII\0\0\0").removeprefix(b"\0" * 8).decode(errors="replace")
    text = comment.removeprefix(_UNICODE)
    little = text[1::2].count(0) > text[::2].count(0)
    return text.decode("utf-16-le" if little else "utf-16-be", errors="replace")


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] == '"':
        try:
            return str(json.loads(value))
        except ValueError:
            return value
    return value.strip()
