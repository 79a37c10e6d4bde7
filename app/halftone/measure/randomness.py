"""The state of torch's random numbers, on the CPU and on accelerators, to be restored later."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch

_WITHOUT: Final = ("cpu", "meta")
"""Devices that have no random numbers besides those of the CPU."""


@dataclass(frozen=True)
class TorchState:
    """The state of torch's generators, on the CPU and on accelerators."""

    cpu: torch.Tensor
    accelerators: tuple[tuple[torch.device, torch.Tensor], ...]

    @classmethod
    def now(cls, devices: Iterable[torch.device]) -> "TorchState":
        """Does not wait: an accelerator's random numbers are counted on the host."""
        return cls(torch.get_rng_state(), tuple((device, state_of(device)) for device in accelerators_among(devices)))

    def put_back(self) -> None:
        """Restore the random numbers to this state."""
        torch.set_rng_state(self.cpu)
        for device, state in self.accelerators:
            _module(device).set_rng_state(state, *_named(device))


def accelerators_among(devices: Iterable[torch.device]) -> tuple[torch.device, ...]:
    """The devices with generators of their own, each once."""
    return tuple(dict.fromkeys(device for device in devices if device.type not in _WITHOUT))


def state_of(device: torch.device) -> torch.Tensor:
    """An accelerator's generator state: bytes on the host."""
    return _module(device).get_rng_state(*_named(device))


@contextmanager
def undisturbed(*devices: torch.device, seed: int | None = None) -> Generator[None]:
    """Leave the random numbers, on the CPU and on these devices, as if nothing had been drawn inside. seed: of all of them
    inside; None: their states stay. No other device is touched, as `torch.manual_seed` would.
    """
    before = TorchState.now(devices)
    try:
        if seed is not None:
            torch.default_generator.manual_seed(seed)
            for device, _ in before.accelerators:
                with torch.accelerator.device_index(device.index):
                    _module(device).manual_seed(seed)
        yield
    finally:
        before.put_back()


def _module(device: torch.device) -> Any:
    return torch.get_device_module(device)


def _named(device: torch.device) -> tuple[torch.device, ...]:
    """torch.mps takes no device: there is one alone."""
    return () if device.type == "mps" else (device,)
