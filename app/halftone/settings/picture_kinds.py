"""Names the kind of a file that could not be opened as a picture, by its first bytes."""

import os
import struct
from typing import BinaryIO, Final, NamedTuple

from halftone.contract.wording import Words

BEGINNING: Final = 64
"""Bytes of a file by which its kind is known."""
_STARTS: Final = (
    (b"\x89PNG", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
)
_BMP_HEADERS: Final = (12, 40, 52, 56, 64, 108, 124)
"""Sizes of the header that follows the 14 bytes of a BMP file."""
_HEIC: Final = frozenset((b"heic", b"heix", b"hevc", b"hevx", b"heim", b"heis", b"mif1", b"msf1"))
_AVIF: Final = frozenset((b"avif", b"avis"))
_SOUNDS: Final = frozenset((b"M4A ", b"M4B ", b"M4P "))
_TAG_BYTES: Final = 12


class OtherKind(NamedTuple):
    """A file that Halftone does not read. kind: its name in a sentence."""

    kind: Words
    picture: bool = True


def own_kind(start: bytes) -> str:
    """Return Pillow's name of the format that these first bytes surely begin; "" where they begin none that is known."""
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "WEBP"
    if start[:2] == b"BM" and start[6:10] == bytes(4) and int.from_bytes(start[14:16], "little") in _BMP_HEADERS:
        return "BMP"
    if _brands(start) & _AVIF:
        return "AVIF"
    return next((kind for begins, kind in _STARTS if start.startswith(begins)), "")


def other_kind(start: bytes) -> OtherKind | None:
    """Name a kind of photograph or video that is never read, None for any other file."""
    brands = _brands(start)
    if start.startswith(b"\x1aE\xdf\xa3") or (start[:4] == b"RIFF" and start[8:12] == b"AVI "):
        return OtherKind(Words("a video"), picture=False)
    if not brands or start[8:12] in _SOUNDS:
        return None
    if b"crx " in brands:
        return OtherKind(Words("a camera's raw photo"))
    if brands & _AVIF:
        return OtherKind(Words("an AVIF photo"))
    return OtherKind(Words("a HEIC photo")) if brands & _HEIC else OtherKind(Words("a video"), picture=False)


def _brands(start: bytes) -> frozenset[bytes]:
    """The brands that an ISO media file names in its first box (ISO/IEC 14496-12, 4.3); its minor version is none of them."""
    if start[4:8] != b"ftyp":
        return frozenset()
    end = min(int.from_bytes(start[:4], "big"), len(start))
    return frozenset((start[8:12], *(start[at : at + 4] for at in range(16, end - 3, 4))))


def has_whole_directory(file: BinaryIO) -> bool:
    """Whether the list of tags that a TIFF file points to lies in it as a whole (TIFF 6.0, section 2)."""
    file.seek(0)
    start = file.read(8)
    order = "<" if start[:2] == b"II" else ">"
    (offset,) = struct.unpack(f"{order}I", start[4:8].ljust(4, b"\xff"))
    size = os.fstat(file.fileno()).st_size
    if offset + 2 > size:
        return False
    file.seek(offset)
    (tags,) = struct.unpack(f"{order}H", file.read(2))
    return offset + 2 + _TAG_BYTES * tags <= size
