"""What other code changed between two steps: a validation, an average of the weights, a cast of a module that is shared.

The state at the end of a step is written down and held against the state at the beginning of the next one. Nothing is copied:
dtypes, places, versions and a few numbers of each tensor.
"""

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import nn

from halftone.contract.training import Cause
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


@dataclass(frozen=True)
class _Held:
    dtype: torch.dtype
    device: torch.device
    trained: bool
    version: int
    place: int
    sample: torch.Tensor


@dataclass
class Fingerprint:
    """How everything stood at one moment."""

    parameters: dict[str, _Held] = field(default_factory=dict[str, _Held])
    moments: dict[tuple[int, str], _Held] = field(default_factory=dict[tuple[int, str], _Held])
    modes: dict[str, bool] = field(default_factory=dict[str, bool])
    surroundings: dict[str, str] = field(default_factory=dict[str, str])


def take(networks: Mapping[str, nn.Module], tensors: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer) -> Fingerprint:
    """tensors: parameters and buffers by name."""
    return Fingerprint(
        parameters={name: _held(tensor) for name, tensor in tensors.items()},
        moments={(id(parameter), name): _held(value) for parameter, name, value in state_tensors(optimizer)},
        modes={joined(network, name): part.training for network, root in networks.items() for name, part in root.named_modules()},
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
    moved = {one.name for one in found if one.cause == "cast-outside"} | {
        name for one in found if one.cause == "cast-outside" for name in one.further
    }
    found += _written(before, after, moved)
    found += _moments(before, after, names)
    found += _surroundings(before, after)
    return found


def _held(tensor: torch.Tensor) -> _Held:
    value = tensor.detach()
    return _Held(value.dtype, value.device, tensor.requires_grad, tensor._version, value.data_ptr(), _sample(value))  # noqa: SLF001


def _sample(value: torch.Tensor) -> torch.Tensor:
    """A few numbers from all over a tensor; none on an accelerator, where to look at them would wait for it."""
    if value.numel() == 0 or value.layout is not torch.strided or not value.is_cpu:
        return torch.zeros(0)
    flat = value.reshape(-1) if value.is_contiguous() else value.flatten()[: 4 * _SAMPLE]
    return flat[:: max(1, flat.numel() // _SAMPLE)][:_SAMPLE].clone()


def _same_numbers(one: _Held, other: _Held) -> bool:
    a, b = one.sample, other.sample
    return a.shape == b.shape and bool(torch.equal(torch.nan_to_num(a, nan=1e30), torch.nan_to_num(b, nan=1e30)))


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


def _written(before: Fingerprint, after: Fingerprint, moved: set[str]) -> list[Interference]:
    """Parameters whose numbers changed. On an accelerator the counter of writes has to do: there no number is looked at."""
    changed: list[tuple[str, str, str]] = []
    for name, a, b in _pairs(before.parameters, after.parameters):
        counted = a.device.type != "cpu" and a.version != b.version
        if name not in moved and (counted or not _same_numbers(a, b)):
            changed.append((name, "", ""))
    return _one("weights-changed", changed)


def _moments(before: Fingerprint, after: Fingerprint, names: Mapping[int, str]) -> list[Interference]:
    gone = [(names.get(key[0], key[1]), key[1], "gone") for key in before.moments if key not in after.moments]
    changed = [
        (names.get(key[0], key[1]), key[1], "changed" if a.dtype == b.dtype else _spelled(b))
        for key, a, b in _pairs(before.moments, after.moments)
        if a.dtype != b.dtype or a.device != b.device or a.version != b.version or not _same_numbers(a, b)
    ]
    return _one("state-outside", gone + changed)


def _surroundings(before: Fingerprint, after: Fingerprint) -> list[Interference]:
    return [
        Interference("autocast-outside", name, was, after.surroundings[name])
        for name, was in before.surroundings.items()
        if after.surroundings.get(name, was) != was
    ]
