"""Kernels of float16 networks on a CPU, for packed linear layers too."""

from typing import Final

import torch
from torch import nn

from halftone.engine.weights.packed import PackedLinear
from halftone.measure import wide_kernels

_LINEAR: Final = (nn.Linear, PackedLinear)


def put_wide_kernels(module: nn.Module, device: torch.device, dtype: torch.dtype) -> None:
    """Give the network the kernels that its type needs on this device (`measure.wide_kernels`)."""
    wide_kernels.put_wide_kernels(module, device, dtype, _LINEAR)
