"""The last good state: what is put back, bit by bit, when a step would have spoiled it."""

import copy
import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import torch

from halftone.engine.basics.tensors import hold
from halftone.measure.stats import peak
from halftone.training.guard.finite import plain

Moments = dict[torch.Tensor, dict[str, Any]]


def bytes_of(tensors: Sequence[torch.Tensor]) -> int:
    """Memory that the numbers of these take."""
    return sum(tensor.numel() * tensor.element_size() for tensor in tensors)


class LastGood:
    """Copies of parameters, buffers and optimizer state (None: without) on their devices, renewed after good steps."""

    def __init__(self, parameters: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer | None) -> None:
        self._held = dict(parameters)
        self._optimizer = optimizer
        self._values: dict[str, torch.Tensor] = {}
        self._moments: Moments = {}
        self._groups: list[dict[str, Any]] = []
        self.keep()

    @property
    def memory(self) -> int:
        """Bytes that the copy takes."""
        moments = [value for of in self._moments.values() for value in of.values() if isinstance(value, torch.Tensor)]
        return bytes_of([*self._values.values(), *moments])

    def keep(self) -> None:
        """Take the state as it is now. What has its place already is written over in one call."""
        copies = _Copies()
        self._values = {name: copies.taken(tensor, self._values.get(name)) for name, tensor in self._held.items()}
        if self._optimizer is None:
            copies.make()
            return
        before = self._moments
        self._moments = {p: copies.taken_moments(of, before.get(p, {})) for p, of in _state(self._optimizer).items()}
        copies.make()
        self._groups = [_settings(group) for group in self._optimizer.param_groups]

    @torch.no_grad()
    def put_back(self) -> None:
        """Everything as it was when it was kept, types and places included."""
        for name, tensor in self._held.items():
            _put(tensor, self._values[name])
        if self._optimizer is not None:
            self._put_moments_back(self._optimizer)

    def _put_moments_back(self, optimizer: torch.optim.Optimizer) -> None:
        state = _state(optimizer)
        for parameter in [p for p in state if p not in self._moments]:
            del state[parameter]
        for parameter, moments in self._moments.items():
            now = state[parameter] if parameter in state else state.setdefault(parameter, {})
            for name in [name for name in now if name not in moments]:
                del now[name]
            for name, value in moments.items():
                if isinstance(value, torch.Tensor) and isinstance(now.get(name), torch.Tensor):
                    _put(now[name], value)
                else:
                    now[name] = copy.deepcopy(value)
        for group, settings in zip(optimizer.param_groups, self._groups, strict=True):
            group.update(copy.deepcopy(settings))

    @torch.no_grad()
    def put_back_only(self, names: Sequence[str]) -> None:
        """Restore these parameters or buffers."""
        for name in names:
            _put(self._held[name], self._values[name])

    def was_finite(self, tensor: torch.Tensor) -> bool:
        """Whether one of them was finite when it was kept. Waits for the device."""
        return math.isfinite(peak(plain(self.copy_of(tensor))))

    def copy_of(self, parameter: torch.Tensor) -> torch.Tensor:
        """One of the parameters as it was kept."""
        return next(self._values[name] for name, held in self._held.items() if held is parameter)

    def moments(self, parameter: torch.Tensor) -> dict[str, Any]:
        """The optimizer's state of a parameter as it was kept; empty before the first step."""
        return self._moments.get(parameter, {})


@dataclass(frozen=True)
class Kept:
    """One state on the host, after so many good steps."""

    step: int
    values: dict[str, torch.Tensor]
    moments: dict[str, dict[str, Any]]


