"""Which families other programs load by themselves, without custom nodes.

Sources: ComfyUI comfy/supported_models.py; Forge backend/loader.py; reForge modules/sd_models_config.py, which is A1111's.
ComfyUI's later versions added FLUX.2, Z-Image, LTX-2, Kandinsky 5 and Krea 2.
"""

from collections.abc import Mapping
from typing import Final

from halftone.library.families import known_families as of

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
