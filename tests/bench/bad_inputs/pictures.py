"""Pictures that are cut, changed by chance, huge, odd or none at all: as a start picture, as a mask, and for training."""

import io
import os
import random
import struct
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np
from PIL import Image, PngImagePlugin
from tests.bench.bad_inputs.case import Case, Use

from halftone.library.training_data.training_pictures import Shapes, brought_to, check_folder
from halftone.library.training_data.training_pictures import _read as read_for_training
from halftone.metadata.picture import check_picture
from halftone.metadata.reading import read_picture as read_words
from halftone.metadata.start_images import check_mask, picture_size, read_beside, read_picture

_CHANGED: Final = 200
_BYTES = bytes | Callable[[Path], object]
_FORMATS: Final = {"PNG": ".png", "JPEG": ".jpg", "WEBP": ".webp", "GIF": ".gif", "TIFF": ".tif", "BMP": ".bmp", "AVIF": ".avif"}


def cases(rng: random.Random) -> Iterator[Case]:
    """Sound pictures of odd kinds first, then pictures changed by chance, then what is no picture."""
    for name, ending, content in _sound():
        yield _case(f"sound: {name}", ending, content, wanted="works")
    sound = [(name, ending, content) for name, ending, content in _sound() if isinstance(content, bytes)]
    for index in range(_CHANGED):
        name, ending, content = rng.choice(sound)
        how, changed = rng.choice(_CHANGES)
        yield _case(f"{name}: {how} {index}", ending, changed(content, rng))
    for name, ending, content in (*_bombs(), *_strange(), *_exifs(rng)):
        yield _case(name, ending, content)
    for name, special in _SPECIAL:
        yield _case(name, ".png", special)


def _case(name: str, ending: str, content: _BYTES, **more: Any) -> Case:
    file = f"a{ending}"

    def make(folder: Path) -> None:
        content(folder / file) if callable(content) else (folder / file).write_bytes(content)

    return Case("pictures", name, make, tuple(_using(file, use) for use in _USES), **more)


def _using(file: str, use: Callable[[Path], object]) -> Use:
    return lambda folder: use(folder / file)


def _train(path: Path) -> None:
    check_folder(str(path.parent))
    if not read_for_training(path, _SHAPES).problem:
        brought_to(path, (64, 64))


_SHAPES: Final = Shapes(64, 8, 3)
_USES: Final[tuple[Callable[[Path], object], ...]] = (
    check_picture,
    lambda path: read_picture(str(path)),
    lambda path: read_beside(str(path)),
    lambda path: picture_size(str(path)),
    lambda path: check_mask(str(path), str(path)),
    read_words,
    _train,
)


# --- sound ones ------------------------------------------------------------------------------------------------------


def _saved(image: Image.Image, kind: str, **more: Any) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **more)
    return buffer.getvalue()


def _noise(mode: str, width: int = 24, height: int = 16) -> Image.Image:
    found = np.random.default_rng(1).integers(0, 255, (height, width, 3), np.uint8)
    return Image.fromarray(found).convert(mode)


def _sound() -> Iterator[tuple[str, str, _BYTES]]:
    for kind, ending in _FORMATS.items():
        yield f"{kind} in RGB", ending, _saved(_noise("RGB"), kind)
    for mode in ("1", "L", "LA", "P", "RGBA"):
        yield f"PNG in {mode}", ".png", _saved(_noise(mode), "PNG")
    yield "PNG of 16 bits", ".png", _saved(Image.fromarray(np.arange(384, dtype=np.uint16).reshape(16, 24)), "PNG")
    yield "PNG with a transparent colour", ".png", _saved(_noise("P"), "PNG", transparency=3)
    yield "JPEG in CMYK", ".jpg", _saved(_noise("CMYK"), "JPEG")
    yield "JPEG that is progressive", ".jpg", _saved(_noise("RGB"), "JPEG", progressive=True)
    yield "TIFF in CMYK", ".tif", _saved(_noise("CMYK"), "TIFF")
    yield "TIFF of floats", ".tif", _saved(Image.fromarray(np.full((16, 24), 200, np.float32)), "TIFF")
    yield "TIFF in LAB", ".tif", _saved(Image.merge("LAB", _noise("RGB").split()), "TIFF")
    several = [_noise("RGB"), Image.new("RGB", (24, 16), "red")]
    for kind, ending in (("GIF", ".gif"), ("WEBP", ".webp"), ("PNG", ".png"), ("TIFF", ".tif")):
        yield f"{kind} of several frames", ending, _saved(several[0], kind, save_all=True, append_images=several[1:])
    yield "of one pixel", ".png", _saved(Image.new("RGB", (1, 1), "white"), "PNG")
    yield "with a profile that is none", ".png", _saved(_noise("RGB"), "PNG", icc_profile=b"no profile")
    yield "a JPEG called PNG", ".png", _saved(_noise("RGB"), "JPEG")


