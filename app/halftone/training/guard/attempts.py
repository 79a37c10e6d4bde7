"""One attempt at a step: forward where a function is given, backward, the optimizer's step, and the looks between."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import torch

from halftone.contract.training import Omen
from halftone.training.guard.activations import ActivationWatch
from halftone.training.guard.backward import GradientWatch
from halftone.training.guard.curing import Curing
from halftone.training.guard.forecast import forecast
from halftone.training.guard.networks import Networks, optimized
from halftone.training.guard.problem import Problem
from halftone.training.guard.replay import Calls
from halftone.training.guard.state import GoodState
from halftone.training.guard.targets import bad_target

_SQUARES: Final = 1e15
"""Numbers beyond this one may be finite where the norm that was taken of them is not."""
_UPDATES: Final = 3
"""Times that the optimizer's step is made again under a cure of its own."""


@dataclass(frozen=True)
class Attempt:
    """problem: why it was thrown away; noticed: what the optimizer had to be cured of, in so many tries, before it was good."""

    loss: float
    applied: bool
    norm: float | None
    problem: Problem | None
    noticed: Problem | None = None
    tries: int = 0


class Attempts:
    """Makes attempts. After one that went wrong weights, moments, gradients and running means are as before it."""

    def __init__(
        self,
        activations: ActivationWatch,
        calls: Calls,
        gradients: GradientWatch,
        good: GoodState,
        curing: Curing,
        optimizer: torch.optim.Optimizer,
        *,
        scheduler: Any,
        clip: float | None,
        accumulate: int,
        cures: bool,
    ) -> None:
        self._activations = activations
        self._calls = calls
        self._gradients = gradients
        self._good = good
        self._curing = curing
        self._optimizer = optimizer
        self.scheduler = scheduler
        self.clip = clip
        self._accumulate = accumulate
        self._cures = cures
        self.before_first: Callable[[], None] | None = None
        """Called once, when the first gradients are there and no weight was changed yet."""
        self._count = 0

    @property
    def surroundings(self) -> dict[str, str]:
        """What the last forward pass ran in."""
        return self._calls.surroundings

    def make(self, loss: torch.Tensor | Callable[[], torch.Tensor]) -> Attempt:
        """loss: a scalar, or what computes it."""
        if callable(loss):
            self._begin()
            loss = loss()
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:  # pyright: ignore[reportUnnecessaryIsInstance] - see core
            raise TypeError(f"the loss of a step is a tensor with one number, or a function that gives one; it was {_form(loss)}")
        value = float(loss.detach())
        problem = self._forward_problem(loss, value)
        norm: float | None = None
        total: torch.Tensor | None = None
        if problem is None:
            gathered = self._gradients.take()
            self._scaled(loss / self._accumulate).backward()
            total = self._gradients.norm()
            norm = self._gradients.finite_norm(total)
            problem = None if math.isfinite(norm) else self._backward_problem()
            self._gradients.give_back(gathered, add=problem is None)
        attempt = self._judged(value, norm, problem, total if norm == float(total or 0.0) else None)
        self._begin()
        return attempt

    def _judged(self, value: float, norm: float | None, problem: Problem | None, total: torch.Tensor | None) -> Attempt:
        if problem is not None:
            self._good.forget_forward()
            return Attempt(value, False, norm, problem)
        self._count += 1
        if self._count < self._accumulate:
            return Attempt(value, False, self._unscaled(norm), None)
        return self._update(value, total if self._accumulate == 1 else None)

    def forecast(self, networks: Networks) -> tuple[Omen, ...]:
        """What is known to go wrong, from what there is by now: after the first way back also gradients and what was fed."""
        return forecast(
            networks,
            self._optimizer,
            clip=self.clip,
            scaler=self._curing.scaler,
            autocast=self._calls.autocast(),
            fed=self._calls.fed(),
        )

    def pass_over(self) -> None:
        """A loss is not used: what its passes left is forgotten, and the next step begins."""
        self._begin()
        self._good.forget_forward()

    def remove(self) -> None:
        """Take all hooks off."""
        self._activations.remove()
        self._calls.remove()
        self._gradients.remove()

    def _begin(self) -> None:
        self._activations.begin()
        self._calls.begin()

    def _scaled(self, loss: torch.Tensor) -> torch.Tensor:
        scaler = self._curing.scaler
        return loss if scaler is None else scaler.scale(loss)

    def _unscaled(self, norm: float | None) -> float | None:
        scale = self._curing.scale
        return norm if norm is None or not scale else norm / scale

    # -- looks -----------------------------------------------------------------------------------------------------------------

    def _forward_problem(self, loss: torch.Tensor, value: float) -> Problem | None:
        layers = self._activations.bad()
        if math.isfinite(value) and not layers:
            return None
        self._activations.paused = True
        after = self._good.running_means()
        try:
            self._good.forget_forward()
            origin = self._calls.origin()
        finally:
            self._activations.paused = False
        if origin is None and math.isfinite(value) and self._calls.largest > _SQUARES:
            after.put_back()
            return None
        if origin is not None:
            row = {"data-nonfinite": "loss", "weights-nonfinite": "weights"}.get(origin.cause, "activations")
            return Problem(
                origin.cause,
                row,  # pyright: ignore[reportArgumentType]
                origin.name,
                origin.network,
                origin.module,
                origin.kind,
                origin.dtype,
                origin.peak,
                origin.further,
            )
        if layers:
            return Problem("activation-nonfinite", "activations", layers[0], further=tuple(layers[1:9]))
        if bad_target(loss):
            return Problem("data-nonfinite", "loss", "target")
        narrow = loss.element_size() < 4
        return Problem("loss-overflow" if narrow else "loss-nonfinite", "loss", "loss", dtype=loss.dtype, peak=abs(value))

    def _backward_problem(self) -> Problem:
        bad = self._gradients.bad()
        first = bad[0] if bad else ""
        if self._curing.scaler is not None:
            return Problem("loss-scale", "gradients", first, further=tuple(bad[1:9]), peak=self._gradients.peak(first))
        network, module = self._calls.owner(first)
        dtype = self._calls.computes_in(network, module)
        narrow = dtype in (torch.float16, torch.bfloat16)
        overflows = narrow or self._gradients.peak(first) == math.inf
        cause = "gradient-overflow" if overflows else "gradient-nonfinite"
        return Problem(cause, "gradients", first, network, module, dtype=dtype, further=tuple(bad[1:9]))

    # -- the optimizer ---------------------------------------------------------------------------------------------------------

    def _update(self, value: float, total: torch.Tensor | None) -> Attempt:
        """The optimizer's step, made again under cures of its own: they need no new pass."""
        self._count = 0
        if self.before_first is not None:
            self.before_first, look = None, self.before_first
            look()
        norm = self._prepared(total)
        self._good.before_update(norm)
        first = problem = self._stepped()
        tries = 0
        while problem is not None:
            self._good.undo()
            if not self._cures or tries == _UPDATES or not self._curing.cure_optimizer(problem, self._good):
                self._close()
                return Attempt(value, False, norm, first)
            if self._good.masters is not None:
                self._good.masters.hand_over()
            tries += 1
            problem = self._stepped()
        self._accept()
        return Attempt(value, True, norm, None, first, tries)

    def _prepared(self, total: torch.Tensor | None) -> float:
        """Gradients handed to masters, unscaled, clipped. Gives their norm before that. total: that norm, if it is known."""
        if self._good.masters is not None:
            self._good.masters.hand_over()
        trained = [p for _, p in optimized(self._optimizer) if p.grad is not None]
        if self._curing.scaler is not None:
            self._curing.scaler.unscale_(self._optimizer)
        if total is None or self._curing.scaler is not None or self._good.masters is not None:
            total = torch.nn.utils.get_total_norm([p.grad for p in trained if p.grad is not None])
        if self.clip is not None:
            torch.nn.utils.clip_grads_with_norm_(trained, self.clip, total)
        return float(total)

    def _stepped(self) -> Problem | None:
        bad = self._good.impossible()
        if bad is None:
            self._step()
            bad = self._good.judge()
        if bad is None:
            return None
        return Problem(
            bad.cause,
            "optimizer",
            bad.name,
            kind=type(self._optimizer).__name__,
            dtype=bad.dtype,
            peak=bad.peak,
            further=bad.further,
            cure=bad.cure,
        )

    def _step(self) -> None:
        try:
            self._optimizer.step()
            if self._good.masters is not None:
                self._good.masters.write_back()
        except BaseException:
            self._good.undo()  # it may have written a part of the weights
            raise

    def _close(self) -> None:
        """The gradients were finite, and are used or given up."""
        if self._curing.scaler is not None:
            self._curing.scaler.update()
        self._gradients.clear()
        self._optimizer.zero_grad(set_to_none=True)

    def _accept(self) -> None:
        self._close()
        if self.scheduler is not None:
            self.scheduler.step()
        self._good.accept()


def _form(given: object) -> str:
    return f"a tensor of the shape {tuple(given.shape)}" if isinstance(given, torch.Tensor) else f"a {type(given).__name__}"
