"""The guard leaves a sound training as it is, to the bit, and stops every planted fault before it reaches the weights."""

from collections.abc import Callable

import pytest
import torch
from tests.bench.training.faults import guarded, one, sound
from tests.helpers.device import DEVICE
from tests.helpers.training_faults import FAULTS, TRAININGS, Convolutional, Fault, Training, make
from torch import nn
from torch.nn import functional

from halftone.training.guard import TrainingGuard, TrainingStopped

PLAIN = [t for t in TRAININGS if "autocast" not in t.__name__ and "scaled" not in t.__name__]


@pytest.mark.parametrize("training", TRAININGS, ids=lambda training: training.__name__.strip("_"))
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_a_fault_is_caught_before_the_weights_and_named(training: Callable[[], Training], fault: Fault) -> None:
    result = one(training, fault, computed=False)
    if result is None:
        return  # this fault does no harm to this training
    assert (result.caught, result.untouched, result.named) == (True, True, True), result.told


def test_sound_runs_raise_no_alarm() -> None:
    assert sound(2 * len(TRAININGS)) == []


def by_hand(training: Training) -> None:
    """A step as a script makes it."""
    training.loss().backward()
    torch.nn.utils.clip_grad_norm_(training.network.parameters(), 1.0)
    training.optimizer.step()
    training.optimizer.zero_grad()


@pytest.mark.parametrize("training", PLAIN, ids=lambda training: training.__name__.strip("_"))
@pytest.mark.parametrize("computed", [False, True])
def test_a_sound_training_is_the_same_to_the_bit(training: Callable[[], Training], computed: bool) -> None:
    watched, plain = make(training), make(training)
    guard = guarded(watched)
    for _ in range(4):
        watched.batch()
        plain.batch()
        guard.step(watched.loss() if computed else watched.loss)
        by_hand(plain)
    ours, theirs = watched.network.state_dict(), plain.network.state_dict()
    assert all(torch.equal(ours[name], theirs[name]) for name in theirs)
    assert guard.caught == []


def test_gathered_gradients_are_those_of_one_large_batch_and_survive_a_bad_part() -> None:
    parts = [torch.randn(4, 8, generator=torch.Generator().manual_seed(n)) for n in range(4)]

    def network() -> nn.Linear:
        torch.manual_seed(0)
        return nn.Linear(8, 1)

    ours, theirs = network(), network()
    guard = TrainingGuard(ours, torch.optim.SGD(ours.parameters(), lr=0.1), accumulate=4)
    broken = parts[1].clone()
    broken[0, 0] = torch.nan
    reports = [
        guard.step(lambda x=x: functional.mse_loss(ours(x), x.sum(1, keepdim=True))) for x in (parts[0], broken, *parts[1:])
    ]
    assert [report.applied for report in reports] == [False, False, False, False, True]
    assert [caught.cause for caught in guard.caught] == ["data-nonfinite"]
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    for x in parts:
        (functional.mse_loss(theirs(x), x.sum(1, keepdim=True)) / 4).backward()
    optimizer.step()
    assert torch.allclose(ours.weight, theirs.weight, atol=1e-7)


def test_the_running_means_of_a_norm_are_put_back_with_the_step() -> None:
    torch.manual_seed(0)
    network = Convolutional()
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.1))
    x = torch.randn(2, 3, 8, 8)
    guard.step(lambda: network(x).square().mean())
    before = {name: buffer.clone() for name, buffer in network.named_buffers()}
    x = torch.full_like(x, torch.nan)
    report = guard.step(lambda: network(x).square().mean(), items=("broken.png",))
    assert report.caught[0].items == ("broken.png",)
    assert all(torch.equal(buffer, before[name]) for name, buffer in network.named_buffers() if buffer.is_floating_point())


def test_three_bad_steps_in_a_row_end_the_training_with_sound_weights() -> None:
    torch.manual_seed(0)
    network = nn.Linear(4, 1)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.1), stop_after=3)
    before = network.weight.detach().clone()
    bad = torch.full((2, 4), torch.nan)
    for _ in range(2):
        assert not guard.step(lambda: network(bad).mean()).applied
    with pytest.raises(TrainingStopped) as stopped:
        guard.step(lambda: network(bad).mean())
    assert stopped.value.caught.did == "stopped"
    assert torch.equal(network.weight, before)


