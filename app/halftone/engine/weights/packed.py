"""Linear layers whose weights stay in memory as their file packs them (GGUF's blocks, 8-bit numbers), unpacked when they compute.

The exact weight is the number that the packed bytes stand for, unpacked in float32. A plan acts on it as on any other weight: a
power of two, a rounding, what a LoRA adds; the bytes themselves never change, so no state of a component costs more memory than
another.
"""

from collections.abc import Iterator
from typing import Any, Final

import torch
from diffusers.quantizers.gguf.utils import GGML_QUANT_SIZES, dequantize_functions
from gguf import GGMLQuantizationType
from torch import nn
from torch.nn import functional

FLOAT8: Final = {"F8_E4M3": torch.float8_e4m3fn, "F8_E5M2": torch.float8_e5m2}
"""Safetensors' names."""
Added = tuple[torch.Tensor, torch.Tensor] | tuple[torch.Tensor]
"""(up, down), whose product is added to a weight; or what is added itself. float32."""


class Packed(torch.Tensor):
    """The bytes of a two-dimensional weight, row by row; taking rows apart or together gives a Packed.

    kind: the file's name of the type; scale: factor of all numbers, or a column with one for each row, for 8-bit ones.
    """

    kind: str
    scale: torch.Tensor | None

    @staticmethod
    def of(data: torch.Tensor, kind: str, scale: torch.Tensor | None = None) -> "Packed":
        """data: uint8, rows × bytes."""
        made = data.as_subclass(Packed)
        made.kind, made.scale = kind, scale
        return made

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Raises ValueError where weights of several types would become one."""
        given = list(_packed_in(args))
        if any(one.kind != given[0].kind for one in given[1:]):
            raise ValueError("weights of several types cannot become one layer")
        # what torch's own guide to subclasses uses
        with torch._C.DisableTorchFunctionSubclass():  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            result = func(*args, **(kwargs or {}))
        if not given or func is torch.Tensor.as_subclass or not _holds_bytes(result):
            return result
        scale = given[0].scale
        if all(one.scale is scale for one in given[1:]) and (scale is None or scale.numel() == 1):
            return _again(result, given[0].kind, scale)
        # what becomes of the rows becomes of their factors
        return _again(result, given[0].kind, func(*_factors(args), **(kwargs or {})))

    @property
    def bytes(self) -> torch.Tensor:
        return self.as_subclass(torch.Tensor)

    def unpacked(self) -> torch.Tensor:
        """The numbers, in float32."""
        return unpacked(self.bytes, self.kind, self.scale)


def _packed_in(value: Any) -> Iterator[Packed]:
    if isinstance(value, Packed):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _packed_in(item)


def _factors(value: Any) -> Any:
    """The arguments, with the factor of every number in the place of its byte."""
    if isinstance(value, Packed):
        scale = torch.ones(1, 1) if value.scale is None else value.scale
        return scale.expand(value.bytes.shape)
    return type(value)(map(_factors, value)) if type(value) in (list, tuple) else value


def _holds_bytes(result: Any) -> bool:
    several = result if isinstance(result, list | tuple) else (result,)
    return any(isinstance(one, torch.Tensor) and one.dtype == torch.uint8 for one in several)


def _again(result: Any, kind: str, scale: Any) -> Any:
    """scale: of all that results, or made as it was."""
    if isinstance(result, list | tuple):
        each = scale if isinstance(scale, list | tuple) else [scale] * len(result)
        return type(result)(_again(one, kind, own) for one, own in zip(result, each, strict=True))
    if not _holds_bytes(result):
        return result
    if scale is None or scale.numel() == 1:
        return Packed.of(result, kind, scale)
    return Packed.of(result, kind, scale[:, :1].clone())  # not the factors of all numbers, of which it is a part


def shape_of(tensor: torch.Tensor) -> tuple[int, ...]:
    """Shape of the numbers, packed or not."""
    if not isinstance(tensor, Packed):
        return tuple(tensor.shape)
    rows, width = tensor.bytes.shape
    return rows, columns(width, tensor.kind)


def columns(width: int, kind: str) -> int:
    """Numbers in a row of so many bytes."""
    if kind in FLOAT8:
        return width
    block, size = GGML_QUANT_SIZES[GGMLQuantizationType[kind]]
    return width // size * block


def unpacked(data: torch.Tensor, kind: str, scale: torch.Tensor | None = None) -> torch.Tensor:
    """The numbers that packed bytes stand for, in float32. data: uint8, rows × bytes."""
    if kind in FLOAT8:
        wide = data.view(FLOAT8[kind]).float()
        return wide if scale is None else wide * scale.float().to(wide.device)
    number = GGMLQuantizationType[kind]
    block, size = GGML_QUANT_SIZES[number]
    # in float32, where diffusers' own layers compute in float16 and round the numbers once more
    wide = dequantize_functions[number](data.reshape(-1, size), block, size, torch.float32)
    return wide.reshape(data.shape[0], -1)


class PackedLinear(nn.Linear):
    """A linear layer that unpacks its weight each time. changes: (rows, k), times 2**k; added: by LoRAs."""

    packed: torch.Tensor
    scale: torch.Tensor | None

    def __init__(self, weight: Packed, bias: torch.Tensor | None, dtype: torch.dtype) -> None:
        nn.Module.__init__(self)  # a linear layer that holds no weight of its own
        self.in_features, self.out_features = columns(weight.shape[1], weight.kind), weight.shape[0]
        self.kind = weight.kind
        self.register_buffer("packed", weight.bytes)
        self.register_buffer("scale", weight.scale, persistent=False)
        self.bias = None if bias is None else nn.Parameter(bias, requires_grad=False)
        self.dtype = dtype
        self.changes: tuple[tuple[slice, int], ...] = ()
        self.added: tuple[Added, ...] = ()

    @property
    def numbers(self) -> int:
        """Count the numbers of its weight."""
        return self.in_features * self.out_features

    @property
    def exact(self) -> torch.Tensor:
        """The weight in float32 with what LoRAs add, before a plan changes it."""
        wide = unpacked(self.packed, self.kind, self.scale)
        for added in self.added:
            near = [part.to(wide.device) for part in added]
            wide = wide + (near[0] @ near[1] if len(near) == 2 else near[0])
        return wide

    @property
    def weight(self) -> torch.Tensor:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The weight that it computes with, made each time."""
        wide = self.exact
        for rows, k in self.changes:
            wide[rows] = wide[rows] * 2.0**k  # a tensor of the exponent would be copied, and waited for
        return wide.to(self.dtype)

    def forward(self, input: torch.Tensor) -> torch.Tensor:  # noqa: A002 - the name torch gives it
        return functional.linear(input, self.weight, self.bias)

    def like(self) -> "PackedLinear":
        """A layer of its own with the same bytes, to which other things may be added."""
        bias = None if self.bias is None else self.bias.data
        made = PackedLinear(Packed.of(self.packed, self.kind, self.scale), bias, self.dtype)
        made.added = self.added
        return made

    def take(self, other: "PackedLinear", changes: tuple[tuple[slice, int], ...], dtype: torch.dtype) -> None:
        """The bytes of another layer (or its own) and what is added to them, scaled, to compute in dtype."""
        if other is not self:
            self.packed = other.packed.to(self.packed.device)
            device = self.packed.device
            self.added = tuple(tuple(part.to(device) for part in added) for added in other.added)  # pyright: ignore[reportAttributeAccessIssue]
        self.changes, self.dtype = changes, dtype

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, kind={self.kind}"


def packed_layers(module: nn.Module) -> dict[str, PackedLinear]:
    """The packed layers by name."""
    return {name: layer for name, layer in module.named_modules() if isinstance(layer, PackedLinear)}


def weight_type(layer: nn.Module) -> torch.dtype | None:
    """What a layer computes in, without unpacking its weight; None without one, or of whole numbers."""
    if isinstance(layer, PackedLinear):
        return layer.dtype
    weight = getattr(layer, "weight", None)
    return weight.dtype if isinstance(weight, torch.Tensor) and weight.is_floating_point() else None
