"""float16 on a CPU without float16 convolutions: the products are summed in float32 and rounded once, as a GPU does.

Where oneDNN has no float16 kernels torch falls back to plain loops that are 50 times slower than float32 (measured: 8.8 s
against 0.1 s for one call of Pocket's UNet). Rounding the float32 result of a layer to float16 gives what float16 storage with
float32 sums gives: the same overflow at the same place, the same eleven bits.

Models run with these kernels, so the self-test times types with them too.
"""

from collections.abc import Callable, Collection
from typing import Any, Final, cast

import torch
from torch import nn
from torch.nn import functional

_CONVOLUTIONS: Final = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_MARK = "_halftone_wide"


def has_float16_kernels() -> bool:
    """True where oneDNN computes float16 itself on this CPU."""
    supported = cast("Any", torch.ops.mkldnn)._is_mkldnn_fp16_supported  # noqa: SLF001 - torch has no public question for it
    return bool(supported())


def put_wide_kernels(
    module: nn.Module, device: torch.device, dtype: torch.dtype, linear: Collection[type[nn.Module]] = (nn.Linear,)
) -> None:
    """Give convolutions and linear layers of a float16 network sums in float32, where the CPU lacks others; undo it for other
    types. linear: the exact classes that compute as a linear layer does.
    """
    wanted = device.type == "cpu" and dtype == torch.float16 and not has_float16_kernels()
    for child in module.modules():
        kind = _convolution if type(child) in _CONVOLUTIONS else _linear if type(child) in linear else None
        if kind is None:
            continue
        if child.__dict__.pop(_MARK, False):
            child.__dict__.pop("forward", None)
        if wanted and "forward" not in child.__dict__:
            child.__dict__["forward"] = kind(child)
            child.__dict__[_MARK] = True


def gains_by_channels_last(device: str, dtype: torch.dtype) -> bool:
    """Whether flat convolutions are faster with the channels last: in bfloat16, and in float16 on CUDA (measured)."""
    return dtype == torch.bfloat16 or (device.partition(":")[0] == "cuda" and dtype == torch.float16)


def _convolution(layer: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    def forward(input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - the name torch gives it
        weight, bias = layer.weight, layer.bias
        if weight.dtype != torch.float16 or input.dtype != torch.float16:
            return layer._conv_forward(input, weight, bias)  # noqa: SLF001
        wide = layer._conv_forward(input.float(), weight.float(), None if bias is None else bias.float())  # noqa: SLF001
        return wide.to(torch.float16)

    return forward


def _linear(layer: Any) -> Callable[[torch.Tensor], torch.Tensor]:
    def forward(input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - the name torch gives it
        weight, bias = layer.weight, layer.bias
        if weight.dtype != torch.float16 or input.dtype != torch.float16:
            return functional.linear(input, weight, bias)
        wide = functional.linear(input.float(), weight.float(), None if bias is None else bias.float())
        return wide.to(torch.float16)

    return forward
