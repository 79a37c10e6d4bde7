"""Several optimizers on one loss, and gradients that Accelerate gathers."""

from collections.abc import Iterator

import pytest
import torch
from tests.helpers.device import DEVICE
from torch import Tensor, nn

from halftone.training.guard import TrainingGuard

X = torch.randn(16, 8, generator=torch.Generator().manual_seed(1)).to(DEVICE)


def network_of() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 4))


def both(network: nn.Module) -> list[torch.optim.Optimizer]:
    """Muon for matrices, AdamW for the rest."""
    matrices = [p for p in network.parameters() if p.dim() == 2]
    rest = [p for p in network.parameters() if p.dim() != 2]
    return [torch.optim.Muon(matrices, lr=0.02), torch.optim.AdamW(rest, lr=1e-3)]


def loss_of(network: nn.Module) -> Tensor:
    return network(X).square().mean()


def same(one: nn.Module, other: nn.Module) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


def test_several_optimizers_on_one_loss_train_as_without_a_guard() -> None:
    ours, theirs = network_of(), network_of()
    mine, plain = both(ours), both(theirs)
    schedules = [torch.optim.lr_scheduler.ExponentialLR(one, 0.9) for one in mine]
    others = [torch.optim.lr_scheduler.ExponentialLR(one, 0.9) for one in plain]
    guard = TrainingGuard(ours, mine, clip=0.5, scheduler=schedules)
    for _ in range(4):
        assert guard.step(lambda: loss_of(ours)).applied
        loss_of(theirs).backward()
        torch.nn.utils.clip_grad_norm_(theirs.parameters(), 0.5)
        for one in (*plain, *others):
            one.step()
        theirs.zero_grad()
    assert same(ours, theirs)
    assert guard.caught == []
    assert [one.param_groups[0]["lr"] for one in mine] == [one.param_groups[0]["lr"] for one in plain]


def test_moments_of_each_of_several_optimizers_are_put_back() -> None:
    network = network_of()
    muon, adamw = both(network)
    guard = TrainingGuard(network, [muon, adamw])
    guard.step(lambda: loss_of(network))
    for optimizer, name in ((muon, "momentum_buffer"), (adamw, "exp_avg")):
        next(iter(optimizer.state.values()))[name].view(-1)[0] = torch.nan
        report = guard.step(lambda: loss_of(network))
        assert [(caught.cause, caught.did) for caught in report.caught] == [("state-outside", "restored")]
        assert report.applied
        assert all(torch.isfinite(value).all() for of in optimizer.state.values() for value in of.values())


def test_a_rate_that_spoils_one_of_several_optimizers_leaves_all_as_they_were() -> None:
    network = network_of()
    muon, adamw = both(network)
    guard = TrainingGuard(network, [muon, adamw])
    guard.step(lambda: loss_of(network))
    before = [p.detach().clone() for p in network.parameters()]
    adamw.param_groups[0]["lr"] = torch.inf
    report = guard.step(lambda: loss_of(network))
    assert [(caught.cause, caught.kind) for caught in report.caught] == [("learning-rate", "AdamW")]
    assert all(torch.equal(p, old) for p, old in zip(network.parameters(), before, strict=True))


def test_masters_of_several_optimizers_are_put_and_train() -> None:
    network = network_of().half()
    one = torch.optim.AdamW(network[0].parameters(), lr=1e-3, eps=1e-4)
    other = torch.optim.SGD(network[2].parameters(), lr=1e-2)
    guard = TrainingGuard(network, [one, other])
    assert guard.apply("float32-master")
    assert all(p.dtype is torch.float32 for o in (one, other) for p in o.param_groups[0]["params"])
    losses = [guard.step(lambda: network(X.half()).float().square().mean()).loss for _ in range(5)]
    assert losses[-1] < losses[0]
    assert guard.caught == []


def test_a_parameter_of_two_optimizers_is_refused() -> None:
    network = network_of()
    one, other = (torch.optim.SGD(network.parameters(), lr=0.1) for _ in range(2))
    with pytest.raises(ValueError, match=r"0\.weight is in two optimizers"):
        TrainingGuard(network, [one, other])


# --- Accelerate ------------------------------------------------------------------------------------------------------------


@pytest.fixture
def fresh() -> Iterator[None]:
    """Accelerate keeps what it knows for the whole process."""
    from accelerate.state import AcceleratorState, GradientState

    yield
    AcceleratorState._reset_state(reset_partial_state=True)
    GradientState._reset_state()


