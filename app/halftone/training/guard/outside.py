"""What other code changed between two steps: a validation, an average of the weights, a cast of a module that is shared.

The state at the end of a step is written down and held against the state at the beginning of the next one. Nothing is copied but
types, devices, versions and a few numbers of each tensor, all of which one call gathers.
"""

import hashlib
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import torch
from torch import nn

from halftone.contract.training import Cause
from halftone.measure.randomness import state_of
from halftone.training.guard.finite import waits
from halftone.training.guard.networks import joined, state_tensors

GONE: Final = "gone"
"""Of a moment that was there after the step."""
_SAMPLE: Final = 64
"""Numbers of each tensor that are held against those of before: what a write past the counters of versions changes."""


@dataclass(frozen=True)
class Interference:
    """One thing that is no longer as it was. name: the module or parameter; further: more of the same kind."""

    cause: Cause
    name: str
    was: str
    now: str
    further: tuple[str, ...] = ()


class _Held(NamedTuple):
    dtype: torch.dtype
    device: torch.device
    trained: bool
    version: int


_Rows = Mapping[Any, _Held]


@dataclass(frozen=True)
class _Columns:
    """The same of many tensors, by name."""

    names: list[Any]
    dtypes: list[torch.dtype]
    devices: list[torch.device]
    trained: list[bool]
    versions: list[int]

    @classmethod
    def of(cls, tensors: Mapping[Any, torch.Tensor]) -> "_Columns":
        """A list for each thing: of thousands of tensors that takes a fraction of a row for each tensor."""
        held = tensors.values()
        return cls(
            list(tensors),
            [tensor.dtype for tensor in held],
            [tensor.device for tensor in held],
            [tensor.requires_grad for tensor in held],
            [tensor._version for tensor in held],  # noqa: SLF001 - the documented way to see a write in place
        )

    def rows(self) -> dict[Any, _Held]:
        columns = zip(self.dtypes, self.devices, self.trained, self.versions, strict=True)
        return dict(zip(self.names, map(_Held._make, columns), strict=True))


@dataclass(frozen=True)
class _Samples:
    """A few numbers of many tensors, one behind another: of `names` in order, of each so many as `counts` says."""

    names: tuple[Hashable, ...]
    counts: tuple[int, ...]
    numbers: torch.Tensor


@dataclass(frozen=True)
class Fingerprint:
    """How everything stood at one moment."""

    parameters: _Columns
    moments: _Columns
    modes: Mapping[str, bool]
    samples: _Samples

    def kind_of(self, name: str) -> tuple[torch.device, torch.dtype] | None:
        """Where a parameter was, and its type; None where it was not."""
        held = self.parameters.rows().get(name)
        return None if held is None else (held.device, held.dtype)


class Witness:
    """Writes down how networks, parameters and the optimizer's state stand. Does not wait for an accelerator."""

    def __init__(
        self, networks: Mapping[str, nn.Module], parameters: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer
    ) -> None:
        self._parts = {joined(network, name): part for network, root in networks.items() for name, part in root.named_modules()}
        self._parameters = parameters
        self._optimizer = optimizer
        self._views: dict[Any, tuple[int, torch.dtype, torch.Tensor]] = {}

    def take(self) -> Fingerprint:
        """How they stand now."""
        moments = {(id(parameter), name): value for parameter, name, value in state_tensors(self._optimizer)}
        return Fingerprint(
            parameters=_Columns.of(self._parameters),
            moments=_Columns.of(moments),
            modes={name: part.training for name, part in self._parts.items()},
            samples=self._sampled({**self._parameters, **moments}),
        )

    @torch.no_grad()
    def _sampled(self, tensors: Mapping[Any, torch.Tensor]) -> _Samples:
        """Numbers from all over each tensor; none of one on an accelerator, where to look at them would wait for it."""
        near = {name: t for name, t in tensors.items() if not waits(t.device) and t.layout is torch.strided}
        self._views = {name: self._view(name, tensor) for name, tensor in near.items()}
        views = [view for _, _, view in self._views.values()]
        return _Samples(tuple(near), tuple(view.numel() for view in views), torch.cat(views) if views else torch.zeros(0))

    def _view(self, name: Any, tensor: torch.Tensor) -> tuple[int, torch.dtype, torch.Tensor]:
        """The one of the last time, while the tensor lies where it lay."""
        place, dtype = tensor.data_ptr(), tensor.dtype
        known = self._views.get(name)
        return known if known is not None and known[:2] == (place, dtype) else (place, dtype, _spread(tensor.detach()))


def surroundings(device: str) -> dict[str, str]:
    """What a forward pass runs in, as torch has it now."""
    on = torch.is_autocast_enabled(device)
    return {
        "autocast": str(torch.get_autocast_dtype(device)).removeprefix("torch.") if on else "off",
        "gradients": "on" if torch.is_grad_enabled() else "off",
        "default type": str(torch.get_default_dtype()).removeprefix("torch."),
    }