@pytest.mark.logs(r"step 1, batch 1: The input of this step contained NaN \(input 1\). The step was left out")
def test_a_finding_stands_in_the_log_and_is_told() -> None:
    network = nn.Linear(4, 1)
    told: list[str] = []
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters()), tell=lambda caught: told.append(caught.cause))
    guard.step(network(torch.full((1, 4), torch.inf)).mean())
    assert told == ["data-nonfinite"]


def test_the_same_random_numbers_in_every_step_are_noticed_and_told_once() -> None:
    network = nn.Linear(4, 4)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.01))
    for _ in range(4):
        torch.manual_seed(3)
        guard.step(lambda: network(torch.randn(2, 4)).square().mean())
        torch.randn(5)
    assert [caught.cause for caught in guard.caught] == ["random-outside"]


def test_an_error_in_the_optimizer_leaves_the_weights_as_they_were() -> None:
    class Failing(torch.optim.SGD):
        def step(self, closure: object = None) -> None:
            with torch.no_grad():
                self.param_groups[0]["params"][0].add_(1.0)
            raise RuntimeError("half way")

    network = nn.Linear(4, 4)
    before = network.weight.detach().clone()
    guard = TrainingGuard(network, Failing(network.parameters(), lr=0.01))
    with pytest.raises(RuntimeError, match="half way"):
        guard.step(lambda: network(torch.ones(1, 4)).mean())
    assert torch.equal(network.weight, before)


def test_large_weights_in_float32_are_not_copied_and_an_older_state_stands_in() -> None:
    network = nn.Linear(4200, 4200, bias=False)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=1e-3), keep_every=1)
    assert guard.memory["beside"] == 0
    x = torch.randn(2, 4200)
    guard.step(lambda: network(x).square().mean())
    good = network.weight.detach().clone()
    with torch.no_grad():
        network.weight[0, 0] = torch.nan
    report = guard.step(lambda: network(x).square().mean())
    assert [(caught.cause, caught.did) for caught in report.caught] == [("weights-changed", "restored")]
    assert torch.isfinite(network.weight).all()
    assert torch.allclose(network.weight, good, atol=1e-2)


def test_weights_that_are_read_after_the_guard_was_made_are_those_that_come_back() -> None:
    network = nn.Linear(4, 4)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=1e6))
    nn.init.constant_(network.weight, 0.5)
    report = guard.step(lambda: network(torch.ones(2, 4)).square().mean())
    assert [(caught.cause, caught.did) for caught in report.caught] == [("learning-rate", "skipped")]
    assert network.weight.eq(0.5).all()


def test_bad_numbers_that_are_written_before_the_first_step_are_not_those_that_come_back() -> None:
    network = nn.Linear(4, 1)
    guard = TrainingGuard(network, torch.optim.AdamW(network.parameters()))
    with torch.no_grad():
        network.weight[0, 0] = torch.nan
    report = guard.step(lambda: network(torch.ones(2, 4)).square().mean())
    assert (report.applied, [one.did for one in report.caught]) == (True, ["repeated"])
    assert network.weight.isfinite().all()


def test_steps_that_are_lost_with_an_older_state_are_told() -> None:
    network = nn.Linear(4200, 4200, bias=False)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=1e-3), keep_every=2)
    x = torch.randn(2, 4200)
    for _ in range(3):
        guard.step(lambda: network(x).square().mean())
    with torch.no_grad():
        network.weight[0, 0] = torch.nan
    report = guard.step(lambda: network(x).square().mean())
    (caught,) = report.caught
    assert (caught.step, caught.did, caught.restored_to, report.step) == (4, "restored", 2, 3)


def test_a_part_of_a_step_that_is_made_again_belongs_to_that_step() -> None:
    torch.manual_seed(0)
    network = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    nn.init.ones_(next(network.parameters()))
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=1e-12), accumulate=2)

    def loss(size: float) -> torch.Tensor:
        with torch.autocast(DEVICE.type, torch.float16):
            return network(torch.full((2, 4), size)).float().square().mean()

    assert [guard.step(lambda size=size: loss(size)).applied for size in (1.0, 1.0, 60_000.0, 1.0)] == [False, True] * 2
    assert [(caught.step, caught.did) for caught in guard.caught] == [(2, "repeated")]


