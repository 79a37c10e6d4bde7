"""IP-Adapters inside a denoiser (a UNet, or FLUX's transformer): attention that also reads pictures, and what turns pictures
into words for it.

While they are there they are part of its exact weights, as a LoRA is: every layer has a name, is watched and can be cured.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import torch
from diffusers.models.embeddings import MultiIPAdapterImageProjection
from safetensors import safe_open
from torch import nn

from halftone.engine.borders import forget_input_casts
from halftone.engine.offload import forget_place
from halftone.library.ipadapters import FLUX_PROJECTION

_BEFORE: Final = "_halftone_before_pictures"
_IN_FLUX: Final = re.compile(r"^double_blocks\.(\d+)\.processor\.ip_adapter_double_stream_([kv])_proj")
_HALVES: Final = ("image_proj", "ip_adapter")

Halves = Mapping[str, Mapping[str, torch.Tensor]]
"""The two halves of a file: image_proj and ip_adapter, each name -> tensor."""


def read_halves(path: str) -> Halves:
    """Those of a file for FLUX under the names that the others have. Raises OSError or SafetensorError."""
    found: dict[str, dict[str, torch.Tensor]] = {name: {} for name in _HALVES}
    with safe_open(path, "pt") as file:
        for name in file.keys():  # noqa: SIM118 - a handle, no mapping
            half, _, own = _IN_FLUX.sub(r"ip_adapter.\1.to_\2_ip", name).replace(FLUX_PROJECTION, "image_proj.").partition(".")
            if half in found:
                found[half][own] = file.get_tensor(name)
    return found


def attach(denoiser: Any, files: Sequence[Halves]) -> None:
    """Let the attention of a denoiser read pictures through these, in the types that they are stored in, on the CPU.

    Raises RuntimeError, KeyError or ValueError where the sizes are others; then nothing is changed.
    """
    before = dict(denoiser.attn_processors)
    with torch.no_grad():
        made = denoiser._convert_ip_adapter_attn_to_diffusers(list(files), low_cpu_mem_usage=True)  # noqa: SLF001 - as loaders do
        projections = [
            denoiser._convert_ip_adapter_image_proj_to_diffusers(dict(one["image_proj"]), low_cpu_mem_usage=False)  # noqa: SLF001
            for one in files
        ]
    reading = {name: one for name, one in made.items() if isinstance(one, nn.Module)}
    added = MultiIPAdapterImageProjection(projections)
    for module in (added, *reading.values()):
        module.eval().requires_grad_(False)
    _fit(denoiser, reading)
    denoiser.__dict__[_BEFORE] = (before, getattr(denoiser.config, "encoder_hid_dim_type", None))
    denoiser.set_attn_processor({**before, **reading})
    denoiser.encoder_hid_proj = added
    denoiser.config.encoder_hid_dim_type = "ip_image_proj"
    forget_input_casts(denoiser)
    forget_place(denoiser)


def _fit(denoiser: Any, reading: Mapping[str, nn.Module]) -> None:
    """Raise ValueError where a layer is not as large as the one beside it: diffusers goes by the configuration alone."""
    for name, processor in reading.items():
        beside = denoiser.get_submodule(name.removesuffix(".processor")).to_v
        fits = (beside.out_features, processor.cross_attention_dim)
        for layer in processor.modules():
            if isinstance(layer, nn.Linear) and layer.weight.shape != fits:
                raise ValueError(f"{name}: {tuple(layer.weight.shape)} beside {fits}")


def detach(denoiser: Any) -> None:
    """Leave the denoiser as it was before `attach`: the same attention processors, no layer more."""
    before = denoiser.__dict__.pop(_BEFORE, None)
    if before is not None:
        denoiser.encoder_hid_proj = None  # first: what reads whole pictures has attention of its own
        processors, kind = cast("tuple[dict[str, Any], Any]", before)
        denoiser.set_attn_processor(dict(processors))
        denoiser.config.encoder_hid_dim_type = kind
        forget_input_casts(denoiser)
        forget_place(denoiser)


def reads_pictures(denoiser: Any) -> bool:
    """Whether something is attached to it."""
    return _BEFORE in denoiser.__dict__


def weigh(denoiser: Any, scales: Sequence[float]) -> None:
    """How strongly the pictures of each count from now on."""
    for processor in denoiser.attn_processors.values():
        if hasattr(processor, "to_k_ip"):
            processor.scale = list(scales)
