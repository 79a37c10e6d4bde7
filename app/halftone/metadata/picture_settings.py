"""Reads how a picture says that it was made, or a text file of settings, by whichever program."""

import zlib
from pathlib import Path
from typing import Final

from msgspec.structs import replace

from halftone.contract.errors import HalftoneError
from halftone.metadata.a1111_relatives import parameters_of_text
from halftone.metadata.comfy import parameters_of
from halftone.metadata.comfy_graph import NotPlainError
from halftone.metadata.other_programs import is_of_sd_scripts, parameters_beside, parameters_in
from halftone.metadata.reading import Found, Parameters, holds_parameters, read_picture
from halftone.settings.picture_files import not_opened, opened_picture
from halftone.settings.regular_files import read_regular

_MOST: Final = 2**22
"""Bytes of a text that is hidden in a picture, or lies beside it."""
_HIDDEN: Final = (b"stealth_pngcomp", b"stealth_pnginfo")
"""What begins a text in the lowest bits of the alpha channel, compressed with gzip or plain; column by column."""
_LENGTH: Final = 4
"""Bytes of the length that follows, in bits."""
_DIGITS: Final = b"01" * 128
"""Each byte -> the digit of its lowest bit."""
_BESIDE: Final = (".txt", ".json", ".swarm.json")
_OF_GRAPHS: Final = ('"class_type"', '"nodes"')
"""Keys of ComfyUI's two forms of a workflow."""
TEXTS: Final = (".txt", ".json")
"""Endings of files that hold settings alone."""


def said_by(path: Path) -> Parameters:
    """Read what a picture or a text file says. Raises HalftoneError as `opened_picture`; picture-silent, text-silent,
    picture-graph.
    """
    if path.suffix.lower() in TEXTS:
        return _said_in_file(path)
    found = read_picture(path)
    if (said := said_in(found)) is not None:
        return said
    if found.graph is not None:
        return _of_graph(found.graph, path, found.size)
    said = _of_text(_hidden_text(path)) or _said_beside(path)
    if said is None:
        raise HalftoneError("picture-silent", path=path.name)
    return said


def said_in(found: Found) -> Parameters | None:
    """Read what the texts of a picture say, but for a graph; None where they are not settings."""
    if found.parameters and not found.parameters.startswith("{") and holds_parameters(found.parameters):
        return parameters_of_text(found.parameters)
    said = parameters_in(found.texts)
    if said is None or found.size is None or "Size" in said.fields or not is_of_sd_scripts(found.texts):
        return said
    return replace(said, fields={**said.fields, "Size": f"{found.size[0]}x{found.size[1]}"})


def _of_graph(graph: str, path: Path, size: tuple[int, int] | None = None) -> Parameters:
    try:
        return parameters_of(graph, size)
    except NotPlainError as error:
        raise HalftoneError("picture-graph", path=path.name, detail=error.words) from error


def _said_in_file(path: Path) -> Parameters:
    """Read a text file without a picture: A1111's text, the JSON of a program that is known, or ComfyUI's workflow."""
    try:
        text = read_regular(path, _MOST).decode("utf-8-sig", "replace").strip()
    except (OSError, ValueError) as error:
        raise not_opened(error, path) from error
    if (said := _of_text(text)) is not None:
        return said
    if text.startswith("{") and any(key in text for key in _OF_GRAPHS):
        return _of_graph(text, path)
    raise HalftoneError("text-silent", path=path.name)


def _of_text(text: str) -> Parameters | None:
    if not text:
        return None
    return parameters_of_text(text) if not text.startswith("{") and holds_parameters(text) else parameters_beside(text)


def _said_beside(path: Path) -> Parameters | None:
    """Read a text of the same name, as several programs write it on request."""
    for ending in _BESIDE:
        try:
            text = read_regular(path.with_suffix(ending), _MOST).decode("utf-8-sig", "replace")
        except OSError:
            continue
        if (said := _of_text(text)) is not None:
            return said
    return None


def _hidden_text(path: Path) -> str:
    """The text in the alpha channel of a picture; "" where there is none."""
    with opened_picture(path) as image:
        if image.mode != "RGBA":
            return ""
        from PIL import Image

        lines = image.getchannel("A").transpose(Image.Transpose.TRANSPOSE).tobytes()
    start = _from_bits(lines[: (len(_HIDDEN[0]) + _LENGTH) * 8])
    kind, length = start[: len(_HIDDEN[0])], int.from_bytes(start[len(_HIDDEN[0]) :])
    if kind not in _HIDDEN or length > _MOST * 8:
        return ""
    first = len(start) * 8
    data = _from_bits(lines[first : first + length])
    try:
        whole = zlib.decompressobj(zlib.MAX_WBITS | 16).decompress(data, _MOST) if kind == _HIDDEN[0] else data
    except zlib.error:
        return ""
    return whole.decode(errors="replace")


def _from_bits(values: bytes) -> bytes:
    """Put the lowest bit of each byte together, eight of them to a byte, the highest first."""
    bits = values[: len(values) // 8 * 8].translate(_DIGITS)
    return int(bits or b"0", 2).to_bytes(len(bits) // 8)
