"""One hopeless batch is left out, as a loss scale would leave it out; only several bad steps in a row end a training."""

from collections.abc import Callable, Iterable
from typing import Literal

import pytest
import torch
from tests.helpers.device import DEVICE
from torch import Tensor, nn
from torch.nn import functional

from halftone.contract.training import Caught
from halftone.training.guard import TrainingGuard, TrainingStopped


def network_of(dtype: torch.dtype) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 4)).to(dtype)


def loss_of(network: nn.Module, dtype: torch.dtype) -> Callable[[], Tensor]:
    x = torch.randn(4, 4, generator=torch.Generator().manual_seed(1)).to(dtype)
    return lambda: network(x).float().square().mean()


class Dividing(nn.Module):
    """Divides by the spread of what it is fed: of a batch that is all the same, zero by zero."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        return self.linear((x - x.mean()) / (x - x.mean()).abs().max())


class Held(nn.Module):
    """Holds a layer so deep that every cure is tried: the layer, its block, all."""

    def __init__(self, part: nn.Module) -> None:
        super().__init__()
        self.blocks = nn.ModuleList([nn.Sequential(part)])

    def forward(self, x: Tensor) -> Tensor:
        return self.blocks[0](x)


@pytest.mark.parametrize("scaled", [False, True])
@pytest.mark.parametrize("deep", [False, True])
@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32])
def test_one_hopeless_batch_is_left_out_and_training_goes_on(dtype: torch.dtype, deep: bool, scaled: bool) -> None:
    torch.manual_seed(0)
    network = Held(Dividing()) if deep else Dividing()
    network = network if scaled else network.to(dtype)
    scaler = torch.amp.GradScaler(DEVICE.type, init_scale=256.0) if scaled else None
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.01), scaler=scaler)

    def loss(x: Tensor) -> Callable[[], Tensor]:
        def computed() -> Tensor:
            with torch.autocast(DEVICE.type, dtype, enabled=scaled and dtype is not torch.float32):
                return network(x if scaled else x.to(dtype)).float().square().mean()

        return computed

    sound = torch.randn(4, 4)
    before = [p.detach().clone() for p in network.parameters()]
    report = guard.step(loss(torch.ones(4, 4)))
    assert [(caught.cause, caught.did) for caught in report.caught] == [("activation-nonfinite", "skipped")]
    assert all(torch.equal(p, old) for p, old in zip(network.parameters(), before, strict=True))
    assert guard.step(loss(sound)).applied
    assert guard.cures == ()


def always_bad(network: nn.Module) -> Callable[[], Tensor]:
    return lambda: network(torch.full((2, 4), torch.nan)).mean()


def test_only_as_many_bad_steps_in_a_row_as_are_set_end_a_training() -> None:
    network = network_of(torch.float32)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.01), stop_after=2)
    good = loss_of(network, torch.float32)
    for _ in range(3):
        assert not guard.step(always_bad(network)).applied
        assert guard.step(good).applied
    guard.step(always_bad(network))
    with pytest.raises(TrainingStopped, match="2 bad steps in a row") as stopped:
        guard.step(always_bad(network))
    assert stopped.value.caught.in_a_row == 2


def ended_after(guard: TrainingGuard, losses: Iterable[Tensor]) -> Caught | None:
    """What ended a training of these losses; None where nothing did."""
    for loss in losses:
        try:
            guard.step(loss)
        except TrainingStopped as stopped:
            return stopped.caught
    return None


@pytest.mark.parametrize("on_bad", ["skip", "cure"])
def test_a_training_whose_sums_are_always_bad_ends_though_each_loss_is_good(on_bad: Literal["skip", "cure"]) -> None:
    network = nn.Linear(1, 1, bias=False)
    optimizer = torch.optim.SGD(network.parameters(), lr=1e-30)
    guard = TrainingGuard(network, optimizer, accumulate=2, stop_after=3, on_bad=on_bad, forecast="off")
    large = torch.full((1, 1), 3e38)
    ended = ended_after(guard, ((network(large) - network(large).detach()).sum() * 2 for _ in range(20)))
    assert ended is not None
    assert (ended.in_a_row, guard.steps) == (3, 0)


@pytest.mark.parametrize(
    ("accumulate", "pattern", "made", "stops"),
    [
        (1, "gbgbgbgb", 4, False),
        (2, "gbgbgbgb", 2, False),  # each step is made of its good losses
        (4, "gbgbgbgb", 1, False),
        (4, "gbbbgbbbgbbbgg", 0, True),  # eight losses lost, so two steps, before a good one
        (2, "bbgg" * 3, 3, False),
        (2, "bbbb", 0, True),
        (2, "ggbbbgbg", 1, True),
        (1, "bgbb", 1, True),
    ],
)
def test_lost_losses_end_a_training_where_they_make_two_bad_steps_in_a_row(
    accumulate: int, pattern: str, made: int, stops: bool
) -> None:
    network = network_of(torch.float32)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    guard = TrainingGuard(network, optimizer, accumulate=accumulate, stop_after=2, on_bad="skip")
    good, bad = loss_of(network, torch.float32), always_bad(network)
    ended = ended_after(guard, (good() if one == "g" else bad() for one in pattern))
    assert (guard.steps, ended is not None) == (made, stops)
    assert ended is None or ended.in_a_row == 2


def test_a_number_of_bad_steps_below_one_is_refused() -> None:
    network = network_of(torch.float32)
    with pytest.raises(ValueError, match="stop_after is how many"):
        TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.01), stop_after=0)


def test_a_rate_of_nan_is_named_and_the_schedule_goes_past_it() -> None:
    network = network_of(torch.float32)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: torch.nan if done == 2 else 1.0)
    guard = TrainingGuard(network, optimizer, scheduler=schedule)
    loss = loss_of(network, torch.float32)
    applied = [guard.step(loss).applied for _ in range(5)]
    assert applied == [True, True, False, True, True]
    assert [(caught.cause, caught.now) for caught in guard.caught] == [("learning-rate", "NaN")]


def test_a_rate_of_nan_that_a_recursive_schedule_would_keep_is_replaced_by_the_last_good_one() -> None:
    network = network_of(torch.float32)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.01)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
    guard = TrainingGuard(network, optimizer, scheduler=schedule)
    loss = loss_of(network, torch.float32)
    guard.step(loss)
    optimizer.param_groups[0]["lr"] = torch.nan
    assert not guard.step(loss).applied
    assert guard.step(loss).applied
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.01 * 0.5**3)


# --- names ---------------------------------------------------------------------------------------------------------------


class Rooted(nn.Module):
    """Its way forward is finite; the square root of zero gives its way back NaN in every type."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.gate = nn.Parameter(torch.zeros(4))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x) + (self.gate * 0).sqrt()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("on_bad", ["cure", "skip"])
