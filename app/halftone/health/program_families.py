"""Which families other programs load by themselves, without custom nodes, and in which size.

Sources: ComfyUI comfy/supported_models.py; Forge backend/loader.py; reForge modules/sd_models_config.py, which is A1111's.
ComfyUI's later versions added FLUX.2, Z-Image, LTX-2, Kandinsky 5 and Krea 2.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from halftone.contract.errors import HalftoneError
from halftone.contract.facts import ModelFacts
from halftone.library.families import known_families as of
from halftone.library.families.single_files import configs
from halftone.library.files.folder import read_json
from halftone.library.files.header import read_header

A1111: Final = "A1111"
FORGE: Final = "Forge, reForge"
COMFYUI: Final = "ComfyUI"

_A1111: Final = frozenset({of.SD1.name, of.SD2.name, of.SDXL.name, of.REFINER.name, of.SD3.name})
_FORGE: Final = _A1111 | {of.FLUX.name, of.CHROMA.name}
_COMFYUI: Final = _FORGE | {
    family.name
    for family in (
        of.FLUX2, of.PIXART_ALPHA, of.PIXART_SIGMA, of.HUNYUAN_DIT, of.HUNYUAN_IMAGE, of.LUMINA2, of.AURA_FLOW, of.QWEN_IMAGE,
        of.Z_IMAGE, of.CASCADE, of.KANDINSKY5, of.HIDREAM, of.KREA2, of.SVD, of.WAN, of.LTX, of.LTX2, of.HUNYUAN_VIDEO, of.MOCHI,
        of.COSMOS,
    )
}  # fmt: skip
LOADS: Final[Mapping[str, frozenset[str]]] = {A1111: _A1111, FORGE: _FORGE, COMFYUI: _COMFYUI}
"""Program -> names of families."""
_FOUR: Final = (320, 640, 1280, 1280)
_SIZES: Final = {
    of.SD1.name: (_FOUR, 768),
    of.SD2.name: (_FOUR, 1024),
    of.SDXL.name: ((320, 640, 1280), 2048),
    of.REFINER.name: ((384, 768, 1536, 1536), 1280),
}
"""Channels of a UNet's levels, and the width of the text that it reads, as these programs' own configurations have them."""


def is_of_another_size(model: ModelFacts) -> bool:
    """Whether the UNet of a model is of a size that none of these programs builds; they have no other for its family."""
    expected = _SIZES.get(model.family)
    config = _unet_config(model) if expected is not None else None
    if not config:
        return False
    channels, width = config.get("block_out_channels"), config.get("cross_attention_dim")
    return isinstance(channels, list | tuple) and (tuple(channels), width) != expected


def _unet_config(model: ModelFacts) -> Mapping[str, Any] | None:
    """The configuration of a model's UNet; None where its files do not tell."""
    path = Path(model.path)
    try:
        if os.path.isdir(path):
            return read_json(path / "unet" / "config.json")
        return configs(model.family, read_header(path), str(path)).get("unet")
    except (OSError, HalftoneError):
        return None
