"""What the guard says of odd places: after the last layer, in a layer that is called by a number, in one of many batches."""

from collections.abc import Callable
from typing import get_args

import pytest
import torch
from tests.helpers.device import DEVICE
from torch import nn
from torch.nn import functional

from halftone.contract.training import Remedy
from halftone.training.guard import TrainingGuard
from halftone.training.guard.sentences import told

MASK = torch.zeros(3, 4, device=DEVICE)
MASK[1] = -torch.inf


def _chances(scores: torch.Tensor) -> torch.Tensor:
    return (scores + MASK).softmax(-1).pow(2).sum()


def _classes(scores: torch.Tensor) -> torch.Tensor:
    return functional.cross_entropy(scores + MASK, torch.tensor([0, 1, 2]))


def _root(scores: torch.Tensor) -> torch.Tensor:
    return (scores - 1e3).sqrt().sum()


@pytest.mark.logs("after the last layer")
@pytest.mark.parametrize(
    ("loss_of", "why"),
    [
        (_chances, "The loss became NaN after the last layer: a softmax gave NaN, as for a row of −inf. "),
        (_classes, "The loss became NaN after the last layer: a softmax gave NaN, as for a row of −inf. "),
        (_root, "The loss became NaN or infinite after the last layer. "),
    ],
)
def test_what_arises_after_the_last_layer(loss_of: Callable[[torch.Tensor], torch.Tensor], why: str) -> None:
    torch.manual_seed(0)
    network = nn.Linear(4, 4)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters()))
    x = torch.randn(3, 4)
    report = guard.step(lambda: loss_of(network(x)))
    assert [told(caught) for caught in report.caught] == [
        f"step 1, batch 1: {why}The step was left out before it touched the weights."
    ]


@pytest.mark.logs("left out")
def test_each_batch_that_is_left_out_is_told_with_its_number() -> None:
    network = nn.Linear(4, 1)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=1e-3))
    bad = torch.full((2, 4), torch.nan)
    for x in (bad, bad, torch.ones(2, 4), bad):
        guard.step(lambda x=x: network(x).square().mean())
    assert [told(caught).partition(":")[0] for caught in guard.caught] == [
        "step 1, batch 1",
        "step 1, batch 2",
        "step 2, batch 4",
    ]


@pytest.mark.logs('step 1: Layer "0" reached')
def test_a_layer_that_is_called_by_a_number() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 1)).half()
    with torch.no_grad():
        network.get_parameter("0.weight").fill_(6e4)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.0), forecast="off")
    report = guard.step(lambda: network(torch.ones(2, 4).half()).float().mul(1e-6).mean())
    assert told(report.caught[0]).startswith('step 1: Layer "0" reached')


def test_a_remedy_that_is_none_is_refused() -> None:
    network = nn.Linear(4, 1)
    guard = TrainingGuard(network, torch.optim.AdamW(network.parameters()))
    with pytest.raises(ValueError, match="'nonsense'") as refused:
        guard.apply("nonsense")  # pyright: ignore[reportArgumentType] - scripts have no types
    assert all(remedy in str(refused.value) for remedy in get_args(Remedy))


@pytest.mark.logs("go wrong")
@pytest.mark.parametrize(
    ("remedy", "gone", "left"),
    [
        ("epsilon-1e-4", {"epsilon-zero"}, {"no-clipping"}),
        ("clip-1", {"no-clipping"}, {"epsilon-zero"}),
        ("float32-master", {"epsilon-zero", "no-master-weights"}, {"no-clipping"}),
        ("grad-scaler", {"no-loss-scale"}, {"no-clipping"}),
    ],
)
def test_omens_are_of_what_is_in_force(remedy: Remedy, gone: set[str], left: set[str]) -> None:
    network = nn.Linear(4, 4).half()
    guard = TrainingGuard(network, torch.optim.AdamW(network.parameters()))
    before = {omen.code for omen in guard.omens}
    assert gone | left <= before
    assert guard.apply(remedy)
    after = {omen.code for omen in guard.omens}
    assert not gone & after
    assert left <= after


@pytest.mark.logs("go wrong")
def test_an_omen_of_what_was_fed_stays_when_something_else_is_mended() -> None:
    network = nn.Linear(4, 4)
    guard = TrainingGuard(network, torch.optim.AdamW(network.parameters(), lr=0.5))
    guard.step(lambda: network(torch.full((2, 4), 200.0)).square().mean())
    assert {"rate-too-high", "data-not-normalised"} <= {omen.code for omen in guard.omens}
    assert guard.apply("lower-rate")
    assert {omen.code for omen in guard.omens} == {"data-not-normalised"}


@pytest.mark.logs("go wrong")
def test_what_the_forecast_mends_by_itself_is_no_omen_any_more() -> None:
    network = nn.Linear(4, 4).half()
    guard = TrainingGuard(network, torch.optim.AdamW(network.parameters()), forecast="apply")
    assert not any(omen.certain for omen in guard.omens)
