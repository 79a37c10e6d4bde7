"""What a picture of a size needs at the very least: the widest layer of the decoder holds its input and its result at once."""

from pathlib import Path
from typing import Final

import msgspec

from halftone.contract.facts import ModelFacts
from halftone.contract.words import DType
from halftone.library.families import FLUX, SD1, SD2, SD3, SDXL

_KNOWN: Final = {family.name: 128 for family in (SD1, SD2, SDXL, SD3, FLUX)}
"""Channels at full size of the decoder that single files of these families hold."""
_BYTES: Final[dict[DType, int]] = {"float32": 4, "float16": 2, "bfloat16": 2}
_RGB: Final = 3


class _Config(msgspec.Struct):
    kind: str = msgspec.field(default="", name="_class_name")
    block_out_channels: list[int] = msgspec.field(default_factory=list[int])


def decoder_channels(model: ModelFacts) -> int | None:
    """Channels of the decoder's last layers, which work on every pixel; None where nothing tells. Reads a small file."""
    path = Path(model.path)
    if not path.is_dir():
        return _KNOWN.get(model.family)
    try:
        config = msgspec.json.decode((path / "vae" / "config.json").read_bytes(), type=_Config)
    except (OSError, msgspec.DecodeError):
        return None
    known = config.kind == "AutoencoderKL" and config.block_out_channels
    return config.block_out_channels[0] if known else None


def least_bytes(width: int, height: int, channels: int | None, dtype: DType) -> int:
    """A lower bound of the memory for one picture, weights left out: more is needed in truth. channels: None for the picture
    alone.
    """
    values = _RGB if channels is None else 2 * channels
    return width * height * values * _BYTES[dtype]
