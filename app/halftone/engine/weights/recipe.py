"""What each tensor of a component is made of, and the exact weights that it begins with, one tensor at a time.

A tensor in memory is the file's (mapped, read on demand), unpacked or rounded to eight bits, with what LoRAs add, times powers of
two, in some type. Each component remembers this of its tensors, so that another plan or LoRA weight writes only what changes, and
no second set of weights lies in memory meanwhile.
"""

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, NamedTuple, Protocol

import torch
from torch import nn

from halftone.engine.weights.fp8 import rounded
from halftone.engine.weights.packed import PackedLinear

_KNOWN: Final = "_halftone_known"
_OWN: Final = ("weight", "bias")
"""The parameters of a layer that a patch may change."""
_FLOATS: Final = (torch.float32, torch.float16, torch.bfloat16)
_PIECE: Final = 2**17
"""Numbers that are computed at once: half a megabyte in float32."""
_OWN_SHARE: Final = 0.02
"""Weights with a base of their own: positions that a network makes, and the projection that OpenCLIP stores transposed."""


Empty = Callable[[torch.Size, torch.dtype], torch.Tensor]
"""Gives a tensor on the processor that is yet to be filled."""


class Patch(Protocol):
    """Changes the exact weights of one layer."""

    @property
    def key(self) -> Hashable:
        """Equal keys change a layer alike."""
        ...

    def touches(self, own: str) -> bool:
        """Whether it changes the weight or the bias."""
        ...

    def deltas(self, like: torch.Tensor) -> Sequence["Delta"] | None:
        """What is added to the weight, one after another. like: of its shape. None: it is more than that, see `merged`."""
        ...

    def merged(self, held: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """The layer's weight and bias with the changes in them, in float32. held: the same without."""
        ...

    def added_to(self, layer: PackedLinear) -> PackedLinear:
        """A layer like this one whose weight stays packed, with the changes beside it."""
        ...


class Made(NamedTuple):
    """A tensor on its way to a device: what is sent there, and what then becomes of it."""

    source: torch.Tensor
    finish: Callable[[torch.Tensor], torch.Tensor] = lambda there: there

    def on(self, device: torch.device) -> torch.Tensor:
        """The tensor there, sent at once."""
        return self.finish(self.source.to(device))

    def laid_out(self, layout: torch.memory_format) -> "Made":
        """The same tensor in another layout there, unless it lies alike in both (see `channels_last`)."""
        return Made(self.source, lambda there: self.finish(there).contiguous(memory_format=layout))


@dataclass(frozen=True)
class Recipe:
    """Names what a tensor is made of. origin: its exact weight, as `Exact.origin` gives it; changes: (rows, k), times 2**k."""

    origin: Hashable
    changes: tuple[tuple[slice, int], ...]
    dtype: torch.dtype


@dataclass(frozen=True, eq=False)
class Exact(Mapping[str, torch.Tensor]):
    """Exact weights and buffers of a component by name, each made on demand.

    plain: those not packed, as read; layers: the packed ones, by module name; aliases: further names of shared parameters; eight:
    names of weights that count as rounded to eight bits; patches: by module; base: what `plain` and `layers` were read from,
    equal for the same numbers.
    """

    plain: Mapping[str, torch.Tensor]
    layers: Mapping[str, PackedLinear] = field(default_factory=dict[str, PackedLinear])
    aliases: Mapping[str, str] = field(default_factory=dict[str, str])
    eight: frozenset[str] = frozenset()
    patches: Mapping[str, Patch] = field(default_factory=dict[str, Patch])
    base: object = field(default_factory=object)
    _made: dict[str, Any] = field(default_factory=dict[str, Any], init=False)
    """Packed layers with their patches, and biases of patched ones: small, and made together with the weights."""

    def but(self, patches: Mapping[str, Patch], eight: Iterable[str] = ()) -> "Exact":
        """The same weights with other patches."""
        return replace(self, patches=patches, eight=frozenset(eight))

    def origin(self, name: str) -> Hashable:
        """Equal for equal exact weights of this name."""
        patch = self._patch_of(name)
        return self.base, name in self.eight, None if patch is None else patch.key

    def is_stored(self, name: str) -> bool:
        """Whether the exact weight is what was read, unpacked and unchanged."""
        return name in self.plain and name not in self.eight and self._patch_of(name) is None

    def layer(self, name: str) -> PackedLinear:
        """A packed layer."""
        layer, patch = self.layers[name], self.patches.get(name)
        if patch is None:
            return layer
        if name not in self._made:
            self._made[name] = patch.added_to(layer)
        return self._made[name]

    def __getitem__(self, name: str) -> torch.Tensor:
        path, _, own = name.rpartition(".")
        if path in self.layers and own in _OWN:
            layer = self.layer(path)
            if own == "weight":
                return layer.exact
            return self.plain[name] if layer.bias is None else layer.bias.data
        if self._patch_of(name) is None:
            return self._read(name)
        if name in self._made:
            return self._made[name]
        deltas = self._deltas(name)
        if deltas:
            return mixed(self._read(name), deltas, (), torch.float32)
        return self._merged(self._place(name))[own]

    def make(
        self,
        name: str,
        changes: Sequence[tuple[slice, int]],
        dtype: torch.dtype,
        device: torch.device,
        empty: Empty | None = None,
    ) -> Made:
        """Make an unpacked tensor by its recipe, on a device; integers stay as they are. empty: allocates."""
        deltas = self._deltas(name)
        if deltas:
            return Made(mixed(self._read(name), deltas, changes, dtype, empty))
        exact = self[name]
        if not exact.is_floating_point():
            return Made(exact)
        if device.type == "cpu":
            return Made(mixed(exact, (), changes, dtype, empty))
        wide = torch.float32 if changes else exact.dtype
        return Made(exact, lambda there: rescaled(there.to(wide), changes).to(dtype))

    def _deltas(self, name: str) -> "Sequence[Delta] | None":
        patch = self._patch_of(name) if name.endswith(".weight") else None
        return None if patch is None or name not in self.plain else patch.deltas(self.plain[name])

    def __iter__(self) -> Iterator[str]:
        yield from self.plain
        yield from (f"{name}.weight" for name in self.layers)

    def __len__(self) -> int:
        return len(self.plain) + len(self.layers)

    def __contains__(self, name: object) -> bool:
        return name in self.plain or (isinstance(name, str) and name.removesuffix(".weight") in self.layers)

    def _read(self, name: str) -> torch.Tensor:
        value = self.plain[name]
        return rounded(value) if name in self.eight else value

    def _place(self, name: str) -> str:
        """The module whose patch changes a parameter, by the name that the patch has for it."""
        return self._owners.get(name, name).rpartition(".")[0]

    @cached_property
    def _owners(self) -> Mapping[str, str]:
        return {first: alias for alias, first in self.aliases.items() if alias.rpartition(".")[0] in self.patches}

    def _patch_of(self, name: str) -> Patch | None:
        own = name.rpartition(".")[2]
        patch = self.patches.get(self._place(name)) if own in _OWN else None
        return patch if patch is not None and patch.touches(own) else None

    def _merged(self, path: str) -> Mapping[str, torch.Tensor]:
        names = {own: self.aliases.get(f"{path}.{own}", f"{path}.{own}") for own in _OWN}
        made = self.patches[path].merged({own: self._read(name) for own, name in names.items() if name in self.plain})
        self._made.update({names[own]: value for own, value in made.items() if own == "bias"})
        return made


class Delta(Protocol):
    """Adds something to a weight that does not depend on it."""

    def add(self, wide: torch.Tensor, rows: slice) -> None:
        """Add these rows of it to a weight's, in float32, in which all that belongs to a row lies side by side."""
        ...


class Product(NamedTuple):
    """Adds (rows, rank) @ (rank, columns) * factor. In float32 throughout, so that nothing is rounded but the sum."""

    up: torch.Tensor
    down: torch.Tensor
    factor: float

    def add(self, wide: torch.Tensor, rows: slice) -> None:
        """Add without memory for the product."""
        wide.addmm_(self.up[rows], self.down, alpha=self.factor)


class Whole(NamedTuple):
    """Adds these numbers, in float32 and of the weight's shape, times a factor."""

    numbers: torch.Tensor
    factor: float

    def add(self, wide: torch.Tensor, rows: slice) -> None:
        """Rounded as two operations are."""
        wide += _in_rows(self.numbers)[rows] * self.factor


@torch.no_grad()
def mixed(
    exact: torch.Tensor,
    deltas: Sequence[Delta],
    changes: Sequence[tuple[slice, int]],
    dtype: torch.dtype,
    empty: Empty | None = None,
) -> torch.Tensor:
    """exact (on the processor) plus deltas, times powers of two, all in float32, in dtype: row by row, within the processor's
    cache, also where empty gives memory in another order. A tensor without changes is returned itself.
    """
    if not deltas and not changes and exact.dtype == dtype:
        return exact
    made = torch.empty(exact.shape, dtype=dtype) if empty is None else empty(exact.shape, dtype)
    if not deltas and not changes and (torch.float32 in (exact.dtype, dtype) or exact.dtype not in _FLOATS):
        return made.copy_(exact)  # from one narrow type to another torch goes number by number
    given, in_order = _in_rows(exact), made.is_contiguous()
    if not deltas and exact.dtype == dtype and in_order and (k := _times_all(changes, len(given))) is not None:
        return torch.mul(exact, 2.0**k, out=made)  # torch widens each number by itself, and rounds it once: the same bits
    into, count = _in_rows(made) if in_order else made, max(1, _PIECE // max(1, given.shape[1]))
    buffer = torch.empty(min(count, len(given)), given.shape[1])
    for start in range(0, len(given), count):
        rows = slice(start, start + count)
        part = given[rows]
        wide = buffer[: len(part)].copy_(part)
        for delta in deltas:
            delta.add(wide, rows)
        for changed, k in changes:
            first, last, _ = changed.indices(len(given))
            wide[max(0, first - start) : max(0, last - start)] *= 2.0**k
        # it is in the cache, and is then converted as it lies: a third faster than both at once
        into[rows].copy_(wide if in_order else wide.view(-1, *made.shape[1:]).contiguous(memory_format=torch.channels_last))
    return made


def _times_all(changes: Sequence[tuple[slice, int]], rows: int) -> int | None:
    """k where the whole of a tensor is to be multiplied by 2**k, and once only."""
    if len(changes) != 1:
        return None
    changed, k = changes[0]
    return k if changed.indices(rows) == (0, rows, 1) else None


def channels_last(shape: torch.Size, dtype: torch.dtype) -> torch.Tensor:
    """An `Empty` for the weight of a flat convolution, channels last.

    A weight that lies alike in both orders, as that of a 1 × 1 convolution, keeps its file's strides: with those of the other
    order torch takes a kernel that rounds otherwise, and a copy to another place loses them.
    """
    made = torch.empty(shape, dtype=dtype)
    alike = made.is_contiguous(memory_format=torch.channels_last)
    return made if alike else torch.empty(shape, dtype=dtype, memory_format=torch.channels_last)


def _in_rows(tensor: torch.Tensor) -> torch.Tensor:
    """The same numbers in two dimensions, the first as it is."""
    return tensor.flatten(1) if tensor.dim() > 1 else tensor.reshape(-1, 1)


def rescaled(tensor: torch.Tensor, changes: Iterable[tuple[slice, int]]) -> torch.Tensor:
    """tensor times 2**k, exact while no element leaves the range of its dtype; (rows, k): only these rows."""
    result = tensor
    for rows, k in changes:
        result = result.clone() if result is tensor else result
        part = result[rows] if result.dim() else result
        # in float32 the factor itself is always finite, also where 2**k would not be in float16
        part.copy_(part.float() * 2.0**k)
    return result


def is_mapped(exact: Exact) -> bool:
    """Whether the weights are pages of a file, so that to hold them takes no memory of the process's own."""
    own = sum(tensor.nbytes for tensor in exact.plain.values() if tensor.untyped_storage().resizable())
    return own <= _OWN_SHARE * sum(tensor.nbytes for tensor in exact.plain.values())


@dataclass
class Known:
    """What is known of a component. held: recipes of its tensors; a missing one is written by the next plan; base: what its files
    hold, while in use; origin: tells this from their contents at another time.
    """

    held: dict[str, Recipe] = field(default_factory=dict[str, Recipe])
    base: Exact | None = None
    origin: object = field(default_factory=object)


def known_of(module: nn.Module) -> Known:
    """What is known of a component."""
    return module.__dict__.setdefault(_KNOWN, Known())


def keep_base(module: nn.Module, base: Exact) -> None:
    """Keep what was read of a component's files if it is mapped: then it takes no memory, and to read it again takes long."""
    known_of(module).base = base if is_mapped(base) else None


def forget_base(module: nn.Module) -> None:
    """The exact weights of a component without LoRAs are others now: it was given words, or layers of IP-Adapters."""
    module.__dict__.pop(_KNOWN, None)


def forget(module: nn.Module, names: Iterable[str]) -> None:
    """These tensors may be anything: the next plan writes them."""
    for name in names:
        known_of(module).held.pop(name, None)
