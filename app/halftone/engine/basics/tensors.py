"""Small operations on nested values that hold tensors: tuples, lists, dicts and the output classes of the two libraries."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Final, cast

import torch
from torch import nn
from torch.nn import functional

from halftone.contract.vocabulary import DType
from halftone.measure.stats import peak

DTYPES: Final[dict[DType, torch.dtype]] = {"float16": torch.float16, "bfloat16": torch.bfloat16, "float32": torch.float32}
NAMES: Final[dict[torch.dtype, DType]] = {value: key for key, value in DTYPES.items()}

PART: Final = 4.0
"""How many times the error of the whole one token or image region may have: 196 results of tiny models of many families in both
narrow types reach 1.2 to 3.9, one 5.5; none has an error of 0.13 there.
"""
_ALONG_AN_EDGE: Final = 32
"""Regions along the longer edge of a picture or of latents: what covers less of one is seen as a part of its error."""
_NEXT_TO_NOTHING: Final = 0.01
"""Share of the mean power of all parts below which a part is padding."""
_CELLS: Final = 4
"""Fewest places along an edge of a region: single ones hold too few numbers to judge by."""

KEPT_ARGUMENTS: Final = ("ids", "timestep", "sigma", "sigmas", "guidance", "rotary_emb", "t")
"""Arguments whose exact value selects something (a noise level, a position): a cast to 16 bits would move them."""


def map_tensors(value: Any, change: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Change every tensor of a nested value. What holds nothing changed stays the same object: the caller may write into it."""
    if isinstance(value, torch.Tensor):
        return change(value)
    if isinstance(value, (tuple, list)):
        old = cast("list[Any]", value)
        items = [map_tensors(item, change) for item in old]
        if _same(items, old):
            return value
        return items if isinstance(value, list) else type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if is_dataclass(value) and not isinstance(value, type) and isinstance(value, Mapping):
        held = {field.name: getattr(value, field.name) for field in fields(value)}
        changed = {name: map_tensors(item, change) for name, item in held.items()}
        return value if _same(changed.values(), held.values()) else type(value)(**changed)
    if type(value) is dict:
        given = cast("dict[Any, Any]", value)
        mapped = {key: map_tensors(item, change) for key, item in given.items()}
        return value if _same(mapped.values(), given.values()) else mapped
    return value


def _same(items: Iterable[Any], others: Iterable[Any]) -> bool:
    return all(item is other for item, other in zip(items, others, strict=True))


def tensors_in(value: Any) -> Iterator[torch.Tensor]:
    """Yield every floating tensor of a nested value in order; the parameters of a latent distribution."""
    if isinstance(value, torch.Tensor):
        if value.is_floating_point():
            yield value
    elif isinstance(value, Mapping):
        for item in cast("Mapping[Any, Any]", value).values():
            yield from tensors_in(item)
    elif isinstance(value, (tuple, list)):
        for item in cast("list[Any]", value):
            yield from tensors_in(item)
    elif isinstance(getattr(value, "parameters", None), torch.Tensor):
        yield from tensors_in(value.parameters)


