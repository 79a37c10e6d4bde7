"""Where random numbers stand, so that a step or a pass that is made again draws what it drew before."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn


def accelerators_of(networks: Mapping[str, nn.Module]) -> tuple[torch.device, ...]:
    """The devices that networks lie on and that have random numbers of their own, each once."""
    devices = (p.device for network in networks.values() for p in network.parameters())
    return tuple(dict.fromkeys(device for device in devices if device.type not in ("cpu", "meta")))


def state_of(device: torch.device) -> torch.Tensor:
    """Where an accelerator's random numbers stand: bytes on the host."""
    return _module(device).get_rng_state(*_named(device))


def _module(device: torch.device) -> Any:
    return torch.get_device_module(device)


def _named(device: torch.device) -> tuple[torch.device, ...]:
    """torch.mps takes no device: there is one alone."""
    return () if device.type == "mps" else (device,)


@dataclass(frozen=True)
class TorchState:
    """Of torch, on the CPU and on accelerators."""

    cpu: torch.Tensor
    accelerators: tuple[tuple[torch.device, torch.Tensor], ...]

    @classmethod
    def now(cls, accelerators: Iterable[torch.device]) -> "TorchState":
        """Does not wait: an accelerator's random numbers are counted on the host."""
        return cls(torch.get_rng_state(), tuple((device, state_of(device)) for device in accelerators))

    def put_back(self) -> None:
        """Random numbers go on from here."""
        torch.set_rng_state(self.cpu)
        for device, state in self.accelerators:
            _module(device).set_rng_state(state, *_named(device))


@dataclass(frozen=True)
class RandomState:
    """Of torch, NumPy's global numbers and Python's: all that a loss function may draw from without saying so."""

    tensors: TorchState
    numpy: dict[str, Any]
    python: tuple[Any, ...]

    @classmethod
    def now(cls, accelerators: Iterable[torch.device]) -> "RandomState":
        return cls(TorchState.now(accelerators), np.random.get_state(legacy=False), random.getstate())

    def put_back(self) -> None:
        """Random numbers go on from here."""
        self.tensors.put_back()
        np.random.set_state(self.numpy)
        random.setstate(self.python)
