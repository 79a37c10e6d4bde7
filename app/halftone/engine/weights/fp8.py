"""Weights kept in eight bits (float8 e4m3: four of exponent, three of mantissa), computed with in the type that runs.

Each tensor is stored times a power of two that brings its peak to the top of the type's range, so that small weights keep three
bits too and rescaling by powers of two changes nothing. What eight bits do not hold exactly (a layer that a LoRA was added to)
stays as wide as it runs: a model is rounded once, when it is read. Norms, embeddings and what stands near them are left out, as
in diffusers' layerwise casting.
"""

import math
import re
from collections.abc import Iterator
from typing import Final, cast

import torch
from diffusers.hooks.layerwise_casting import DEFAULT_SKIP_MODULES_PATTERN
from torch import nn

EIGHT: Final = torch.float8_e4m3fn
_TOP: Final = torch.finfo(EIGHT).max
_LAYERS: Final = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)


def storable(module: nn.Module) -> Iterator[nn.Module]:
    """Layers of a network that may be stored in eight bits."""
    own = cast("tuple[str, ...] | None", getattr(module, "_skip_layerwise_casting_patterns", None))
    patterns = (*DEFAULT_SKIP_MODULES_PATTERN, *(own or ()))
    for name, part in module.named_modules():
        if type(part) in _LAYERS and not any(re.search(pattern, name) for pattern in patterns):
            yield part


def stored(weight: torch.Tensor) -> tuple[torch.Tensor, int] | None:
    """A weight in eight bits, times 2**k, and that k; None for what has no peak."""
    peak = float(weight.abs().max()) if weight.numel() else 0.0
    if not 0.0 < peak < float("inf"):
        return None
    k = math.floor(math.log2(_TOP / peak))
    return (weight.float() * 2.0**k).to(EIGHT), k


def computed(weight: torch.Tensor, k: int, dtype: torch.dtype) -> torch.Tensor:
    """A stored weight as it is computed with."""
    wide = weight.to(dtype)
    return wide.mul_(2.0**-k) if k else wide


def rounded(weight: torch.Tensor) -> torch.Tensor:
    """The numbers that eight bits hold of a weight, in the type it has."""
    found = stored(weight)
    return weight if found is None else computed(*found, weight.dtype)


def stored_exactly(weight: torch.Tensor) -> tuple[torch.Tensor, int] | None:
    """The same as `stored`, of a weight that loses nothing by it."""
    found = stored(weight)
    return found if found is not None and torch.equal(computed(*found, weight.dtype), weight) else None
