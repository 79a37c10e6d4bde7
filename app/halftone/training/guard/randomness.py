"""Where random numbers stand, so that a step or a pass that is made again draws what it drew before."""

import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from halftone.measure.randomness import TorchState, accelerators_among


def accelerators_of(networks: Mapping[str, nn.Module]) -> tuple[torch.device, ...]:
    """The devices that networks lie on and that have random numbers of their own, each once."""
    return accelerators_among(p.device for network in networks.values() for p in network.parameters())


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
