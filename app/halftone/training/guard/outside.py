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
from halftone.training.guard.finite import waits
from halftone.training.guard.networks import joined, state_tensors

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


@dataclass(frozen=True)
class _Samples:
    """A few numbers of many tensors, one behind another: of `names` in order, of each so many as `counts` says."""

    names: tuple[Hashable, ...]
    counts: tuple[int, ...]
    numbers: torch.Tensor


@dataclass(frozen=True)
class Fingerprint:
    """How everything stood at one moment."""

    parameters: Mapping[str, _Held]
    moments: Mapping[tuple[int, str], _Held]
    modes: Mapping[str, bool]
    samples: _Samples


def parts_of(networks: Mapping[str, nn.Module]) -> dict[str, nn.Module]:
    """Every module under the name that people see."""
    return {joined(network, name): part for network, root in networks.items() for name, part in root.named_modules()}


def take(parts: Mapping[str, nn.Module], parameters: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer) -> Fingerprint:
    """parts: modules by name. Does not wait for an accelerator."""
    moments = {(id(parameter), name): value for parameter, name, value in state_tensors(optimizer)}
    return Fingerprint(
        parameters={name: _held(tensor) for name, tensor in parameters.items()},
        moments={key: _held(value) for key, value in moments.items()},
        modes={name: part.training for name, part in parts.items()},
        samples=_sampled({**parameters, **moments}),
    )


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
    if device.type == "cuda":
        states.append(torch.cuda.get_rng_state(device).numpy().tobytes())
    return hashlib.blake2b(b"".join(states), digest_size=12).hexdigest()


def differences(before: Fingerprint, after: Fingerprint, names: Mapping[int, str]) -> list[Interference]:
    """Everything that changed, one line per kind of change. names: of the parameters that moments belong to, by identity."""
    found = [*_casts(before, after), *_frozen(before, after), *_modes(before, after)]
    moved = {name for one in found if one.cause == "cast-outside" for name in (one.name, *one.further)}
    other = _other_numbers(before.samples, after.samples)
    return [*found, *_written(before, after, moved, other), *_moments(before, after, names, other)]


def _held(tensor: torch.Tensor) -> _Held:
    return _Held(tensor.dtype, tensor.device, tensor.requires_grad, tensor._version)  # noqa: SLF001 - the documented way


@torch.no_grad()
def _sampled(tensors: Mapping[Any, torch.Tensor]) -> _Samples:
    """Numbers from all over each tensor; none of one on an accelerator, where to look at them would wait for it."""
    strided = {name: tensor for name, tensor in tensors.items() if tensor.layout is torch.strided}
    views = {name: _spread(tensor) for name, tensor in strided.items() if not waits(tensor.device)}
    numbers = torch.cat(list(views.values())) if views else torch.zeros(0)
    return _Samples(tuple(views), tuple(view.numel() for view in views.values()), numbers)


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
    return one.shape == other.shape and (not one.numel() or bool(((one == other) | (one.isnan() & other.isnan())).all()))


def _pairs(before: Mapping[Any, _Held], after: Mapping[Any, _Held]) -> Iterator[tuple[Any, _Held, _Held]]:
    return ((name, held, after[name]) for name, held in before.items() if name in after)


def _one(cause: Cause, changed: list[tuple[str, str, str]]) -> list[Interference]:
    """(name, was, now) of several, as one line for each kind of change."""
    kinds: dict[tuple[str, str], list[str]] = {}
    for name, was, now in changed:
        kinds.setdefault((was, now), []).append(name)
    return [Interference(cause, names[0], was, now, tuple(names[1:])) for (was, now), names in kinds.items()]


def _spelled(held: _Held) -> str:
    return f"{str(held.dtype).removeprefix('torch.')} on {held.device}"


def _casts(before: Fingerprint, after: Fingerprint) -> list[Interference]:
    pairs = _pairs(before.parameters, after.parameters)
    moved = [(n, _spelled(a), _spelled(b)) for n, a, b in pairs if a.dtype != b.dtype or a.device != b.device]
    return _one("cast-outside", moved)


def _frozen(before: Fingerprint, after: Fingerprint) -> list[Interference]:
    words = {True: "trained", False: "frozen"}
    pairs = _pairs(before.parameters, after.parameters)
    return _one("frozen-outside", [(n, words[a.trained], words[b.trained]) for n, a, b in pairs if a.trained != b.trained])


def _modes(before: Fingerprint, after: Fingerprint) -> list[Interference]:
    words = {True: "train", False: "eval"}
    changed = [(n, words[was], words[after.modes[n]]) for n, was in before.modes.items() if after.modes.get(n, was) != was]
    return _one("mode-outside", changed)


def _written(before: Fingerprint, after: Fingerprint, moved: set[str], other: set[Any]) -> list[Interference]:
    """Parameters whose numbers changed. On an accelerator the counter of writes has to do: there no number is looked at."""
    pairs = [(n, a, b) for n, a, b in _pairs(before.parameters, after.parameters) if n not in moved]
    changed = [(n, "", "") for n, a, b in pairs if n in other or (waits(a.device) and a.version != b.version)]
    return _one("weights-changed", changed)


def _moments(before: Fingerprint, after: Fingerprint, names: Mapping[int, str], other: set[Any]) -> list[Interference]:
    gone = [(names.get(key[0], key[1]), key[1], "gone") for key in before.moments if key not in after.moments]
    changed = [
        (names.get(key[0], key[1]), key[1], "changed" if a.dtype == b.dtype else _spelled(b))
        for key, a, b in _pairs(before.moments, after.moments)
        if a.dtype != b.dtype or a.device != b.device or a.version != b.version or key in other
    ]
    return _one("state-outside", gone + changed)