def as_dtype(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    """A cast of floating tensors; integers, booleans and tensors of that dtype already stay the same object."""
    return lambda tensor: tensor.to(dtype) if tensor.is_floating_point() and tensor.dtype != dtype else tensor


def _as_activation(dtype: torch.dtype) -> Callable[[torch.Tensor], torch.Tensor]:
    change = as_dtype(dtype)
    return lambda tensor: change(tensor) if tensor.dim() >= 2 else tensor


def _cast_named(name: str, value: Any, dtype: torch.dtype) -> Any:
    last = name.rpartition("_")[2]
    if name in KEPT_ARGUMENTS or last in KEPT_ARGUMENTS:
        return value
    if type(value) is dict:
        given = cast("dict[Any, Any]", value)
        changed = {key: _cast_named(str(key), item, dtype) for key, item in given.items()}
        return value if _same(changed.values(), given.values()) else changed
    return map_tensors(value, _as_activation(dtype))


def cast_arguments(args: tuple[Any, ...], kwargs: dict[str, Any], dtype: torch.dtype) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Activations (two dimensions and more) in dtype; noise levels, positions and masks stay exact."""
    change = _as_activation(dtype)
    return tuple(map_tensors(arg, change) for arg in args), {key: _cast_named(key, item, dtype) for key, item in kwargs.items()}


def first_floating(args: tuple[Any, ...], kwargs: dict[str, Any]) -> torch.dtype | None:
    """Dtype of the first activation among the arguments, None if there is none."""
    for tensor in tensors_in((args, list(kwargs.values()))):
        if tensor.dim() >= 2:
            return tensor.dtype
    return None


def peak_of(value: Any) -> float:
    """Largest absolute value in a nested value (NaN if any is NaN). Synchronises with the device."""
    largest = 0.0
    for tensor in tensors_in(value):
        found = peak(tensor)
        if not found <= largest:
            largest = found
            if found != found:
                break
    return largest


def relative_error(value: Any, reference: Any) -> float:
    """Root mean square of value - reference over that of reference, over all tensors in order; or the largest error of one token
    or image region over PART, where that is more: an average must not hide what is broken.
    """
    difference = 0.0
    scale = 0.0
    for ours, theirs in zip(tensors_in(value), tensors_in(reference), strict=False):
        exact = theirs.cpu().double()  # some accelerators have no float64
        difference += float((ours.cpu().double() - exact).square().sum())
        scale += float(exact.square().sum())
    whole = (difference / scale) ** 0.5 if scale > 0 else difference**0.5
    return max(whole, local_error(value, reference) / PART)


def local_error(value: Any, reference: Any) -> float:
    """The largest relative error of one token or one image region, over all tensors of both in order.

    Relative to the numbers of that part, or to the median part of its tensor where those are smaller: parts that hold next to
    nothing (padding) do not show in a picture.
    """
    pairs = zip(tensors_in(value), tensors_in(reference), strict=False)
    return max((_local_error(ours, theirs) for ours, theirs in pairs if theirs.numel()), default=0.0)


def _local_error(ours: torch.Tensor, theirs: torch.Tensor) -> float:
    exact, found = theirs.cpu().float(), ours.cpu().float()
    largest = float(exact.abs().max())
    unit = largest if 0 < largest < float("inf") else 1.0  # squares of what float32 holds may be more than it holds
    power = power_of_parts(exact / unit)
    least = max(float(power.median()), _NEXT_TO_NOTHING * float(power.mean()))
    error = power_of_parts((found - exact) / unit) / power.clamp_min(least)
    return float(error.nan_to_num(0.0, float("inf")).max()) ** 0.5  # nothing instead of nothing is no error


def power_of_parts(tensor: torch.Tensor) -> torch.Tensor:
    """Mean square of each token (batch, tokens, channels) or each image region (batch, channels, …, height, width)."""
    squares = tensor.square()
    if tensor.dim() < 4:
        return squares.mean(-1) if tensor.dim() else squares
    flat = squares.mean(1).flatten(0, -3)
    edge = max(_CELLS, -(-max(tensor.shape[-2:]) // _ALONG_AN_EDGE))
    rows, columns = (-(-length // edge) for length in tensor.shape[-2:])
    return functional.adaptive_avg_pool2d(flat, (rows, columns))


def hold(tensor: torch.Tensor, data: torch.Tensor) -> None:
    """Give a parameter or buffer other data and keep the object. Between the processor and devices that their makers add to torch
    its data cannot be set; there the tensors are swapped, as `Module.to` does.
    """
    if cast("Any", torch)._has_compatible_shallow_copy_type(tensor, data):  # noqa: SLF001 - what Module.to asks
        tensor.data = data
        return
    other = nn.Parameter(data, tensor.requires_grad) if isinstance(tensor, nn.Parameter) else data.detach()
    torch.utils.swap_tensors(tensor, other)
