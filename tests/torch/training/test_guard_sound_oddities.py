"""What is finite where it is used is no finding; what a script declares as meant is followed."""

import copy

import pytest
import torch
from tests.helpers.device import DEVICE
from torch import Tensor, nn
from torch.nn import functional

from halftone.training.guard import TrainingGuard

X = torch.randn(8, 4, generator=torch.Generator().manual_seed(1)).to(DEVICE)


class Added(nn.Module):
    """Adds a bias, which may hold -inf, to scores that are a module's output."""

    def forward(self, scores: Tensor, bias: Tensor) -> Tensor:
        return scores + bias


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.query, self.key, self.value = (nn.Linear(4, 4) for _ in range(3))
        self.add = Added()

    def forward(self, x: Tensor, bias: Tensor) -> Tensor:
        return self.add(self.query(x) @ self.key(x).T, bias).softmax(-1) @ self.value(x)


class Nearest(nn.Module):
    """Distances to places, infinite to those that are closed; the least one counts."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Linear(4, 6)
        self.closed = Closed()

    def forward(self, x: Tensor) -> Tensor:
        return self.closed(self.places(x).square()).amin(-1)


class Closed(nn.Module):
    def forward(self, distances: Tensor) -> Tensor:
        return distances.masked_fill(torch.arange(6) > 3, torch.inf)


class Imputing(nn.Module):
    """Fills what is missing with a learnt number."""

    def __init__(self) -> None:
        super().__init__()
        self.norm = Standard()
        self.filling = nn.Parameter(torch.zeros(4))
        self.linear = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(x)
        return self.linear(torch.where(x.isnan(), self.filling, x))


class Standard(nn.Module):
    """Hands missing numbers on as such."""

    def forward(self, x: Tensor) -> Tensor:
        return (x - 0.5) * 2


def causal() -> Tensor:
    return torch.full((8, 8), -torch.inf).triu(1)


TYPES = [torch.float32, torch.bfloat16, torch.float16]


def check_sound(network: nn.Module, *args: Tensor, **named: Tensor) -> None:
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=1e-3))
    plain = copy.deepcopy(network)
    optimizer = torch.optim.SGD(plain.parameters(), lr=1e-3)
    for _ in range(3):
        assert guard.step(lambda: network(*args, **named).float().square().mean()).applied
        plain(*args, **named).float().square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    assert guard.caught == []
    assert not {omen.code for omen in guard.omens} & {"data-nonfinite", "weights-nonfinite"}
    assert all(torch.equal(a, b) for a, b in zip(network.state_dict().values(), plain.state_dict().values(), strict=True))
    guard.remove()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("named", [False, True])
def test_an_additive_mask_is_meant_whatever_it_is_called(dtype: torch.dtype, named: bool) -> None:
    network, bias = Attention().to(dtype), causal().to(dtype)
    if named:
        check_sound(network, X.to(dtype), bias=bias)
    else:
        check_sound(network, X.to(dtype), bias)


def test_a_mask_of_a_very_large_number_is_one_where_the_type_makes_it_infinite() -> None:
    check_sound(Attention().half(), X.half(), bias=torch.full((8, 8), -1e9).triu(1).half())


@pytest.mark.parametrize("dtype", TYPES)
def test_infinity_that_the_least_number_removes_is_meant(dtype: torch.dtype) -> None:
    check_sound(Nearest().to(dtype), X.to(dtype))


@pytest.mark.parametrize("dtype", TYPES)
def test_missing_numbers_that_are_filled_are_meant(dtype: torch.dtype) -> None:
    x = X.clone()
    x[0, 1] = x[3, 2] = torch.nan
    check_sound(Imputing().to(dtype), x.to(dtype))


@pytest.mark.parametrize("frozen", [False, True])
def test_nan_in_a_parameter_that_nothing_uses_is_no_finding(frozen: bool) -> None:
    network = nn.Sequential(nn.Linear(4, 4))
    network.register_parameter("unused", nn.Parameter(torch.full((3,), torch.nan), requires_grad=not frozen))
    guard = TrainingGuard(network, torch.optim.AdamW(network.parameters()))
    for _ in range(3):
        assert guard.step(lambda: network(X).square().mean()).applied
    assert guard.caught == []
    assert "weights-nonfinite" not in {omen.code for omen in guard.omens}


def test_a_bad_weight_is_foreseen_where_every_weight_is_used() -> None:
    network = nn.Linear(4, 4)
    nn.init.constant_(network.bias, torch.nan)
    guard = TrainingGuard(network, torch.optim.AdamW(network.parameters()), all_used=True)
    assert [(omen.code, omen.name) for omen in guard.omens if omen.certain] == [("weights-nonfinite", "bias")]


def test_a_buffer_that_holds_infinity_on_purpose_is_no_finding() -> None:
    network = nn.Sequential(nn.Linear(4, 4))
    network.register_buffer("mask", causal())
    guard = TrainingGuard(network, torch.optim.AdamW(network.parameters()))
    assert all(guard.step(lambda: network(X).square().mean()).applied for _ in range(3))
    assert guard.caught == []


def test_a_bad_gradient_of_what_no_optimizer_trains_is_no_finding() -> None:
    network = nn.ModuleDict({"trained": nn.Linear(4, 4), "not": nn.Linear(4, 4)})
    guard = TrainingGuard(network, torch.optim.SGD(network["trained"].parameters(), lr=0.1))

    def loss() -> Tensor:
        return network["trained"](X).square().mean() + (network["not"].get_parameter("weight") * 0).sqrt().sum()

    assert all(guard.step(loss).applied for _ in range(2))
    assert guard.caught == []


# --- a real fault beside what is meant is still named ------------------------------------------------------------------------


def test_a_bad_layer_behind_a_mask_is_named_and_not_the_mask() -> None:
    torch.manual_seed(0)
    network = nn.Sequential()
    network.add_module("attention", Attention())
    network.add_module("feed", nn.Linear(4, 4))

    def run(bias: Tensor) -> Tensor:
        return network.feed(network.attention(X, bias=bias))  # type: ignore[operator]

    vars(network)["forward"] = run
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.1))
    network.get_submodule("feed").register_forward_hook(lambda _m, _a, y: y / (y - y))
    report = guard.step(lambda: network(causal()).square().mean())
    assert [(c.cause, c.name) for c in report.caught] == [("activation-nonfinite", "feed")]


def test_a_bad_target_beside_inputs_that_are_filled_is_named_and_not_the_inputs() -> None:
    network, x = Imputing(), X.clone()
    x[0, 1] = torch.nan
    target = X.clone()
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.1))
    target[2, 2] = torch.nan
    report = guard.step(lambda: functional.mse_loss(network(x), target))
    assert [(c.cause, c.name) for c in report.caught] == [("data-nonfinite", "target")]


# --- what a script declares -----------------------------------------------------------------------------------------------


def stepped() -> tuple[nn.Linear, torch.optim.Optimizer, TrainingGuard]:
    torch.manual_seed(0)
    network = nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(network.parameters())
    guard = TrainingGuard(network, optimizer)
    for _ in range(3):
        guard.step(lambda: network(X).square().mean())
    return network, optimizer, guard


def test_moments_that_were_cleared_are_noted_once_and_not_undone() -> None:
    network, optimizer, guard = stepped()
    for _ in range(3):
        optimizer.state.clear()
        guard.step(lambda: network(X).square().mean())
        assert float(optimizer.state[network.weight]["step"]) == 1.0
    assert [(caught.cause, caught.did) for caught in guard.caught] == [("state-outside", "warned")]


def test_a_declared_change_is_no_finding() -> None:
    network, optimizer, guard = stepped()
    for _ in range(3):
        optimizer.state.clear()
        with torch.no_grad():
            network.weight.clamp_(-0.1, 0.1)
        network.eval()
        network.bias.requires_grad_(False)
        guard.accept_changes()
        kept = network.weight.detach().clone()
        assert guard.step(lambda: network(X).square().mean()).applied
        assert not torch.equal(network.weight, kept)
    assert guard.caught == []


def test_what_is_declared_has_to_be_finite() -> None:
    network, _, guard = stepped()
    with torch.no_grad():
        network.weight[0, 0] = torch.nan
    with pytest.raises(ValueError, match="weight"):
        guard.accept_changes()


class Masked(nn.Module):
    """Closes a place with a number that softmax takes away again; on demand its root of a negative number is NaN."""

    def __init__(self, closed: float) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.scale = nn.Parameter(torch.ones(4))
        self.closed = closed

    def forward(self, x: Tensor, broken: bool) -> Tensor:
        scores = self.linear(x) * self.scale
        scores = (-scores.abs() - 1).sqrt() if broken else scores
        return scores.masked_fill(torch.arange(4) == 2, self.closed)


class Choosing(nn.Module):
    def __init__(self, closed: float) -> None:
        super().__init__()
        self.scores = Masked(closed)
        self.soft = nn.Softmax(-1)
        self.last = nn.Linear(4, 1)

    def forward(self, x: Tensor, broken: bool = False) -> Tensor:
        return self.last(self.soft(self.scores(x, broken)))


@pytest.mark.parametrize("closed", [-torch.inf, torch.finfo(torch.float32).min])
@pytest.mark.parametrize("by_parts", [False, True])
def test_after_a_harmless_mask_nan_of_the_same_layer_is_still_named(closed: float, by_parts: bool) -> None:
    torch.manual_seed(0)
    network = Choosing(closed)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.01), on_bad="skip")

    def loss(broken: bool) -> Tensor:
        made = network.last(network.soft(network.scores(X, broken))) if by_parts else network(X, broken)
        return made.square().mean()

    for broken in (False, False, True, False):
        assert guard.step(lambda broken=broken: loss(broken)).applied is not broken
    assert [(caught.cause, caught.name) for caught in guard.caught] == [("activation-nonfinite", "scores")]
