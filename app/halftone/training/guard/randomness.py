"""Where random numbers stand, so that a step or a pass that is made again draws what it drew before."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn


def accelerators_of(networks: Mapping[str, nn.Module]) -> tuple[torch.device, ...]:
    """The CUDA devices that networks lie on, each once."""
    devices = (p.device for network in networks.values() for p in network.parameters())
    return tuple(dict.fromkeys(device for device in devices if device.type == "cuda"))


@dataclass(frozen=True)
class TorchState:
    """Of torch, on the CPU and on accelerators."""

    cpu: torch.Tensor
    accelerators: tuple[tuple[torch.device, torch.Tensor], ...]

    @classmethod
    def now(cls, accelerators: Iterable[torch.device]) -> "TorchState":
        """Does not wait: an accelerator's random numbers are counted on the host."""
        return cls(torch.get_rng_state(), tuple((device, torch.cuda.get_rng_state(device)) for device in accelerators))

    def put_back(self) -> None:
        """Random numbers go on from here."""
        torch.set_rng_state(self.cpu)
        for device, state in self.accelerators:
            torch.cuda.set_rng_state(state, device)


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
