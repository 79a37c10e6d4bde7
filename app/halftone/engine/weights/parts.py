"""Tells which part of a pipeline does what, by what the modules are, not by model names."""

from collections.abc import Iterator
from typing import Any, Literal, cast

import torch
from torch import nn
from torch.nn.utils.parametrize import ParametrizationList

from halftone.engine.weights.packed import PackedLinear

Role = Literal["encode", "denoise", "decode", "other"]

_ENCODERS = ("text_encoder", "image_encoder")
_DENOISERS = ("unet", "transformer", "prior", "denoiser", "dit", "decoder", "controlnet")
"""A "decoder" that decodes nothing is the denoiser of a second stage; a ControlNet runs just before the denoiser."""
_IGNORED = ("safety_checker", "feature_extractor", "watermark")


def role(name: str, module: nn.Module) -> Role:
    """What a component does in a picture."""
    if name.startswith(_IGNORED):
        return "other"
    if any(part in name for part in _ENCODERS):
        return "encode"
    if callable(getattr(module, "decode", None)):
        return "decode"
    if name.startswith(_DENOISERS):
        return "denoise"
    return "other"


def components(pipe: Any) -> dict[str, nn.Module]:
    """The neural networks of a pipeline in running order: encoders, denoisers, decoders."""
    order = {"encode": 0, "denoise": 1, "decode": 2, "other": 3}
    everything = cast("dict[str, object]", pipe.components)
    found = [(name, part) for name, part in everything.items() if isinstance(part, nn.Module)]
    found = [(name, part) for name, part in found if not name.startswith(_IGNORED)]
    return dict(sorted(found, key=lambda pair: order[role(*pair)]))


def parameter_count(module: nn.Module) -> int:
    found = distinct_modules(module)
    plain = {id(own): own.numel() for part in found for own in part.parameters(recurse=False)}
    return sum(plain.values()) + sum(part.numbers for part in found if isinstance(part, PackedLinear))


def tensor_bytes(module: nn.Module) -> int:
    """Bytes of all parameters and buffers."""
    found = distinct_modules(module)
    return sum({id(own): own.nbytes for part in found for own in own_tensors(part)}.values())


def own_tensors(module: nn.Module) -> Iterator[torch.Tensor]:
    """Parameters and buffers of a module itself, without those of its children."""
    # torch's own iterators cost ten times as much for the few tensors of one module
    own = cast("Any", module)
    held = (*own._parameters.values(), *own._buffers.values())  # noqa: SLF001
    yield from (tensor for tensor in held if tensor is not None)


def distinct_modules(module: nn.Module) -> list[nn.Module]:
    """A module and all that are inside it, each once. torch's own way hands each of them up through every level above it, which
    took more time in a small job than its arithmetic.
    """
    found: dict[int, nn.Module] = {}
    waiting = [module]
    while waiting:
        part = waiting.pop()
        if id(part) not in found:
            found[id(part)] = part
            waiting += part.children()
    return list(found.values())


def units(module: nn.Module, prefix: str = "") -> list[tuple[str, nn.Module]]:
    """The smallest modules that a region is made of, in order: residual blocks, attention blocks, single convolutions and norms.

    A module is taken apart only while a list of blocks is inside it, not counting lists inside attention (to_out), feed-forward
    (net) or a list of attentions, so that a unit is never split between its own functional operations.
    """
    found: list[tuple[str, nn.Module]] = []
    for name, child in module.named_children():
        path = f"{prefix}{name}"
        if _holds_blocks(child, name, prefix.rstrip(".").rpartition(".")[2]):
            found += units(child, f"{path}.")
        elif any(True for _ in child.parameters()) or isinstance(child, PackedLinear):
            found.append((path, child))
    return found


def _holds_blocks(module: nn.Module, name: str, inside: str = "") -> bool:
    if name in ("to_out", "net", "to_add_out") or inside == "attentions" or hasattr(module, "to_q"):
        return False
    if isinstance(module, nn.ModuleList) and not isinstance(module, ParametrizationList):
        return True
    return any(_holds_blocks(child, child_name, name) for child_name, child in module.named_children())
