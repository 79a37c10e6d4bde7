"""Checks whether many tensors are finite, in one pass over their numbers and one wait for the device. Also names the kinds (NaN,
infinity, minus infinity) that a tensor holds.
"""

import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, Final, Literal, TypeVar, cast

import torch

from halftone.engine.basics.tensors import tensors_in
from halftone.measure.stats import has_values, peak

Name = TypeVar("Name", bound=Hashable)
AT_ONCE: Final = frozenset({"cpu"})
"""Devices that finish each operation before the next line runs."""


def waits(device: torch.device) -> bool:
    """Whether to read a number of this device means to wait until all that was put in its queue is done."""
    return device.type not in AT_ONCE


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """The numbers that a tensor holds: of a sparse one those that are there."""
    if tensor.layout is torch.strided:
        return tensor.detach()
    return tensor.detach().coalesce().values() if tensor.is_sparse else tensor.detach().to_dense()


def norm(tensor: torch.Tensor) -> torch.Tensor:
    """The 2-norm of one, at least in float32, as a scalar on its device; of no more of the graph than its numbers."""
    values = plain(tensor)
    return torch.linalg.vector_norm(values, dtype=_wide(values))


def looked_at(tensor: torch.Tensor) -> torch.Tensor | float:
    """One reduction that shows whether a tensor is finite: its norm, read later, or on a CPU in 16 bits its peak."""
    return peak(tensor) if tensor.itemsize < 4 and not waits(tensor.device) else norm(tensor)


def largest(tensor: torch.Tensor) -> torch.Tensor:
    """The largest |x| of a tensor that is not empty, as a scalar on its device: NaN or infinite only where a number is."""
    return plain(tensor).abs().amax()


def norms(tensors: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """2-norms in order, on their devices; not finite too where finite squares overflow float32 (`bad_among` looks again)."""
    found: list[torch.Tensor | None] = [None] * len(tensors)
    for places in _alike(tensors):
        held = [plain(tensors[place]) for place in places]
        made = cast("list[torch.Tensor]", cast("Any", torch)._foreach_norm(held, 2, dtype=_wide(held[0])))  # noqa: SLF001
        for place, norm in zip(places, made, strict=True):
            found[place] = norm
    return [norm if norm is not None else torch.zeros(()) for norm in found]


def read(parts: Sequence[torch.Tensor]) -> list[float]:
    """Scalars of any device as numbers; waits once for each device."""
    found = [0.0] * len(parts)
    for device in {part.device for part in parts}:
        places = [place for place, part in enumerate(parts) if part.device == device]
        for place, value in zip(places, torch.stack([parts[place] for place in places]).tolist(), strict=True):
            found[place] = value
    return found


def bad_among(tensors: Mapping[Name, torch.Tensor]) -> list[Name]:
    """Tensors that are not finite, in order; read exactly, one after another."""
    return [name for name, tensor in tensors.items() if not math.isfinite(peak(plain(tensor)))]


def _alike(tensors: Sequence[torch.Tensor]) -> list[list[int]]:
    """Places of tensors of one device and type; those without numbers, or with whole or 8-bit ones, stand nowhere."""
    groups: dict[tuple[torch.device, torch.dtype], list[int]] = {}
    for place, tensor in enumerate(tensors):
        if has_values(tensor) and tensor.itemsize > 1 and (tensor.is_floating_point() or tensor.is_complex()):
            groups.setdefault((tensor.device, tensor.dtype), []).append(place)
    return list(groups.values())


def _wide(tensor: torch.Tensor) -> torch.dtype | None:
    """What the squares of 16-bit numbers are added in; None: in their own type."""
    return torch.float32 if tensor.itemsize < 4 else None


Kind = Literal["nan", "inf", "-inf"]
Kinds = frozenset[Kind]
NONE: Final[Kinds] = frozenset()
INFINITE: Final[Kinds] = frozenset({"inf", "-inf"})
ALL: Final[Kinds] = frozenset({"nan", "inf", "-inf"})
_FILLING: Final = 1e8
"""Beyond this one a number that is the same all over is what scripts write for infinity (-1e9, the smallest of float32)."""
_SAME: Final = 1e-4


def kinds_in(value: Any) -> Kinds:
    """Kinds in all floating tensors of a value. Waits for the device."""
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
