"""Turns the decoder's floats into pixels, files and bytes."""

import io
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from PIL import Image

Pixels = NDArray[np.uint8]
THUMBNAIL = 256
"""Longest edge of a thumbnail in pixels."""


OUTPUT: Final = "np"
"""The form in which pipelines are asked for their result. As "pt" those of Kandinsky give values in [-1, 1] (diffusers 0.42)."""


def all_frames(images: Any) -> list[torch.Tensor]:
    """The pictures of a pipeline's result in the form OUTPUT, one by one: (channels, height, width) in [0, 1] each.

    images: (pictures, height, width, channels), or of videos (1, frames, height, width, channels).
    """
    values = torch.from_numpy(np.asarray(images, np.float32))
    return list((values[0] if values.dim() == 5 else values).movedim(-1, -3))


def fitted(frame: torch.Tensor, size: tuple[int, ...]) -> torch.Tensor:
    """Scale and crop a frame (channels, height, width) to a (height, width), as diffusers does after binning, but to the exact
    size: diffusers cuts a pixel too many (1216 to 64 gives 63 there).
    """
    own = tuple(frame.shape[-2:])
    if own == tuple(size):
        return frame
    factor = max(new / old for new, old in zip(size, own, strict=True))
    scaled = [max(new, round(old * factor)) for new, old in zip(size, own, strict=True)]
    made = torch.nn.functional.interpolate(frame[None].float(), size=scaled, mode="bilinear", align_corners=False)[0]
    top, left = ((old - new) // 2 for new, old in zip(size, scaled, strict=True))
    return made[:, top : top + size[0], left : left + size[1]]


def frame_count(decoded: torch.Tensor) -> int:
    """Frames in what a decoder gave; 0 if it is no picture."""
    return decoded.shape[2] if decoded.dim() == 5 else decoded.shape[0] if decoded.dim() == 4 else 0


def frames_in(decoded: torch.Tensor) -> list[torch.Tensor]:
    """(frames, channels, height, width) or (1, channels, frames, height, width) in [-1, 1] as frames in [0, 1]."""
    frames = decoded[0].transpose(0, 1) if decoded.dim() == 5 else decoded
    return [frame.float() / 2 + 0.5 for frame in frames]


def to_pixels(picture: torch.Tensor) -> Pixels:
    """(channels, height, width) floats in [0, 1] to bytes, rounded as diffusers does. A value that is not finite becomes 0 on
    purpose: only the picture that the failing precision would have shown has any.
    """
    clean = torch.nan_to_num(picture.float().cpu(), nan=0.0, posinf=1.0, neginf=0.0).clamp(0, 1)
    pixels = (clean * 255).round().to(torch.uint8).permute(1, 2, 0).numpy()
    return np.repeat(pixels, 3, axis=2) if pixels.shape[2] == 1 else np.ascontiguousarray(pixels[:, :, :3])


def from_decoder(decoded: torch.Tensor) -> torch.Tensor:
    """A decoder's first picture, values about [-1, 1], to (channels, height, width) in [0, 1]."""
    picture = decoded[0]
    picture = picture[:, 0] if picture.dim() == 4 else picture
    return picture.float() / 2 + 0.5


def thumbnail(image: Image.Image) -> bytes:
    """PNG bytes, at most THUMBNAIL pixels along the longer edge."""
    small = image.copy()
    small.thumbnail((THUMBNAIL, THUMBNAIL))
    buffer = io.BytesIO()
    small.save(buffer, format="PNG")
    return buffer.getvalue()