# --- changed by chance ------------------------------------------------------------------------------------------------


def _flipped(content: bytes, rng: random.Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 3, 20))):
        changed[rng.randrange(len(changed))] = rng.randrange(256)
    return bytes(changed)


def _doubled(content: bytes, rng: random.Random) -> bytes:
    start, length = rng.randrange(len(content)), rng.randrange(1, 64)
    return content[: start + length] + content[start:]


def _early(content: bytes, rng: random.Random) -> bytes:
    """Among the first bytes, where formats keep sizes and offsets."""
    changed = bytearray(content)
    for _ in range(rng.choice((1, 2, 4))):
        changed[rng.randrange(min(60, len(changed)))] = rng.choice((0, 1, 127, 128, 255))
    return bytes(changed)


def _with_sums(content: bytes, rng: random.Random) -> bytes:
    """A chunk of a PNG is changed, and its check sum is right."""
    if not content.startswith(b"\x89PNG"):
        return _early(content, rng)
    chunks = list(_chunks(content))
    index = rng.randrange(len(chunks))
    kind, data = chunks[index]
    chunks[index] = kind, _flipped(data, rng) if data else bytes(rng.randrange(9))
    if rng.random() < 0.3:
        rng.shuffle(chunks)
    return _png(*chunks)


_CHANGES: Final[tuple[tuple[str, Callable[[bytes, random.Random], bytes]], ...]] = (
    ("cut", lambda content, rng: content[: rng.randrange(len(content))]),
    ("bytes changed", _flipped),
    ("bytes changed early", _early),
    ("a piece twice", _doubled),
    (
        "a piece left out",
        lambda content, rng: content[: (at := rng.randrange(len(content)))] + content[at + rng.randrange(1, 40) :],
    ),
    ("chunks with right sums", _with_sums),
)


# --- PNG by hand -------------------------------------------------------------------------------------------------------


def _chunks(content: bytes) -> Iterator[tuple[bytes, bytes]]:
    at = 8
    while at + 8 <= len(content):
        length = int.from_bytes(content[at : at + 4])
        yield content[at + 4 : at + 8], content[at + 8 : at + 8 + length]
        at += 12 + length


def _png(*chunks: tuple[bytes, bytes]) -> bytes:
    body = (struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data)) for kind, data in chunks)
    return b"\x89PNG\r\n\x1a\n" + b"".join(body)


def _head(width: int, height: int, depth: int = 8, colour: int = 2) -> tuple[bytes, bytes]:
    return b"IHDR", struct.pack(">IIBBBBB", width, height, depth, colour, 0, 0, 0)


_DOT: Final = (_head(1, 1), (b"IDAT", zlib.compress(bytes(4))), (b"IEND", b""))
"""A PNG of one pixel."""


def _large(width: int, height: int, rows: int, bands: int = 3) -> Callable[[Path], object]:
    """Writes a PNG of which only so many rows are there, all zeros."""

    def write(path: Path) -> None:
        packer = zlib.compressobj(1)
        packed = b"".join(packer.compress(bytes(1 + width * bands)) for _ in range(rows)) + packer.flush()
        colour = 6 if bands == 4 else 2
        path.write_bytes(_png(_head(width, height, 8, colour), (b"IDAT", packed), _DOT[2]))

    return write


def _texts(kind: bytes, head: bytes) -> Callable[[Path], object]:
    """Writes a PNG with a chunk that unpacks to 300 MB."""
    return lambda path: path.write_bytes(_png(_DOT[0], (kind, head + zlib.compress(bytes(300_000_000), 1)), *_DOT[1:]))


def _many_texts(path: Path) -> None:
    path.write_bytes(_png(_DOT[0], *((b"tEXt", b"k%d\0v" % index) for index in range(200_000)), *_DOT[1:]))


