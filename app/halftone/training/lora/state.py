"""Everything that a training resumes from, in one safetensors file: it decides every bit of what follows."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import msgspec
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save

from halftone.contract.errors import HalftoneError
from halftone.contract.training import Caught, TrainCure
from halftone.contract.vocabulary import DType

_KEY: Final = "halftone.training"
_LORA: Final = "lora/"
_MOMENT: Final = "moment/"
_GENERATOR: Final = "generator"
_CURVE: Final = "curve"
_RATES: Final = ("last_epoch", "_step_count", "base_lrs", "_last_lr")


class Note(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The values besides tensors. step: done so far; model: fingerprint of the base; dtype: of the denoiser; left: batches of
    this round; out: pictures left out; groups: settings of the optimizer; schedule, scaler: their states; losses: of the last
    steps; seconds: so far.
    """

    step: int
    model: str
    dtype: DType
    left: list[tuple[str, ...]]
    out: list[str]
    groups: list[dict[str, Any]]
    schedule: dict[str, Any]
    scaler: dict[str, Any] | None = None
    cures: list[tuple[TrainCure, str]] = []
    caught: list[Caught] = []
    losses: list[float] = []
    seconds: float = 0.0


class State(msgspec.Struct, frozen=True, kw_only=True):
    """moments: parameter -> name -> value; curve: (2, steps), losses and gradient norms, None in older files."""

    note: Note
    weights: dict[str, torch.Tensor]
    moments: dict[str, dict[str, torch.Tensor]]
    generator: torch.Tensor
    curve: torch.Tensor | None = None


def packed(state: State) -> bytes:
    """The file."""
    tensors = {f"{_LORA}{name}": value for name, value in state.weights.items()}
    tensors |= {f"{_MOMENT}{name}/{key}": value for name, own in state.moments.items() for key, value in own.items()}
    tensors[_GENERATOR] = state.generator
    if state.curve is not None and state.curve.numel():
        tensors[_CURVE] = state.curve
    ready = {name: value.detach().cpu().contiguous() for name, value in tensors.items()}
    return save(ready, {_KEY: msgspec.json.encode(state.note).decode()})


def read_state(path: Path) -> State:
    """Raises FileNotFoundError, and HalftoneError train-state-unreadable."""
    if not path.exists():
        raise FileNotFoundError(path)
    try:
        with safe_open(path, "pt") as file:
            note = msgspec.json.decode(file.metadata()[_KEY], type=Note)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - a handle, no mapping
        weights = {name.removeprefix(_LORA): value for name, value in tensors.items() if name.startswith(_LORA)}
        moments: dict[str, dict[str, torch.Tensor]] = {}
        for name, value in tensors.items():
            if name.startswith(_MOMENT):
                parameter, _, key = name.removeprefix(_MOMENT).rpartition("/")
                moments.setdefault(parameter, {})[key] = value
        return State(note=note, weights=weights, moments=moments, generator=tensors[_GENERATOR], curve=tensors.get(_CURVE))
    except (OSError, SafetensorError, msgspec.MsgspecError, KeyError, TypeError) as error:
        raise HalftoneError("train-state-unreadable", str(error), path=str(path)) from error


# --- optimizer and schedule ----------------------------------------------------------------------------------------------


def moments_of(optimizer: torch.optim.Optimizer, names: Mapping[torch.Tensor, str]) -> dict[str, dict[str, torch.Tensor]]:
    """What the optimizer keeps of each parameter; numbers become tensors of no dimension."""
    found: dict[str, dict[str, torch.Tensor]] = {}
    for parameter, own in _states(optimizer).items():
        kept = {key: _tensor(value) for key, value in own.items() if isinstance(value, (torch.Tensor, int, float))}
        found[names[parameter]] = kept
    return found


def put_moments(
    optimizer: torch.optim.Optimizer, parameters: Mapping[str, torch.Tensor], moments: Mapping[str, Mapping[str, torch.Tensor]]
) -> None:
    """Counters of steps stay on the CPU, as torch keeps them."""
    states = _states(optimizer)
    for name, own in moments.items():
        parameter = parameters[name]
        states[parameter] = {key: _value(key, value, parameter) for key, value in own.items()}


def groups_of(optimizer: torch.optim.Optimizer) -> list[dict[str, Any]]:
    """Settings of each group that are numbers, words or switches (Prodigy keeps its estimate there)."""
    return [{key: _plain(value) for key, value in group.items() if key != "params"} for group in optimizer.param_groups]


def put_groups(optimizer: torch.optim.Optimizer, groups: list[dict[str, Any]]) -> None:
    for group, kept in zip(optimizer.param_groups, groups, strict=True):
        group.update({key: _like(value, group.get(key)) for key, value in kept.items()})


def _like(value: Any, now: Any) -> Any:
    """What `_plain` made of a setting, in the type that it has in a new optimizer."""
    if isinstance(now, tuple):
        return tuple(value)
    return float(value) if isinstance(now, float) and isinstance(value, str) else value


def schedule_note(schedule: torch.optim.lr_scheduler.LRScheduler) -> dict[str, Any]:
    """State of the schedule of the rate."""
    return {name: getattr(schedule, name) for name in _RATES}


def put_schedule(schedule: torch.optim.lr_scheduler.LambdaLR, note: Mapping[str, Any]) -> None:
    """Put a schedule where it stood. The rate comes from the schedule itself: with more steps than before it is another."""
    vars(schedule).update(note)
    for group, base, factor in zip(schedule.optimizer.param_groups, schedule.base_lrs, schedule.lr_lambdas, strict=True):
        group["lr"] = base * factor(schedule.last_epoch)


def _states(optimizer: torch.optim.Optimizer) -> dict[torch.Tensor, dict[str, Any]]:
    return optimizer.state


def _tensor(value: torch.Tensor | float) -> torch.Tensor:
    return value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=torch.float64)


def _value(key: str, value: torch.Tensor, parameter: torch.Tensor) -> Any:
    if value.dtype == torch.float64:  # no optimizer keeps such moments: it was a plain number
        number = float(value)
        return int(number) if number.is_integer() and key == "step" else number
    return value.clone() if value.dim() == 0 and key == "step" else value.to(parameter.device, copy=True)


def _plain(value: Any) -> Any:
    """A value for JSON; an infinity (the growth that Prodigy allows) becomes a word."""
    if isinstance(value, torch.Tensor):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return json.loads(json.dumps(value)) if isinstance(value, (list, tuple)) else value
