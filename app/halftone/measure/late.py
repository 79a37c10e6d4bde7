"""Small results of a device brought to the host without a wait for what is queued behind them."""

from dataclasses import dataclass
from typing import Final

import torch

_SLOTS: Final = 2
"""Places on the host that results arrive in: the one that is read, and the one that is on its way."""
_SAME: Final = ("cpu", "mps", "meta")
"""Devices whose memory the host reads itself, and what has none."""

_AWAITED: Final[set[torch.device]] = set()
"""Devices whose copies the self-test found wrong unless they are waited for."""


def await_copies(device: torch.device, *, wanted: bool) -> None:
    """Whether copies between the host and this device are waited for from now on."""
    (_AWAITED.add if wanted else _AWAITED.discard)(device)


def may_copy_ahead(device: torch.device | str) -> bool:
    """Whether a copy to or from this device is right though nobody waits for it. Without an index: on all of its kind."""
    place = torch.device(device)
    return not any(one.type == place.type and place.index in (None, one.index) for one in _AWAITED)


@dataclass(frozen=True)
class Parcel:
    """A tensor on its way to the host."""

    tensor: torch.Tensor
    event: torch.Event | None = None

    @property
    def arrived(self) -> bool:
        """Whether it can be read without a wait."""
        return self.event is None or self.event.query()

    def read(self) -> torch.Tensor:
        """The tensor; waits until it is there. The place it lies in is used again two parcels later."""
        if self.event is not None:
            self.event.synchronize()
        return self.tensor


class Pacer:
    """Holds a program at most one step ahead of its device, so that the time between two steps is the device's."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._before: torch.Event | None = None

    def step(self) -> None:
        """Wait until the device has done the step before this one."""
        if self._device.type in _SAME:
            return
        before, self._before = self._before, _recorded(self._device)
        if before is not None:
            before.synchronize()


class Courier:
    """Sends tensors of one shape and type, at most two at a time. heeding: waits where copies are wrong otherwise."""

    def __init__(self, *, heeding: bool = True) -> None:
        self._heeding = heeding
        self._slots: list[torch.Tensor] = []
        self._sent = 0

    def send(self, tensor: torch.Tensor) -> Parcel:
        """Begin to copy the tensor to the host."""
        if tensor.device.type in _SAME:
            return Parcel(tensor)
        if self._heeding and not may_copy_ahead(tensor.device):
            return Parcel(tensor.cpu())
        if not self._slots or self._slots[0].shape != tensor.shape:  # seldom: to ask for such memory may wait for the device
            self._slots = [torch.empty(tensor.shape, dtype=tensor.dtype, pin_memory=True) for _ in range(_SLOTS)]
        host, self._sent = self._slots[self._sent % _SLOTS], self._sent + 1
        host.copy_(tensor, non_blocking=True)
        return Parcel(host, _recorded(tensor.device))


def _recorded(device: torch.device) -> torch.Event:
    event = torch.Event(device=device)
    event.record(torch.accelerator.current_stream(device))  # of this device, which need not be the current one
    return event