def test_what_the_guard_put_on_the_networks_comes_off() -> None:
    network = nn.Sequential(nn.Linear(4, 4), nn.GELU())
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.01))
    guard.remove()
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in network.modules())


def test_a_step_that_the_optimizer_spoils_leaves_a_scaled_training_ready_for_the_next() -> None:
    scaled = make(TRAININGS[-1])
    assert scaled.scaler is not None
    guard = guarded(scaled)
    scaled.batch()
    guard.step(scaled.loss)
    scaled.optimizer.param_groups[0]["lr"] = torch.inf
    assert [caught.cause for caught in guard.step(scaled.loss).caught] == ["learning-rate"]
    scaled.optimizer.param_groups[0]["lr"] = 1e-3
    assert guard.step(scaled.loss).applied


def mastered() -> tuple[nn.Linear, torch.optim.Optimizer, TrainingGuard]:
    """In FP16 with float32 masters, whose updates are too small for FP16."""
    torch.manual_seed(0)
    network = nn.Linear(8, 8).half()
    optimizer = torch.optim.AdamW(network.parameters(), lr=1e-6, weight_decay=0.0)
    guard = TrainingGuard(network, optimizer)
    assert guard.apply("float32-master")
    for _ in range(3):
        guard.step(lambda: network(torch.ones(2, 8).half()).float().square().mean())
    return network, optimizer, guard


def test_a_step_that_is_undone_takes_nothing_from_the_masters() -> None:
    network, optimizer, guard = mastered()
    before = [master.detach().clone() for master in optimizer.param_groups[0]["params"]]
    optimizer.param_groups[0]["lr"] = torch.inf
    guard.step(lambda: network(torch.ones(2, 8).half()).float().square().mean())
    assert all(torch.equal(now, old) for now, old in zip(optimizer.param_groups[0]["params"], before, strict=True))


def test_sound_weights_that_other_code_wrote_are_those_that_training_goes_on_from() -> None:
    network, _, guard = mastered()
    with torch.no_grad():
        network.weight.fill_(0.5)
    guard.step(lambda: network(torch.ones(2, 8).half()).float().square().mean())
    assert torch.allclose(network.weight, torch.full_like(network.weight, 0.5), atol=1e-3)


class Reaching(nn.Module):
    """Passes numbers whose squares no float32 holds, and comes back."""

    def __init__(self) -> None:
        super().__init__()
        self.enter = nn.Linear(8, 8)
        self.norm = nn.BatchNorm1d(8)
        self.far = nn.Sequential(nn.Hardtanh(-3e38, 3e38))
        self.leave = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.leave(self.far(self.norm(self.enter(x)) * 1e25) * 1e-25)


def test_very_large_finite_numbers_are_no_alarm() -> None:
    torch.manual_seed(0)
    network, plain = Reaching(), Reaching()
    plain.load_state_dict(network.state_dict())
    optimizer, theirs = (torch.optim.SGD(n.parameters(), lr=0.1) for n in (network, plain))
    guard = TrainingGuard(network, optimizer)
    x = torch.randn(4, 8)
    for _ in range(3):
        assert guard.step(lambda: network(x).square().mean()).applied
        plain(x).square().mean().backward()
        theirs.step()
        theirs.zero_grad()
    assert guard.caught == []
    assert torch.equal(network.norm.state_dict()["running_mean"], plain.norm.state_dict()["running_mean"])
    assert all(torch.equal(ours, their) for ours, their in zip(network.parameters(), plain.parameters(), strict=True))


@pytest.mark.parametrize("dtype", [torch.float64, torch.complex64])
def test_parameters_of_other_types_are_guarded(dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    network = nn.Linear(4, 4, dtype=dtype)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.01), forecast="off")
    x = torch.randn(2, 4, dtype=dtype)
    for _ in range(2):
        assert guard.step(lambda: network(x).abs().square().mean()).applied
    network.weight.register_hook(lambda gradient: gradient * torch.nan)
    before = network.weight.detach().clone()
    assert not guard.step(lambda: network(x).abs().square().mean()).applied
    assert torch.equal(network.weight, before)


