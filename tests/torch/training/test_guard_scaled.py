"""A training whose loss is scaled: the factor finds its place without harm, and what is not its fault is not laid on it."""

from collections.abc import Callable

import pytest
import torch
from tests.helpers.device import DEVICE
from torch import Tensor, nn

from halftone.training.guard import TrainingGuard

SCALE = 2.0**16


def scaled(network: nn.Module, accumulate: int = 1) -> tuple[TrainingGuard, torch.amp.GradScaler]:
    scaler = torch.amp.GradScaler(DEVICE.type, init_scale=SCALE)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.5)
    return TrainingGuard(network, optimizer, scaler=scaler, accumulate=accumulate), scaler


def overflows_above(limit: float) -> Callable[[Tensor], Tensor]:
    """A way back that makes infinities of gradients larger than this, as half precision does."""
    return lambda gradient: torch.where(gradient.abs() > limit, torch.inf, gradient)


def test_gathered_gradients_follow_a_scale_that_is_lowered_between_them() -> None:
    parts = [torch.randn(4, 4, generator=torch.Generator().manual_seed(n)) for n in range(3)]

    def trained(limit: float) -> tuple[Tensor, float]:
        torch.manual_seed(0)
        network = nn.Linear(4, 4, bias=False)
        guard, scaler = scaled(network, accumulate=3)

        def loss(index: int) -> Tensor:
            out = network(parts[index])
            if index == 2:
                out.register_hook(overflows_above(limit))
            return out.square().mean()

        reports = [guard.step(lambda index=index: loss(index)) for index in range(3)]
        assert [report.applied for report in reports] == [False, False, True]
        assert guard.caught == []
        return network.weight.detach().clone(), scaler.get_scale()

    (plain, kept), (lowered, low) = trained(torch.inf), trained(100.0)
    assert (kept, low < kept) == (SCALE, True)
    assert torch.equal(lowered, plain), "powers of two: not a bit is lost"


@pytest.mark.parametrize("computed", [False, True])
def test_a_scale_that_was_not_at_fault_is_what_it_was(computed: bool) -> None:
    torch.manual_seed(0)
    network = nn.Linear(4, 4)
    guard, scaler = scaled(network)
    x = torch.randn(2, 4)

    def loss() -> Tensor:
        return network(x).square().mean() + (network.weight * 0).sqrt().sum()

    while not guard.caught:
        guard.step(loss() if computed else loss)
    assert [(caught.cause, caught.did) for caught in guard.caught] == [("gradient-nonfinite", "skipped")]
    assert scaler.get_scale() == SCALE


def test_a_gradient_too_large_for_half_precision_is_cured_under_a_scaler_as_without_one() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-12)
    guard = TrainingGuard(network, optimizer, scaler=torch.amp.GradScaler(DEVICE.type))
    x = torch.randn(2, 4)

    def loss() -> Tensor:
        with torch.autocast(DEVICE.type, torch.float16):
            return (network(x).float() * 1e4).square().mean()

    report = guard.step(loss)
    assert report.applied
    (caught,) = report.caught
    assert (caught.cause, caught.did, caught.dtype) == ("gradient-overflow", "repeated", "float16")
    assert caught.cure.startswith("float32-")


# --- cures that are none -------------------------------------------------------------------------------------------------


class Broken(nn.Module):
    """A layer that divides by nothing where it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.breaks = False

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) / (0.0 if self.breaks else 1.0)


def test_cures_that_did_not_help_do_not_stay() -> None:
    torch.manual_seed(0)
    layer = Broken()
    network = nn.Sequential(nn.Linear(4, 4), layer).bfloat16()
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=1e-3))
    x = torch.randn(2, 4).bfloat16()
    layer.breaks = True
    assert not guard.step(lambda: network(x).float().square().mean()).applied
    assert guard.cures == ()
    layer.breaks = False
    assert guard.step(lambda: network(x).float().square().mean()).applied


@pytest.mark.logs("does not work with this training", "No cure helped in 3 tries, so the step was left out")
def test_a_cure_that_the_script_cannot_take_ends_no_training_with_an_error() -> None:
    """A head outside of the network that is in half precision, too: what comes to it has to be as narrow."""
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 4)).half()
    nn.init.ones_(next(network.parameters()))
    head = torch.full((4, 4), 1e-6).half()
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=1e-9), forecast="off")
    before = [p.detach().clone() for p in network.parameters()]

    def loss(size: float) -> Tensor:
        return (network(torch.ones(2, 4).half() * size) @ head).float().square().mean()

    (caught,) = guard.step(lambda: loss(60_000.0)).caught
    assert (caught.cause, caught.did, caught.tries) == ("activation-overflow", "skipped", 3)
    assert guard.cures == ()
    assert all(torch.equal(p, was) for p, was in zip(network.parameters(), before, strict=True))
    assert guard.step(lambda: loss(1.0)).applied
