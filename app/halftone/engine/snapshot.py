"""The last good state of a denoising loop: what has to be put back to go on from there."""

from collections import deque
from dataclasses import dataclass
from typing import Any

import torch


@dataclass(frozen=True)
class Snapshot:
    """After step `step` (0-based). result: what scheduler.step returned; scheduler: its attributes; generator: its state."""

    step: int
    result: Any
    scheduler: dict[str, Any]
    generator: torch.Tensor | None
    began: int = 0
    """The step at which its loop began: a combined pipeline runs several."""


def _copied(value: Any) -> Any:
    """Containers are copied one level deep: schedulers replace the tensors inside, but change their lists in place."""
    return value.copy() if type(value) in (list, dict, set, deque) else value


def scheduler_state(scheduler: Any) -> dict[str, Any]:
    """Every attribute of a scheduler save its replaced methods."""
    return {name: _copied(value) for name, value in vars(scheduler).items() if not callable(value) or name == "noise_sampler"}


def restore_scheduler(scheduler: Any, state: dict[str, Any]) -> None:
    kept = {name: value for name, value in vars(scheduler).items() if callable(value) and name not in state}
    scheduler.__dict__.clear()
    scheduler.__dict__.update({name: _copied(value) for name, value in state.items()})
    scheduler.__dict__.update(kept)


def take(step: int, result: Any, scheduler: Any, generator: torch.Generator | None, began: int = 0) -> Snapshot:
    return Snapshot(step, result, scheduler_state(scheduler), None if generator is None else generator.get_state(), began)


def restore(snapshot: Snapshot, scheduler: Any, generator: torch.Generator | None) -> None:
    restore_scheduler(scheduler, snapshot.scheduler)
    if generator is not None and snapshot.generator is not None:
        generator.set_state(snapshot.generator)
