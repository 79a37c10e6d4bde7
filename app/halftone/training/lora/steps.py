"""One step of the optimizer: under the guard, or without it where the user switched it off."""

import time
from collections.abc import Callable, Sequence
from typing import Protocol

import torch

from halftone.contract.training import Omen, TrainCure
from halftone.training.guard import StepReport
from halftone.training.guard.curing import Curing

Loss = Callable[[], torch.Tensor]


class Stepper(Protocol):
    """What the training needs of a guard."""

    omens: tuple[Omen, ...]

    @property
    def steps(self) -> int:
        """Steps of the optimizer so far."""
        ...

    @property
    def cures(self) -> tuple[tuple[TrainCure, str], ...]: ...

    def step(self, loss: Loss, *, items: Sequence[str] = ()) -> StepReport: ...

    def go_on(self, steps: int, cures: Sequence[tuple[TrainCure, str]] = ()) -> None: ...

    def remove(self) -> None: ...


class Unguarded:
    """Steps without any look at the numbers. Cures of a resumed run stay in force: they decide what it computes."""

    omens: tuple[Omen, ...] = ()

    def __init__(
        self,
        network: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        schedule: torch.optim.lr_scheduler.LRScheduler,
        scaler: torch.amp.GradScaler | None,
        *,
        clip: float | None,
        accumulate: int,
    ) -> None:
        self._curing = Curing({"": network}, optimizer, None)
        self._optimizer = optimizer
        self._schedule = schedule
        self._scaler = scaler or torch.amp.GradScaler(enabled=False)
        self._clip = clip
        self._accumulate = accumulate
        self._gathered = 0
        self.steps = 0

    def go_on(self, steps: int, cures: Sequence[tuple[TrainCure, str]] = ()) -> None:
        """Continue a stopped training after so many steps."""
        self.steps = steps
        self._curing.put(cures)

    @property
    def cures(self) -> tuple[tuple[TrainCure, str], ...]:
        """Return the cures, as `TrainingGuard.cures`."""
        return self._curing.in_force

    def step(self, loss: Loss, *, items: Sequence[str] = ()) -> StepReport:
        """Make a step, as `TrainingGuard.step`."""
        del items
        started = time.perf_counter()
        value = loss()
        self._scaler.scale(value / self._accumulate).backward()
        self._gathered += 1
        applied, norm = self._update() if self._gathered == self._accumulate else (False, None)
        scale = self._scaler.get_scale() if self._scaler.is_enabled() else None
        seconds = time.perf_counter() - started
        step = self.steps + (not applied)
        return StepReport(step, float(value.detach()), applied, norm, scale, 0, seconds, ())

    def remove(self) -> None:
        """Take the cures off the network."""
        self._curing.remove()

    def _update(self) -> tuple[bool, float]:
        """(whether it is a step, norm of the gradients). One that the scaler left out is none, while a smaller scale may help."""
        self._scaler.unscale_(self._optimizer)
        trained = [p for group in self._optimizer.param_groups for p in group["params"] if p.grad is not None]
        norm = torch.nn.utils.clip_grad_norm_(trained, self._clip or float("inf"))
        scale = self._scaler.get_scale()
        self._scaler.step(self._optimizer)
        self._scaler.update()
        self._optimizer.zero_grad(set_to_none=True)
        self._gathered = 0
        made = self._scaler.get_scale() >= scale
        if made:
            self._schedule.step()
        applied = made or scale <= 1.0
        self.steps += applied
        return applied, float(norm)
