"""The optimizers that a guard steps: one, or several that train parts of one network on the same loss (Muon beside AdamW)."""

from collections.abc import Callable, Iterator, MutableMapping, Sequence
from typing import Any, cast

import torch

State = dict[str, Any]


class Together(torch.optim.Optimizer):
    """Several optimizers as one. Groups and state are those of the members: what is written here is written there."""

    def __init__(self, members: Sequence[torch.optim.Optimizer]) -> None:  # torch's own constructor would make new groups
        self.members = tuple(members)
        self.defaults = {}

    @property
    def param_groups(self) -> list[dict[str, Any]]:  # type: ignore[override]
        """Groups of all members, in order."""
        return [group for member in self.members for group in member.param_groups]

    @property
    def state(self) -> "_States":  # type: ignore[override]
        """Moments of all members, by parameter."""
        return _States(self.members)

    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Step each member."""
        del closure
        for member in self.members:
            member.step()

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Drop the gradients of each member."""
        for member in self.members:
            member.zero_grad(set_to_none=set_to_none)


class Schedules:
    """Several schedules of the learning rate, stepped together."""

    def __init__(self, schedules: Sequence[Any]) -> None:
        self._schedulers = list(schedules)  # the name that torch's own SequentialLR has

    def step(self, loss: float) -> None:
        """Step each."""
        for one in self._schedulers:
            step_schedule(one, loss)


def step_schedule(schedule: Any, loss: float) -> None:
    """Step a schedule; the one that waits for a plateau is told the loss."""
    if isinstance(schedule, (Schedules, torch.optim.lr_scheduler.ReduceLROnPlateau)):
        schedule.step(loss)
    else:
        schedule.step()


class _States(MutableMapping[torch.Tensor, State]):
    """The state of several optimizers, by parameter."""

    def __init__(self, members: Sequence[torch.optim.Optimizer]) -> None:
        self._members = members

    def __getitem__(self, parameter: torch.Tensor) -> State:
        for held in self._held():
            if parameter in held:  # they are defaultdicts: asking for what is not there would make it
                return held[parameter]
        raise KeyError(parameter)

    def __setitem__(self, parameter: torch.Tensor, state: State) -> None:
        cast("dict[torch.Tensor, State]", owner_of(parameter, self._members).state)[parameter] = state

    def __delitem__(self, parameter: torch.Tensor) -> None:
        for held in self._held():
            held.pop(parameter, None)

    def __iter__(self) -> Iterator[torch.Tensor]:
        return (parameter for held in self._held() for parameter in held)

    def __len__(self) -> int:
        return sum(len(held) for held in self._held())

    def _held(self) -> list[dict[torch.Tensor, State]]:
        return [cast("dict[torch.Tensor, State]", member.state) for member in self._members]


def as_one(optimizers: Sequence[torch.optim.Optimizer]) -> torch.optim.Optimizer:
    """One optimizer for one or several; those that Accelerate prepared without its wrapper, whose `step` does nothing while
    it gathers.
    """
    plain = [unwrapped(one) for one in optimizers]
    return plain[0] if len(plain) == 1 else Together(plain)


def unwrapped(optimizer: torch.optim.Optimizer) -> torch.optim.Optimizer:
    """The optimizer inside the one that Accelerate prepared; another one as it is."""
    return optimizer.optimizer if is_prepared(optimizer) else optimizer  # type: ignore[attr-defined]


def is_prepared(optimizer: object) -> bool:
    """Whether Accelerate prepared it."""
    return type(optimizer).__module__.startswith("accelerate.") and hasattr(optimizer, "gradient_state")


def scaler_of(optimizer: torch.optim.Optimizer) -> torch.amp.GradScaler | None:
    """The GradScaler that Accelerate gave an optimizer which it prepared."""
    return optimizer.scaler if is_prepared(optimizer) else None  # type: ignore[attr-defined]


def members(optimizer: torch.optim.Optimizer) -> tuple[torch.optim.Optimizer, ...]:
    """The optimizers that one stands for: itself, unless it is several together."""
    return optimizer.members if isinstance(optimizer, Together) else (optimizer,)


def owner_of(parameter: torch.Tensor, optimizers: Sequence[torch.optim.Optimizer]) -> torch.optim.Optimizer:
    """The one that trains a parameter; the first where none does."""
    return next((one for one in optimizers if any(parameter is p for g in one.param_groups for p in g["params"])), optimizers[0])


def kind_of(optimizer: torch.optim.Optimizer, parameter: torch.Tensor | None = None) -> str:
    """Class of the optimizer that trains a parameter."""
    several = members(optimizer)
    return type(several[0] if parameter is None else owner_of(parameter, several)).__name__
