"""Reads what pictures of this and other programs say about themselves: A1111's text in PNG, JPEG and WebP. It is untrusted."""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

import msgspec

from halftone.metadata.parameters import NEGATIVE
from halftone.metadata.picture import EXIF_FOLDER, MAKER_NOTE, NOTE_PREFIX, RECEIPT_KEY, UNICODE, USER_COMMENT
from halftone.settings.picture_files import opened_picture

SYNTAX: Final = "Prompt syntax"
"""The field that names the program whose weights a prompt has, where these are not A1111's."""
_PAIR: Final = re.compile(r'(?<!\w)(\w[\w \-/]{1,60}):\s*("(?:\\.|[^\\"])*"|[^,]*)(?:,|$)')
"""Begins only where a word does, without the spaces before it, so that a long run of either is scanned once."""
_ENOUGH_PAIRS: Final = 3
"""A last line with fewer pairs is prompt text; A1111's own rule."""
_CAMERA: Final = 0x0110
_MAKER: Final = 0x010F
_GRAPH: Final = re.compile(r"^(?:prompt|workflow):", re.IGNORECASE)
"""ComfyUI writes its graph into a WebP as the model of a camera, and its editor's form as the maker of it."""
_ASCII: Final = b"ASCII\0\0\0"
_LONGEST: Final = 500
"""Letters of a value that has no name in A1111."""


class Found(msgspec.Struct, frozen=True):
    """A picture's texts: A1111's, the receipt's JSON and ComfyUI's graph, in the form that ran where it is there; texts: all of
    them, by their keys. size: (width, height).
    """

    parameters: str | None
    receipt: str | None
    graph: str | None = None
    size: tuple[int, int] | None = None
    texts: dict[str, str] = msgspec.field(default_factory=dict[str, str])


class Parameters(msgspec.Struct, frozen=True, kw_only=True):
    """fields: the pairs of the last line, in order, as text; Size stays one value ("512x768")."""

    prompt: str = ""
    negative: str = ""
    fields: dict[str, str] = msgspec.field(default_factory=dict[str, str])


def read_picture(path: Path) -> Found:
    """Read a PNG, JPEG or WebP. Raises HalftoneError image-unreadable."""
    with opened_picture(path, decoded=False) as image:
        outer = image.getexif()
        exif = outer.get_ifd(EXIF_FOLDER)
        comment, note = exif.get(USER_COMMENT) or outer.get(USER_COMMENT), exif.get(MAKER_NOTE)
        parameters, receipt = image.info.get("parameters"), image.info.get(RECEIPT_KEY)
        graphs = (image.info.get("prompt"), outer.get(_CAMERA), image.info.get("workflow"), outer.get(_MAKER))
        texts = dict(_texts(image.info))
        size = image.size
    if isinstance(comment, bytes):
        parameters = _decoded_comment(comment)
    elif isinstance(comment, str):
        parameters = comment
    if isinstance(note, bytes) and note.startswith(NOTE_PREFIX):
        receipt = note.removeprefix(NOTE_PREFIX).decode(errors="replace")
    if isinstance(comment, bytes | str) and isinstance(parameters, str):
        texts["UserComment"] = str(parameters)
    if isinstance(camera := outer.get(_CAMERA), str) and camera.startswith("{"):
        texts["UserComment"] = camera  # early SwarmUI
    if isinstance(parameters, str) and '"class_type"' in parameters:
        graphs = (*graphs, str(parameters))  # as Civitai has it
    plain = (_GRAPH.sub("", graph) for graph in graphs if isinstance(graph, str))
    found = (parameters, receipt, next((graph for graph in plain if graph.lstrip().startswith("{")), None))
    return Found(*(str(text) if isinstance(text, str) else None for text in found), size=size, texts=texts)


def _texts(info: Mapping[Any, Any]) -> Iterator[tuple[str, str]]:
    """Yield texts by their keys. Pillow's own kinds of str are no plain text."""
    for key, value in info.items():
        if isinstance(key, str) and isinstance(value, str):
            yield key, str(value)
        elif key in ("xmp", "comment") and isinstance(value, bytes):
            yield key, value.decode(errors="replace")


def parse_parameters(text: str) -> Parameters:
    """Read A1111's text, as liberally as A1111; text without parameters is all prompt."""
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


def holds_parameters(text: str) -> bool:
    """Whether a text is more than a prompt."""
    return "Steps" in parse_parameters(text).fields


def _decoded_comment(comment: bytes) -> str:
    """EXIF 2.32, 4.6.5: eight bytes name the encoding. Writers disagree on the byte order, so the zero bytes decide."""
    if not comment.startswith(UNICODE):
        return comment.removeprefix(_ASCII).removeprefix(b"\0" * len(_ASCII)).decode(errors="replace")
    text = comment.removeprefix(UNICODE)
    little = text[1::2].count(0) > text[::2].count(0)
    return text.decode("utf-16-le" if little else "utf-16-be", errors="replace")


def whole_signs(text: str) -> str:
    """The text with question marks for lone surrogates, which JSON may have and no text can."""
    return text.encode(errors="replace").decode()


def _unquoted(value: str) -> str:
    if len(value) >= 2 and value[0] == value[-1] == '"':
        try:
            return whole_signs(str(json.loads(value)))
        except ValueError:
            return value
    return value.strip()


def lora_tag(name: str, weight: object) -> str:
    """A LoRA as A1111 writes it."""
    stem = re.sub(r"\.(safetensors|ckpt|pt)$", "", whole_signs(name).replace("\\", "/").rpartition("/")[2])
    return f"<lora:{stem}:{value_text(weight) or '1'}>"


def value_text(value: object) -> str:
    """A value as a field has it; "" for what says nothing."""
    if value is None or value is False or value in ({}, [], ""):
        return ""
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    if isinstance(value, str | int | float):
        return whole_signs(str(value)).strip()[:_LONGEST]
    return whole_signs(json.dumps(value, ensure_ascii=False))[:_LONGEST]
