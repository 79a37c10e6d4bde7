"""Opens the pictures that a user gives: of usual kinds and a bounded size. Other files are named by their first bytes."""

import errno
import os
import struct
import traceback
import warnings
from collections.abc import Generator
from contextlib import contextmanager
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final, NamedTuple

from halftone.contract.error_codes import ErrorCode
from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.settings.disk import no_right, system_words
from halftone.settings.regular_files import NotRegularError, check_regular, open_regular

BEGINNING: Final = 64
"""Bytes at the beginning that show a file's kind."""
_STARTS: Final = (
    (b"\x89PNG", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"II*\0", "TIFF"),
    (b"MM\0*", "TIFF"),
    (b"\xff\x0a", "JXL"),
    (b"\0\0\0\x0cJXL \r\n\x87\n", "JXL"),
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
    """Pillow's name of the format that these first bytes surely begin; "" for none."""
    if start[:4] == b"RIFF" and start[8:12] == b"WEBP":
        return "WEBP"
    if start[:2] == b"BM" and start[6:10] == bytes(4) and int.from_bytes(start[14:16], "little") in _BMP_HEADERS:
        return "BMP"
    if _brands(start) & _AVIF:
        return "AVIF"
    return next((kind for begins, kind in _STARTS if start.startswith(begins)), "")


def other_kind(start: bytes) -> OtherKind | None:
    """A kind of photograph or video that is never read, None for any other file."""
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
    """Whether the list of tags of a TIFF file is whole (TIFF 6.0, section 2)."""
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


if TYPE_CHECKING:
    from PIL import Image

MOST_PIXELS: Final = 64_000_000
"""Limit of one opaque picture: half a gigabyte, decoded and once more in RGB. Of transparent ones half as many."""
_KINDS: Final = ("PNG", "JPEG", "MPO", "WEBP", "AVIF", "GIF", "BMP", "TIFF", "JPEG2000", "PPM", "TGA", "ICO", "DIB", "JXL")
"""Formats that Pillow decodes itself, JPEG XL with its plugin. Others start a program (EPS runs Ghostscript) or are no pictures
of a user's.
"""

_WHITE_16: Final = 65_535
_JPEG_XL: Final = "pillow_jxl"
"""A plugin of Pillow's, which is not among Halftone's own parts."""
JPEG_XL_PACKAGE: Final = "pillow-jxl-plugin"
"""The package that holds it."""


@cache
def has_jpeg_xl() -> bool:
    """Whether JPEG XL can be read and written here."""
    return find_spec(_JPEG_XL) is not None


def load_jpeg_xl() -> None:
    """Let Pillow read and write JPEG XL, where that is possible."""
    if has_jpeg_xl():
        import_module(_JPEG_XL)


@contextmanager
def opened_picture(path: str | Path, *, decoded: bool = True) -> "Generator[Image.Image]":
    """Open a picture, which is decoded as far as the block asks. decoded: False where only its size or its texts are read, at any
    number of pixels. Raises HalftoneError image-missing, image-not-file, image-not-read, image-unreadable, image-other-kind,
    image-damaged, picture-too-large, no-right.
    """
    from PIL import Image

    try:
        file = open_regular(path)
    except (OSError, ValueError) as error:
        raise not_opened(error, path) from error
    with file:
        refusal = _refusal(file, path)
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # of a library about odd metadata, and of sizes that are refused below
                with Image.open(file, formats=_kinds()) as picture:
                    refusal = _DAMAGED
                    if decoded:
                        _check_size(picture, path)
                    yield picture
        except HalftoneError:
            raise
        except Image.DecompressionBombError as error:
            raise HalftoneError("picture-too-large", str(error), path=str(path), most=MOST_PIXELS // 10**6) from error
        except Exception as error:
            if not _is_of_picture(error):
                raise  # a shortage, or a fault of what is done with the picture
            if isinstance(error, OSError) and error.errno is not None:
                raise not_opened(error, path) from error
            code, facts = refusal
            raise HalftoneError(code, f"{type(error).__name__}: {error}", path=str(path), **facts) from error


def check_there(path: str | Path) -> None:
    """Raise HalftoneError image-missing, image-not-file, image-not-read or no-right unless a regular file lies there."""
    try:
        check_regular(path)
    except (OSError, ValueError) as error:
        raise not_opened(error, path) from error


def not_opened(error: OSError | ValueError, path: str | Path) -> HalftoneError:
    """Return the error for a file that the system does not open."""
    if isinstance(error, PermissionError):
        return no_right(error, path)
    if isinstance(error, NotRegularError):
        return HalftoneError("image-not-file", path=str(path), kind=error.kind)
    if isinstance(error, IsADirectoryError):
        return HalftoneError("image-not-file", path=str(path), kind=Words("a folder"))
    if isinstance(error, OSError) and error.errno not in _NOTHING_THERE:
        return HalftoneError("image-not-read", path=str(path), detail=system_words(error))
    return HalftoneError("image-missing", path=str(path))


_NOTHING_THERE: Final = (errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG)
_Refusal = tuple[ErrorCode, dict[str, Words]]
"""(code, facts beside the path)."""
_DAMAGED: Final[_Refusal] = ("image-damaged", {})


def _refusal(file: BinaryIO, path: str | Path) -> _Refusal:
    """The error for a file that Pillow does not identify: damaged only if it begins as a picture. Rewinds the file."""
    try:
        start = file.read(BEGINNING)
        own = own_kind(start)
        whole = own == "TIFF" and has_whole_directory(file)
        file.seek(0)
    except OSError as error:
        raise not_opened(error, path) from error
    if whole:
        return "image-other-kind", {"kind": Words("a TIFF of a special kind")}
    if own in _kinds():
        return _DAMAGED
    other = other_kind(start)
    if other is None:
        return "image-unreadable", {}
    return "image-other-kind" if other.picture else "image-not-file", {"kind": other.kind}


_BROKEN: Final = (OSError, ValueError, SyntaxError)
"""Pillow's errors for a damaged file; on hostile ones its readers fail with others, too."""


def _is_of_picture(error: Exception) -> bool:
    """Whether the picture's file is at fault. A system error with a file's name is of another file: this one is open."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.filename is not None):
        return False
    return isinstance(error, _BROKEN) or _raised_by_pillow(error)


def _raised_by_pillow(error: Exception) -> bool:
    import PIL

    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return Path(PIL.__file__).parent in Path(frames[-1].f_code.co_filename).parents


def _kinds() -> tuple[str, ...]:
    """Those of them that this Pillow has."""
    from PIL import Image

    Image.init()
    load_jpeg_xl()
    return tuple(kind for kind in _KINDS if kind in Image.OPEN)


def _check_size(picture: "Image.Image", path: str | Path) -> None:
    most = MOST_PIXELS // 2 if picture.has_transparency_data else MOST_PIXELS
    if picture.width * picture.height > most:
        raise HalftoneError("picture-too-large", path=str(path), most=most // 10**6)


def turned(picture: "Image.Image") -> "Image.Image":
    """The same picture, turned as its camera noted, without a second copy. Grey of 16 bits becomes 8, not clipped."""
    from PIL import Image, ImageOps

    ImageOps.exif_transpose(picture, in_place=True)
    if not picture.mode.startswith("I"):
        return picture
    import numpy as np

    grey = np.asarray(picture).astype(np.int64).clip(0, _WHITE_16)
    return Image.fromarray((grey * 255 // _WHITE_16).astype(np.uint8))
