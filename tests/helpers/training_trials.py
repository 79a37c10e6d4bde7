"""Faults that a seed puts into a training that the seed made, beside those in `training_faults`: what is right to say of them."""

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch
from tests.helpers.device import DEVICE
from tests.helpers.training_models import FORMS, KINDS, Trial, pick
from torch import Tensor, nn

from halftone.contract.training import Cause
from halftone.training.guard import TrainingGuard

End = Callable[[], object] | None


@dataclass(frozen=True)
class NewFault:
    """put: does the harm before a step, gives what ends it. causes: any of them is right; named: whether a name is. fits: of
    which trainings it can be a fault; keeps: whether the step itself has to be made, since nothing in it is lost.
    """

    name: str
    put: Callable[[Trial, TrainingGuard], End]
    causes: tuple[Cause, ...]
    named: Callable[[Trial, str], bool]
    fits: Callable[[Trial], bool] = lambda _trial: True
    keeps: bool = False
    only_function: bool = False


def _in_layer(trial: Trial, name: str) -> bool:
    return name.startswith(trial.layer)


def _any(_trial: Trial, name: str) -> bool:
    return bool(name)


def _hook(trial: Trial, change: Callable[[Tensor], Tensor]) -> End:
    changed: Any = lambda _m, _a, output: change(output)  # noqa: E731 - a hook may give what it likes
    return trial.module().register_forward_hook(changed, prepend=True).remove


def _plain_layer(trial: Trial) -> bool:
    return isinstance(trial.module(), (nn.Linear, nn.Conv1d, nn.BatchNorm1d))


def _nothing_by_nothing(trial: Trial, _guard: TrainingGuard) -> End:
    return _hook(trial, lambda y: y + (y - y) / (y - y).abs().max())


def _logarithm(trial: Trial, _guard: TrainingGuard) -> End:
    return _hook(trial, lambda y: y + (y - y).log())


