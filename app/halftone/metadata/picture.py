"""Saves a finished picture with its parameters, whole or not at all, and never over another file unasked."""

import errno
import io
import os
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, NoReturn, get_args

from halftone.contract.errors import HalftoneError
from halftone.contract.vocabulary import PictureFormat
from halftone.contract.wording import Words, either
from halftone.metadata.source_type import xmp_of
from halftone.settings.atomic import create_atomically, write_atomically
from halftone.settings.disk import free_bytes, need_room, no_folder, size_text, system_words
from halftone.settings.picture_files import JPEG_XL_PACKAGE, has_jpeg_xl, load_jpeg_xl, opened_picture

if TYPE_CHECKING:
    from PIL import Image

PICTURES: Final = (".png", ".jpg", ".jpeg", ".webp", *((".jxl",) if has_jpeg_xl() else ()))
VIDEOS: Final = (".mp4", ".webp")
ALLOWED: Final = (*PICTURES, ".mp4")
USUAL_QUALITY: Final = 95
_JPEG: Final = (".jpg", ".jpeg")
RECEIPT_KEY: Final = "halftone"
_LONGEST_EDGE: Final = {".jpg": 65_500, ".webp": 16_383}
"""Pixels; the limits of libjpeg and of the format."""
_MIN_FREE: Final = 2**20
"""Bytes; below this not even a small picture can be saved."""
_BYTES_PER_PIXEL: Final = 3
"""For a PNG of noise, which cannot be compressed."""

USER_COMMENT: Final = 0x9286
MAKER_NOTE: Final = 0x927C
EXIF_FOLDER: Final = 0x8769
UNICODE: Final = b"UNICODE\0"
NOTE_PREFIX: Final = b"halftone\0"
_EXIF: Final = b"Exif\0\0"
_JXL_OFFSET: Final = bytes(4)
"""What stands in its place in JPEG XL: the offset of the TIFF header (ISO/IEC 18181-2), which the plugin leaves to its caller."""
_MAX_EXIF: Final = 65_000
_OTHER_PARAMETERS: Final = 4_000
"""Bytes of EXIF for other parameters than the prompts."""
_NO_RIGHT: Final = {errno.EACCES, errno.EPERM, errno.EROFS}
_NO_FOLDER: Final = {errno.ENOENT, errno.ENOTDIR}


class Texts(NamedTuple):
    """What a file holds beside its picture; "" for what is left out. parameters: A1111's text; receipt: as JSON; source: IPTC's
    digital source type.
    """

    parameters: str = ""
    receipt: str = ""
    source: str = ""


def check_output(
    output: str | Path,
    *,
    overwrite: bool = False,
    pictures: int = 1,
    pixels: int = 0,
    endings: tuple[str, ...] = ALLOWED,
) -> Path:
    """The absolute path of the file or folder to write to, if so many pictures could be saved there and the first one fits.

    pixels: of one picture, 0 if not known. A name with one of the endings is a file; an existing folder is a folder. Raises
    HalftoneError output-folder-missing, output-not-folder, output-read-only, output-exists, output-bad-type, setting-bad-value,
    output-failed or disk-full.
    """
    path = absolute(output)
    try:
        is_folder = os.path.isdir(path)
        folder = path if is_folder else path.parent
        if not is_folder and path.suffix.lower() not in endings:
            refuse_type(path, endings)
        if not os.path.isdir(folder):
            raise no_folder(folder)
        names = [] if is_folder or overwrite else [numbered(path, index) for index in range(pictures)]
        if (taken := next(filter(_is_taken, names), None)) is not None:
            raise HalftoneError("output-exists", path=str(taken))
        if not os.access(folder, os.W_OK | os.X_OK):
            raise HalftoneError("output-read-only", folder=str(folder))
        need_room(path, folder, max(_MIN_FREE, pixels * _BYTES_PER_PIXEL))
    except OSError as error:
        raise output_error(error, path, _MIN_FREE) from error
    return path