def _bombs() -> Iterator[tuple[str, str, _BYTES]]:
    """Small files that promise large pictures, or much text."""
    for width, height in ((8000, 8000), (13_000, 13_000), (30_000, 30_000), (2**31 - 1, 2**31 - 1), (2**31 - 1, 1), (0, 5)):
        content = _large(width, height, min(height, 200)) if width < 40_000 else _png(_head(width, height))
        yield f"PNG of {width} × {height}", ".png", content
        head = _png(_head(width, height), *_DOT[1:])
        yield f"PNG of {width} × {height} with one row", ".png", head
    yield "PNG of 64 million opaque pixels", ".png", _large(8000, 8000, 8000)
    yield "PNG of 32 million clear pixels", ".png", _large(8000, 4000, 4000, 4)
    yield "PNG of 64 million clear pixels", ".png", _large(8000, 8000, 8000, 4)
    for kind, head in ((b"zTXt", b"parameters\0\0"), (b"iTXt", b"parameters\0\1\0\0\0"), (b"iCCP", b"a\0\0")):
        yield f"PNG with 300 MB in {kind.decode()}", ".png", _texts(kind, head)
    yield "PNG with 200 000 texts", ".png", _many_texts
    for depth, colour in ((1, 2), (16, 3), (3, 0), (8, 5), (16, 6), (8, 255)):
        rows = zlib.compress(bytes(2000))
        yield f"PNG of {depth} bits in colour type {colour}", ".png", _png(_head(9, 9, depth, colour), (b"IDAT", rows), _DOT[2])
    control = struct.pack(">II", 2**31 - 1, 0)
    yield "APNG of 2^31 frames", ".png", _png(_head(1, 1), (b"acTL", control), *_DOT[1:])
    for width, height in ((65_535, 65_535), (40_000, 9)):
        yield f"GIF of {width} × {height}", ".gif", _gif(width, height)
        yield (
            f"BMP of {width} × {height}",
            ".bmp",
            b"BM" + struct.pack("<IIIIiiHHIIiiII", 99, 0, 54, 40, width, height, 1, 24, 0, 0, 1, 1, 0, 0),
        )
        yield f"JPEG of {width} × {height}", ".jpg", _jpeg(width, height)
        yield f"TGA of {width} × {height}", ".tga", struct.pack("<BBBHHBHHHHBB", 0, 0, 2, 0, 0, 0, 0, 0, width, height, 24, 0)
    yield "TIFF of NaN", ".tif", _saved(Image.fromarray(np.full((16, 24), np.nan, np.float32)), "TIFF")
    yield "PPM of 50 000 × 50 000", ".ppm", b"P6 50000 50000 255\n"
    yield "TIFF whose directory contains itself", ".tif", struct.pack("<2sHIHI", b"II", 42, 8, 0, 8)


def _gif(width: int, height: int) -> bytes:
    sound = bytearray(_saved(_noise("P"), "GIF"))
    sound[6:10] = struct.pack("<HH", width, height)
    return bytes(sound)


def _jpeg(width: int, height: int) -> bytes:
    sound = bytearray(_saved(_noise("RGB"), "JPEG"))
    at = sound.index(b"\xff\xc0") + 5
    sound[at : at + 4] = struct.pack(">HH", height, width)
    return bytes(sound)


# --- no pictures, and odd ones -------------------------------------------------------------------------------------------


def _strange() -> Iterator[tuple[str, str, bytes]]:
    for name, content in {
        "nothing": b"",
        "one byte": b"\x89",
        "a text": b"this is no picture\n" * 9,
        "a web page": b"<!DOCTYPE html><html></html>",
        "a zip": b"PK\x03\x04" + bytes(99),
        "zeros": bytes(5000),
        "a program in PostScript": b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n/a {a} def a\n",
        "SVG": b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"/>',
        "PDF": b"%PDF-1.4\n%\xe2\xe3\xcf\xd3\n",
        "a signature of PNG alone": b"\x89PNG\r\n\x1a\n",
        "a signature of JPEG alone": b"\xff\xd8\xff",
        "FITS": b"SIMPLE  =                    T" + b" " * 3000,
        "PSD": b"8BPS\0\1" + bytes(40),
        "DDS": b"DDS " + bytes(130),
        "ICNS": b"icns\0\0\0\x10" + bytes(8),
    }.items():
        for ending in (".png", ".jpg"):
            yield f"{name} as {ending}", ending, content


def _exifs(rng: random.Random) -> Iterator[tuple[str, str, bytes]]:
    """Sound pictures with odd EXIF: wrong kinds, orientations that are none, pointers that lead anywhere."""
    for index in range(40):
        exif = Image.Exif()
        exif[0x0112] = rng.choice((0, 1, 5, 6, 8, 9, 65_535))
        exif[0x0110] = rng.choice(("prompt:{", "x" * 60_000, "\x1b[2J"))
        data = bytearray(exif.tobytes())
        for _ in range(rng.choice((0, 1, 4))):
            data[rng.randrange(6, len(data))] = rng.randrange(256)
        ending, kind = rng.choice(((".jpg", "JPEG"), (".webp", "WEBP"), (".png", "PNG")))
        yield f"EXIF {index}", ending, _saved(_noise("RGB"), kind, exif=bytes(data[:65_000]))
    info = PngImagePlugin.PngInfo()
    info.add_text("parameters", "\x1b[2J\x1b]0;owned\x07\u202e" * 9)
    yield "escape signs as parameters", ".png", _saved(_noise("RGB"), "PNG", pnginfo=info)


_SPECIAL: Final[tuple[tuple[str, Callable[[Path], object]], ...]] = (
    ("a folder", lambda path: path.mkdir()),
    ("a named pipe", os.mkfifo),
    ("a device", lambda path: path.symlink_to("/dev/zero")),
    ("a terminal", lambda path: path.symlink_to("/dev/tty")),
    ("a link to nothing", lambda path: path.symlink_to("/nowhere/at/all")),
    ("a link to itself", lambda path: path.symlink_to(path.name)),
    ("what is never there", lambda _path: None),
)