class _RootOfZero(torch.autograd.Function):
    """Finite on the way there, NaN on the way back, in every type: as a norm at zero is."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> Tensor:
        return gradients[0] * (ctx.saved_tensors[0] * 0).sqrt().reciprocal() * 0


def _root(trial: Trial, _guard: TrainingGuard) -> End:
    return _hook(trial, lambda y: y + 0 * (y * 0).square().sum(-1, keepdim=True).sqrt())


def _own_root(trial: Trial, _guard: TrainingGuard) -> End:
    return _hook(trial, _RootOfZero.apply)


def _root_in_loss(trial: Trial, _guard: TrainingGuard) -> End:
    before = trial.loss_of
    trial.loss_of = lambda made, target: before(made, target) + (made * 0).square().sum().sqrt()
    return lambda: setattr(trial, "loss_of", before)


def _nan_loss(trial: Trial, _guard: TrainingGuard) -> End:
    before = trial.loss_of
    trial.loss_of = lambda made, target: before(made, target) / (made * 0).sum() * 0
    return lambda: setattr(trial, "loss_of", before)


def _overflow(trial: Trial, _guard: TrainingGuard) -> End:
    weight = trial.weight()
    before = weight.detach().clone()
    with torch.no_grad():
        weight.data.mul_(6e4 / float(weight.abs().max()))  # .data and a declared change: what grew over many steps
    _guard.accept_changes()

    def end() -> None:
        with torch.no_grad():
            weight.data.copy_(before)
        _guard.accept_changes()

    return end


def _overflows(trial: Trial) -> bool:
    return trial.form.narrow is torch.float16 and isinstance(trial.module(), (nn.Linear, nn.Conv1d)) and trial.layer != "leave"


def _stray(value: float) -> Callable[[Trial, TrainingGuard], End]:
    def put(trial: Trial, _guard: TrainingGuard) -> End:
        weight = trial.weight()
        weight.grad = torch.full_like(weight, value)
        return None

    return put


def _gradient(value: float) -> Callable[[Trial, TrainingGuard], End]:
    def put(trial: Trial, _guard: TrainingGuard) -> End:
        return trial.weight().register_hook(lambda gradient: gradient + value).remove

    return put


def _running(value: float) -> Callable[[Trial, TrainingGuard], End]:
    def put(trial: Trial, _guard: TrainingGuard) -> End:
        trial.network.get_buffer("norm.running_var").view(-1)[1] = value
        return None

    return put


def _squares(trial: Trial) -> list[Tensor]:
    for optimizer in trial.optimizers:
        of = optimizer.state.get(trial.weight(), {})
        found = [value for name, value in of.items() if name in ("exp_avg_sq", "square_avg")]
        if found:
            return found
    return []


def _moment(value: float) -> Callable[[Trial, TrainingGuard], End]:
    def put(trial: Trial, _guard: TrainingGuard) -> End:
        _squares(trial)[0].view(-1)[2] = value
        return None

    return put


def _half_moment(trial: Trial, _guard: TrainingGuard) -> End:
    of = next(o.state[trial.weight()] for o in trial.optimizers if trial.weight() in o.state)
    of["exp_avg_sq"] = of["exp_avg_sq"].to(torch.float64)
    return None


def _rate(value: float) -> Callable[[Trial, TrainingGuard], End]:
    def put(trial: Trial, _guard: TrainingGuard) -> End:
        groups = [group for optimizer in trial.optimizers for group in optimizer.param_groups]
        before = [group["lr"] for group in groups]
        groups[-1]["lr"] = value
        return lambda: [group.update(lr=old) for group, old in zip(groups, before, strict=True)]

    return put


def _poke(trial: Trial, key: str, value: float) -> None:
    changed = trial.data[key].clone()
    changed.view(-1)[3] = value
    trial.data[key] = changed


def _data(key: str, value: float) -> Callable[[Trial, TrainingGuard], End]:
    def put(trial: Trial, _guard: TrainingGuard) -> End:
        _poke(trial, key, value)
        return None

    return put


def _beside_mask(key: str) -> Callable[[Trial, TrainingGuard], End]:
    """NaN in a picture or a target, while an additive mask of -inf is fed."""

    def put(trial: Trial, _guard: TrainingGuard) -> End:
        trial.fed["bias"] = torch.full((trial.rows, trial.rows), -torch.inf).triu(1).to(trial.form.dtype)
        _poke(trial, key, torch.nan)
        return lambda: trial.fed.pop("bias")

    return put


def _masked_rows(trial: Trial, _guard: TrainingGuard) -> End:
    """A row that may look at nothing: softmax divides zero by zero."""
    trial.fed["bias"] = torch.full((trial.rows, trial.rows), -torch.inf).to(trial.form.dtype)
    return lambda: trial.fed.pop("bias")


def _written(value: float) -> Callable[[Trial, TrainingGuard], End]:
    def put(trial: Trial, _guard: TrainingGuard) -> End:
        with torch.no_grad():
            trial.weight().view(-1)[0] = value
        return None

    return put


def _leak(trial: Trial, _guard: TrainingGuard) -> End:
    context = torch.autocast(DEVICE.type, torch.bfloat16)
    context.__enter__()
    return lambda: context.__exit__(None, None, None)


def _steep(trial: Trial, _guard: TrainingGuard) -> End:
    """A loss whose gradient float16 does not hold, and float32 does."""
    before = trial.loss_of
    trial.loss_of = lambda made, target: before(made, target) * 1e9
    return lambda: setattr(trial, "loss_of", before)


def _steep_and_sound(trial: Trial) -> bool:
    """Without clipping such a gradient ruins weights that follow it as it is, in float32 too."""
    return trial.form.name == "FP16" and ("SGD" not in trial.name or trial.settings["clip"] is not None)


def _not_checkpointed(trial: Trial) -> bool:
    return not trial.name.startswith("checkpointed")


GRADIENT: Final[tuple[Cause, ...]] = ("gradient-nonfinite",)

NEW_FAULTS: Final = (
    NewFault("hopeless batch: 0 / 0", _nothing_by_nothing, ("activation-nonfinite",), _in_layer, _plain_layer),
    NewFault("hopeless batch: log of 0", _logarithm, ("activation-nonfinite", "gradient-nonfinite"), _any, _plain_layer),
    NewFault("root of zero in a layer", _root, GRADIENT, _any, lambda t: _plain_layer(t) and _not_checkpointed(t)),
    NewFault("own way back gives NaN", _own_root, GRADIENT, _any, lambda t: _plain_layer(t) and _not_checkpointed(t)),
    NewFault("root of zero in the loss", _root_in_loss, GRADIENT, _any),
    NewFault("loss divides zero by zero", _nan_loss, ("loss-nonfinite", "loss-overflow"), lambda _t, n: n == "loss"),
    NewFault("layer passes the limit", _overflow, ("activation-overflow",), _in_layer, _overflows, True, True),
    NewFault("gradient passes the limit", _steep, ("gradient-overflow",), _any, _steep_and_sound, True, True),
    NewFault("stray NaN in .grad", _stray(torch.nan), ("gradient-outside",), _in_layer, keeps=True),
    NewFault("stray infinity in .grad", _stray(torch.inf), ("gradient-outside",), _in_layer, keeps=True),
    NewFault("NaN added to a gradient", _gradient(torch.nan), ("gradient-nonfinite",), _in_layer),
    NewFault("infinity added to a gradient", _gradient(torch.inf), ("gradient-overflow",), _in_layer),
    NewFault(
        "NaN in a running variance", _running(torch.nan), ("buffer-nonfinite",), lambda _t, n: n == "norm.running_var",
        lambda t: t.name.startswith("batch norm"), True,
    ),
    NewFault(
        "infinite running variance", _running(torch.inf), ("buffer-nonfinite",), lambda _t, n: n == "norm.running_var",
        lambda t: t.name.startswith("batch norm"), True,
    ),
    NewFault("negative second moment", _moment(-1.0), ("state-outside",), _in_layer, lambda t: bool(_squares(t)), True),
    NewFault("NaN in a second moment", _moment(torch.nan), ("state-outside",), _in_layer, lambda t: bool(_squares(t)), True),
    NewFault("moment of another type", _half_moment, ("state-outside",), _in_layer,
             lambda t: any("exp_avg_sq" in o.state.get(t.weight(), {}) for o in t.optimizers), True),
    NewFault("rate of NaN", _rate(torch.nan), ("learning-rate",), _any),
    NewFault("infinite rate", _rate(torch.inf), ("learning-rate",), _any),
    NewFault("NaN beside a mask", _beside_mask("x"), ("data-nonfinite",), lambda _t, n: n == "input 1",
             lambda t: t.name.startswith("attention")),
    NewFault("NaN in the target beside a mask", _beside_mask("target"), ("data-nonfinite",), lambda _t, n: n == "target",
             lambda t: t.name.startswith("attention")),
    NewFault("rows that look at nothing", _masked_rows, ("activation-nonfinite", "data-nonfinite"), _any,
             lambda t: t.name.startswith("attention")),
    NewFault("leaked autocast", _leak, ("autocast-outside",), lambda _t, n: n == "autocast",
             lambda t: t.form.name == "FP32" and t.name.startswith(("perceptron", "residual", "convolution")), True, True),
    NewFault("infinity in a picture", _data("x", torch.inf), ("data-nonfinite",), lambda _t, n: n == "input 1"),
    NewFault("NaN in a target", _data("target", torch.nan), ("data-nonfinite",), lambda _t, n: n == "target"),
    NewFault("NaN written into a weight", _written(torch.nan), ("weights-changed",), _in_layer, keeps=True),
    NewFault("infinity written into a weight", _written(torch.inf), ("weights-changed",), _in_layer, keeps=True),
)  # fmt: skip


@dataclass(frozen=True)
class Case:
    trial: Trial
    fault: NewFault
    at: int
    computed: bool
    """Whether the script gives a loss and no function."""


def case(seed: int, number: int) -> Case:
    """The case of this number: a fault in turn, in a training that it fits, drawn until one does."""
    fault = NEW_FAULTS[number % len(NEW_FAULTS)]
    drawn = random.Random(1_000_003 * seed + number)
    while True:
        trial = pick(drawn.randrange(2**31), FORMS, KINDS)
        scaled = trial.form.scaled  # a loss that was computed once only finds its scale, which is no finding
        at, computed = drawn.randint(2, 4), drawn.random() < 0.3 and not fault.only_function and not scaled
        probe = _stepped(trial)
        if fault.fits(probe):
            return Case(trial, fault, at, computed)


def _stepped(trial: Trial) -> Trial:
    """A twin after one step: some faults need moments."""
    twin = pick(trial.seed)
    twin.batch()
    twin.loss().backward()
    for optimizer in twin.optimizers:
        optimizer.step()
    return twin