@pytest.mark.parametrize("computed", [False, True])
def test_a_gradient_that_is_nan_in_every_type_is_no_overflow(dtype: torch.dtype, on_bad: str, computed: bool) -> None:
    network = Rooted().to(dtype)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.01), on_bad=on_bad)  # type: ignore[arg-type]
    x = torch.randn(2, 4).to(dtype)

    def loss() -> Tensor:
        return network(x).float().square().mean()

    report = guard.step(loss() if computed else loss)
    assert [(caught.cause, caught.name, caught.did) for caught in report.caught] == [("gradient-nonfinite", "gate", "skipped")]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_loss_function_that_gives_nan_on_the_way_back_is_no_overflow(dtype: torch.dtype) -> None:
    network = network_of(dtype)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.01))
    x = torch.randn(2, 4).to(dtype)
    report = guard.step(lambda: (network(x).float() * 0).square().sum().sqrt())
    assert [(caught.cause, caught.did) for caught in report.caught] == [("gradient-nonfinite", "skipped")]


def test_a_gradient_that_only_the_narrow_type_cannot_hold_is_an_overflow() -> None:
    network = network_of(torch.float16)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=1e-9), on_bad="skip")
    x = torch.randn(2, 4).half()
    report = guard.step(lambda: network(x).float().square().mean() * 1e7)
    assert [caught.cause for caught in report.caught] == ["gradient-overflow"]


