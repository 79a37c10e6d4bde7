"""On an accelerator the guard waits once a step: played here on a CPU that is said to be one, where reads can be counted."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
import torch
from tests.bench.training.faults import one, sound
from tests.helpers.device import DEVICE
from tests.helpers.training_faults import FAULTS, TRAININGS, Fault, Training
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from halftone.training.guard import TrainingGuard, finite, update, updates

CLIP = 0.1
READS = {"_local_scalar_dense", "equal", "nonzero", "masked_select", "is_nonzero"}


@pytest.fixture
def queued(monkeypatch: pytest.MonkeyPatch) -> None:
    """The update is queued ahead, as behind a device that has to be waited for; the looks between steps are those of a CPU."""
    monkeypatch.setattr(updates, "waits", lambda _device: True)


@pytest.fixture
def distant(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything is done as on an accelerator."""
    monkeypatch.setattr(finite, "AT_ONCE", frozenset[str]())


class Reads:
    """Counts how often a number is read from a tensor: each is a wait on an accelerator."""

    def __init__(self) -> None:
        self.count = 0
        count = self._add

        class Operations(TorchDispatchMode):
            def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                del types
                count(func.overloadpacket.__name__ in READS and args[0].device == DEVICE)
                return func(*args, **(kwargs or {}))

        class Lists(TorchFunctionMode):
            def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
                del types
                count(getattr(func, "__name__", "") in ("tolist", "cpu") and args[0].device == DEVICE)
                return func(*args, **(kwargs or {}))

        self._modes = (Operations(), Lists())

    def _add(self, read: bool) -> None:
        self.count += read

    def of(self, step: Callable[[], object]) -> int:
        self.count = 0
        with self._modes[0], self._modes[1]:
            step()
        return self.count


def network_of(dtype: torch.dtype = torch.float32) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 8)).to(dtype)


def loss_of(network: nn.Module, dtype: torch.dtype = torch.float32) -> Callable[[], torch.Tensor]:
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(1)).to(dtype)
    return lambda: network(x).float().square().mean()


def bare(network: nn.Module, optimizer: torch.optim.Optimizer, loss: Callable[[], torch.Tensor]) -> None:
    loss().backward()
    torch.nn.utils.clip_grad_norm_(network.parameters(), CLIP)
    optimizer.step()
    optimizer.zero_grad()


def reads(settings: Mapping[str, Any], kind: type[torch.optim.Optimizer], dtype: torch.dtype, masters: bool) -> int:
    """Of a guarded step above those of a bare one, whose optimizer may read its own counters."""
    networks = [network_of(dtype) for _ in range(2)]
    ours, theirs = (kind(network.parameters(), **settings) for network in networks)
    guard = TrainingGuard(networks[0], ours, clip=CLIP, keep_every=0, forecast="off")
    if masters:
        assert guard.apply("float32-master")
    loss, other = (loss_of(network, dtype) for network in networks)
    for _ in range(2):
        guard.step(loss)
        bare(networks[1], theirs, other)
    found = Reads().of(lambda: guard.step(loss)) - Reads().of(lambda: bare(networks[1], theirs, other))
    assert guard.caught == []
    return found


ADAMW = torch.optim.AdamW


@pytest.mark.parametrize(
    ("kind", "settings", "dtype", "masters"),
    [
        (ADAMW, {"lr": 1e-3}, torch.float32, False),
        (ADAMW, {"lr": 1e-3, "fused": True}, torch.float32, False),
        (torch.optim.SGD, {"lr": 1e-3, "momentum": 0.9}, torch.float32, False),
        (ADAMW, {"lr": 1e-3, "eps": 1e-4}, torch.bfloat16, False),
        (ADAMW, {"lr": 1e-3, "eps": 1e-4}, torch.float16, True),
        (torch.optim.Rprop, {"lr": 1e-3}, torch.float32, False),
    ],
)
@pytest.mark.parametrize("copied", [True, False])
@pytest.mark.usefixtures("distant")
def test_a_sound_step_waits_once(
    monkeypatch: pytest.MonkeyPatch,
    kind: type[torch.optim.Optimizer],
    settings: Mapping[str, Any],
    dtype: torch.dtype,
    masters: bool,
    copied: bool,
) -> None:
    if not copied:
        monkeypatch.setattr(update, "ALWAYS_COPIED", 0)
    assert reads(settings, kind, dtype, masters) == 1


@pytest.mark.parametrize(("moment", "cause"), [(False, "weights-changed"), (True, "state-outside")])
@pytest.mark.usefixtures("distant")
def test_sound_numbers_that_other_code_wrote_past_the_counters_are_told_with_the_next_step(moment: bool, cause: str) -> None:
    network = network_of()
    optimizer = ADAMW(network.parameters(), lr=1e-3)
    guard, loss = TrainingGuard(network, optimizer, forecast="off"), loss_of(network)
    for _ in range(2):
        assert guard.step(loss).caught == ()
    weight = network.get_parameter("3.weight")
    (optimizer.state[weight]["exp_avg"] if moment else weight).data.mul_(0.5)
    report = guard.step(loss)
    assert [(one.cause, one.name, one.did) for one in report.caught] == [(cause, "3.weight", "warned")]
    assert report.applied
    assert guard.step(loss).caught == ()


