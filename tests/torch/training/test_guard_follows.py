"""What a script changes on purpose while it trains is followed; numbers that are meant are no alarm."""

from pathlib import Path

import pytest
import torch
from tests.helpers.device import DEVICE
from torch import Tensor, nn
from torch.nn import functional

from halftone.training.guard import TrainingGuard


def two(freeze: bool = True) -> nn.Sequential:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    network[0].requires_grad_(not freeze)
    return network


def root_of_nothing(network: nn.Sequential, x: Tensor) -> Tensor:
    """Its way back gives the first layer NaN."""
    weight = next(network[0].parameters())
    return network(x).square().mean() + (weight * 0).sqrt().sum()


X = torch.randn(8, 4, generator=torch.Generator().manual_seed(1)).to(DEVICE)


def test_layers_that_are_thawed_on_the_way_are_watched() -> None:
    network = two()
    guard = TrainingGuard(network, torch.optim.AdamW(network.parameters()), on_bad="skip")
    guard.step(lambda: network(X).square().mean())
    network[0].requires_grad_(True)
    before = [p.detach().clone() for p in network.parameters()]
    report = guard.step(lambda: root_of_nothing(network, X))
    (caught,) = (one for one in report.caught if one.did != "warned")
    assert (caught.cause, caught.did, caught.name) == ("gradient-nonfinite", "skipped", "0.weight")
    assert all(torch.equal(p, was) for p, was in zip(network.parameters(), before, strict=True))


@pytest.mark.parametrize("masters", [False, True])
def test_groups_that_are_added_on_the_way_are_kept_as_well(masters: bool) -> None:
    network = two()
    if masters:
        network[1].half()
    optimizer = torch.optim.AdamW(network[1].parameters(), eps=1e-4)
    guard = TrainingGuard(network, optimizer, on_bad="skip")

    def loss() -> Tensor:
        return network[1](network[0](X).to(next(network[1].parameters()).dtype)).float().square().mean()

    assert guard.apply("float32-master") is masters
    guard.step(loss)
    added = nn.Parameter(torch.ones(4))
    network[0].requires_grad_(True)
    optimizer.add_param_group({"params": [*network[0].parameters(), added]})
    assert guard.step(lambda: loss() + (added**2).mean()).applied
    optimizer.param_groups[1]["lr"] = 1e30
    before = [p.detach().clone() for p in (*network.parameters(), added)]
    report = guard.step(lambda: loss() + (added**2).mean())
    assert [(one.cause, one.did) for one in report.caught] == [("learning-rate", "skipped")]
    assert all(torch.equal(p, was) for p, was in zip((*network.parameters(), added), before, strict=True))


# --- running means -------------------------------------------------------------------------------------------------------


def test_counters_of_a_pass_that_went_wrong_are_put_back() -> None:
    network = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, momentum=None))
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.1), on_bad="skip")
    guard.step(lambda: network(X).square().mean())
    before = {name: value.clone() for name, value in network.state_dict().items()}
    guard.step(lambda: network(X * torch.nan).square().mean())
    assert all(torch.equal(value, before[name]) for name, value in network.state_dict().items())


def test_a_bad_part_of_a_step_takes_nothing_from_the_good_ones() -> None:
    parts = [X, X + 1, X - 2]

    def trained(inputs: list[Tensor]) -> dict[str, Tensor]:
        torch.manual_seed(0)
        network = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.1), on_bad="skip", accumulate=3)
        for x in inputs:
            guard.step(lambda x=x: network(x).square().mean())
        assert guard.steps == 1
        return network.state_dict()

    plain, disturbed = trained(parts), trained([*parts[:2], X * torch.nan, parts[2]])
    assert all(torch.equal(value, disturbed[name]) for name, value in plain.items())


# --- numbers that are meant ----------------------------------------------------------------------------------------------


class Masked(nn.Module):
    """Gives -inf where no answer may be, as pointers and action masks do."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.register_buffer("allowed", torch.tensor([True, True, False, False]))

    def forward(self, x: Tensor) -> Tensor:
        return self.linear(x).masked_fill(~self.get_buffer("allowed"), -torch.inf)


@pytest.mark.parametrize("autocast", [False, True])
def test_scores_that_are_masked_are_no_bad_numbers(autocast: bool) -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 4), Masked())
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.1))
    answers = torch.tensor([0, 1] * 4)

    def loss(x: Tensor) -> Tensor:
        with torch.autocast(DEVICE.type, torch.float16, enabled=autocast):
            said = network(x)
        return functional.cross_entropy(said.float(), answers)

    assert all(guard.step(lambda: loss(X)).applied for _ in range(4))
    assert guard.caught == []
    report = guard.step(lambda: loss(X * torch.nan))
    assert [(one.cause, one.did) for one in report.caught] == [("data-nonfinite", "skipped")]


def test_an_overflow_beside_a_mask_is_still_one() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 4), nn.Sigmoid(), Masked()).half()
    nn.init.constant_(next(network.parameters()), -2.0)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=1e-6))
    answers = torch.tensor([0, 1] * 4)

    def loss(size: float) -> Tensor:
        return functional.cross_entropy(network(torch.full((8, 4), size).half()).float(), answers)

    assert guard.step(lambda: loss(1.0)).caught == ()
    report = guard.step(lambda: loss(30_000.0))
    assert [(one.cause, one.did, one.name) for one in report.caught] == [("activation-overflow", "repeated", "0")]


def test_large_numbers_are_not_laid_on_a_sound_layer() -> None:
    """Finite ones whose squares are not: the loss function squares them."""
    network = two(freeze=False)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=1e-30), on_bad="skip")
    report = guard.step(lambda: network(X * 1e30).square().mean())
    assert [(one.cause, one.name) for one in report.caught] == [("loss-nonfinite", "loss")]


def test_an_optimizer_that_computes_the_loss_itself_is_refused_at_once() -> None:
    network = nn.Linear(4, 4)
    with pytest.raises(TypeError, match="LBFGS computes the loss itself"):
        TrainingGuard(network, torch.optim.LBFGS(network.parameters()))


# --- several processes ---------------------------------------------------------------------------------------------------


def test_a_group_of_processes_is_refused(tmp_path: Path) -> None:
    from torch.testing._internal.distributed.fake_pg import FakeStore

    network = nn.Linear(4, 4)
    torch.distributed.init_process_group("fake", rank=0, world_size=2, store=FakeStore())
    try:
        with pytest.raises(ValueError, match="one process"):
            TrainingGuard(network, torch.optim.SGD(network.parameters()))
    finally:
        torch.distributed.destroy_process_group()
