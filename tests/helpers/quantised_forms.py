"""Ways in which other programs write quantised weights, from plain ones."""

import json
from collections.abc import Callable, Mapping

import torch
from tests.helpers.file_forms import Tensors

Change = Callable[[Tensors], Tensors]


def matrices(tensors: Tensors) -> list[str]:
    """Layers that other programs quantise: those that multiply."""
    wide = (name for name, value in tensors.items() if value.dim() == 2 and min(value.shape) >= 8)
    return [name for name in wide if name.endswith(".weight") and "embed_tokens" not in name]


def note(**said: object) -> torch.Tensor:
    """A note of ComfyUI on a layer."""
    return torch.frombuffer(bytearray(json.dumps(said).encode()), dtype=torch.uint8)


def eight_bits(
    factor: str = "",
    dtype: torch.dtype = torch.float8_e4m3fn,
    *,
    rows: bool = False,
    flat: bool = False,
    said: Mapping[str, object] | None = None,
) -> Change:
    """factor: how it is called; rows: one for each, in one dimension where flat; said: in ComfyUI's note beside it."""

    def change(tensors: Tensors) -> Tensors:
        found = {name: value.detach().clone() for name, value in tensors.items()}
        for name in matrices(tensors):
            value, owner = tensors[name].detach().float(), name.removesuffix("weight")
            peak = value.abs().amax(1, keepdim=True) if rows else value.abs().max()
            scale = (peak / torch.finfo(dtype).max).clamp(min=1e-12) if factor else torch.tensor(1.0)
            found[name] = (value / scale).to(dtype)
            if factor:
                found[owner + factor] = scale.flatten() if flat else scale
                found[owner + ("input_scale" if factor == "weight_scale" else "scale_input")] = torch.tensor(0.5)
            if said is not None:
                found[owner + "comfy_quant"] = note(**said)
        return found

    return change


def with_factor(kind: str, weight: torch.dtype, factor: torch.dtype, block: int, *, second: bool = False) -> Change:
    """Weights of a type that is not read, of the right sizes and no meaning. block: numbers that share a factor."""

    def change(tensors: Tensors) -> Tensors:
        found = dict(tensors)
        for name in matrices(tensors):
            (height, width), owner = tensors[name].shape, name.removesuffix("weight")
            packed = width // 2 if weight == torch.uint8 else width
            found[name] = torch.zeros(height, packed).to(weight)
            found[owner + "weight_scale"] = torch.zeros(height, max(1, width // block), dtype=torch.uint8).view(factor)
            found[owner + "comfy_quant"] = note(format=kind)
            if second:
                found[owner + "weight_scale_2"] = torch.tensor(1.0)
        return found

    return change


def with_states(*ends: str, kept: bool = False) -> Change:
    """Weights in bytes with states beside them that end so, as bitsandbytes and nunchaku write them. kept: under their names."""

    def change(tensors: Tensors) -> Tensors:
        found = dict(tensors)
        for name in matrices(tensors):
            count, owner = tensors[name].numel(), name if kept else name.removesuffix(".weight")
            found[name if kept else f"{owner}.qweight"] = torch.zeros(max(1, count // 2), 1, dtype=torch.uint8)
            if not kept:
                del found[name]
            found |= {owner + end: torch.zeros(8, dtype=torch.uint8) for end in ends}
        return found

    return change


def stand_for(tensors: Tensors) -> Tensors:
    """The numbers that eight bits with their factors stand for."""
    found: Tensors = {}
    for name, value in tensors.items():
        owner, _, kind = name.rpartition(".")
        if kind in ("weight_scale", "scale_weight", "input_scale", "scale_input", "comfy_quant", "scaled_fp8"):
            continue
        factor = next(
            (tensors[f"{owner}.{own}"] for own in ("weight_scale", "scale_weight") if f"{owner}.{own}" in tensors), None
        )
        scale = torch.tensor(1.0) if factor is None or kind != "weight" else factor
        found[name] = value.float() * (scale.reshape(-1, 1) if scale.numel() > 1 else scale)
    return found