def check_room_for_text(path: Path, prompts: str) -> None:
    """Raise HalftoneError prompt-too-long if a JPEG could not hold the prompts: its EXIF ends at 64 KB."""
    if not _holds_text(path.suffix.lower(), prompts):
        raise HalftoneError("prompt-too-long", path=str(path))


def _holds_text(ending: str, prompts: str) -> bool:
    return ending not in _JPEG or len(prompts.encode("utf-16-be", errors="replace")) <= _MAX_EXIF - _OTHER_PARAMETERS


def ending_for(wanted: PictureFormat, size: tuple[int, int], parameters: str) -> str:
    """The ending of a new file: PNG where the wanted format cannot hold a picture of this size or its text."""
    ending = f".{wanted}"
    holds = max(size) <= _LONGEST_EDGE.get(ending, max(size)) and _holds_text(ending, parameters)
    return ending if holds else ".png"


def save_picture(
    image: "Image.Image",
    path: Path,
    parameters: str,
    receipt: str,
    source: str = "",
    *,
    quality: int = USUAL_QUALITY,
    overwrite: bool = False,
) -> None:
    """Write `image` with `Texts` inside, whole or not at all; the ending of `path` names the format. quality: from 1 to 100, of
    all but PNG.

    Raises HalftoneError output-exists (unless `overwrite`), output-bad-type, output-folder-missing, output-read-only,
    output-failed or disk-full.
    """
    path = absolute(path)
    data = _encoded(image, path, Texts(parameters, receipt, source), quality)
    try:
        (write_atomically if overwrite else create_atomically)(path, data)
    except OSError as error:
        raise output_error(error, path, len(data)) from error


def check_picture(path: Path) -> None:
    """Raise HalftoneError image-unreadable or picture-too-large unless the whole picture can be decoded."""
    with opened_picture(path) as image:
        image.load()


def numbered(path: Path, index: int) -> Path:
    """The name of picture `index` (from 0) of a batch whose file the user named: a.png, a-2.png, a-3.png."""
    return path if index == 0 else path.with_name(f"{path.stem}-{index + 1}{path.suffix}")


def free_name(path: Path) -> Path:
    """The first of a-2.png, a-3.png and so on that nothing has."""
    index = 1
    while os.path.lexists(found := numbered(path, index)):
        index += 1
    return found


def output_error(error: OSError, path: Path, need: int) -> HalftoneError:
    """The error for an OSError while `need` bytes are written to `path`."""
    folder = path if os.path.isdir(path) else path.parent
    if isinstance(error, FileExistsError):
        return HalftoneError("output-exists", path=str(path))
    if error.errno == errno.ENOSPC:
        return HalftoneError("disk-full", need=size_text(need), free=size_text(free_bytes(folder)), folder=str(folder))
    if error.errno in _NO_RIGHT:
        return HalftoneError("output-read-only", folder=str(folder))
    if error.errno in _NO_FOLDER:
        return no_folder(folder)
    return HalftoneError("output-failed", path=str(path), detail=system_words(error))


def _encoded(image: "Image.Image", path: Path, texts: Texts, quality: int) -> bytes:
    buffer = io.BytesIO()
    ending = path.suffix.lower()
    profile = image.info.get("icc_profile")
    xmp = xmp_of(texts.source)
    if ending == ".png":
        from PIL.PngImagePlugin import PngInfo

        chunks = PngInfo()  # add_text takes tEXt for Latin-1 and iTXt for everything else, as the format demands
        for key, text in (("parameters", texts.parameters), (RECEIPT_KEY, texts.receipt)):
            if text:
                chunks.add_text(key, text)
        if xmp:
            chunks.add_itxt("XML:com.adobe.xmp", xmp.decode())
        image.save(buffer, "PNG", pnginfo=chunks, compress_level=6, icc_profile=profile)
    elif ending in _JPEG:
        exif = exif_of(texts.parameters, texts.receipt)
        image.convert("RGB").save(buffer, "JPEG", quality=quality, subsampling=0, exif=exif, xmp=xmp, icc_profile=profile)
    elif ending in PICTURES:
        kind = "WEBP" if ending == ".webp" else "JXL"
        load_jpeg_xl()
        exif = exif_of(texts.parameters, texts.receipt)
        if kind == "JXL" and exif:
            exif = _JXL_OFFSET + exif.removeprefix(_EXIF)
        image.save(buffer, kind, quality=quality, exif=exif, xmp=xmp, icc_profile=profile or b"")
    else:
        refuse_type(path, PICTURES)
    return buffer.getvalue()


