"""One attempt at a step: forward where a function is given, backward, the optimizer's step, and the looks between."""

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import torch

from halftone.contract.training import Cause, Omen, Watched
from halftone.training.guard.activations import ActivationWatch
from halftone.training.guard.backward import Behind, GradientWatch, any_bad, any_row_nan, behind
from halftone.training.guard.curing import SMALLEST_SCALE, Curing, Problem
from halftone.training.guard.finite import bad_among, norms, read
from halftone.training.guard.forecast import forecast, without_schedule
from halftone.training.guard.networks import Networks
from halftone.training.guard.optimizers import Accumulation
from halftone.training.guard.replay import Calls, Origin
from halftone.training.guard.state import GoodState
from halftone.training.guard.update import SAFE_GRADIENT
from halftone.training.guard.updates import Ahead, Updates

NARROW: Final = (torch.float16, torch.bfloat16)
_SQUARES: Final = 1e15
"""Numbers beyond this one may be finite where the norm that was taken of them is not."""


@dataclass(frozen=True)
class Attempt:
    """problem: why it was discarded; noticed: what the optimizer was cured of, in how many tries; scale: of the loss."""

    loss: float
    applied: bool
    norm: float | None
    problem: Problem | None
    noticed: Problem | None = None
    tries: int = 0
    scale: float | None = None


