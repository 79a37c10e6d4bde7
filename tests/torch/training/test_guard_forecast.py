"""To look ahead changes nothing; what is put in force on request stays in force, and what does not fit is not claimed."""

from collections.abc import Callable
from functools import partial
from typing import Any, get_args

import pytest
import torch
from accelerate.scheduler import AcceleratedScheduler
from diffusers.optimization import get_constant_schedule_with_warmup, get_linear_schedule_with_warmup
from torch import Tensor, nn
from torch.optim import SGD, AdamW
from torch.optim.lr_scheduler import CosineAnnealingLR, ExponentialLR, LambdaLR, LinearLR, LRScheduler, SequentialLR, StepLR

from halftone.contract.training import Omen, Remedy
from halftone.training.guard import TrainingGuard
from halftone.training.guard.sentences import foreseen


class RootMeanSquare(nn.Module):
    """A norm whose epsilon is nothing in half precision."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.eps = 1e-8

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + self.eps) * self.weight


def test_to_ask_a_norm_is_no_bad_step() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 4), RootMeanSquare(4), nn.Linear(4, 4)).half()
    guard = TrainingGuard(network, SGD(network.parameters(), lr=1e-4))
    assert "norm-epsilon-zero" in [omen.code for omen in guard.omens]
    report = guard.step(network(torch.randn(8, 4).half()).float().square().mean())
    assert (report.applied, report.caught) == (True, ())


def test_to_ask_a_norm_runs_no_hook_and_counts_no_batch() -> None:
    norm = nn.BatchNorm1d(4, momentum=None)
    called: list[object] = []
    norm.register_forward_pre_hook(lambda _module, args: called.append(args))
    before = {name: value.clone() for name, value in norm.state_dict().items()}
    TrainingGuard(norm, SGD(norm.parameters(), lr=0.1))
    assert all(torch.equal(value, before[name]) for name, value in norm.state_dict().items())
    assert called == []


@pytest.mark.processor("the card in software has no sparse tensors")
def test_gradients_with_holes_are_looked_at_too() -> None:
    network = nn.Embedding(10, 4, sparse=True)
    guard = TrainingGuard(network, torch.optim.SparseAdam(list(network.parameters())))
    assert guard.step(lambda: network(torch.tensor([1, 2, 2])).square().mean()).applied


@pytest.mark.parametrize("remedy", get_args(Remedy))
def test_what_is_offered_to_be_applied_can_be(remedy: Remedy) -> None:
    omen = Omen(code="no-loss-scale", certain=False, remedies=(remedy,))
    network, optimizer = linear(AdamW, torch.float16)
    assert (f'guard.apply: "{remedy}"' in foreseen(omen)) == TrainingGuard(network, optimizer).apply(remedy)


# --- remedies ------------------------------------------------------------------------------------------------------------


def linear(optimizer: type[AdamW] | type[SGD], dtype: torch.dtype = torch.float32) -> tuple[nn.Linear, torch.optim.Optimizer]:
    torch.manual_seed(0)
    network = nn.Linear(4, 4).to(dtype)
    return network, optimizer(network.parameters(), lr=1e-2)


def loss_of(network: nn.Module) -> Tensor:
    return network(torch.ones(2, 4, dtype=next(network.parameters()).dtype)).float().square().mean()


def _get_cosine_lambda(_step: int, *, cycles: float) -> float:
    return cycles


_FALLING: dict[str, Callable[[AdamW, LRScheduler], Any]] = {
    "steps": lambda optimizer, _: StepLR(optimizer, 10),
    "linear": lambda optimizer, _: LinearLR(optimizer, 1.0, 0.1, 100),
    "exponential": lambda optimizer, _: ExponentialLR(optimizer, 0.9),
    "cosine": lambda optimizer, _: CosineAnnealingLR(optimizer, 100),
    "transformers": lambda optimizer, _: LambdaLR(optimizer, partial(_get_cosine_lambda, cycles=0.5)),  # as its own are made
    "diffusers": lambda optimizer, _: get_linear_schedule_with_warmup(optimizer, 10, 100),
    "chain": lambda optimizer, flat: SequentialLR(optimizer, [flat, CosineAnnealingLR(optimizer, 90)], [10]),
    "several": lambda optimizer, flat: [flat, CosineAnnealingLR(optimizer, 100)],
    "accelerate": lambda optimizer, _: AcceleratedScheduler(CosineAnnealingLR(optimizer, 100), optimizer),
}
_FLAT: dict[str, Callable[[AdamW, LRScheduler], Any]] = {
    "none": lambda _, _flat: None,
    "flat": lambda _, flat: flat,
    "constant": lambda optimizer, _: get_constant_schedule_with_warmup(optimizer, 10),
    "warm-up": lambda optimizer, _: LinearLR(optimizer, 0.1, 1.0, 10),
}


@pytest.mark.parametrize("kind", [*_FALLING, *_FLAT])
def test_a_cosine_is_not_advised_where_the_rate_falls_already(kind: str) -> None:
    network = nn.Linear(64, 64)
    optimizer = AdamW(network.parameters(), lr=0.5)
    flat = LambdaLR(optimizer, lambda _step: 1.0)
    guard = TrainingGuard(network, optimizer, scheduler=(_FALLING | _FLAT)[kind](optimizer, flat))
    optimizer.param_groups[0]["lr"] = 0.5  # a warm-up begins far lower
    (omen,) = [omen for omen in guard.omens if omen.code == "rate-too-high"]
    assert ("cosine" in omen.remedies) == (kind in _FLAT)


@pytest.mark.parametrize("kind", ["lambda", "cosine", "chain"])
def test_a_lower_rate_stays_lower_under_a_schedule(kind: str) -> None:
    network, optimizer = linear(AdamW)
    flat = LambdaLR(optimizer, lambda _step: 1.0)
    schedule: LRScheduler = flat
    if kind == "cosine":
        schedule = CosineAnnealingLR(optimizer, 10_000)
    elif kind == "chain":
        schedule = SequentialLR(optimizer, [flat, LambdaLR(optimizer, lambda _step: 0.5)], [100])
    guard = TrainingGuard(network, optimizer, scheduler=schedule)
    assert guard.apply("lower-rate")
    for _ in range(3):
        guard.step(lambda: loss_of(network))
    assert optimizer.param_groups[0]["lr"] == pytest.approx(1e-3, rel=1e-3)


def test_amsgrad_can_begin_later() -> None:
    network, optimizer = linear(AdamW)
    guard = TrainingGuard(network, optimizer)
    guard.step(lambda: loss_of(network))
    assert guard.apply("amsgrad")
    assert guard.step(lambda: loss_of(network)).applied
    assert "max_exp_avg_sq" in optimizer.state[network.weight]


@pytest.mark.parametrize("remedy", ["amsgrad", "epsilon-1e-4", "float32-master", "float32-states", "bfloat16", "normalise"])
def test_what_does_not_fit_is_not_claimed(remedy: Remedy) -> None:
    network, optimizer = linear(SGD)
    before = optimizer.state_dict()
    assert not TrainingGuard(network, optimizer).apply(remedy)
    assert optimizer.state_dict() == before


def test_a_schedule_of_the_script_is_not_thrown_away() -> None:
    network, optimizer = linear(AdamW)
    schedule = StepLR(optimizer, 1)
    guard = TrainingGuard(network, optimizer, scheduler=schedule)
    assert not guard.apply("warm-up")
    guard.step(lambda: loss_of(network))
    assert schedule.last_epoch == 1


def test_a_loss_scale_for_half_precision_brings_the_masters_that_it_needs() -> None:
    network, optimizer = linear(AdamW, torch.float16)
    optimizer.param_groups[0]["eps"] = 1e-4
    guard = TrainingGuard(network, optimizer)
    assert guard.apply("grad-scaler")
    report = guard.step(lambda: loss_of(network))
    assert (report.applied, report.caught) == (True, ())
    assert report.scale is not None
