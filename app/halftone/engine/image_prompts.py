"""IP-Adapters inside a UNet: attention that also reads pictures, and what turns pictures into words for it.

While they are there they are part of its exact weights, as a LoRA is: every layer has a name, is watched and can be cured.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import torch
from diffusers.models.embeddings import MultiIPAdapterImageProjection
from safetensors import safe_open
from torch import nn

from halftone.engine.borders import forget_input_casts
from halftone.engine.offload import forget_place

_BEFORE: Final = "_halftone_before_pictures"
_HALVES: Final = ("image_proj", "ip_adapter")

Halves = Mapping[str, Mapping[str, torch.Tensor]]
"""The two halves of a file: image_proj and ip_adapter, each name -> tensor."""


def read_halves(path: str) -> Halves:
    """Raises OSError or SafetensorError."""
    found: dict[str, dict[str, torch.Tensor]] = {name: {} for name in _HALVES}
    with safe_open(path, "pt") as file:
        for name in file.keys():  # noqa: SIM118 - a handle, no mapping
            half, _, own = name.partition(".")
            if half in found:
                found[half][own] = file.get_tensor(name)
    return found


def attach(unet: Any, files: Sequence[Halves]) -> None:
    """Let the cross-attention of a UNet read pictures through these, in the types that they are stored in, on the CPU.

    Raises RuntimeError, KeyError or ValueError where the sizes are others; then nothing is changed.
    """
    before = dict(unet.attn_processors)
    with torch.no_grad():
        made = unet._convert_ip_adapter_attn_to_diffusers(list(files), low_cpu_mem_usage=True)  # noqa: SLF001 - as its loader does
        projections = [
            unet._convert_ip_adapter_image_proj_to_diffusers(dict(one["image_proj"]), low_cpu_mem_usage=False)  # noqa: SLF001
            for one in files
        ]
    reading = {name: one for name, one in made.items() if isinstance(one, nn.Module)}
    added = MultiIPAdapterImageProjection(projections)
    for module in (added, *reading.values()):
        module.eval().requires_grad_(False)
    _fit(unet, reading)
    unet.__dict__[_BEFORE] = (before, unet.config.encoder_hid_dim_type)
    unet.set_attn_processor({**before, **reading})
    unet.encoder_hid_proj = added
    unet.config.encoder_hid_dim_type = "ip_image_proj"
    forget_input_casts(unet)
    forget_place(unet)


def _fit(unet: Any, reading: Mapping[str, nn.Module]) -> None:
    """Raise ValueError where a layer is not as large as the one beside it: diffusers goes by the configuration alone."""
    for name, processor in reading.items():
        beside = unet.get_submodule(name.removesuffix(".processor")).to_v.weight.shape
        for layer in processor.modules():
            if isinstance(layer, nn.Linear) and layer.weight.shape != beside:
                raise ValueError(f"{name}: {tuple(layer.weight.shape)} beside {tuple(beside)}")


def detach(unet: Any) -> None:
    """Leave the UNet as it was before `attach`: the same attention processors, no layer more."""
    before = unet.__dict__.pop(_BEFORE, None)
    if before is not None:
        unet.encoder_hid_proj = None  # first: what reads whole pictures has attention of its own
        processors, kind = cast("tuple[dict[str, Any], Any]", before)
        unet.set_attn_processor(dict(processors))
        unet.config.encoder_hid_dim_type = kind
        forget_input_casts(unet)
        forget_place(unet)


def reads_pictures(unet: Any) -> bool:
    """Whether something is attached to it."""
    return _BEFORE in unet.__dict__


def weigh(unet: Any, scales: Sequence[float]) -> None:
    """How strongly the pictures of each count from now on."""
    for processor in unet.attn_processors.values():
        if hasattr(processor, "to_k_ip"):
            processor.scale = list(scales)
