"""What other code changed between two steps: a validation, an average of the weights, a cast of a shared module.

The state at the end of a step is compared with that at the beginning of the next. Only types, devices, versions and a few numbers
of each tensor are copied, all gathered in one call.
"""

import hashlib
from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import torch
from torch import nn

from halftone.contract.training import Cause
from halftone.measure.randomness import state_of
from halftone.training.guard.finite import waits
from halftone.training.guard.networks import joined, state_tensors

GONE: Final = "gone"
"""How a moment that was there after the step, and is no more, is named."""
_SAMPLE: Final = 64
"""Numbers of each tensor that are held against those of before: what a write past the counters of versions changes."""
_PLAIN: Final = (torch.Tensor, nn.Parameter)
"""Tensors that lie on an accelerator as a block of numbers; other kinds of them may be spread over several or packed."""
_Kind = tuple[torch.device, torch.dtype]


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

    def alike(self, other: "_Samples | None") -> bool:
        """Whether they are of the same tensors."""
        return other is not None and (self.names, self.counts) == (other.names, other.counts)


@dataclass(frozen=True)
class Fingerprint:
    """How everything stood at one moment. samples: by where and what they are."""

    parameters: _Columns
    moments: _Columns
    modes: Mapping[str, bool]
    samples: Mapping[_Kind, _Samples]

    def kind_of(self, name: str) -> tuple[torch.device, torch.dtype] | None:
        """A parameter's device and type; None where it was not there."""
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
    def _sampled(self, tensors: Mapping[Any, torch.Tensor]) -> dict[_Kind, _Samples]:
        """Numbers from all over each tensor."""
        self._views = {name: self._view(name, tensor) for name, tensor in tensors.items() if _can_be_sampled(tensor)}
        kinds: dict[_Kind, dict[Any, torch.Tensor]] = {}
        for name, (_, _, view) in self._views.items():
            kinds.setdefault((view.device, view.dtype), {})[name] = view
        return {
            kind: _Samples(tuple(views), tuple(view.numel() for view in views.values()), torch.cat(list(views.values())))
            for kind, views in kinds.items()
        }

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
    """Everything that changed, a line per kind; reads no value of an accelerator. names: moments' parameters, by identity."""
    other = _other_numbers(before, after, (kind for kind in before.samples if not waits(kind[0])))
    found = _modes(before, after)
    if before.parameters != after.parameters or other:
        rows = before.parameters.rows(), after.parameters.rows()
        found = [*_casts(*rows), *_frozen(*rows), *found]
        moved = {name for one in found if one.cause == "cast-outside" for name in (one.name, *one.further)}
        found += _written(*rows, moved, other)
    if before.moments != after.moments or other:
        found += _moments(before.moments.rows(), after.moments.rows(), names, other)
    return found


def doubts(before: Fingerprint, after: Fingerprint) -> list[torch.Tensor]:
    """Scalars on accelerators, above nothing where other numbers stand there than before. Does not wait for them."""
    return [
        _differ(held.numbers, after.samples[kind].numbers).any().float()
        for kind, held in before.samples.items()
        if waits(kind[0]) and held.alike(after.samples.get(kind))
    ]


def unseen(before: Fingerprint, after: Fingerprint, names: Mapping[int, str]) -> list[Interference]:
    """What changed on accelerators behind the version counters, but for values not finite. Waits for the device."""
    other = _other_numbers(before, after, (kind for kind in before.samples if waits(kind[0])))
    for held in after.samples.values():
        other -= {name for name, numbers in _numbers_of(held).items() if name in other and not numbers.isfinite().all()}
    rows = before.parameters.rows(), after.parameters.rows()
    return [*_written(*rows, set(), other), *_moments(before.moments.rows(), after.moments.rows(), names, other)]


def _can_be_sampled(tensor: torch.Tensor) -> bool:
    """Whether it is a block of numbers in memory."""
    return tensor.layout is torch.strided and not tensor.is_meta and (type(tensor) in _PLAIN or not waits(tensor.device))


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


def _other_numbers(before: Fingerprint, after: Fingerprint, kinds: Iterable[_Kind]) -> set[Any]:
    """Names in both whose numbers are not the same, of these devices and types."""
    found: set[Any] = set()
    for kind in kinds:
        one, other = before.samples[kind], after.samples.get(kind)
        if other is None or (one.alike(other) and not _are_others(one.numbers, other.numbers)):
            continue
        then, now = _numbers_of(one), _numbers_of(other)
        found |= {name for name, numbers in then.items() if name in now and _are_others(numbers, now[name])}
    return found


def _numbers_of(samples: _Samples) -> dict[Any, torch.Tensor]:
    return dict(zip(samples.names, samples.numbers.split(list(samples.counts)), strict=True))


def _are_others(one: torch.Tensor, other: torch.Tensor) -> bool:
    return one.shape != other.shape or not (torch.equal(one, other) or not _differ(one, other).any())


def _differ(one: torch.Tensor, other: torch.Tensor) -> torch.Tensor:
    """Mark the numbers that are not the same; NaN counts as the same as NaN."""
    return (one != other) & ~(one.isnan() & other.isnan())


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
