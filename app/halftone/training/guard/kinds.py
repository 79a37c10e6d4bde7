"""Which kinds of numbers that are not finite a tensor holds: NaN, infinity, minus infinity."""

import math
from typing import Any, Final, Literal

import torch

from halftone.engine.basics.tensors import tensors_in
from halftone.measure.stats import has_values, peak

Kind = Literal["nan", "inf", "-inf"]
Kinds = frozenset[Kind]
NONE: Final[Kinds] = frozenset()
INFINITE: Final[Kinds] = frozenset({"inf", "-inf"})
ALL: Final[Kinds] = frozenset({"nan", "inf", "-inf"})
_FILLING: Final = 1e8
"""Beyond this one a number that is the same all over is what scripts write for infinity (-1e9, the smallest of float32)."""
_SAME: Final = 1e-4


def kinds_in(value: Any) -> Kinds:
    """Of all floating tensors in a value. Waits for the device."""
    return frozenset(kind for tensor in tensors_in(value) for kind in _kinds(tensor))


def filled_kinds(value: Any) -> Kinds:
    """The same, with numbers that stand for infinity counted as it: 16 bits make it of them."""
    return frozenset(kind for tensor in tensors_in(value) for kind in (*_kinds(tensor), *_fillings(tensor)))


def without(tensor: torch.Tensor, kinds: Kinds) -> torch.Tensor:
    """The tensor with zeros in the place of these."""
    return torch.nan_to_num(
        tensor.detach(),
        nan=0.0 if "nan" in kinds else math.nan,
        posinf=0.0 if "inf" in kinds else math.inf,
        neginf=0.0 if "-inf" in kinds else -math.inf,
    )


def mended(tensor: torch.Tensor) -> torch.Tensor:
    """The tensor with one half where it is not finite: a number whose logarithm, root and inverse are finite."""
    if not (tensor.is_floating_point() or tensor.is_complex()):
        return tensor
    return torch.where(torch.isfinite(tensor), tensor, torch.full_like(tensor, 0.5))


def _real(tensor: torch.Tensor) -> torch.Tensor:
    values = tensor.detach()
    return torch.view_as_real(values.resolve_conj()) if values.is_complex() else values


def _kinds(tensor: torch.Tensor) -> Kinds:
    if not has_values(tensor) or math.isfinite(peak(tensor)):
        return frozenset()
    values = _real(tensor)
    found: dict[Kind, torch.Tensor] = {"nan": values.isnan(), "inf": values == math.inf, "-inf": values == -math.inf}
    return frozenset(kind for kind, places in found.items() if bool(places.any()))


def _fillings(tensor: torch.Tensor) -> Kinds:
    found: set[Kind] = set()
    if not tensor.is_floating_point() or not has_values(tensor) or peak(tensor) < _FILLING:
        return frozenset()
    values = tensor.detach()
    for sign, kind in ((1.0, "inf"), (-1.0, "-inf")):
        far = values[torch.isfinite(values) & (values * sign >= _FILLING)]
        if far.numel() and float(far.max() - far.min()) <= _SAME * float(far.abs().max()):
            found.add(kind)  # pyright: ignore[reportArgumentType]
    return frozenset(found)