ON_THE_PROCESSOR = pytest.mark.processor("Accelerate trains on the processor where it does not know the device")
PARTS = [torch.randn(4, 8, generator=torch.Generator().manual_seed(n)).to(DEVICE) for n in range(7)]


def plain_run(steps: int, parts: int) -> nn.Module:
    network = network_of()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    for place, x in enumerate(PARTS[:parts]):
        (network(x).square().mean() / steps).backward()
        if (place + 1) % steps == 0:
            optimizer.step()
            optimizer.zero_grad()
    return network


@ON_THE_PROCESSOR
@pytest.mark.parametrize("prepared", [True, False])
@pytest.mark.usefixtures("fresh")
def test_what_accelerate_gathers_is_gathered(prepared: bool) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=3)
    network = network_of()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-2)
    if prepared:
        network, optimizer = accelerator.prepare(network, optimizer)
    guard = TrainingGuard(network, optimizer)
    applied: list[bool] = []
    for x in PARTS[:6]:
        with accelerator.accumulate(network):
            applied.append(guard.step(lambda x=x: network(x).square().mean()).applied)
    assert applied == [False, False, True] * 2
    assert guard.steps == 2
    assert guard.caught == []
    for ours, theirs in zip(network.parameters(), plain_run(3, 6).parameters(), strict=True):
        assert torch.allclose(ours, theirs, atol=1e-6)


@ON_THE_PROCESSOR
@pytest.mark.usefixtures("fresh")
def test_a_bad_last_part_of_what_accelerate_gathers_leaves_the_good_ones() -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    network, optimizer = accelerator.prepare(*_pair())
    guard = TrainingGuard(network, optimizer)
    reports = []
    for x in (PARTS[0], PARTS[1] * torch.nan, PARTS[2], PARTS[3]):
        with accelerator.accumulate(network):
            reports.append(guard.step(lambda x=x: network(x).square().mean()))
    assert [report.applied for report in reports] == [False, True, False, True]
    assert [(caught.cause, caught.did) for caught in guard.caught] == [("data-nonfinite", "skipped")]


def _pair() -> tuple[nn.Module, torch.optim.Optimizer]:
    network = network_of()
    return network, torch.optim.AdamW(network.parameters(), lr=1e-2)


@ON_THE_PROCESSOR
@pytest.mark.usefixtures("fresh")
def test_gathering_in_two_ways_is_refused() -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    network, optimizer = accelerator.prepare(*_pair())
    guard = TrainingGuard(network, optimizer, accumulate=3)
    with accelerator.accumulate(network), pytest.raises(ValueError, match="leave accumulate out"):
        guard.step(lambda: network(PARTS[0]).square().mean())


@pytest.mark.parametrize("accumulate", [None, 1, 4])
@pytest.mark.usefixtures("fresh")
def test_an_optimizer_outside_accelerate_keeps_the_strength_of_its_steps(accumulate: int | None) -> None:
    from accelerate import Accelerator

    Accelerator(cpu=True, gradient_accumulation_steps=4)
    network, bare = nn.Linear(8, 1), nn.Linear(8, 1)
    bare.load_state_dict(network.state_dict())
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.5), accumulate=accumulate)
    optimizer = torch.optim.SGD(bare.parameters(), lr=0.5)
    every = accumulate or 1
    for count, x in enumerate(PARTS[:4], 1):
        assert guard.step(network(x).square().mean()).applied is (count % every == 0)
        (bare(x).square().mean() / every).backward()
        if count % every == 0:
            optimizer.step()
            optimizer.zero_grad()
    assert torch.allclose(network.weight, bare.weight, atol=1e-6)


@ON_THE_PROCESSOR
@pytest.mark.parametrize("prepared", [True, False])
@pytest.mark.usefixtures("fresh")
def test_advice_on_a_step_that_never_ends_is_advice_that_the_guard_takes(prepared: bool) -> None:
    from accelerate import Accelerator

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=2)
    network, optimizer = _pair()
    if prepared:
        network, optimizer = accelerator.prepare(network, optimizer)
    with accelerator.accumulate(network):
        pass  # Accelerate goes on gathering after it
    guard = TrainingGuard(network, optimizer)
    for x in PARTS[:2]:
        guard.step(network(x).square().mean())
    loss = network(PARTS[2]).square().mean()
    with pytest.raises(RuntimeError, match="the step did not end") as refused:
        guard.step(loss)
    assert ("accumulate=1" in str(refused.value)) is not prepared
    if not prepared:
        assert TrainingGuard(network, optimizer, accumulate=1).step(network(PARTS[0]).square().mean()).applied
