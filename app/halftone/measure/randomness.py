"""Where torch's random numbers stand, on the CPU and on accelerators, and how they go on from there again."""

from collections.abc import Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import torch

_WITHOUT: Final = ("cpu", "meta")
"""Devices that have no random numbers besides those of the CPU."""


@dataclass(frozen=True)
class TorchState:
    """Of torch, on the CPU and on accelerators."""

    cpu: torch.Tensor
    accelerators: tuple[tuple[torch.device, torch.Tensor], ...]

    @classmethod
    def now(cls, devices: Iterable[torch.device]) -> "TorchState":
        """Does not wait: an accelerator's random numbers are counted on the host."""
        return cls(torch.get_rng_state(), tuple((device, state_of(device)) for device in accelerators_among(devices)))

    def put_back(self) -> None:
        """Random numbers go on from here."""
        torch.set_rng_state(self.cpu)
        for device, state in self.accelerators:
            _module(device).set_rng_state(state, *_named(device))


def accelerators_among(devices: Iterable[torch.device]) -> tuple[torch.device, ...]:
    """Those that have random numbers of their own, each once."""
    return tuple(dict.fromkeys(device for device in devices if device.type not in _WITHOUT))


def state_of(device: torch.device) -> torch.Tensor:
    """Where an accelerator's random numbers stand: bytes on the host."""
    return _module(device).get_rng_state(*_named(device))


@contextmanager
def undisturbed(*devices: torch.device, seed: int | None = None) -> Generator[None]:
    """Whatever is drawn inside, on the CPU or on these devices, is drawn as if nothing had been when it ends. seed: where the
    numbers of them all begin inside; None: where they stand. No other device is touched, as `torch.manual_seed` would.
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