@pytest.mark.usefixtures("distant")
def test_a_scaled_step_waits_once() -> None:
    network = network_of()
    optimizer = ADAMW(network.parameters(), lr=1e-3, fused=True)
    guard = TrainingGuard(network, optimizer, scaler=torch.amp.GradScaler(DEVICE.type), clip=CLIP, forecast="off")
    loss = loss_of(network)
    for _ in range(2):
        guard.step(loss)
    assert Reads().of(lambda: guard.step(loss)) == 1


@pytest.mark.usefixtures("distant")
def test_gathered_gradients_are_read_once_a_call_and_once_more_where_they_are_used() -> None:
    network = network_of()
    guard = TrainingGuard(network, ADAMW(network.parameters(), lr=1e-3, fused=True), clip=CLIP, accumulate=3, forecast="off")
    loss = loss_of(network)
    for _ in range(3):
        guard.step(loss)
    assert [Reads().of(lambda: guard.step(loss)) for _ in range(3)] == [1, 1, 2]


@pytest.mark.parametrize("fused", [False, True])
@pytest.mark.parametrize("copied", [False, True])
@pytest.mark.usefixtures("queued")
def test_a_sound_training_that_is_queued_ahead_is_the_same_to_the_bit(
    monkeypatch: pytest.MonkeyPatch, fused: bool, copied: bool
) -> None:
    if not copied:
        monkeypatch.setattr(update, "ALWAYS_COPIED", 0)
    ours, theirs = network_of(), network_of()
    guard = TrainingGuard(ours, ADAMW(ours.parameters(), lr=1e-2, fused=fused), clip=CLIP)
    optimizer = ADAMW(theirs.parameters(), lr=1e-2, fused=fused)
    for _ in range(5):
        guard.step(loss_of(ours))
        bare(theirs, optimizer, loss_of(theirs))
    assert guard.caught == []
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


def state_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [value.clone() for of in optimizer.state.values() for value in of.values()]


def same(one: Sequence[torch.Tensor], other: Sequence[torch.Tensor]) -> bool:
    return len(one) == len(other) and all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


@pytest.mark.usefixtures("queued")
def test_a_fused_optimizer_leaves_the_weights_alone_where_the_gradients_are_bad(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(update, "ALWAYS_COPIED", 0)
    network = network_of()
    optimizer = ADAMW(network.parameters(), lr=1e-2, fused=True)
    guard = TrainingGuard(network, optimizer, clip=CLIP, keep_every=0)
    assert guard.memory["beside"] == 0
    for _ in range(2):
        guard.step(loss_of(network))
    weights, moments = [p.detach().clone() for p in network.parameters()], state_of(optimizer)
    seen: list[bool] = []
    optimizer.register_step_post_hook(lambda *_: seen.append(same(weights, list(network.parameters()))))
    handle = network.get_parameter("3.weight").register_hook(lambda gradient: gradient * torch.nan)
    report = guard.step(loss_of(network))
    assert [(caught.cause, caught.name) for caught in report.caught] == [("gradient-nonfinite", "3.weight")]
    assert seen == [True]
    assert same(weights, list(network.parameters()))
    assert same(moments, state_of(optimizer))
    handle.remove()
    assert guard.step(loss_of(network)).applied


@pytest.mark.usefixtures("queued")
def test_an_update_that_was_queued_ahead_of_bad_gradients_is_put_back() -> None:
    network = network_of()
    optimizer = ADAMW(network.parameters(), lr=1e-2)
    guard = TrainingGuard(network, optimizer, clip=CLIP)
    for _ in range(2):
        guard.step(loss_of(network))
    weights, moments = [p.detach().clone() for p in network.parameters()], state_of(optimizer)
    network.get_parameter("3.weight").register_hook(lambda gradient: gradient * torch.inf)
    report = guard.step(loss_of(network))
    assert [(caught.cause, caught.name) for caught in report.caught] == [("gradient-overflow", "3.weight")]
    assert same(weights, list(network.parameters()))
    assert same(moments, state_of(optimizer))


class Interrupting(TorchFunctionMode):
    """The user ends the program while it waits for numbers. look: called before that."""

    def __init__(self, look: Callable[[], object]) -> None:
        super().__init__()
        self._look = look

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if getattr(func, "__name__", "") == "tolist":
            self._look()
            raise KeyboardInterrupt
        return func(*args, **(kwargs or {}))


@pytest.mark.usefixtures("queued")
def test_what_interrupts_the_read_leaves_the_weights_as_they_were() -> None:
    network = network_of()
    guard = TrainingGuard(network, ADAMW(network.parameters(), lr=1e-2))
    guard.step(loss_of(network))
    weights = [p.detach().clone() for p in network.parameters()]
    updated: list[bool] = []
    with Interrupting(lambda: updated.append(not same(weights, list(network.parameters())))), pytest.raises(KeyboardInterrupt):
        guard.step(loss_of(network))
    assert updated == [True], "the update was queued ahead of the read"
    assert same(weights, list(network.parameters()))


@pytest.mark.parametrize("training", TRAININGS, ids=lambda training: training.__name__.strip("_"))
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
@pytest.mark.usefixtures("queued")
def test_a_fault_is_caught_and_named_where_the_update_is_queued_ahead(training: Callable[[], Training], fault: Fault) -> None:
    result = one(training, fault, computed=False)
    if result is None:
        return  # this fault does no harm to this training
    assert (result.caught, result.untouched, result.named) == (True, True, True), result.told


@pytest.mark.usefixtures("queued")
def test_sound_runs_that_are_queued_ahead_raise_no_alarm() -> None:
    assert sound(len(TRAININGS)) == []