def exif_of(parameters: str, receipt: str) -> bytes:
    """EXIF as A1111 writes it (UserComment, UTF-16), with the receipt as the maker's note where it fits into 64 KB; empty for
    empty texts.
    """
    if not parameters and not receipt:
        return b""
    comment = UNICODE + parameters.encode("utf-16-be", errors="replace")
    note = NOTE_PREFIX + receipt.encode(errors="replace")
    noted = {MAKER_NOTE: note} if len(comment) + len(note) < _MAX_EXIF else {}
    return _EXIF + _tiff({**noted, USER_COMMENT: comment})


_ENTRY: Final = struct.Struct(">HHII")
"""Tag, type, count, and the value or where it is."""
_LONG: Final = 4
_UNDEFINED: Final = 7
"""Types of values. EXIF demands the latter for both texts, for which Pillow writes bytes, and then A1111 cannot read them."""


def _tiff(values: Mapping[int, bytes]) -> bytes:
    """TIFF 6.0 that holds nothing but EXIF's folder with these values, by their tags in order."""
    first = 8
    folder = first + 2 + _ENTRY.size + 4
    place = folder + 2 + _ENTRY.size * len(values) + 4
    entries, data = b"", b""
    for tag, value in values.items():
        entries += _ENTRY.pack(tag, _UNDEFINED, len(value), place + len(data))
        data += value + b"\0" * (len(value) % 2)
    outer = struct.pack(">H", 1) + _ENTRY.pack(EXIF_FOLDER, _LONG, 1, folder) + bytes(4)
    return b"MM\0*" + struct.pack(">I", first) + outer + struct.pack(">H", len(values)) + entries + bytes(4) + data


def absolute(output: str | Path) -> Path:
    """The path from the present folder; unchanged where its `~` names nobody."""
    try:
        return Path(output).expanduser().absolute()
    except RuntimeError:
        return Path(output).absolute()


def _is_taken(path: Path) -> bool:
    """Whether the name exists, be it a link to nowhere. Raises OSError for an impossible name."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    except ValueError as error:  # a null in it
        raise OSError(errno.EINVAL, os.strerror(errno.EINVAL)) from error
    return True


def check_format(kind: PictureFormat) -> None:
    """Raise HalftoneError setting-bad-value for a format that cannot be written without a package."""
    if f".{kind}" not in PICTURES:
        writable = either(*(name for name in get_args(PictureFormat) if f".{name}" in PICTURES))
        value = Words("{0} without the Python package {1}", (kind, JPEG_XL_PACKAGE))
        allowed = Words("{0}, or install the package", (writable,))
        raise HalftoneError("setting-bad-value", name=Words("Picture format"), value=value, allowed=allowed)


def refuse_type(path: Path, endings: tuple[str, ...]) -> NoReturn:
    """Raise HalftoneError output-bad-type, or as `check_format` where a package is lacking. endings: the allowed ones."""
    if path.suffix.lower() == ".jxl" and ".png" in endings:
        check_format("jxl")
    shown = [ending for ending in endings if ending not in (".jpeg", ".htm")]
    raise HalftoneError("output-bad-type", path=str(path), allowed=either(*shown))
