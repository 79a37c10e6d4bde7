"""A finished picture or video is not lost: it takes the next free name when its own is taken."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

from PIL import Image

from halftone.contract.errors import HalftoneError
from halftone.engine.sampling.frames import Pixels
from halftone.library.videos import USUAL_FPS
from halftone.metadata.picture import USUAL_QUALITY, Texts, free_name, output_error, save_picture
from halftone.metadata.video import save_video

_ATTEMPTS: Final = 100
"""Names that are tried while others keep taking them."""


def write_frames(
    frames: Sequence[Pixels],
    fps: int | None,
    path: Path,
    base: Path,
    texts: Callable[[Path], Texts],
    *,
    overwrite: bool,
    quality: int = USUAL_QUALITY,
    profile: bytes | None = None,
) -> Path:
    """Save as `path`, or under the next free number of `base` if that was taken meanwhile; return its place.

    frames: one for a picture; fps: of a video; texts: for a path; quality and profile (ICC): of a
    picture. Raises HalftoneError output-* and disk-full.
    """
    for _ in range(_ATTEMPTS):
        try:
            _save(frames, fps, path, texts(path), overwrite=overwrite, quality=quality, profile=profile)
        except HalftoneError as error:
            if error.code != "output-exists":
                raise
            path = free_name(base)
        except OSError as error:
            raise output_error(error, path, 0) from error
        except (ValueError, SyntaxError) as error:  # what the encoders say to a size that their format cannot hold
            raise HalftoneError("output-failed", path=str(path), detail=str(error)) from error
        else:
            return path
    raise HalftoneError("output-exists", path=str(path))


def _save(
    frames: Sequence[Pixels],
    fps: int | None,
    path: Path,
    texts: Texts,
    *,
    overwrite: bool,
    quality: int,
    profile: bytes | None,
) -> None:
    """One frame alone is a picture, but where its name says that it is a video."""
    if len(frames) > 1 or path.suffix.lower() == ".mp4":
        save_video(frames, fps or USUAL_FPS, path, *texts, overwrite=overwrite)
    else:
        image = Image.fromarray(frames[0])
        if profile is not None:
            image.info["icc_profile"] = profile
        save_picture(image, path, *texts, quality=quality, overwrite=overwrite)