def test_states_on_the_host_are_kept_only_where_there_is_no_copy_beside_the_weights() -> None:
    network = nn.Linear(4, 4)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.01), keep_every=1)
    guard.step(lambda: network(torch.ones(1, 4)).square().mean())
    assert guard.memory["beside"] > 0
    assert guard.memory["host"] == 0


# --- what a script is told -----------------------------------------------------------------------------------------------


def overflowing() -> tuple[nn.Linear, torch.optim.AdamW]:
    network = nn.Linear(4, 4).half()
    return network, torch.optim.AdamW(network.parameters())


@pytest.mark.logs("this will go wrong", "this may go wrong", "step 1, batch 1: ")
def test_a_script_is_told_in_sentences_with_the_exact_name(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", "halftone.training.guard.core")
    network, optimizer = overflowing()
    guard = TrainingGuard(network, optimizer, on_bad="skip")
    (foreseen, *_) = [record.getMessage() for record in caplog.records]
    assert foreseen.startswith(
        "this will go wrong: Epsilon 1 × 10^−8 is zero in FP16: the optimiser would divide by zero in weight."
    )
    assert 'guard.apply: "epsilon-1e-4"' in foreseen
    assert "LoRA" not in caplog.text
    caplog.clear()
    guard.step(lambda: network(torch.full((2, 4), 6e4, dtype=torch.float16)).float().pow(2).mean() * 1e30, items=["a.png"])
    (said,) = [record.getMessage() for record in caplog.records if record.getMessage().startswith("step 1, batch 1: ")]
    assert said.endswith("It was fed with a.png. The step was left out before it touched the weights.")
    assert "LoRA" not in said


@pytest.mark.logs("step 2: ")
def test_what_other_code_did_to_the_whole_model_has_a_subject(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", "halftone.training.guard.core")
    network = nn.Linear(4, 4)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.1), forecast="off")
    guard.step(lambda: network(torch.ones(2, 4)).mean())
    network.eval()
    guard.step(lambda: network(torch.ones(2, 4)).mean())
    (said,) = [record.getMessage() for record in caplog.records]
    assert said.startswith("step 2: Other code switched the model between train and eval mode: train → eval.")


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"clip": -1.0}, "clip is the largest norm"),
        ({"accumulate": 0}, "accumulate is how many"),
        ({"on_bad": "ignore"}, "on_bad is one of cure, skip, stop"),
        ({"forecast": "yes"}, "forecast is one of tell, apply, off"),
    ],
)
def test_a_setting_that_is_none_is_refused(wrong: dict[str, object], said: str) -> None:
    network, optimizer = overflowing()
    with pytest.raises(ValueError, match=said):
        TrainingGuard(network, optimizer, **wrong)  # type: ignore[arg-type]


def test_model_and_optimizer_the_wrong_way_round_are_refused() -> None:
    network, optimizer = overflowing()
    with pytest.raises(TypeError, match="the optimizer comes second"):
        TrainingGuard(optimizer, network)  # type: ignore[arg-type]


@pytest.mark.parametrize(("loss", "said"), [(3.0, "a float"), (None, "a NoneType"), (torch.ones(2, 2), r"the shape \(2, 2\)")])
def test_what_is_no_loss_is_refused(loss: object, said: str) -> None:
    network, optimizer = overflowing()
    with pytest.raises(TypeError, match=said):
        TrainingGuard(network, optimizer).step(lambda: loss)  # type: ignore[arg-type, return-value]


def test_what_interrupts_the_way_back_leaves_the_gathered_gradients() -> None:
    torch.manual_seed(0)
    network = nn.Linear(4, 1)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.1), accumulate=3)
    x = torch.randn(2, 4)
    guard.step(lambda: network(x).square().mean())
    assert network.weight.grad is not None
    gathered = network.weight.grad.clone()

    def interrupted(_gradient: torch.Tensor) -> None:
        raise KeyboardInterrupt

    handle = network.weight.register_hook(interrupted)
    with pytest.raises(KeyboardInterrupt):
        guard.step(lambda: network(x).square().mean())
    handle.remove()
    assert torch.equal(network.weight.grad, gathered)


