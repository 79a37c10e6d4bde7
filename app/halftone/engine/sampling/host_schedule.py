"""Schedulers that step without a wait for the device.

They keep their timesteps on the device and look numbers up by single ones: each look-up waits for all that is queued. So does
copying their noise, which the processor draws, and coefficients that they compute. Here a step gets the same timesteps on the
host, and what it copies to the device is queued.
"""

from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any, Final, TypeGuard

import torch
from torch.overrides import TorchFunctionMode

from halftone.engine.basics.tensors import map_tensors
from halftone.measure.late import may_copy_ahead

SHARED: Final = ("cpu", "mps")
"""Devices without memory of their own: nothing can be pinned for them."""
_LOOKING: Final = ("Wan", "HunyuanDiT")
Arguments = tuple[tuple[Any, ...], dict[str, Any]]


class HostSchedule:
    """Remembers the timesteps of the schedulers on the host: they are read once for each schedule."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[torch.Tensor, torch.Tensor]] = {}

    @contextmanager
    def held(self, scheduler: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Generator[Arguments]:
        """Keep the scheduler's timesteps, and those among its arguments, on the host during a step. A scheduler that gets a
        timestep for each picture computes with them on the device, and keeps them there.
        """
        there = getattr(scheduler, "timesteps", None)
        if not isinstance(there, torch.Tensor):
            yield args, kwargs
            return
        timestep = kwargs.get("timestep")
        if isinstance(timestep, torch.Tensor) and timestep.dim() > 0:
            with _SentAhead():
                yield args, kwargs
            return
        host = self._host(scheduler, there)
        scheduler.timesteps = host
        try:
            with _SentAhead():
                yield map_tensors((args, kwargs), lambda tensor: _same_place(tensor, there, host))
        finally:
            if scheduler.timesteps is host:
                scheduler.timesteps = there

    def _host(self, scheduler: Any, there: torch.Tensor) -> torch.Tensor:
        known = self._known.get(id(scheduler))
        if known is None or known[0] is not there:
            known = self._known[id(scheduler)] = there, there.cpu()
        return known[1]


def looks_at_times(pipe: Any) -> bool:
    """Whether the loop of a pipeline looks at the number of each timestep: which denoiser it is for, or a list of it."""
    return type(pipe).__name__.startswith(_LOOKING)


def on_host(scheduler: Any, original: Callable[..., Any]) -> Callable[..., Any]:
    """`set_timesteps` of a scheduler whose timesteps are then laid on the host."""

    def set_timesteps(*args: Any, **kwargs: Any) -> None:
        original(*args, **kwargs)
        scheduler.timesteps = scheduler.timesteps.cpu()

    return set_timesteps


def _same_place(tensor: torch.Tensor, there: torch.Tensor, host: torch.Tensor) -> torch.Tensor:
    """A timestep on the host: the element of `host` at its place in `there`; one of another schedule, as where a picture
    continues under its former one, is fetched. Any other tensor unchanged.
    """
    if tensor.dim() != 0 or tensor.device != there.device or tensor.dtype != there.dtype:
        return tensor
    shares = tensor.untyped_storage().data_ptr() == there.untyped_storage().data_ptr()
    place = tensor.storage_offset() - there.storage_offset()
    return host[place] if shares and there.is_contiguous() and 0 <= place < len(host) else tensor.cpu()


class _SentAhead(TorchFunctionMode):
    """Copies from the host go through pinned memory, and nobody waits for them."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        named: dict[str, Any] = kwargs or {}
        if func is torch.tensor and _apart(named.get("device")):
            host = func(*args, **{**named, "device": "cpu"})
            ahead = may_copy_ahead(named["device"])
            return (host.pin_memory() if ahead else host).to(named["device"], non_blocking=ahead)
        if func is torch.Tensor.to:
            return _sent(args, named)
        if func is torch.linalg.solve and _apart(args[0].device):
            return torch.linalg.solve_ex(*args, **named).result  # to look for a singular matrix would be a wait
        return func(*args, **named)


def _sent(args: tuple[Any, ...], named: dict[str, Any]) -> torch.Tensor:
    """`Tensor.to`: from the host ahead of the device; waited for, whatever its caller asks, where copies are wrong otherwise."""
    tensor, rest = args[0], list[Any](args[1:])
    here, to = tensor.device, named.get("device", named.get("other", rest[0] if rest else None))
    device = to.device if isinstance(to, torch.Tensor) else to
    leaves = here.type == "cpu" and _apart(device)
    place = device if leaves else here
    if not _apart(place) or ((ahead := may_copy_ahead(place)) and not leaves):
        return torch.Tensor.to(*args, **named)
    index = 1 if isinstance(to, torch.Tensor | torch.dtype) else 2
    if len(rest) > index:  # given by its place
        rest[index] = ahead
    else:
        named = {**named, "non_blocking": ahead}
    return torch.Tensor.to(tensor.pin_memory() if ahead else tensor, *rest, **named)


def _apart(device: Any) -> TypeGuard[str | torch.device]:
    """Whether this names a device with memory of its own."""
    return isinstance(device, str | torch.device) and torch.device(device).type not in SHARED
