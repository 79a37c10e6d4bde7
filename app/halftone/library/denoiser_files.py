"""Which files of a denoiser can take the place of that of a folder, told from their headers: how its weights are stored and whose
names its tensors have. No weight is read.
"""

from typing import Final

from halftone.library import families as of
from halftone.library.gguf_header import PACKED
from halftone.library.header import Header, TensorInfo
from halftone.library.kinds.layouts import ORIGINAL
from halftone.library.kinds.marks import View, view_of
from halftone.library.recognise import Recognised, denoiser_in
from halftone.library.why import instead

PLAIN: Final = frozenset({"F64", "F32", "F16", "BF16"})
FLOAT8: Final = frozenset({"F8_E4M3", "F8_E5M2"})
CONVERTED: Final = frozenset(
    family.name
    for family in (
        of.SD1, of.SD2, of.SDXL, of.REFINER, of.SD3, of.FLUX, of.FLUX2, of.CHROMA, of.SANA, of.PIXART_ALPHA,
        of.PIXART_SIGMA, of.KOLORS, of.HUNYUAN_DIT, of.LUMINA2, of.AURA_FLOW,
        of.QWEN_IMAGE, of.Z_IMAGE, of.HIDREAM, of.KREA2, of.WAN, of.LTX, of.LTX2, of.HUNYUAN_VIDEO, of.MOCHI, of.COSMOS,
    )
)  # fmt: skip
"""Families whose own names can be turned into those of diffusers; of the others only files in its names are read."""
_OTHERWISE: Final = (
    (of.CHROMA.name, "nerf_blocks.*", "diffusers has no Chroma Radiance"),
    (of.LUMINA2.name, "clip_text_pooled_proj.0.weight", "diffusers has no NewBie"),
    (of.PIXART_SIGMA.name, "blocks.14.attn.sr.weight", "diffusers has no PixArt-Σ with compressed keys"),
    (of.COSMOS.name, "blocks.block0.*", "diffusers reads the transformer of Cosmos 1.0 in its own names only"),
)
"""(family, tensor, why it is not read) of variants of these that diffusers cannot turn."""
_PARTED: Final = frozenset({of.CASCADE.name})
"""Families whose pipelines have several denoisers, none of which a file takes the place of."""


def denoiser_tensors(header: Header) -> tuple[tuple[str, TensorInfo], ...]:
    """(name, tensor) of all that belong to the denoiser, without what stands before their names in the file; also the scales of
    8-bit numbers.
    """
    prefix = _start(header)
    return tuple((tensor.name.removeprefix(prefix), tensor) for tensor in header.tensors if tensor.name.startswith(prefix))


def _start(header: Header) -> str:
    found = denoiser_in(view_of(header.tensors))
    return found[0] if found is not None else ""


def unreadable(header: Header, found: Recognised) -> str | None:
    """Why the file cannot be read as a denoiser, as the end of a sentence."""
    if found.split is not None:
        return f"it is file {found.split[0]} of {found.split[1]} of a divided model"
    if found.kind not in ("denoiser", "checkpoint"):
        return instead(found, "transformer") if found.kind != "unknown" else "it is not clear what model it is"
    if found.quantised and not _is_packed(header) and found.quantised != "scaled FP8":
        return f"its weights are quantised ({found.quantised}), which Halftone does not read"
    strange = sorted({tensor.dtype for _, tensor in denoiser_tensors(header)} - PACKED - PLAIN - FLOAT8 - {"I32", "I64", "BOOL"})
    if strange:
        return f"its weights are stored as {strange[0]}, which diffusers cannot unpack"
    if found.family in _PARTED:
        return f"{found.family} has two denoisers, and runs only whole, as a folder"
    return _unturned(header, found) if found.naming == ORIGINAL else None


def _unturned(header: Header, found: Recognised) -> str | None:
    """Why the names that its makers gave cannot be turned into those of diffusers."""
    if found.family not in CONVERTED:
        return f"diffusers reads the transformer of {found.family} in its own names only"
    view = View({name: tensor.shape for name, tensor in denoiser_tensors(header)})
    return next((why for family, mark, why in _OTHERWISE if family == found.family and view.has(mark)), None)


def _is_packed(header: Header) -> bool:
    return any(tensor.dtype in PACKED or tensor.dtype.startswith(("Q", "IQ", "TQ", "MXFP", "NVFP")) for tensor in header.tensors)