def test_a_way_back_that_fails_on_bad_numbers_is_a_bad_step() -> None:
    network = nn.Linear(4, 1)
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.1))
    x = torch.full((2, 4), torch.nan)

    def refusing(gradient: torch.Tensor) -> None:
        if not torch.isfinite(gradient).all():
            raise RuntimeError("not a number")

    network.weight.register_hook(refusing)
    report = guard.step(lambda: network(x).square().mean())
    assert [caught.cause for caught in report.caught] == ["data-nonfinite"]


def test_each_of_two_guards_clips_with_the_norm_of_what_its_own_optimizer_trains() -> None:
    def pair() -> tuple[nn.ModuleDict, torch.optim.Optimizer]:
        torch.manual_seed(0)
        both = nn.ModuleDict({"makes": nn.Linear(4, 4), "judges": nn.Linear(4, 1)})
        return both, torch.optim.SGD(both["makes"].parameters(), lr=0.1)

    (ours, optimizer), (theirs, by_hand_optimizer) = pair(), pair()
    guard = TrainingGuard(ours, optimizer, clip=0.01)
    x = torch.randn(2, 4)
    for _ in range(3):
        guard.step(lambda: ours["judges"](ours["makes"](x)).square().mean())
        theirs["judges"](theirs["makes"](x)).square().mean().backward()
        torch.nn.utils.clip_grad_norm_(theirs["makes"].parameters(), 0.01)
        by_hand_optimizer.step()
        theirs.zero_grad()
    assert all(torch.equal(a, b) for a, b in zip(ours.parameters(), theirs.parameters(), strict=True))


def test_a_loss_scale_is_called_needless_only_after_a_pass_without_half_precision() -> None:
    for half in (True, False):
        network = nn.Linear(4, 4)
        guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.1), scaler=torch.amp.GradScaler(DEVICE.type))
        assert "loss-scale-useless" not in {omen.code for omen in guard.omens}

        def loss(network: nn.Linear = network, half: bool = half) -> torch.Tensor:
            with torch.autocast(DEVICE.type, torch.float16, enabled=half):
                return network(torch.ones(2, 4)).float().mean()

        guard.step(loss)
        assert ("loss-scale-useless" in {omen.code for omen in guard.omens}) is not half


@pytest.mark.logs("step 1, batch 1: layer reached")
def test_an_exact_name_is_told_as_it_is(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("WARNING", "halftone.training.guard.core")
    network = nn.Sequential()
    network.add_module("layer", nn.Linear(1, 1, bias=False).half())
    guard = TrainingGuard(network, torch.optim.SGD(network.parameters(), lr=0.1), on_bad="skip", forecast="off")
    torch.nn.init.constant_(network[0].weight, 2.0)  # type: ignore[arg-type]
    guard.step(lambda: network(torch.full((1, 1), 6e4, dtype=torch.float16)).float().mean())
    assert [message for message in caplog.messages if message.startswith("step 1, batch 1: layer reached")]


@pytest.mark.parametrize(("dtype", "copied"), [(torch.float32, False), (torch.bfloat16, False), (torch.float16, True)])
def test_large_weights_are_copied_where_their_type_does_not_hold_the_squares_of_gradients(
    dtype: torch.dtype, copied: bool
) -> None:
    network = nn.Linear(6000, 6000, bias=False, dtype=dtype)
    guard = TrainingGuard(network, torch.optim.AdamW(network.parameters(), eps=1e-4), keep_every=0, forecast="off")
    assert (guard.memory["beside"] > 0) is copied


def test_a_rate_that_is_still_low_in_its_warm_up_is_judged_by_what_it_comes_to() -> None:
    network = nn.Linear(64, 64)
    optimizer = torch.optim.AdamW(network.parameters(), lr=0.5)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda done: min(1.0, done / 100))
    guard = TrainingGuard(network, optimizer, scheduler=schedule)
    (omen,) = [omen for omen in guard.omens if omen.code == "rate-too-high"]
    assert omen.value == 0.5