def random_state(device: torch.device) -> str:
    """A short name of where torch's random numbers stand."""
    states = [torch.get_rng_state().numpy().tobytes()]
    if device.type != "cpu":
        states.append(state_of(device).numpy().tobytes())
    return hashlib.blake2b(b"".join(states), digest_size=12).hexdigest()


def differences(before: Fingerprint, after: Fingerprint, names: Mapping[int, str]) -> list[Interference]:
    """Everything that changed, one line per kind of change. names: of the parameters that moments belong to, by identity."""
    other = _other_numbers(before.samples, after.samples)
    found = _modes(before, after)
    if before.parameters != after.parameters or other:
        rows = before.parameters.rows(), after.parameters.rows()
        found = [*_casts(*rows), *_frozen(*rows), *found]
        moved = {name for one in found if one.cause == "cast-outside" for name in (one.name, *one.further)}
        found += _written(*rows, moved, other)
    if before.moments != after.moments or other:
        found += _moments(before.moments.rows(), after.moments.rows(), names, other)
    return found


def _spread(tensor: torch.Tensor) -> torch.Tensor:
    """A view of up to `_SAMPLE` numbers: from end to end of memory without gaps, else along the longest dimension."""
    count, step = tensor.numel(), 1
    if not (tensor.is_contiguous() or _without_gaps(tensor)):
        longest = max(range(tensor.dim()), key=tensor.size)
        count, step = tensor.size(longest), tensor.stride(longest)
    taken = min(count, _SAMPLE)
    found = tensor.as_strided((taken,), (step * (count // max(taken, 1)),))
    # formats of one byte cannot be laid beside wider ones: their bits say as much
    return found.view(torch.uint8) if tensor.itemsize == 1 and tensor.is_floating_point() else found


def _without_gaps(tensor: torch.Tensor) -> bool:
    return 1 + sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True)) == tensor.numel()


def _other_numbers(one: _Samples, other: _Samples) -> set[Any]:
    """Names in both whose numbers are not the same, NaN counted as the same as NaN."""
    if one.names == other.names and one.counts == other.counts and _same(one.numbers, other.numbers):
        return set()
    before = dict(zip(one.names, one.numbers.split(list(one.counts)), strict=True))
    after = dict(zip(other.names, other.numbers.split(list(other.counts)), strict=True))
    return {name for name, numbers in before.items() if name in after and not _same(numbers, after[name])}


def _same(one: torch.Tensor, other: torch.Tensor) -> bool:
    if one.shape != other.shape or not one.numel():
        return one.shape == other.shape
    return torch.equal(one, other) or bool(((one == other) | (one.isnan() & other.isnan())).all())


def _pairs(before: _Rows, after: _Rows) -> Iterator[tuple[Any, _Held, _Held]]:
    return ((name, held, after[name]) for name, held in before.items() if name in after)


def _one(cause: Cause, changed: list[tuple[str, str, str]]) -> list[Interference]:
    """(name, was, now) of several, as one line for each kind of change."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for name, was, now in changed:
        kinds.setdefault((was, now), []).append(name)
    return [Interference(cause, names[0], was, now, tuple(names[1:])) for (was, now), names in kinds.items()]


def _spelled(held: _Held) -> str:
    return f"{str(held.dtype).removeprefix('torch.')} on {held.device}"


def _casts(before: _Rows, after: _Rows) -> list[Interference]:
    pairs = _pairs(before, after)
    moved = [(n, _spelled(a), _spelled(b)) for n, a, b in pairs if a.dtype != b.dtype or a.device != b.device]
    return _one("cast-outside", moved)


def _frozen(before: _Rows, after: _Rows) -> list[Interference]:
    words = {True: "trained", False: "frozen"}
    pairs = _pairs(before, after)
    return _one("frozen-outside", [(n, words[a.trained], words[b.trained]) for n, a, b in pairs if a.trained != b.trained])


def _modes(before: Fingerprint, after: Fingerprint) -> list[Interference]:
    words = {True: "train", False: "eval"}
    changed = [(n, words[was], words[after.modes[n]]) for n, was in before.modes.items() if after.modes.get(n, was) != was]
    return _one("mode-outside", changed)


def _written(before: _Rows, after: _Rows, moved: set[str], other: set[Any]) -> list[Interference]:
    """Parameters whose numbers changed. On an accelerator the counter of writes has to do: there no number is looked at."""
    pairs = [(n, a, b) for n, a, b in _pairs(before, after) if n not in moved]
    changed = [(n, "", "") for n, a, b in pairs if n in other or (waits(a.device) and a.version != b.version)]
    return _one("weights-changed", changed)


def _moments(before: _Rows, after: _Rows, names: Mapping[int, str], other: set[Any]) -> list[Interference]:
    gone = [(names.get(key[0], key[1]), key[1], GONE) for key in before if key not in after]
    changed = [
        (names.get(key[0], key[1]), key[1], "changed" if a.dtype == b.dtype else _spelled(b))
        for key, a, b in _pairs(before, after)
        if a.dtype != b.dtype or a.device != b.device or a.version != b.version or key in other
    ]
    return _one("state-outside", gone + changed)
