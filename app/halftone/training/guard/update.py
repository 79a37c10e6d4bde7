"""One step of the optimizer, judged before anything else reads what it made: good, or put back bit by bit with the reason."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from halftone.contract.training import Cause, TrainCure
from halftone.measure.stats import peak
from halftone.training.guard.finite import bad_among, norm, norms
from halftone.training.guard.networks import optimized, state_tensors
from halftone.training.guard.optimizers import members
from halftone.training.guard.protection import LastGood, bytes_of

EPSILON: Final = 1e-4
"""What half precision is given where its own epsilon is nothing: the value that the remedy of the forecast names."""
ALWAYS_COPIED: Final = 64 * 2**20
"""Up to so many bytes of trained parameters a copy is kept beside them; more only where the update could go wrong."""
_LEAP: Final = 100.0
_LARGE: Final = 10.0
"""A step that makes the weights' root mean square this many times larger, and larger than this, ruins them."""
SAFE_GRADIENT: Final = 1e15
"""Norm of the gradients, up to which no square of one leaves float32 or bfloat16."""
_ELEMENTWISE: Final = frozenset({"SGD", "Adam", "AdamW", "NAdam", "RAdam", "Adamax", "RMSprop", "Adagrad"})


_SQUARES: Final = ("exp_avg_sq", "square_avg", "exp_inf", "acc_delta", "row_var", "col_var")
"""In names of moments made of squares or magnitudes: none is ever below zero."""


@dataclass(frozen=True)
class BadUpdate:
    """Why the optimizer's step was undone. name: the first parameter it spoiled; now: an impossible setting's value."""

    cause: Cause
    name: str
    dtype: torch.dtype
    peak: float | None
    cure: TrainCure
    further: tuple[str, ...] = ()
    now: str = ""


def needs_copy(optimizer: torch.optim.Optimizer) -> bool:
    """True where the copy is small, or the update could spoil weights out of finite gradients."""
    trained = [parameter for _, parameter in optimized(optimizer)]
    if bytes_of(trained) <= ALWAYS_COPIED or any(map(_is_narrow, trained)):
        return True
    elementwise = all(type(one).__name__ in _ELEMENTWISE for one in members(optimizer))
    return not elementwise or not all(map(_settings_are_sound, optimizer.param_groups))


def _is_narrow(parameter: torch.Tensor) -> bool:
    """Whether squares of gradients can leave the type: bfloat16 reaches as far as float32."""
    return not parameter.is_floating_point() or torch.finfo(parameter.dtype).max < SAFE_GRADIENT**2


def update_is_safe(optimizer: torch.optim.Optimizer, norm: float) -> bool:
    """Whether, with these settings, no update from finite gradients of this norm can leave float32; needs no copy."""
    return norm < SAFE_GRADIENT and all(map(_settings_are_sound, optimizer.param_groups))


def skips_when_told(optimizer: torch.optim.Optimizer) -> bool:
    """Whether the optimizer skips a step by `found_inf` on the device, as fused ones do but for SGD's first step."""
    return type(optimizer) in (torch.optim.Adam, torch.optim.AdamW) and getattr(optimizer, "_step_supports_amp_scaling", False)


def impossible_rate(optimizer: torch.optim.Optimizer, names: Mapping[int, str]) -> BadUpdate | None:
    """A learning rate that is no number, or that the weights' type cannot hold: seen before the optimizer steps."""
    for group in optimizer.param_groups:
        rate = abs(float(group.get("lr", 0.0)))
        trained = [p for p in group["params"] if p.is_floating_point()]
        beyond = [p for p in trained if not rate <= torch.finfo(p.dtype).max]
        if beyond:
            name, further = names[id(beyond[0])], tuple(names[id(p)] for p in beyond[1:9])
            return BadUpdate("learning-rate", name, beyond[0].dtype, None, "none", further, now=_rate_text(rate))
    return None


def _rate_text(rate: float) -> str:
    if math.isnan(rate):
        return "NaN"
    return "infinite" if math.isinf(rate) else f"{rate:g}"


def is_bad_moment(name: str, value: torch.Tensor) -> bool:
    """Whether a moment is not finite, or is a mean of squares below zero, whose root is NaN. Waits for the device."""
    if not math.isfinite(peak(value)):
        return True
    return _below_zero(name, value)


def _below_zero(name: str, value: torch.Tensor) -> bool:
    squares = any(word in name for word in _SQUARES) and value.is_floating_point() and value.numel() > 0
    return squares and float(value.detach().amin()) < 0


