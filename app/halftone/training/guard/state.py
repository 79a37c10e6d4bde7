"""The good state of a training: what is kept of it, how much that costs, and how it comes back; where random numbers stand."""

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import torch
from torch import nn

from halftone.measure.randomness import TorchState, accelerators_among
from halftone.training.guard.finite import bad_among, read
from halftone.training.guard.networks import named_buffers, optimized, state_tensors
from halftone.training.guard.optimizers import Masters
from halftone.training.guard.protection import HostRing, LastGood
from halftone.training.guard.update import (
    BadUpdate,
    Judged,
    impossible_rate,
    is_bad_moment,
    judged,
    needs_copy,
    update_is_safe,
    verdict,
)

_LOOKED_AT: Final = 2**16
"""Numbers of a buffer that is read after each pass."""


class GoodState:
    """Counts the good steps and keeps the state after the last one.

    Trained weights and moments are copied where that is little, or where finite gradients could spoil them; large ones in float32
    or bfloat16 are judged by the norm of the gradients and the optimizer's settings, with the states on the host as a reserve.
    """

    def __init__(
        self,
        networks: Mapping[str, nn.Module],
        parameters: Mapping[str, torch.Tensor],
        optimizer: torch.optim.Optimizer,
        *,
        every: int,
        keep: int,
    ) -> None:
        self.steps = 0
        self._optimizer = optimizer
        names = {id(parameter): name for name, parameter in parameters.items()}
        self._names = names
        self.trained = {names[id(p)]: p for _, p in optimized(optimizer)}
        self._buffers = named_buffers(networks)
        self.running = LastGood(self._buffers, None)
        """Running means and the like as they were before the pass."""
        self._meant: set[str] = set()
        self.exact = needs_copy(optimizer)
        self._last = LastGood(self.trained, optimizer) if self.exact else None
        self._once: LastGood | None = None
        self._host = every, keep
        self.ring = self._new_ring()
        """States on the host."""
        self._sizes: dict[str, float] = {}
        self._given = [id(parameter) for _, parameter in optimized(optimizer)]
        self.masters: Masters | None = None

    @property
    def memory(self) -> int:
        """Bytes of the copies beside the weights."""
        return self.running.memory + (self._last.memory if self._last else 0)

    def name_of(self, parameter: torch.Tensor) -> str:
        """The name of a parameter, or of the one that it is a master of."""
        return self._names.get(id(parameter), "parameter")

    def named(self, name: str) -> torch.Tensor | None:
        """What the optimizer changes under this name."""
        return next((p for _, p in optimized(self._optimizer) if self._names.get(id(p)) == name), None)

    def follow(self) -> dict[str, torch.Tensor]:
        """What the script gave the optimizer since is kept and judged from now on. Gives what had no name yet, by its new one."""
        now = [parameter for _, parameter in optimized(self._optimizer)]
        if (given := list(map(id, now))) == self._given:
            return {}
        self._given = given
        fresh = {f"parameter {len(self._names) + place}": p for place, p in enumerate(p for p in now if id(p) not in self._names)}
        self._names |= {id(parameter): name for name, parameter in fresh.items()}
        masters = {id(master) for _, master in self.masters.pairs} if self.masters is not None else set[int]()
        self.trained |= {self._names[id(p)]: p for p in now if id(p) not in masters}
        self.exact = self.masters is not None or needs_copy(self._optimizer)
        self._last = LastGood({**self.trained, **self._wide()}, self._optimizer) if self.exact else None
        self.ring = self._new_ring()
        return fresh

    def _new_ring(self) -> HostRing:
        every, keep = self._host
        held = {**self.trained, **self._buffers}
        ring = HostRing(held, self._optimizer, every=0 if self.exact else every, keep=keep)
        ring.offer(self.steps)
        return ring

    def _wide(self) -> dict[str, torch.Tensor]:
        """Masters by name."""
        pairs = self.masters.pairs if self.masters is not None else ()
        return {f"{self._names[id(master)]} (master)": master for _, master in pairs}

    def before_update(self, norm: float) -> None:
        """The optimizer is about to step, with gradients of this norm."""
        if self._last is None:
            self._once = None if update_is_safe(self._optimizer, norm) else LastGood(self.trained, self._optimizer)

    def impossible(self) -> BadUpdate | None:
        """Before the optimizer's step: settings that can only spoil the weights."""
        return impossible_rate(self._optimizer, self._names)

    def judge(self) -> BadUpdate | None:
        """What the optimizer's step spoiled, if anything."""
        what = self.judged()
        return None if what is None else self.verdict(what, read(what.scalars))

    def judged(self) -> Judged | None:
        """What to read of the optimizer's step, None where it could spoil nothing. Does not wait."""
        return None if (self._last or self._once) is None else judged(self._optimizer, self._names)

    def verdict(self, what: Judged, found: Sequence[float]) -> BadUpdate | None:
        """What the step spoiled, if anything. found: what the scalars say."""
        kept = self._last or self._once
        return None if kept is None else verdict(what, found, kept, self._optimizer, self._sizes)

    def undo(self) -> None:
        """The state before the optimizer's step."""
        kept = self._last or self._once
        if kept is not None:
            kept.put_back()

    def accept(self) -> None:
        """The step was good."""
        self.steps += 1
        self._once = None
        self._keep()
        self.ring.offer(self.steps)

    def begin_at(self, steps: int) -> None:
        """What stands there now is the state after so many steps."""
        self.steps = steps
        self.keep()
        self.ring.begin_at(steps)

    def keep(self) -> None:
        """What stands there now is good, though the optimizer did not make it."""
        self._sizes.clear()
        self._keep()

    def declare(self) -> None:
        """The script declares what stands there now as meant: older states would undo it."""
        self.take_over()
        self.ring.begin_at(self.steps)

    def _keep(self) -> None:
        self.running.keep()
        if self._last is not None:
            self._last.keep()

    def take_over(self) -> None:
        """Accept sound numbers that other code wrote: training continues from them."""
        if self.masters is not None:
            self.masters.read()
        self.keep()

    def spoiled(self) -> list[str]:
        """Parameters that are bad, or whose moments are, and were not when the state was kept. Waits for the device."""
        bad = [name for name in bad_among(self.trained) if self._last is None or self._last.was_finite(self.trained[name])]
        return [*bad, *(self._names[id(p)] for p, name, value in state_tensors(self._optimizer) if is_bad_moment(name, value))]

    def buffers(self) -> dict[str, torch.Tensor]:
        """Running means and the like that are looked at after each pass: large ones are tables, and hold what they held."""
        return {
            name: buffer
            for name, buffer in self._buffers.items()
            if buffer.is_floating_point() and buffer.numel() <= _LOOKED_AT and name not in self._meant
        }

    def bad_buffers(self, names: Sequence[str]) -> list[str]:
        """Which of these buffers are bad and were not before the pass. What was bad then is meant."""
        bad = bad_among({name: self._buffers[name] for name in names})
        fresh = [name for name in bad if self.running.was_finite(self._buffers[name])]
        self._meant |= set(bad) - set(fresh)
        return fresh

    def running_means(self) -> LastGood:
        """A copy of running means and the like as they are now."""
        return LastGood(self._buffers, None)

    def put_back(self) -> int | None:
        """The last good state; the steps after which it was kept, None when there is none."""
        self.running.put_back()
        if self._last is not None:
            self.undo()
            return self.steps
        step = self.ring.put_back()
        if step is not None:
            self.steps = step
        return step

    def take_masters(self, masters: Masters) -> None:
        """The optimizer works on masters from now on."""
        self.masters = masters
        for parameter, master in masters.pairs:
            self._names[id(master)] = self._names[id(parameter)]
        self.exact = True
        self.ring.clear()
        self._last = LastGood({**self.trained, **self._wide()}, self._optimizer)


def accelerators_of(networks: Mapping[str, nn.Module]) -> tuple[torch.device, ...]:
    """The devices that networks lie on and that have random numbers of their own, each once."""
    return accelerators_among(p.device for network in networks.values() for p in network.parameters())


@dataclass(frozen=True)
class RandomState:
    """The states of torch, NumPy's global generator and Python's: all that a loss function may draw from."""

    tensors: TorchState
    numpy: dict[str, Any]
    python: tuple[Any, ...]

    @classmethod
    def now(cls, accelerators: Iterable[torch.device]) -> "RandomState":
        return cls(TorchState.now(accelerators), np.random.get_state(legacy=False), random.getstate())

    def put_back(self) -> None:
        """Restore the random numbers to this state."""
        self.tensors.put_back()
        np.random.set_state(self.numpy)
        random.setstate(self.python)
