"""The optimizers that a guard steps: one, or several that train parts of one network on the same loss (Muon beside AdamW).

Also how many losses make one step, and float32 masters of 16-bit parameters. Mixed precision training asks for these
(Micikevicius et al., arXiv 1710.03740): updates that are small against the weights are not lost, and the optimizer's moments
neither underflow nor overflow.
"""

import sys
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
    """Step a schedule; one that waits for a plateau gets the loss."""
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
    """Make one optimizer of one or several; without Accelerate's wrapper, whose `step` does nothing while it gathers."""
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


class Masters:
    """Puts masters in the place of an optimizer's 16-bit parameters. Its moments so far are carried over in float32."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self._optimizer = optimizer
        self.pairs: list[tuple[torch.Tensor, torch.Tensor]] = []
        self._put()

    @property
    def memory(self) -> int:
        """Bytes of the masters."""
        return sum(master.numel() * master.element_size() for _, master in self.pairs)

    def hand_over(self) -> None:
        """The gradients of the parameters become those of the masters."""
        for parameter, master in self.pairs:
            master.grad = None if parameter.grad is None else parameter.grad.detach().float()

    @torch.no_grad()
    def write_back(self) -> None:
        """What the optimizer made of the masters becomes the parameters."""
        for parameter, master in self.pairs:
            parameter.detach().copy_(master)

    @torch.no_grad()
    def read(self) -> None:
        """Parameters that were changed elsewhere: their masters begin there. Those that only round their masters keep them."""
        for parameter, master in self.pairs:
            if not torch.equal(parameter, master.to(parameter.dtype)):
                master.copy_(parameter)

    def _put(self) -> None:
        for optimizer in members(self._optimizer):
            state = cast("dict[torch.Tensor, dict[str, Any]]", optimizer.state)
            for group in optimizer.param_groups:
                group["params"] = [self._master(parameter, state) for parameter in group["params"]]

    def _master(self, parameter: torch.Tensor, state: dict[torch.Tensor, dict[str, Any]]) -> torch.Tensor:
        if not is_narrow(parameter):
            return parameter
        master = parameter.detach().float().requires_grad_(parameter.requires_grad)
        self.pairs.append((parameter, master))
        if parameter in state:
            state[master] = {name: _wide(value) for name, value in state.pop(parameter).items()}
        return master


def is_narrow(parameter: torch.Tensor) -> bool:
    """Whether it has fewer bits than a master."""
    return parameter.is_floating_point() and parameter.element_size() < 4


def _wide(value: Any) -> Any:
    return value.float() if isinstance(value, torch.Tensor) and is_narrow(value) else value


class Accumulation:
    """losses: as the script gave it, or None. optimizers: as the script gave them, prepared or not."""

    def __init__(self, losses: int | None, optimizers: Sequence[torch.optim.Optimizer]) -> None:
        self._given = losses
        self._prepared = next((one for one in optimizers if is_prepared(one)), None)
        self._accelerate: Any = None
        self._gathers = False

    def begin(self) -> None:
        """A loss comes: look whether Accelerate gathers. Raises ValueError where it and the script say different numbers."""
        state = self._state()
        self._accelerate = state if state is not None and state.num_steps > 1 else None
        if self._accelerate is not None and self._given not in (None, self._accelerate.num_steps):
            raise ValueError(
                f"accumulate is {self._given}, but Accelerate gathers {self._accelerate.num_steps} losses for one step: "
                "leave accumulate out, and Accelerate decides"
            )

    @property
    def losses(self) -> int:
        """Losses of one step: each counts 1 / losses."""
        return self._accelerate.num_steps if self._accelerate is not None else self._given or 1

    @property
    def is_outside(self) -> bool:
        """Whether Accelerate decides when a step ends."""
        return self._accelerate is not None

    def ends(self, count: int) -> bool:
        """Whether the step ends with this loss. count: losses of this step so far, this one included."""
        if self._accelerate is None:
            return count >= self.losses
        if not self._accelerate.sync_gradients and count > self.losses:
            otherwise = ", or give the guard accumulate=1" if self._prepared is None else ""
            raise RuntimeError(
                f"Accelerate gathers {self.losses} losses for one step, but {count} came and the step did not end: "
                f"call the guard inside `with accelerator.accumulate(model)`{otherwise}"
            )
        return bool(self._accelerate.sync_gradients)

    def _state(self) -> Any:
        """Accelerate's state of gathering; None where it does not decide for these optimizers.

        It holds one state for the whole process. An optimizer that it did not prepare may have nothing to do with it, so that
        follows the state only after a loss came while Accelerate was gathering, and only if the script gave no number.
        """
        if self._prepared is not None:
            return self._prepared.gradient_state  # type: ignore[attr-defined]
        module = sys.modules.get("accelerate.state")  # never imported here: a script that gathers with it has it
        if self._given is not None or module is None or not (state := module.GradientState()).initialized:
            return None
        self._gathers = self._gathers or not state.sync_gradients
        return state if self._gathers else None