@dataclass(frozen=True)
class Seen:
    """The result of one read. norm: of the gradients that the optimizer uses; foreign: those of other code; layers: with suspect
    outputs; buffers: that are not finite; update: the numbers of one queued ahead.
    """

    loss: float
    norm: float
    foreign: float
    scale: float | None
    layers: Sequence[str]
    buffers: Sequence[str]
    update: Sequence[float]

    @property
    def sound(self) -> bool:
        """Whether nothing has to be looked at again."""
        return not self.layers and self.norm < SAFE_GRADIENT and self.finite

    @property
    def finite(self) -> bool:
        """Whether loss and gradients are."""
        return math.isfinite(self.loss) and math.isfinite(self.norm)


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
        accumulation: Accumulation,
    ) -> None:
        self._activations = activations
        self.calls = calls
        self.gradients = gradients
        self._good = good
        self._curing = curing
        self._optimizer = optimizer
        self.updates = updates
        self._accumulation = accumulation
        self.put_right: list[Problem] = []
        """What was bad and is not any more, without the step being lost."""
        self.doubts: Sequence[torch.Tensor] = ()
        """Scalars that are read with the next step's own, once."""
        self.doubted = False
        """Whether one of them was above nothing."""
        self.before_first: Callable[[], None] | None = None
        """Called once, when the first gradients are there and no weight was changed yet."""
        self.waiting = 0
        """Losses whose gradients wait for the step of the optimizer."""

    def make(self, loss: torch.Tensor | Callable[[], torch.Tensor]) -> Attempt:
        """loss: a scalar, or what computes it. Waits for an accelerator once; once more with gradients of several calls, for a
        first copy of large weights, and in the first step of all.
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
        self._accumulation.begin()
        lies_behind = behind(loss)
        gathered = self.gradients.take()
        foreign = self.gradients.foreign(gathered)
        try:
            self._scaled(loss / self._accumulation.losses).backward()
        except BaseException as error:
            self.gradients.give_back(gathered, add=False)
            if not isinstance(error, Exception):
                raise
            problem = self._forward_problem(loss, seen := self._read(loss), lies_behind)
            if problem is None:
                raise  # bad numbers were not why
            return self._thrown_away(seen, problem)
        last = self._accumulation.ends(self.waiting + 1)
        ready = last and not gathered and self.before_first is None
        certain = ready and not self._activations.known_bad
        total = self.updates.prepare() if ready else self.gradients.norm(self.updates.own())
        ahead = self.updates.ahead(total, [_scalar(loss), *self._activations.waiting()]) if certain else None
        seen = self._read(loss, total, foreign, ahead)
        if ahead is not None and not seen.sound:
            self.updates.take_back(seen.norm)
            ahead = None
        problem = self._forward_problem(loss, seen, lies_behind) or self._backward_problem(seen)
        if problem is not None and ready:
            self.updates.forget()
        if foreign and not math.isfinite(seen.foreign):
            gathered = self._without(gathered, foreign)
            last = self._accumulation.ends(self.waiting + 1)
        self.gradients.give_back(gathered, add=problem is None, waits=bool(gathered) or not last)
        if problem is not None:
            return self._thrown_away(seen, problem)
        self._mend_buffers(seen)
        self.waiting += 1
        if not last:
            self._good.running.keep()
            return Attempt(seen.loss, False, seen.norm / (seen.scale or 1.0), None, scale=seen.scale)
        return self._update(seen, total if ready else None, ahead)

    def _without(self, gathered: Mapping[str, torch.Tensor], foreign: Mapping[str, torch.Tensor]) -> Mapping[str, torch.Tensor]:
        """Drop what was gathered, of which other code spoiled a part: the step begins again."""
        bad = bad_among(foreign)
        if not bad:
            return gathered
        self.put_right.append(Problem("gradient-outside", "gradients", bad[0], further=tuple(bad[1:9])))
        self.waiting = 0
        return {}

    def _mend_buffers(self, seen: Seen) -> None:
        if not seen.buffers or not (bad := self._good.bad_buffers(seen.buffers)):
            return
        self._good.running.put_back_only(bad)
        self.put_right.append(Problem("buffer-nonfinite", "weights", bad[0], further=tuple(bad[1:9])))

    def _read(
        self,
        loss: torch.Tensor,
        total: torch.Tensor | None = None,
        foreign: Mapping[str, torch.Tensor] | None = None,
        ahead: Ahead | None = None,
    ) -> Seen:
        """The one wait of most steps."""
        buffers = self._good.buffers()
        parts: list[Sequence[torch.Tensor]] = [
            [_scalar(loss)],
            [] if total is None else [total],
            norms(list(foreign.values())) if foreign else [],
            self._curing.scale_now(loss.device),
            self._activations.waiting(),
            norms(list(buffers.values())),
            self.doubts,
        ]
        numbers = iter(self._numbers([one for part in parts for one in part], ahead))
        (value, *_), norm, left, scale, layers, held, doubted = ([next(numbers) for _ in part] for part in parts)
        self.doubts, self.doubted = (), self.doubted or any(doubted)
        return Seen(
            loss=value,
            norm=norm[0] if norm else 0.0,
            foreign=sum(left),
            scale=scale[0] if scale else None,
            layers=self._activations.bad(layers),
            buffers=[name for name, number in zip(buffers, held, strict=True) if not math.isfinite(number)],
            update=list(numbers),
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
        self._good.running.put_back()
        return Attempt(seen.loss, False, seen.norm if problem.watched == "gradients" else None, problem, scale=seen.scale)

    def _update(self, seen: Seen, total: torch.Tensor | None, ahead: Ahead | None) -> Attempt:
        """The optimizer's step. total: norm of the gradients where these are prepared; ahead: where it is made already."""
        self.waiting = 0
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
            if (problem := self._backward_problem(seen, of_sum=norm)) is not None:
                self.updates.forget()
                self.gradients.clear()
                return self._thrown_away(seen, problem)
            norm = self.gradients.exact_norm(self.updates.own())
        self.updates.loss = seen.loss
        first, tries, good = self.updates.made(ahead, update) if ahead is not None else self.updates.make(norm, total)
        if not good:
            self._good.running.put_back()
            return Attempt(seen.loss, False, norm, first, scale=seen.scale)
        return Attempt(seen.loss, True, norm, None, first, tries, seen.scale)

    def finished(self, attempt: Attempt) -> Attempt:
        """Close an attempt that was left out: where Accelerate ended the step with it, the step is made of the losses before."""
        if not (self._accumulation.is_outside and self.waiting and self._accumulation.ends(self.waiting + 1)):
            return attempt
        seen = Seen(attempt.loss, 0.0, 0.0, attempt.scale, (), (), ())
        return self._update(seen, None, None)

    def forecast(self, networks: Networks) -> tuple[Omen, ...]:
        """What is known to go wrong, from what there is by now: after the first way back also gradients and what was fed."""
        found = forecast(
            networks,
            self._optimizer,
            clip=self.updates.clip,
            scaler=self._curing.scaler,
            autocast=self.calls.autocast(),
            fed=self.calls.fed(),
        )
        return without_schedule(found, self.updates.scheduler)

    def rescale(self, factor: float) -> None:
        """The loss is multiplied by so much more from now on: what was gathered follows."""
        if factor != 1.0:
            self.gradients.scale(factor)

    def pass_over(self) -> None:
        """A loss is not used: what its passes left is forgotten, and the next step begins."""
        self._begin()
        self._good.running.put_back()

    def remove(self) -> None:
        """Take all hooks off."""
        self._activations.remove()
        self.calls.remove()
        self.gradients.remove()

    def _begin(self) -> None:
        self._activations.begin()
        self.calls.begin()
        self.gradients.begin()

    def _scaled(self, loss: torch.Tensor) -> torch.Tensor:
        scaler = self._curing.scaler
        return loss if scaler is None else scaler.scale(loss)

    # -- looks -----------------------------------------------------------------------------------------------------------------

    def _forward_problem(self, loss: torch.Tensor, seen: Seen, lies_behind: Behind) -> Problem | None:
        finite, layers = math.isfinite(seen.loss), seen.layers
        if finite and not layers:
            return None
        self._activations.paused = True
        after = self._good.running_means()
        try:
            self._good.running.put_back()
            if finite and self._meant(seen):
                after.put_back()
                return None
            origin = self.calls.origin(self._activations.meant)
            large = origin is None and self.calls.largest > _SQUARES
        finally:
            self._activations.paused = False
        if finite and large:
            after.put_back()
            return None
        if origin is not None and (origin.reaches or finite):
            return _problem_of(origin)
        if any_bad(lies_behind.targets):
            return Problem("data-nonfinite", "loss", "target")
        if origin is not None and origin.cause != "data-nonfinite":
            return _problem_of(origin)
        if layers and not large:
            return Problem("activation-nonfinite", "activations", layers[0], further=tuple(layers[1:9]))
        if loss.element_size() < 4:
            return Problem("loss-overflow", "loss", "loss", dtype=loss.dtype, peak=abs(seen.loss))
        kind = "softmax" if any_row_nan(lies_behind.rows) else ""
        return Problem("loss-nonfinite", "loss", "loss", kind=kind, dtype=loss.dtype, peak=abs(seen.loss))

    def _meant(self, seen: Seen) -> bool:
        """Whether layers whose results are not finite do no harm; then they are watched no more."""
        if not math.isfinite(seen.norm) and self._bad_gradients():
            return False
        kinds = self.calls.same_when_wide(seen.layers) if self._activations.narrow else self.calls.kinds_made()
        if kinds is None:
            return False
        self._activations.allow_seen(seen.layers, kinds)
        return True

    def _bad_gradients(self) -> list[str]:
        return self.gradients.bad(self.updates.own()) or self.updates.bad()

    def _backward_problem(self, seen: Seen, of_sum: float = 0.0) -> Problem | None:
        """of_sum: norm of the gradients of several losses, where they are added up."""
        if math.isfinite(seen.norm) and math.isfinite(of_sum):
            return None
        bad = self._bad_gradients()
        if not bad:
            return None  # in 16 bits, or where squares pass float32's limit, the norm of finite gradients can be infinite
        first = bad[0]
        network, module = self.calls.owner(first)
        dtype, peak = self.calls.computes_in(network, module), self.gradients.peak(first)
        cause = self._cause_of_gradient(seen, dtype, peak, added=not math.isfinite(of_sum))
        return Problem(cause, "gradients", first, network, module, dtype=dtype, peak=peak, further=tuple(bad[1:9]))

    def _cause_of_gradient(self, seen: Seen, dtype: torch.dtype | None, peak: float, *, added: bool) -> Cause:
        if self._curing.scaler is not None and (seen.scale is None or seen.scale >= SMALLEST_SCALE):
            return "loss-scale"
        if peak == math.inf or (added and dtype in NARROW):
            return "gradient-overflow"
        if dtype not in NARROW:
            return "gradient-nonfinite"
        infinite = any(self.gradients.peak(name) == math.inf for name in self._bad_gradients())
        self._activations.paused = True
        try:
            return "gradient-overflow" if self.calls.overflowed_back(infinite=infinite) else "gradient-nonfinite"
        finally:
            self._activations.paused = False


def _problem_of(origin: Origin) -> Problem:
    rows: dict[Cause, Watched] = {"data-nonfinite": "loss", "weights-nonfinite": "weights"}
    return Problem(
        origin.cause,
        rows.get(origin.cause, "activations"),
        origin.name,
        origin.network,
        origin.module,
        origin.kind,
        origin.dtype,
        origin.peak,
        origin.further,
    )


def _scalar(loss: torch.Tensor) -> torch.Tensor:
    return loss.detach().reshape(())


def _form(given: object) -> str:
    return f"a tensor of the shape {tuple(given.shape)}" if isinstance(given, torch.Tensor) else f"a {type(given).__name__}"
