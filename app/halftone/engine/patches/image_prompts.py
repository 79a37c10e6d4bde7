"""IP-Adapters inside a denoiser (a UNet, or FLUX's transformer): attention that also reads pictures, and the layers that turn
pictures into words.

While attached they are part of its exact weights, as a LoRA is: every layer has a name, is watched and can be cured.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, cast

import torch
from diffusers import SD3Transformer2DModel
from diffusers.models.embeddings import MultiIPAdapterImageProjection
from safetensors import safe_open
from torch import nn

from halftone.engine.weights.borders import forget_input_casts
from halftone.engine.weights.offload import forget_place
from halftone.engine.weights.precision import changes_by_tensor, exact_weights, rescaled
from halftone.library.add_ons.ipadapters import FLUX_PROJECTION

_KEYS_OR_VALUES: Final = re.compile(r"(.+)\.(to_[kv])\.weight(\[.*\])?")
_BEFORE: Final = "_halftone_before_pictures"
_IN_FLUX: Final = re.compile(r"^double_blocks\.(\d+)\.processor\.ip_adapter_double_stream_([kv])_proj")
_WORDS: Final = "text_proj"
"""Name under which diffusers looks for the layer that brings words to the width of Kolors' UNet."""
_PARTS: Final = ("to_k_ip", "to_v_ip")
"""Layers of an attention processor that are as large as the attention's own."""
_HALVES: Final = ("image_proj", "ip_adapter")

Halves = Mapping[str, Mapping[str, torch.Tensor]]
"""The two halves of a file: image_proj and ip_adapter, each name -> tensor."""


def adds_beside_output(module: nn.Module) -> bool:
    """Whether IP-Adapters of a denoiser or attention add to the residual stream, not to what the attention's output projection
    reads (diffusers' FluxIPAdapterAttnProcessor).
    """
    processors = (getattr(one, "processor", None) for one in module.modules())
    return any(type(one).__name__.startswith("FluxIPAdapter") for one in processors)


def adapter_exponents(own: Mapping[str, int], module: nn.Module) -> dict[str, int]:
    """Exponents for the layers of IP-Adapters beside scaled attention.

    own: exponents of the denoiser alone. Keys meet the model's queries and values are added to the model's values: both scale as
    those. Values added to the residual stream scale as that.
    """
    names, found = tuple(name for name in exact_weights(module) if "_ip." in name), dict[str, int]()
    if names and adds_beside_output(module):
        values = {name: name.partition(".processor.")[0] for name in names if ".to_v_ip." in name}
        streams = {name: own.get(f"{attention}.to_out.0.bias", 0) for name, attention in values.items()}
        return {name: k for name, k in streams.items() if k}
    for tensor, k in own.items() if names else ():
        if (part := _KEYS_OR_VALUES.fullmatch(tensor)) is not None:
            start, rows = f"{part[1]}.processor.{part[2]}_ip.", part[3] or ""
            found |= {name + rows: k for name in names if name.startswith(start)}
    return found


def scale_adapters(own: Mapping[str, int], module: nn.Module) -> None:
    """Fit the IP-Adapters in a denoiser to its weights, which are 2**k times those that the adapters were made for."""
    parameters = dict(module.named_parameters())
    for name, changes in changes_by_tensor(adapter_exponents(own, module)).items():
        parameters[name].data = rescaled(parameters[name].data, changes)


def read_halves(path: str) -> Halves:
    """Read the halves of a file, FLUX's under the names that the others have. Raises OSError or SafetensorError."""
    found: dict[str, dict[str, torch.Tensor]] = {name: {} for name in _HALVES}
    with safe_open(path, "pt") as file:
        for name in file.keys():  # noqa: SIM118 - a handle, no mapping
            half, _, own = _IN_FLUX.sub(r"ip_adapter.\1.to_\2_ip", name).replace(FLUX_PROJECTION, "image_proj.").partition(".")
            if half in found:
                found[half][own] = file.get_tensor(name)
    return found


def attach(denoiser: Any, files: Sequence[Halves]) -> None:
    """Let the attention of a denoiser read pictures through these, in their stored types, on the CPU.

    Raises RuntimeError, KeyError or ValueError where the sizes differ; then nothing is changed.
    """
    before = dict(denoiser.attn_processors)
    with torch.no_grad():
        made, added = _read(denoiser, files)
    reading = {name: one for name, one in made.items() if isinstance(one, nn.Module)}
    for module in (added, *reading.values()):
        module.eval().requires_grad_(False)
    _fit(denoiser, reading)
    denoiser.__dict__[_BEFORE] = (before, getattr(denoiser.config, "encoder_hid_dim_type", None))
    denoiser.set_attn_processor({**before, **reading})
    if _turns_by_time(denoiser):
        denoiser.image_proj = added
    else:
        if getattr(denoiser.config, "encoder_hid_dim_type", None) == _WORDS:
            denoiser.text_encoder_hid_proj = denoiser.encoder_hid_proj
        denoiser.encoder_hid_proj = added
        denoiser.config.encoder_hid_dim_type = "ip_image_proj"
    forget_input_casts(denoiser)
    forget_place(denoiser)


def _turns_by_time(denoiser: Any) -> bool:
    """Whether pictures become words again at every step, by one adapter at a time, as in SD 3."""
    return isinstance(denoiser, SD3Transformer2DModel)


def _read(denoiser: Any, files: Sequence[Halves]) -> tuple[dict[str, Any], nn.Module]:
    """(name -> attention processor, what turns pictures into words)."""
    at_all_times = _turns_by_time(denoiser)
    given = dict(files[0]["ip_adapter"]) if at_all_times else list(files)
    made = denoiser._convert_ip_adapter_attn_to_diffusers(given, low_cpu_mem_usage=True)  # noqa: SLF001 - as loaders do
    projections = [
        denoiser._convert_ip_adapter_image_proj_to_diffusers(dict(one["image_proj"]), low_cpu_mem_usage=False)  # noqa: SLF001
        for one in files
    ]
    if not at_all_times:
        return made, MultiIPAdapterImageProjection(projections)
    (turning,) = projections
    return made, turning


def _fit(denoiser: Any, reading: Mapping[str, nn.Module]) -> None:
    """Raise ValueError where a layer is not as large as the one beside it: diffusers goes by the configuration alone."""
    for name, processor in reading.items():
        beside = denoiser.get_submodule(name.removesuffix(".processor")).to_v
        words = getattr(processor, "cross_attention_dim", beside.in_features)
        for part, layer in processor.named_modules():
            if isinstance(layer, nn.Linear) and part.startswith(_PARTS) and layer.weight.shape != (beside.out_features, words):
                raise ValueError(f"{name}: {tuple(layer.weight.shape)} beside {(beside.out_features, words)}")


def detach(denoiser: Any) -> None:
    """Undo `attach`: restore the attention processors and remove the layers."""
    before = denoiser.__dict__.pop(_BEFORE, None)
    if before is not None:
        # first: what reads whole pictures has attention of its own
        setattr(denoiser, "image_proj" if _turns_by_time(denoiser) else "encoder_hid_proj", None)
        processors, kind = cast("tuple[dict[str, Any], Any]", before)
        denoiser.set_attn_processor(dict(processors))
        if kind == _WORDS:
            denoiser.encoder_hid_proj = denoiser.text_encoder_hid_proj
            del denoiser.text_encoder_hid_proj
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
            processor.scale = list(scales) if isinstance(processor.scale, list) else scales[0]
