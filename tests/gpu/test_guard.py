"""The training guard on a card: what the driver itself says of waits, and that bad numbers never reach the weights."""

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from halftone.training.guard import TrainingGuard, update

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA or ROCm device here")
ADAMW = torch.optim.AdamW


def network_of(dtype: torch.dtype) -> nn.Sequential:
    torch.manual_seed(0)
    layers = [nn.Linear(64, 64), nn.LayerNorm(64), nn.GELU(), nn.Linear(64, 64)]
    return nn.Sequential(*layers).to("cuda", dtype)


def loss_of(network: nn.Module, dtype: torch.dtype) -> Callable[[], torch.Tensor]:
    x = torch.randn(8, 64, generator=torch.Generator().manual_seed(1)).to("cuda", dtype)
    return lambda: network(x).float().square().mean()


def bare(network: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[], torch.Tensor]) -> None:
    loss().backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()


def waits(step: Callable[[], object]) -> int:
    """How often the step waited for the card, as torch tells it."""
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("warn")
    try:
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            step()
    finally:
        torch.cuda.set_sync_debug_mode("default")
    return sum("synchroniz" in str(warning.message) for warning in told)


@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.parametrize(
    ("settings", "dtype"),
    [
        ({"lr": 1e-3}, torch.float32),
        ({"lr": 1e-3, "fused": True}, torch.float32),
        ({"lr": 1e-3, "eps": 1e-4}, torch.bfloat16),
    ],
)
def test_a_sound_step_waits_once_and_gives_the_same_weights(
    monkeypatch: pytest.MonkeyPatch, settings: dict[str, Any], dtype: torch.dtype, copied: bool
) -> None:
    if not copied:
        monkeypatch.setattr(update, "ALWAYS_COPIED", 0)
    ours, theirs = network_of(dtype), network_of(dtype)
    optimizer = ADAMW(theirs.parameters(), **settings)
    guard = TrainingGuard(ours, ADAMW(ours.parameters(), **settings), clip=1.0, keep_every=0, forecast="off")
    for _ in range(2):
        guard.step(loss_of(ours, dtype))
        bare(theirs, optimizer, loss_of(theirs, dtype))
    loss, other = loss_of(ours, dtype), loss_of(theirs, dtype)
    assert waits(lambda: guard.step(loss)) - waits(lambda: bare(theirs, optimizer, other)) == 1
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


@pytest.mark.parametrize("fused", [True, False])
@pytest.mark.parametrize("copied", [True, False])
def test_bad_gradients_leave_the_weights_as_they_were(monkeypatch: pytest.MonkeyPatch, fused: bool, copied: bool) -> None:
    if not copied:
        monkeypatch.setattr(update, "ALWAYS_COPIED", 0)
    network = network_of(torch.float32)
    guard = TrainingGuard(network, ADAMW(network.parameters(), lr=1e-3, fused=fused), clip=1.0, keep_every=0)
    loss = loss_of(network, torch.float32)
    for _ in range(2):
        guard.step(loss)
    before = [p.detach().clone() for p in network.parameters()]
    handle = network.get_parameter("3.weight").register_hook(lambda gradient: gradient * torch.nan)
    report = guard.step(loss)
    assert [caught.name for caught in report.caught] == ["3.weight"]
    assert all(torch.equal(now, old) for now, old in zip(network.parameters(), before, strict=True))
    handle.remove()
    assert guard.step(loss).applied


def test_a_step_that_is_made_again_draws_the_same_on_the_card() -> None:
    network = network_of(torch.float16)
    nn.init.constant_(next(network.parameters()), 2.0)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=1e-9))
    drawn: list[list[float]] = []

    def loss() -> torch.Tensor:
        drawn.append(torch.rand(3, device="cuda").tolist())
        return network(torch.full((2, 64), 30_000.0, device="cuda", dtype=torch.float16)).float().square().mean()

    assert guard.step(loss).applied
    assert len(drawn) > 1
    assert all(one == drawn[0] for one in drawn)
