"""One attempt at a step: forward where a function is given, backward, the optimizer's step, and the looks between."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from halftone.contract.training import Cause, Omen
from halftone.training.guard.activations import ActivationWatch
from halftone.training.guard.backward import GradientWatch
from halftone.training.guard.curing import Curing
from halftone.training.guard.finite import read
from halftone.training.guard.forecast import forecast
from halftone.training.guard.networks import Networks
from halftone.training.guard.problem import Problem
from halftone.training.guard.replay import Calls, Origin
from halftone.training.guard.state import GoodState
from halftone.training.guard.targets import any_bad, targets_of
from halftone.training.guard.update import SAFE_GRADIENT
from halftone.training.guard.updates import Ahead, Updates

_SQUARES: Final = 1e15
"""Numbers beyond this one may be finite where the norm that was taken of them is not."""


@dataclass(frozen=True)
class Attempt:
    """problem: why it was thrown away; noticed: what the optimizer had to be cured of, in so many tries, before it was good;
    scale: of the loss.
    """

    loss: float
    applied: bool
    norm: float | None
    problem: Problem | None
    noticed: Problem | None = None
    tries: int = 0
    scale: float | None = None


@dataclass(frozen=True)
class Seen:
    """What one read told. norm: of the gradients that the optimizer uses, rest: of others that are watched; layers: those whose
    outputs are suspected; update: numbers of one that was queued ahead.
    """

    loss: float
    norm: float
    rest: Sequence[float]
    scale: float | None
    layers: Sequence[str]
    update: Sequence[float]

    @property
    def sound(self) -> bool:
        """Whether nothing has to be looked at again."""
        return not self.layers and self.norm < SAFE_GRADIENT and self.finite

    @property
    def finite(self) -> bool:
        """Whether loss and gradients are."""
        return all(map(math.isfinite, (self.loss, self.norm, *self.rest)))


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
        updates: Updates,
        *,
        accumulate: int,
    ) -> None:
        self._activations = activations
        self._calls = calls
        self.gradients = gradients
        self._good = good
        self._curing = curing
        self._optimizer = optimizer
        self.updates = updates
        self._accumulate = accumulate
        self.before_first: Callable[[], None] | None = None
        """Called once, when the first gradients are there and no weight was changed yet."""
        self._count = 0

    @property
    def surroundings(self) -> dict[str, str]:
        """What the last forward pass ran in."""
        return self._calls.surroundings

    def make(self, loss: torch.Tensor | Callable[[], torch.Tensor]) -> Attempt:
        """loss: a scalar, or what computes it. Waits for an accelerator once; once more where gradients of several calls are
        added up, where a copy of large weights has to be made first, and in the first step of all.
        """
        if callable(loss):
            self._begin()
            loss = loss()
        if not isinstance(loss, torch.Tensor) or loss.numel() != 1:  # pyright: ignore[reportUnnecessaryIsInstance] - see core
            raise TypeError(f"the loss of a step is a tensor with one number, or a function that gives one; it was {_form(loss)}")
        try:
            return self._made(loss)
        finally:
            self._begin()

    def _made(self, loss: torch.Tensor) -> Attempt:
        targets = targets_of(loss)
        gathered = self.gradients.take()
        try:
            self._scaled(loss / self._accumulate).backward()
        except BaseException as error:
            self.gradients.give_back(gathered, add=False)
            if not isinstance(error, Exception):
                raise
            problem = self._forward_problem(loss, seen := self._read(loss), targets)
            if problem is None:
                raise  # bad numbers were not why
            return self._thrown_away(seen, problem)
        last = self._count + 1 >= self._accumulate
        ready = last and not gathered and self.before_first is None
        certain = ready and not self._activations.known_bad
        total = self.updates.prepare() if ready else self.gradients.norm()
        rest = self.gradients.rest(self.updates.own()) if ready else []
        ahead = self.updates.ahead(total, [_scalar(loss), *rest, *self._activations.waiting()]) if certain else None
        seen = self._read(loss, total, rest, ahead)
        if ahead is not None and not seen.sound:
            self.updates.take_back(seen.norm)
            ahead = None
        problem = self._forward_problem(loss, seen, targets) or self._backward_problem(seen)
        if problem is not None and ready:
            self.updates.forget()
        self.gradients.give_back(gathered, add=problem is None)
        if problem is not None:
            return self._thrown_away(seen, problem)
        self._count += 1
        if not last:
            self._good.keep_forward()
            return Attempt(seen.loss, False, seen.norm / (seen.scale or 1.0), None, scale=seen.scale)
        return self._update(seen, total if ready else None, ahead)

    def _read(
        self,
        loss: torch.Tensor,
        total: torch.Tensor | None = None,
        rest: Sequence[torch.Tensor] = (),
        ahead: Ahead | None = None,
    ) -> Seen:
        """The one wait of most steps."""
        lead = [_scalar(loss), *([] if total is None else [total, *rest])]
        scale = self._curing.scale_now(loss.device)
        layers = self._activations.waiting()
        found = self._numbers([*lead, *scale, *layers], ahead)
        behind = len(lead) + len(scale)
        return Seen(
            loss=found[0],
            norm=found[1] if total is not None else 0.0,
            rest=found[2 : len(lead)],
            scale=found[len(lead)] if scale else None,
            layers=self._activations.bad(found[behind : behind + len(layers)]),
            update=found[behind + len(layers) :],
        )

    def _numbers(self, scalars: Sequence[torch.Tensor], ahead: Ahead | None) -> list[float]:
        if ahead is None:
            return read(scalars)
        try:
            return read([*scalars, *ahead.scalars])
        except BaseException:
            self._good.undo()  # nobody knows what the update made
            raise

    def _thrown_away(self, seen: Seen, problem: Problem) -> Attempt:
        self._good.forget_forward()
        return Attempt(seen.loss, False, seen.norm if problem.watched == "gradients" else None, problem, scale=seen.scale)

    def _update(self, seen: Seen, total: torch.Tensor | None, ahead: Ahead | None) -> Attempt:
        """The optimizer's step. total: norm of the gradients where these are prepared; ahead: where it is made already."""
        self._count = 0
        if self.before_first is not None:
            self.before_first, look = None, self.before_first
            look()
        norm, update = seen.norm, seen.update
        if total is None:
            total = self.updates.prepare()
            ahead = self.updates.ahead(total, [])
            norm, *update = self._numbers([total], ahead)
            if ahead is not None and not norm < SAFE_GRADIENT:
                self.updates.take_back(norm)
                ahead = None
        if not math.isfinite(norm):
            norm = self.gradients.exact_norm()
        first, tries, good = self.updates.made(ahead, update) if ahead is not None else self.updates.make(norm, total)
        if not good:
            self._good.forget_forward()
            return Attempt(seen.loss, False, norm, first, scale=seen.scale)
        return Attempt(seen.loss, True, norm, None, first, tries, seen.scale)

    def forecast(self, networks: Networks) -> tuple[Omen, ...]:
        """What is known to go wrong, from what there is by now: after the first way back also gradients and what was fed."""
        return forecast(
            networks,
            self._optimizer,
            clip=self.updates.clip,
            scaler=self._curing.scaler,
            autocast=self._calls.autocast(),
            fed=self._calls.fed(),
        )

    def rescale(self, factor: float) -> None:
        """The loss is multiplied by so much more from now on: what was gathered follows."""
        if factor != 1.0:
            self.gradients.scale(factor)

    def pass_over(self) -> None:
        """A loss is not used: what its passes left is forgotten, and the next step begins."""
        self._begin()
        self._good.forget_forward()

    def remove(self) -> None:
        """Take all hooks off."""
        self._activations.remove()
        self._calls.remove()
        self.gradients.remove()

    def _begin(self) -> None:
        self._activations.begin()
        self._calls.begin()
        self.gradients.begin()

    def _scaled(self, loss: torch.Tensor) -> torch.Tensor:
        scaler = self._curing.scaler
        return loss if scaler is None else scaler.scale(loss)

    # -- looks -----------------------------------------------------------------------------------------------------------------

    def _forward_problem(self, loss: torch.Tensor, seen: Seen, targets: Sequence[torch.Tensor]) -> Problem | None:
        value, layers = seen.loss, seen.layers
        if math.isfinite(value) and not layers:
            return None
        self._activations.paused = True
        after = self._good.running_means()
        try:
            self._good.forget_forward()
            origin = self._calls.origin()
            large = origin is None and self._calls.largest > _SQUARES
            meant = large or (seen.finite and origin is not None and self._masks(origin, layers))
        finally:
            self._activations.paused = False
        if math.isfinite(value) and meant:
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
        if layers and not large:
            return Problem("activation-nonfinite", "activations", layers[0], further=tuple(layers[1:9]))
        if any_bad(targets):
            return Problem("data-nonfinite", "loss", "target")
        narrow = loss.element_size() < 4
        return Problem("loss-overflow" if narrow else "loss-nonfinite", "loss", "loss", dtype=loss.dtype, peak=abs(value))

    def _masks(self, origin: Origin, layers: Sequence[str]) -> bool:
        """Whether what these layers make is not finite on purpose."""
        if origin.cause != "activation-nonfinite" or not self._calls.only_masks(layers):
            return False
        self._activations.allow_masks(layers)
        return True

    def _backward_problem(self, seen: Seen) -> Problem | None:
        if all(map(math.isfinite, (seen.norm, *seen.rest))):
            return None
        bad = self.gradients.bad() or self.updates.bad()
        if not bad:
            return None  # in 16 bits, or where squares pass float32's limit, the norm of finite gradients can be infinite
        first = bad[0]
        network, module = self._calls.owner(first)
        dtype, peak = self._calls.computes_in(network, module), self.gradients.peak(first)
        if self._curing.scaler is not None:
            cause: Cause = "loss-scale"
        else:
            overflows = dtype in (torch.float16, torch.bfloat16) or peak == math.inf
            cause = "gradient-overflow" if overflows else "gradient-nonfinite"
        return Problem(cause, "gradients", first, network, module, dtype=dtype, peak=peak, further=tuple(bad[1:9]))


def _scalar(loss: torch.Tensor) -> torch.Tensor:
    return loss.detach().reshape(())


def _form(given: object) -> str:
    return f"a tensor of the shape {tuple(given.shape)}" if isinstance(given, torch.Tensor) else f"a {type(given).__name__}"
