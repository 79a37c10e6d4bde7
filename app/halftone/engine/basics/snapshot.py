"""The last good state of a denoising loop. Tensors are copied, since pipelines and schedulers write into what they hold."""

import copy
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils.weak import WeakTensorKeyDictionary

from halftone.engine.basics.tensors import map_tensors


@dataclass(frozen=True)
class Snapshot:
    """After step `step` (0-based). result: what scheduler.step returned; scheduler: its attributes; generator: its state."""

    step: int
    result: Any
    scheduler: dict[str, Any]
    generator: torch.Tensor | None
    began: int = 0
    """The step at which its loop began: a combined pipeline runs several."""
    guiders: tuple[dict[str, Any], ...] = ()
    """What each guider of the pipeline holds: the momentum of a guidance, say."""
    source: Path | None = None
    """The file it was read from, where another flight took it, maybe on another device."""


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


def take(
    step: int, result: Any, scheduler: Any, generator: torch.Generator | None, began: int = 0, guiders: Sequence[Any] = ()
) -> Snapshot:
    """The state now. result is copied: a pipeline may write into its latents afterwards."""
    return Snapshot(
        step,
        map_tensors(result, torch.clone),
        scheduler_state(scheduler),
        None if generator is None else generator.get_state(),
        began,
        tuple(copy.deepcopy(vars(guider)) for guider in guiders),
    )


def _beside(running: Mapping[str, Any], state: Mapping[str, Any]) -> dict[str, Any]:
    """The state with its tensors on the devices where the running scheduler has them: some stay on the CPU in any pipeline."""
    placed = dict(state)
    for name, value in running.items():
        if isinstance(value, torch.Tensor) and isinstance(state.get(name), torch.Tensor):
            placed[name] = state[name].to(value.device)
    return placed


def restore(snapshot: Snapshot, scheduler: Any, generator: torch.Generator | None, guiders: Sequence[Any] = ()) -> None:
    """Put the state back; the snapshot can be restored again."""
    here = snapshot.source is None
    restore_scheduler(scheduler, snapshot.scheduler if here else _beside(vars(scheduler), snapshot.scheduler))
    if generator is not None and snapshot.generator is not None:
        generator.set_state(snapshot.generator)
    for guider, state in zip(guiders, snapshot.guiders, strict=False):
        vars(guider).update(copy.deepcopy(state))


class Keeper:
    """Copies the tensors of nested values. A tensor that is met again unchanged gives the copy that was made before."""

    def __init__(self) -> None:
        self._copies: Any = WeakTensorKeyDictionary()

    def __call__(self, value: Any) -> Any:
        """Copy a nested value."""
        return map_tensors(value, self._copied)

    def _copied(self, tensor: torch.Tensor) -> torch.Tensor:
        if tensor.is_inference():
            return tensor.clone()  # no version to tell a write by
        version = tensor._version  # noqa: SLF001 - the documented way to see a write in place
        known = self._copies.get(tensor)
        if known is None or known[0] != version:
            known = (version, tensor.detach().clone())
            self._copies[tensor] = known
        return known[1]
