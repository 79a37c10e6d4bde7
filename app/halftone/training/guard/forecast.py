"""The forecast of a training: its facts read from network, optimizer and what is fed, and its remedies applied on request."""

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import torch
from msgspec.structs import replace
from torch import nn

from halftone.contract.training import Omen, Remedy
from halftone.contract.vocabulary import DType
from halftone.engine.basics.tensors import NAMES, tensors_in
from halftone.health.pictures.schedules import is_falling
from halftone.measure.stats import peak
from halftone.training.guard.finite import plain
from halftone.training.guard.networks import Networks, joined, named_networks, named_parameters
from halftone.training.guard.omens import GroupFacts, RunFacts, omens
from halftone.training.guard.optimizers import members

ADAPTIVE: Final = frozenset({"Adam", "AdamW", "NAdam", "RAdam", "Adamax", "Adam8bit", "AdamW8bit", "RMSprop", "Adagrad"})
"""Optimizers whose updates are about as large as the rate."""
_EPSILONS: Final = ("eps", "epsilon", "variance_epsilon")
EPSILON: Final = 1e-4
_SAMPLE: Final = 4096
"""Numbers of each tensor that its median is taken of."""
_LOWER: Final = 0.1
CLIP: Final = 1.0
"""Norm that the remedy clips the gradients to."""
_NORM_EPSILON: Final = 1e-5
_WARM_UP: Final = 100


def forecast(
    model: Networks,
    optimizer: torch.optim.Optimizer,
    *,
    clip: float | None = None,
    scaler: torch.amp.GradScaler | None = None,
    autocast: torch.dtype | None = None,
    fed: Mapping[str, Any] | None = None,
) -> tuple[Omen, ...]:
    """What will and what may go wrong. autocast: type of the passes, if used; fed: the network's inputs by name. Existing
    gradients are read as well.
    """
    networks = named_networks(model)
    names = {id(p): name for name, p in named_parameters(networks).items()}
    stored = [p.dtype for network in networks.values() for p in network.parameters() if p.is_floating_point()]
    known = bool(fed) or any(dtype != torch.float32 for dtype in stored)  # before a pass, autocast may yet make it half
    computes = autocast or (max(set(stored), key=stored.count) if stored else torch.float32)
    run = RunFacts(
        groups=tuple(
            fact for one in members(optimizer) for group in one.param_groups for fact in _group_facts(group, one, names)
        ),
        computes=NAMES.get(computes, "float32"),
        clip=clip,
        scale=float(scaler.get_scale()) if scaler is not None and scaler.is_enabled() and known else None,
        norms=tuple(_bad_norms(networks)),
        broken=tuple(n for n, p in named_parameters(networks).items() if not math.isfinite(peak(p.detach()))),
        data=tuple(_fed(fed or {})),
    )
    return omens(run)


def without_schedule(found: Iterable[Omen], scheduler: Any) -> tuple[Omen, ...]:
    """Return the omens without the advice of a schedule that the training has."""
    if not _falls(scheduler):
        return tuple(found)
    return tuple(replace(omen, remedies=tuple(one for one in omen.remedies if one != "cosine")) for omen in found)


def _falls(scheduler: Any) -> bool:
    """Whether a schedule, or one that it is made of, lets the rate fall, as its class or its function is called."""
    if isinstance(scheduler, torch.optim.lr_scheduler.LinearLR):  # mostly a warm-up
        return scheduler.end_factor < scheduler.start_factor
    inner = (getattr(scheduler, "scheduler", None), *getattr(scheduler, "_schedulers", ()))  # Accelerate's has one inside
    return any(map(is_falling, _names(scheduler))) or any(_falls(one) for one in inner if one is not None)


def _names(scheduler: Any) -> Iterator[str]:
    """Yield the names of its class, of its functions, and of what made these where it makes schedules, as in diffusers."""
    yield type(scheduler).__name__
    for one in getattr(scheduler, "lr_lambdas", ()):
        *makers, name = getattr(getattr(one, "func", one), "__qualname__", "").split(".<locals>.")  # transformers: a partial
        yield name
        yield from (maker for maker in makers if "_schedule" in maker)


def apply_to_optimizer(optimizer: torch.optim.Optimizer, remedy: Remedy, scheduler: Any = None) -> bool:
    """Apply a remedy that only changes the optimizer's settings. scheduler: the script's, which sets the rate after each step.
    False: another kind of remedy, or the optimizer lacks such a setting.
    """
    match remedy:
        case "epsilon-1e-4" if any("eps" in group for group in optimizer.param_groups):
            for group in _with(optimizer, "eps"):
                group["eps"] = max(float(group["eps"]), EPSILON)
        case "amsgrad" if any("amsgrad" in group for group in optimizer.param_groups):
            for group in _with(optimizer, "amsgrad"):
                group["amsgrad"] = True
            _begin_amsgrad(optimizer)
        case "lower-rate":
            for group in optimizer.param_groups:
                group["lr"] = group["lr"] * _LOWER
                if "initial_lr" in group:
                    group["initial_lr"] = group["initial_lr"] * _LOWER
            _lower(scheduler)
        case _:
            return False
    return True


def _with(optimizer: torch.optim.Optimizer, setting: str) -> list[dict[str, Any]]:
    """Groups that have a setting: of several optimizers not every one may."""
    return [group for group in optimizer.param_groups if setting in group]


