"""Saves the frames of a video with its parameters inside, whole or not at all, and reads its frames back.

MP4 holds H.264 with one colour for four pixels (4:2:0), which every player shows. That needs an even width and height: a video of
an odd size has a colour for each pixel (4:4:4), which some players cannot show. Colours are those of BT.709, and the file says
so. Frames are read one after another, and none is stored.
"""

from collections.abc import Generator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from halftone.contract.errors import HalftoneError
from halftone.metadata.picture import VIDEOS, absolute, exif_of, output_error, refuse_type
from halftone.metadata.source_type import xmp_of
from halftone.settings.atomic import create_atomically, write_atomically
from halftone.settings.regular_files import open_regular

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Pixels = NDArray[np.uint8]
    """(height, width, 3), RGB."""

PARAMETERS_TAG: Final = "comment"
RECEIPT_TAG: Final = "description"
_ENCODER: Final = "libx264"
_CRF: Final = "17"
"""x264's scale of quality: 0 without loss, 51 worst; at 17 a loss is hardly seen."""
_THREADS: Final = "1"
"""The bytes of a file must not depend on how many processors there are, nor on how they share the work."""
_WEBP_QUALITY: Final = 90
_BT709: Final = 1
"""As ITU-T H.273 numbers primaries, transfer and matrix."""
_LIMITED: Final = 1
"""Brightness from 16 to 235, as players take it to be; FFmpeg's number."""
_ABOUT_A_TENTH: Final = 10
"""Usual compression of a video."""


def save_video(
    frames: "Sequence[Pixels]", fps: int, path: Path, parameters: str, receipt: str, source: str = "", *, overwrite: bool = False
) -> None:
    """Write all frames with A1111's text and the receipt's JSON inside, whole or not at all; the ending of `path` names the
    format.

    Raises HalftoneError output-exists (unless `overwrite`), output-bad-type, output-folder-missing, output-read-only,
    output-failed or disk-full, and ValueError for what the format cannot hold.
    """
    path = absolute(path)
    if path.suffix.lower() not in VIDEOS:
        refuse_type(path, VIDEOS)

    def write(file: BinaryIO) -> None:
        if path.suffix.lower() == ".mp4":
            _write_mp4(frames, fps, file, {PARAMETERS_TAG: parameters, RECEIPT_TAG: receipt})
        else:
            from halftone.metadata.reel import Reel

            said = {"exif": exif_of(parameters, receipt), "xmp": xmp_of(source)}
            Reel(frames).save(file, "WEBP", save_all=True, duration=1000 / fps, loop=0, quality=_WEBP_QUALITY, **said)

    try:
        (write_atomically if overwrite else create_atomically)(path, write)
    except OSError as error:
        raise output_error(error, path, len(frames) * frames[0].size // _ABOUT_A_TENTH) from error


class _Heard:
    """A file that remembers why it could not be written, which FFmpeg does not always report."""

    def __init__(self, file: BinaryIO) -> None:
        self.error: OSError | None = None
        self.seek, self.tell = file.seek, file.tell
        self._file = file

    def write(self, data: bytes) -> int:
        try:
            return self._file.write(data)
        except OSError as error:
            self.error = error
            raise


def _write_mp4(frames: "Sequence[Pixels]", fps: int, file: BinaryIO, texts: dict[str, str]) -> None:
    """Raises OSError, and ValueError for what the format cannot hold."""
    import av

    heard = _Heard(file)
    try:
        _mux(frames, fps, heard, texts)
    except (av.FFmpegError, OSError) as error:
        raise (heard.error or (error if isinstance(error, OSError) else ValueError(str(error)))) from error


def _mux(frames: "Sequence[Pixels]", fps: int, file: _Heard, texts: dict[str, str]) -> None:
    import av
    from av.video.reformatter import Colorspace

    if _ENCODER not in av.codecs_available:
        raise ValueError("the library av has no H.264 encoder here")
    height, width = frames[0].shape[:2]
    with av.open(file, "w", format="mp4") as container:
        container.metadata.update(texts)
        stream = container.add_stream(_ENCODER, rate=fps, options={"crf": _CRF, "threads": _THREADS})
        stream.width, stream.height = width, height
        stream.pix_fmt = "yuv420p" if width % 2 == height % 2 == 0 else "yuv444p"
        context = stream.codec_context
        context.colorspace = context.color_primaries = context.color_trc = _BT709
        context.color_range = _LIMITED
        for index in range(len(frames)):
            made = av.VideoFrame.from_ndarray(frames[index], format="rgb24")
            made = made.reformat(format=stream.pix_fmt, dst_colorspace=Colorspace.ITU709)
            container.mux(stream.encode(made))
        container.mux(stream.encode(None))


def read_frames(path: Path) -> "Generator[tuple[Pixels, float]]":
    """Yield the frames of a video and their seconds. Raises OSError, and HalftoneError video-codec or video-damaged."""
    return _mp4_frames(path) if path.suffix.lower() == ".mp4" else _webp_frames(path)


def _mp4_frames(path: Path) -> "Generator[tuple[Pixels, float]]":
    import av
    import numpy as np
    from av.error import DecoderNotFoundError

    try:
        with open_regular(path) as file, av.open(file, "r") as container:
            rate = container.streams.video[0].average_rate
            seconds = 1 / float(rate) if rate else 1.0
            for frame in container.decode(video=0):
                yield np.asarray(frame.to_ndarray(format="rgb24"), np.uint8), seconds
    except DecoderNotFoundError as error:
        raise HalftoneError("video-codec", path=path.name) from error
    except (av.FFmpegError, IndexError) as error:  # the index: it has sound alone
        if isinstance(error, OSError):
            raise
        raise HalftoneError("video-damaged", path=path.name) from error


def _webp_frames(path: Path) -> "Generator[tuple[Pixels, float]]":
    import numpy as np
    from PIL import Image

    try:
        with open_regular(path) as file, Image.open(file) as image:
            for index in range(getattr(image, "n_frames", 1)):
                image.seek(index)
                yield np.asarray(image.convert("RGB")), float(image.info.get("duration", 0)) / 1000
    except (OSError, EOFError, SyntaxError, ValueError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise HalftoneError("video-damaged", path=path.name) from error
