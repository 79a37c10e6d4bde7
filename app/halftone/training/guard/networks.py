"""The networks that a guard watches, under the names that people see."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from torch import nn

_COMPILED: Final = "_orig_mod"
"""How torch.compile names the module inside the one that it gives."""
Networks = nn.Module | Sequence[nn.Module] | Mapping[str, nn.Module]


def named_networks(model: Networks) -> dict[str, nn.Module]:
    """Name -> network. A single one has no name, so that its parts are called as in its own `named_modules`."""
    if isinstance(model, nn.Module):
        return {"": model}
    if isinstance(model, Mapping):
        return dict(model)
    return {f"{type(network).__name__}[{place}]": network for place, network in enumerate(model)}


def joined(network: str, inside: str) -> str:
    """Return "reference_unet.mid_block.attn" of "reference_unet", "mid_block.attn", without the layer of torch.compile in
    between: a compiled module passes every look-up on to the one inside, so the shorter name finds its parts too.
    """
    return ".".join(part for part in (network, *inside.split(".")) if part and part != _COMPILED)


def named_parameters(networks: Mapping[str, nn.Module]) -> dict[str, nn.Parameter]:
    """Every parameter once, under the name of the first network that holds it."""
    found: dict[str, nn.Parameter] = {}
    seen: set[int] = set()
    for network, module in networks.items():
        for name, parameter in module.named_parameters():
            if id(parameter) not in seen:
                seen.add(id(parameter))
                found[joined(network, name)] = parameter
    return found


def guarded_parameters(networks: Mapping[str, nn.Module], optimizer: torch.optim.Optimizer) -> dict[str, torch.Tensor]:
    """Every parameter of the networks, and what else the optimizer changes, by the number of its place."""
    own: dict[str, torch.Tensor] = {**named_parameters(networks)}
    known = {id(parameter) for parameter in own.values()}
    further = [p for _, p in optimized(optimizer) if id(p) not in known]
    return own | {f"parameter {place}": parameter for place, parameter in enumerate(further)}


def named_buffers(networks: Mapping[str, nn.Module]) -> dict[str, torch.Tensor]:
    """Every buffer once (running means, counters and the like)."""
    found: dict[str, torch.Tensor] = {}
    seen: set[int] = set()
    for network, module in networks.items():
        for name, buffer in module.named_buffers():
            if id(buffer) not in seen:
                seen.add(id(buffer))
                found[joined(network, name)] = buffer
    return found


def optimized(optimizer: torch.optim.Optimizer) -> Iterator[tuple[int, torch.Tensor]]:
    """(index of its group, parameter) of everything that the optimizer changes."""
    for place, group in enumerate(optimizer.param_groups):
        for parameter in group["params"]:
            yield place, parameter


def state_tensors(optimizer: torch.optim.Optimizer) -> Iterator[tuple[torch.Tensor, str, torch.Tensor]]:
    """(parameter, name of the moment, its tensor) of all floating state."""
    state: Mapping[torch.Tensor, Mapping[str, Any]] = optimizer.state
    for parameter, moments in state.items():
        for name, value in moments.items():
            if isinstance(value, torch.Tensor) and value.is_floating_point():
                yield parameter, name, value