def _begin_amsgrad(optimizer: torch.optim.Optimizer) -> None:
    """Moments that were begun without it have no maximum yet: the first is what they are."""
    states: Mapping[torch.Tensor, dict[str, Any]] = optimizer.state
    wanted = [p for group in _with(optimizer, "amsgrad") for p in group["params"]]
    for moments in (states[parameter] for parameter in wanted if parameter in states):
        if "exp_avg_sq" in moments and "max_exp_avg_sq" not in moments:
            moments["max_exp_avg_sq"] = moments["exp_avg_sq"].detach().clone()


def _lower(scheduler: Any) -> None:
    """What a schedule multiplies, and those that it is made of."""
    for one in (scheduler, *getattr(scheduler, "_schedulers", ())):
        if hasattr(one, "base_lrs"):
            one.base_lrs = [rate * _LOWER for rate in one.base_lrs]


def schedule_for(optimizer: torch.optim.Optimizer, remedy: Remedy, steps: int) -> torch.optim.lr_scheduler.LRScheduler | None:
    """The learning rate's schedule of a remedy; None: it has none."""
    if remedy == "warm-up":
        return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min(1.0, (step + 1) / _WARM_UP))
    if remedy == "cosine":
        return torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, max(steps, 1))
    return None


def raise_norm_epsilons(model: Networks) -> None:
    """Raise epsilons that their type rounds to zero, with which norms turn zeros into bad numbers."""
    networks = named_networks(model)
    bad = set(_bad_norms(networks))
    for network, root in networks.items():
        for name, module in root.named_modules():
            for attribute in _EPSILONS if joined(network, name) in bad else ():
                if isinstance(getattr(module, attribute, None), float):
                    setattr(module, attribute, _NORM_EPSILON)


_RATES: Final = ("lr", "initial_lr", "max_lr")
"""A group's rates: now, the schedule's base, a cycle's peak. In a warm-up the first is low."""


def _group_facts(group: Mapping[str, Any], optimizer: torch.optim.Optimizer, names: Mapping[int, str]) -> Iterable[GroupFacts]:
    kinds: dict[DType, list[torch.Tensor]] = {}
    for parameter in group["params"]:
        if parameter.dtype in NAMES:
            kinds.setdefault(NAMES[parameter.dtype], []).append(parameter)
    betas = group.get("betas")
    for dtype, parameters in kinds.items():
        gradients = [g for p in parameters if p.grad is not None and (g := _median(p.grad, nonzero=True)) > 0.0]
        yield GroupFacts(
            name=names.get(id(parameters[0]), "parameter"),
            count=len(parameters),
            dtype=dtype,
            states=_states(optimizer, parameters, dtype),
            rate=max(float(group.get(name, 0.0)) for name in _RATES),
            epsilon=float(group["eps"]) if isinstance(group.get("eps"), (int, float)) else None,
            beta2=float(betas[1]) if betas is not None and len(betas) > 1 else None,
            adaptive=type(optimizer).__name__ in ADAPTIVE,
            medians=tuple(_median(p.detach()) for p in parameters if p.dim() > 1),
            gradient=sorted(gradients)[len(gradients) // 2] if gradients else None,
        )


def _states(optimizer: torch.optim.Optimizer, parameters: Sequence[torch.Tensor], dtype: DType) -> DType:
    """The type of the moments: of those that are there, else torch's habit, the type of the parameter."""
    for parameter in parameters:
        for value in optimizer.state.get(parameter, {}).values():
            if isinstance(value, torch.Tensor) and value.dim() and value.dtype in NAMES:
                return NAMES[value.dtype]
    return dtype


def _median(tensor: torch.Tensor, *, nonzero: bool = False) -> float:
    """Median of |x| over a spread sample of the tensor."""
    flat = plain(tensor).flatten()
    sample = flat[:: max(1, flat.numel() // _SAMPLE)].abs().float()
    sample = sample[sample > 0] if nonzero else sample
    return float(sample.median()) if sample.numel() else 0.0


def _bad_norms(networks: Mapping[str, nn.Module]) -> Iterable[str]:
    """Norms that turn zeros into bad numbers in their type, found by running them."""
    for network, root in networks.items():
        for name, module in root.named_modules():
            has_epsilon = any(isinstance(getattr(module, attribute, None), float) for attribute in _EPSILONS)
            if has_epsilon and _breaks(module):
                yield joined(network, name)


def _breaks(module: nn.Module) -> bool:
    weight = next((p for p in module.parameters(recurse=False) if p.dim() == 1), None)
    if weight is None or any(True for _ in (*module.children(), *module.buffers())):
        return False  # one with running means would count this
    zeros = torch.zeros(1, 1, weight.numel(), dtype=weight.dtype, device=weight.device)
    try:
        with torch.no_grad():
            made = module.forward(zeros)  # no hook is to hear of it
    except (RuntimeError, TypeError, ValueError, IndexError):
        return False  # it wants another shape: a group norm, say, which torch computes in float32
    return any(not math.isfinite(peak(tensor)) for tensor in tensors_in(made))


def _fed(fed: Mapping[str, Any]) -> Iterable[tuple[str, float, float]]:
    for name, value in fed.items():
        for tensor in tensors_in(value):
            if tensor.dim() >= 2 and "mask" not in name:
                yield name, peak(tensor), float(tensor.detach().abs().float().mean())
