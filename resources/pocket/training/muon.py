"""An optimiser that learns a small convolutional network in few steps.

Matrices and convolution kernels get an orthogonalised momentum (Muon); biases
and norms, which have no two sides to make orthogonal, get Adam.
"""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn

THREADS = 2


def orthogonal(matrix: Tensor) -> Tensor:
    """The nearest orthogonal matrix, roughly: five Newton-Schulz rounds."""
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.mT if tall else matrix
    x = (x / (x.norm() + 1e-7)).bfloat16()
    for _ in range(5):
        square = x @ x.mT
        x = 3.4445 * x + (-4.775 * square + 2.0315 * square @ square) @ x
    return (x.mT if tall else x).float()


class Muon(torch.optim.Optimizer):
    """Muon for weights with two or more dimensions."""

    def __init__(self, weights: Iterable[nn.Parameter], lr: float, momentum: float, weight_decay: float) -> None:
        super().__init__(weights, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})
        self.pool = ThreadPoolExecutor(THREADS)

    def step(self, closure: None = None) -> None:  # noqa: ARG002
        for group in self.param_groups:
            weights = [weight for weight in group["params"] if weight.grad is not None]
            list(self.pool.map(lambda weight, settings=group: self.move(weight, settings), weights))

    @torch.no_grad()
    def move(self, weight: nn.Parameter, group: dict[str, float]) -> None:
        state = self.state[weight]
        if not state:
            state["speed"] = torch.zeros_like(weight)
        speed: Tensor = state["speed"]
        speed.lerp_(weight.grad, 1 - group["momentum"])
        ahead = weight.grad.lerp(speed, group["momentum"])
        flat = orthogonal(ahead.flatten(1))
        # The size that Adam's steps have, so that both take the same rate.
        scale = 0.2 * max(flat.shape) ** 0.5
        weight.mul_(1 - group["lr"] * group["weight_decay"])
        weight.add_(flat.view(weight.shape), alpha=-group["lr"] * scale)


def optimisers(model: nn.Module, peak: float, weight_decay: float) -> list[torch.optim.Optimizer]:
    weights: list[nn.Parameter] = []
    others: list[nn.Parameter] = []
    for name, weight in model.named_parameters():
        # An embedding is a table of rows, not a map: its rows learn on their own.
        (weights if weight.ndim > 1 and "embedding.weight" not in name else others).append(weight)
    return [
        Muon(weights, lr=peak, momentum=0.95, weight_decay=weight_decay),
        torch.optim.AdamW(others, lr=peak, weight_decay=0, betas=(0.9, 0.99)),
    ]