class HostRing:
    """Good states of some steps ago, on the host. every: good steps between two; keep: how many."""

    def __init__(
        self, parameters: Mapping[str, torch.Tensor], optimizer: torch.optim.Optimizer, *, every: int, keep: int
    ) -> None:
        self._held = dict(parameters)
        self._names = {tensor: name for name, tensor in parameters.items()}
        self._optimizer = optimizer
        self._every = every
        self._kept: deque[Kept] = deque(maxlen=max(keep, 1))
        self.seconds = 0.0
        """What keeping took so far."""

    @property
    def memory(self) -> int:
        """Bytes on the host."""
        moments = [v for kept in self._kept for of in kept.moments.values() for v in of.values() if isinstance(v, torch.Tensor)]
        return bytes_of([*(value for kept in self._kept for value in kept.values.values()), *moments])

    def offer(self, step: int) -> None:
        """A step ended well: take its state if it is time to."""
        if self._every and (not self._kept or step - self._kept[-1].step >= self._every):
            self._kept.append(Kept(step, {n: _on_host(t) for n, t in self._held.items()}, self._moments()))

    def clear(self) -> None:
        """Keep none from now on: another copy is better."""
        self._every = 0
        self._kept.clear()

    def begin_at(self, step: int) -> None:
        """Earlier states are those of another training."""
        self._kept.clear()
        self.offer(step)

    @torch.no_grad()
    def put_back(self) -> int | None:
        """Restore the newest state and drop it from the ring; its step, or None when there is none."""
        if not self._kept:
            return None
        kept = self._kept.pop()
        for name, tensor in self._held.items():
            _put(tensor, kept.values[name].to(tensor.device))
        state = _state(self._optimizer)
        for parameter, name in self._names.items():
            if name not in kept.moments:
                state.pop(parameter, None)
                continue
            now = state.setdefault(parameter, {})
            now.clear()
            now.update({key: _beside(value, parameter) for key, value in kept.moments[name].items()})
        return kept.step

    def _moments(self) -> dict[str, dict[str, Any]]:
        return {
            self._names[parameter]: {name: _on_host(value) for name, value in moments.items()}
            for parameter, moments in _state(self._optimizer).items()
            if parameter in self._names
        }


def _state(optimizer: torch.optim.Optimizer) -> Moments:
    return cast("Moments", optimizer.state)


def _settings(group: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a group that a step may change (Prodigy keeps its estimate there), but for the rate, the schedule's."""
    return {name: copy.deepcopy(value) for name, value in group.items() if name not in ("params", "lr")}


class _Copies:
    """Copies to be made at once into tensors that are there already."""

    def __init__(self) -> None:
        self._alike: dict[tuple[torch.device, torch.dtype], tuple[list[torch.Tensor], list[torch.Tensor]]] = {}

    def taken(self, tensor: torch.Tensor, into: torch.Tensor | None) -> torch.Tensor:
        """The copy of one; `into` where that fits it, after `make`."""
        value = tensor.detach()
        if into is None or into.shape != value.shape or into.dtype != value.dtype or into.device != value.device:
            return value.clone()
        places, values = self._alike.setdefault((value.device, value.dtype), ([], []))
        places.append(into)
        values.append(value)
        return into

    def taken_moments(self, moments: Mapping[str, Any], into: Mapping[str, Any]) -> dict[str, Any]:
        """The copy of what an optimizer keeps for a parameter."""
        return {
            name: self.taken(value, into.get(name)) if isinstance(value, torch.Tensor) else copy.deepcopy(value)
            for name, value in moments.items()
        }

    def make(self) -> None:
        """Make them, of each device and type in one call."""
        for places, values in self._alike.values():
            cast("Any", torch)._foreach_copy_(places, values)


def _put(tensor: torch.Tensor, value: torch.Tensor) -> None:
    """Write a kept value back, also where the tensor was cast or moved since."""
    if tensor.dtype != value.dtype or tensor.device != value.device or tensor.shape != value.shape:
        hold(tensor, value.clone())
    else:
        tensor.detach().copy_(value)


def _on_host(value: Any) -> Any:
    return value.detach().to("cpu", copy=True) if isinstance(value, torch.Tensor) else copy.deepcopy(value)


def _beside(value: Any, parameter: torch.Tensor) -> Any:
    """A moment where the optimizer had it: counters of steps stay on the CPU, as torch keeps them."""
    if not isinstance(value, torch.Tensor):
        return copy.deepcopy(value)
    return value.clone() if value.dim() == 0 else value.to(parameter.device, copy=True)