@dataclass(frozen=True)
class Judged:
    """What an update made, by name, and the norms of all of it in this order, not read yet."""

    trained: Mapping[str, torch.Tensor]
    moments: Mapping[tuple[str, str], torch.Tensor]
    scalars: Sequence[torch.Tensor]


def judged(optimizer: torch.optim.Optimizer, names: Mapping[int, str]) -> Judged:
    """What to read after optimizer.step(). Does not wait."""
    trained = {names[id(parameter)]: parameter for _, parameter in optimized(optimizer)}
    moments = {(names[id(p)], name): value for p, name, value in state_tensors(optimizer)}
    return Judged(trained, moments, norms([*trained.values(), *moments.values()]))


def verdict(
    what: Judged, found: Sequence[float], before: LastGood, optimizer: torch.optim.Optimizer, sizes: dict[str, float]
) -> BadUpdate | None:
    """None if everything is finite and no weight leapt. found: the read scalars; sizes: root mean square of parameters after the
    last good step, as far as known; updated when this one is good.
    """
    trained = what.trained
    if not all(map(math.isfinite, found)) and (bad := _bad(what, before)):
        return _spoiled(before, optimizer, trained, bad)
    now = {name: length / math.sqrt(max(p.numel(), 1)) for (name, p), length in zip(trained.items(), found, strict=False)}
    large = [name for name, size in now.items() if size > _LARGE]
    before_it = {name: sizes[name] if name in sizes else _root_mean_square(before.copy_of(trained[name])) for name in large}
    leapt = [name for name in large if now[name] > _LEAP * max(before_it[name], 1e-3)]
    if leapt:
        return BadUpdate("learning-rate", leapt[0], trained[leapt[0]].dtype, now[leapt[0]], "none", tuple(leapt[1:9]))
    sizes.update(now)
    return None


def _root_mean_square(parameter: torch.Tensor) -> float:
    return float(norm(parameter)) / math.sqrt(max(parameter.numel(), 1))


def _bad(what: Judged, before: LastGood) -> list[str]:
    """Parameters not finite, or with such moments; not those that were bad before the step, which are unused."""
    weights = [name for name in bad_among(what.trained) if before.was_finite(what.trained[name])]
    return list(dict.fromkeys([*weights, *(name for name, _ in bad_among(what.moments))]))


def _spoiled(
    before: LastGood, optimizer: torch.optim.Optimizer, trained: Mapping[str, torch.Tensor], bad: list[str]
) -> BadUpdate:
    first = trained[bad[0]]
    group = next(g for g in optimizer.param_groups if any(p is first for p in g["params"]))
    kept = before.moments(first)
    cause, cure = _cause(first, group, kept, optimizer.state.get(first, {}))
    return BadUpdate(cause, bad[0], first.dtype, _largest(first.grad), cure, tuple(bad[1:9]))


def _cause(
    parameter: torch.Tensor, group: Mapping[str, Any], kept: Mapping[str, Any], now: Mapping[str, Any]
) -> tuple[Cause, TrainCure]:
    """Why finite gradients and weights gave a bad update. kept: moments of the last good state; now: the update's."""
    if any(isinstance(value, torch.Tensor) and is_bad_moment(name, value) for name, value in kept.items()):
        return "optimizer-state", "none"
    if any(isinstance(value, torch.Tensor) and _below_zero(name, value) for name, value in now.items()):
        return "optimizer-state", "put-back"  # other code wrote there, and nobody saw it
    if not math.isfinite(float(group.get("lr", 0.0))) or abs(float(group.get("lr", 0.0))) > 1e4:
        return "learning-rate", "none"
    narrow = parameter.element_size() < 4
    epsilon = group.get("eps")
    if isinstance(epsilon, (int, float)) and float(torch.tensor(float(epsilon), dtype=parameter.dtype)) == 0.0:
        return "optimizer-epsilon", "epsilon-up"
    return "optimizer-overflow", "float32-states" if narrow else "none"


def _settings_are_sound(group: Mapping[str, Any]) -> bool:
    betas = group.get("betas", (0.0,))
    epsilon = float(group.get("eps", 1.0))
    rate = float(group.get("lr", 0.0))
    return 0.0 <= rate <= 1.0 and epsilon >= 1e-12 and all(0.0 <= float(beta) < 1.0 for beta in betas)


def _largest(gradient: torch.Tensor | None) -> float | None:
    return None if gradient is None else peak(gradient)
