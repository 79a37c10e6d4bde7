"""Tells from headers which files of a denoiser can take the place of a model's own. No weight is read."""

from typing import Final

from halftone.contract.wording import Words
from halftone.library.add_ons.unusable_files import instead
from halftone.library.families import known_families as of
from halftone.library.families.recognise import Recognised, denoiser_in
from halftone.library.files.gguf_header import PACKED
from halftone.library.files.header import COMFY_QUANT, Header, TensorInfo
from halftone.library.kinds.layouts import ORIGINAL
from halftone.library.kinds.marks import View, view_of

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
    (of.CHROMA.name, "nerf_blocks.*", Words("diffusers has no {0}", ("Chroma Radiance",))),
    (of.LUMINA2.name, "clip_text_pooled_proj.0.weight", Words("diffusers has no {0}", ("NewBie",))),
    (of.PIXART_SIGMA.name, "blocks.14.attn.sr.weight", Words("diffusers has no PixArt-Σ with compressed keys")),
    (of.COSMOS.name, "blocks.block0.*", Words("diffusers reads the transformer of {0} in its own names only", ("Cosmos 1.0",))),
)
"""(family, tensor, why it is not read) of variants of these that diffusers cannot turn."""
_PACKED: Final = ("Q", "IQ", "TQ", "MXFP", "NVFP")
_PARTED: Final = frozenset({of.CASCADE.name})
"""Families whose pipelines have several denoisers, none of which a file takes the place of."""


def denoiser_tensors(header: Header) -> tuple[tuple[str, TensorInfo], ...]:
    """(name without its prefix, tensor) of all that belong to the denoiser, the scales of 8-bit numbers with them."""
    found = denoiser_in(view_of(header.tensors))
    prefix = found[0] if found is not None else ""
    return tuple((tensor.name.removeprefix(prefix), tensor) for tensor in header.tensors if tensor.name.startswith(prefix))


def unreadable(header: Header, found: Recognised) -> Words | None:
    """Why the file cannot be read as a denoiser, as the end of a sentence."""
    if found.split is not None:
        return Words("it is file {0} of {1} of a split model", (str(found.split[0]), str(found.split[1])))
    if found.kind not in ("denoiser", "checkpoint"):
        return instead(found, Words("transformer")) if found.kind != "unknown" else Words("it is not clear what model it is")
    packed = any(tensor.dtype in PACKED or tensor.dtype.startswith(_PACKED) for tensor in header.tensors)
    if found.quantised and not packed and found.quantised != "scaled FP8":
        return Words("its weights are quantised ({0}), which Halftone does not read", (found.quantised,))
    weights = (tensor for name, tensor in denoiser_tensors(header) if not name.endswith(COMFY_QUANT))
    strange = sorted({tensor.dtype for tensor in weights} - PACKED - PLAIN - FLOAT8 - {"I32", "I64", "BOOL"})
    if strange:
        return Words("diffusers cannot unpack its {0} weights", (strange[0],))
    if found.family in _PARTED:
        return Words("{0} has two denoisers and runs only as a folder", (found.family,))
    if found.naming != ORIGINAL:
        return None
    if found.family not in CONVERTED:
        return Words("diffusers reads the transformer of {0} in its own names only", (found.family,))
    view = View({name: tensor.shape for name, tensor in denoiser_tensors(header)})
    return next((why for family, mark, why in _OTHERWISE if family == found.family and view.has(mark)), None)
