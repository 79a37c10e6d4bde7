"""A module that computes in a wider type under a cure is still the module that the script knows."""

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from halftone.training.guard import TrainingGuard
from halftone.training.guard.cures import WideRegion


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.full((4,), 1.5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x).relu() * self.scale


class Checkpointed(nn.Module):
    """Two blocks whose activations are computed again on the way back."""

    def __init__(self, reentrant: bool) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([Block(), Block()])
        self._reentrant = reentrant

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self._reentrant)
        return x


def gradients(network: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    network(x).float().square().mean().backward()
    return [p.grad.clone() for p in network.parameters() if p.grad is not None]


@pytest.mark.parametrize("reentrant", [False, True])
@pytest.mark.parametrize("module", ["", "blocks.0", "blocks.0.linear"])
def test_what_is_computed_again_on_the_way_back_is_as_wide(module: str, reentrant: bool) -> None:
    def made() -> Checkpointed:
        torch.manual_seed(0)
        return Checkpointed(reentrant).half()

    x = torch.randn(3, 4).half().requires_grad_()
    plain, network = made(), made()
    vars(plain)["forward"] = lambda x: plain.blocks[1](plain.blocks[0](x))
    for net in (plain, network):
        WideRegion(net.get_submodule(module), torch.float32, whole=not module)
    ours, theirs = gradients(network, x), gradients(plain, x)
    assert len(ours) == 6
    assert all(torch.equal(one, other) for one, other in zip(ours, theirs, strict=True))


def test_a_step_that_is_made_again_draws_what_it_drew() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5)).half()
    nn.init.constant_(next(network.parameters()), 2.0)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=1e-9))
    drawn: list[tuple[float, float, list[float]]] = []

    def loss() -> torch.Tensor:
        drawn.append((random.random(), float(np.random.random()), torch.rand(3).tolist()))
        return (network(torch.full((2, 4), 30_000.0).half()).float() * 1e-3).square().mean()

    report = guard.step(loss)
    assert (report.applied, [caught.did for caught in report.caught]) == (True, ["repeated"])
    assert len(drawn) > 1
    assert all(one == drawn[0] for one in drawn)


def test_hooks_of_the_script_run_once() -> None:
    linear = nn.Linear(4, 4).half()
    plain = linear(torch.ones(1, 4).half())
    doubled: Any = lambda _module, _args, output: output * 2  # noqa: E731 - a hook may give what it likes
    linear.register_forward_hook(doubled)
    region = WideRegion(linear, torch.float32)
    assert torch.allclose(linear(torch.ones(1, 4).half()), plain * 2, rtol=1e-2)
    region.remove()
    assert torch.equal(linear(torch.ones(1, 4).half()), plain * 2)
    assert "forward" not in vars(linear)


@pytest.mark.parametrize("make", [lambda: nn.BatchNorm1d(4), lambda: nn.Sequential(nn.BatchNorm1d(4))])
def test_running_means_go_on(make: Callable[[], nn.Module]) -> None:
    norm = make().half()
    WideRegion(norm, torch.float32)
    norm(torch.randn(64, 4).half() + 10)
    means = dict(norm.named_buffers())
    mean = next(value for name, value in means.items() if name.endswith("running_mean"))
    assert torch.allclose(mean.float(), torch.tensor(1.0), atol=0.1), "momentum 0.1 of a mean of 10"
    assert next(int(value) for name, value in means.items() if name.endswith("tracked")) == 1
