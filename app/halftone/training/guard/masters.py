"""Float32 masters of 16-bit parameters: the optimizer works on them, the network keeps its type.

What mixed precision training asks for (Micikevicius et al., arXiv 1710.03740): updates that are small against the weights are not
lost, and the optimizer's moments neither underflow nor overflow.
"""

from typing import Any, cast

import torch

from halftone.training.guard.optimizers import members


class Masters:
    """Puts masters in the place of an optimizer's 16-bit parameters. Its moments so far are carried over in float32."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        self.pairs: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._put()

    @property
    def memory(self) -> int:
        """Bytes of the masters."""
        return sum(master.numel() * master.element_size() for _, master in self.pairs)

    def hand_over(self) -> None:
        """The gradients of the parameters become those of the masters."""
        for parameter, master in self.pairs:
            master.grad = None if parameter.grad is None else parameter.grad.detach().float()

    @torch.no_grad()
    def write_back(self) -> None:
        """What the optimizer made of the masters becomes the parameters."""
        for parameter, master in self.pairs:
            parameter.detach().copy_(master)

    @torch.no_grad()
    def read(self) -> None:
        """Parameters that were changed elsewhere: their masters begin there. Those that only round their masters keep them."""
        for parameter, master in self.pairs:
            if not torch.equal(parameter, master.to(parameter.dtype)):
                master.copy_(parameter)

    def _put(self) -> None:
        for optimizer in members(self._optimizer):
            state = cast("dict[torch.Tensor, dict[str, Any]]", optimizer.state)
            for group in optimizer.param_groups:
                group["params"] = [self._master(parameter, state) for parameter in group["params"]]

    def _master(self, parameter: torch.Tensor, state: dict[torch.Tensor, dict[str, Any]]) -> torch.Tensor:
        if not is_narrow(parameter):
            return parameter
        master = parameter.detach().float().requires_grad_(parameter.requires_grad)
        self.pairs.append((parameter, master))
        if parameter in state:
            state[master] = {name: _wide(value) for name, value in state.pop(parameter).items()}
        return master


def is_narrow(parameter: torch.Tensor) -> bool:
    """Whether it has fewer bits than a master."""
    return parameter.is_floating_point() and parameter.element_size() < 4


def _wide(value: Any) -> Any:
    narrow = isinstance(value, torch.Tensor) and value.is_floating_point() and value.element_size() < 4
    return value.float() if narrow else value