@pytest.mark.parametrize("accumulate", [1, 2])
@pytest.mark.parametrize("part", [0, 1])
def test_a_stray_nan_in_grad_is_named_and_thrown_away(accumulate: int, part: int) -> None:
    network = network_of(torch.float32)
    guard = TrainingGuard(network, torch.optim.AdamW(network.parameters(), lr=0.01), accumulate=accumulate)
    loss = loss_of(network, torch.float32)
    for _ in range(accumulate + part):
        guard.step(loss)
    weight = network.get_parameter("2.weight")
    weight.grad = torch.full_like(weight, torch.nan)
    reports = [guard.step(loss) for _ in range(accumulate)]
    assert [(caught.cause, caught.name, caught.did) for caught in guard.caught] == [("gradient-outside", "2.weight", "restored")]
    assert reports[-1].applied


def test_a_stray_finite_gradient_counts_as_before() -> None:
    network = network_of(torch.float32)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.01))
    loss = loss_of(network, torch.float32)
    loss().backward()
    once = network.get_parameter("2.weight").grad
    assert once is not None
    before, gradient = network.get_parameter("2.weight").detach().clone(), once.clone()
    assert guard.step(loss).applied
    assert guard.caught == []
    assert torch.allclose(before - network.get_parameter("2.weight"), 0.01 * 2 * gradient, atol=1e-6)


@pytest.mark.parametrize("on_bad", ["cure", "skip"])
def test_nan_in_a_running_variance_is_noticed_and_put_back(on_bad: str) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.01), on_bad=on_bad)  # type: ignore[arg-type]
    x = torch.randn(8, 4)
    guard.step(lambda: network(x).square().mean())
    network.get_buffer("1.running_var")[2] = torch.nan
    report = guard.step(lambda: network(x).square().mean())
    assert [(c.cause, c.name, c.did) for c in report.caught] == [("buffer-nonfinite", "1.running_var", "restored")]
    assert report.applied
    assert torch.isfinite(network.get_buffer("1.running_var")).all()
    assert guard.step(lambda: network(x).square().mean()).caught == ()


def test_a_running_variance_that_is_nan_from_the_start_is_named_where_it_does_harm() -> None:
    network = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    network[1].eval()
    network.get_buffer("1.running_var")[2] = torch.nan
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.01))
    report = guard.step(lambda: network(torch.randn(8, 4)).square().mean())
    assert [(c.cause, c.name) for c in report.caught] == [("weights-nonfinite", "1.running_var")]


def test_a_negative_second_moment_is_never_meant() -> None:
    network = network_of(torch.float32)
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.01)
    guard = TrainingGuard(network, optimizer)
    loss = loss_of(network, torch.float32)
    guard.step(loss)
    moment = optimizer.state[network.get_parameter("0.weight")]["exp_avg_sq"]
    moment[0, 0] = -1.0
    report = guard.step(loss)
    assert [(c.cause, c.did) for c in report.caught] == [("state-outside", "restored")]
    assert (moment >= 0).all()


def test_a_leaked_autocast_is_named_in_the_step_that_runs_in_it() -> None:
    network = network_of(torch.float32)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.01))
    loss = loss_of(network, torch.float32)
    guard.step(loss)
    with torch.autocast(DEVICE.type, torch.bfloat16):
        report = guard.step(loss)
        assert [(c.step, c.cause, c.was, c.now) for c in report.caught] == [(2, "autocast-outside", "off", "bfloat16")]
        assert guard.step(loss).caught == ()


def test_a_pass_that_begins_to_run_under_autocast_is_named_in_the_same_step() -> None:
    network = network_of(torch.float32)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.01))
    x = torch.randn(2, 4)

    def loss(on: bool) -> Tensor:
        with torch.autocast(DEVICE.type, torch.bfloat16, enabled=on):
            return functional.mse_loss(network(x).float(), x)

    guard.step(lambda: loss(False))
    assert [c.cause for c in guard.step(lambda: loss(True)).caught] == ["autocast-outside"]
