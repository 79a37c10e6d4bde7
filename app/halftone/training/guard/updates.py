"""The optimizer's part of a step: gradients prepared, the update, and the check of its result.

Reading a number of an accelerator waits for all that was queued before. So the update is queued behind the backward pass before
anybody knows whether the step is good, and one read covers loss, layers, gradients and update, where one of two things protects
the weights: the optimizer leaves them and its moments alone if the device says so (`found_inf` of fused ones), or a copy stands
beside them, from which the guard restores what went bad. Elsewhere the one read comes before the update.
"""

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import torch

from halftone.training.guard.backward import GradientWatch
from halftone.training.guard.curing import Curing, Problem
from halftone.training.guard.finite import bad_among, plain, waits
from halftone.training.guard.networks import optimized
from halftone.training.guard.optimizers import kind_of, step_schedule
from halftone.training.guard.state import GoodState
from halftone.training.guard.update import SAFE_GRADIENT, BadUpdate, Judged, skips_when_told

_UPDATES: Final = 3
"""Times that the optimizer's step is made again under a cure of its own."""


@dataclass(frozen=True)
class Ahead:
    """A queued update. judged: its pending check, if any; bad: settings that stopped it; error: the optimizer's."""

    judged: Judged | None = None
    bad: BadUpdate | None = None
    error: Exception | None = None

    @property
    def scalars(self) -> Sequence[torch.Tensor]:
        """Scalars to be read with everything else."""
        return () if self.judged is None else self.judged.scalars


class Updates:
    """Makes the optimizer's steps. clip: largest norm of the gradients; scheduler: stepped after each."""

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        good: GoodState,
        curing: Curing,
        gradients: GradientWatch,
        *,
        scheduler: Any,
        clip: float | None,
        cures: bool,
    ) -> None:
        self._optimizer = optimizer
        self._good = good
        self._curing = curing
        self._gradients = gradients
        self._cures = cures
        self.scheduler = scheduler
        self.clip = clip
        self.loss = 0.0
        """The loss of this step, for schedules that read it."""
        self._rates: list[Any] = []
        self._rates = self._rates_now()
        self._clipped = False

    def trained(self) -> list[torch.Tensor]:
        """What the optimizer changes and has a gradient for, in the order of the networks: sums of norms depend on it."""
        masters = {id(p): master for p, master in self._good.masters.pairs} if self._good.masters is not None else {}
        own = {id(p): p for _, p in optimized(self._optimizer) if p.grad is not None}
        first = [masters.get(id(p), p) for p in self._gradients.parameters]
        known = {id(p) for p in first}
        return [p for p in first if id(p) in own] + [p for key, p in own.items() if key not in known]

    def own(self) -> set[int]:
        """Identities of the parameters that the optimizer changes, itself or through masters."""
        masters = self._good.masters.pairs if self._good.masters is not None else ()
        return {*(id(p) for _, p in optimized(self._optimizer)), *(id(p) for p, _ in masters)}

    def bad(self) -> list[str]:
        """Used gradients that are not finite."""
        return bad_among({self._good.name_of(p): p.grad for p in self.trained() if p.grad is not None})

    def prepare(self) -> torch.Tensor:
        """Give masters their gradients and unscale them. Returns their norm by torch's own function. Does not wait."""
        self._clipped = False
        if self._good.masters is not None:
            self._good.masters.hand_over()
        if self._curing.scaler is not None:
            self._curing.scaler.unscale_(self._optimizer)
        return torch.nn.utils.get_total_norm([plain(p.grad) for p in self.trained() if p.grad is not None])

    def ahead(self, total: torch.Tensor, seen: Sequence[torch.Tensor]) -> Ahead | None:
        """Queue the update; None where the step must be known as good first. total: gradient norm; seen: the other checks."""
        skips = skips_when_told(self._optimizer) and all(part.device == total.device for part in seen)
        if not waits(total.device) or not (self._good.exact or skips):
            return None
        bad = self._good.impossible()
        if bad is not None:
            return Ahead(bad=bad)
        hold = (~(torch.isfinite(torch.stack([total, *seen])).all() & (total < SAFE_GRADIENT))).float() if skips else None
        # a norm that is no number would spoil the gradients that it is to be told from: of those none is clipped
        self._clip(torch.where(torch.isfinite(total), total, torch.zeros_like(total)))
        try:
            self._step(hold)
        except Exception as error:  # noqa: BLE001 - raised again, unless bad gradients explain it
            return Ahead(error=error)
        return Ahead(judged=self._good.judged())

    def take_back(self, total: float) -> None:
        """Weights and moments as before an update that was queued ahead. total: the norm that it was clipped with."""
        self._good.undo()
        self._clipped = self._clipped and math.isfinite(total)

    def forget(self) -> None:
        """Gradients that were prepared are not wanted."""
        self._curing.forget_unscaling()
        self._optimizer.zero_grad(set_to_none=True)

    def make(self, norm: float, total: torch.Tensor) -> tuple[Problem | None, int, bool]:
        """Update with sound gradients: (first problem, number of repeats, whether it is good now)."""
        self._good.before_update(norm)
        self._clip(total)
        return self._judged(self._stepped())

    def made(self, ahead: Ahead, found: Sequence[float]) -> tuple[Problem | None, int, bool]:
        """The same of one that was queued ahead. found: what its scalars say."""
        if ahead.error is not None:
            raise ahead.error
        bad = ahead.bad
        if bad is None and ahead.judged is not None:
            bad = self._good.verdict(ahead.judged, found)
        return self._judged(None if bad is None else self._problem(bad))

    def _judged(self, problem: Problem | None) -> tuple[Problem | None, int, bool]:
        first, tries = problem, 0
        while problem is not None:
            self._good.undo()
            if not self._cures or tries == _UPDATES or not self._curing.cure_optimizer(problem, self._good):
                self._close()
                if problem.cause == "learning-rate" and self.scheduler is not None:
                    self._pass_rate()
                return first, tries, False
            if self._good.masters is not None:
                self._good.masters.hand_over()
            tries += 1
            problem = self._stepped()
        self._close()
        self._next_rate()
        self._rates = self._rates_now()
        self._good.accept()
        return first, tries, True

    def _rates_now(self) -> list[float]:
        """The rate of each group, but for those on an accelerator: reading them would wait."""
        rates = [group.get("lr", 0.0) for group in self._optimizer.param_groups]
        before = [*self._rates, *rates[len(self._rates) :]]
        return [
            old if isinstance(rate, torch.Tensor) or not math.isfinite(rate) else rate
            for rate, old in zip(rates, before, strict=False)
        ]

    def _next_rate(self) -> None:
        if self.scheduler is not None:
            step_schedule(self.scheduler, self.loss)

    def _pass_rate(self) -> None:
        """Go on to the schedule's next rate where one cannot be used, from the last good one if it counts from there."""
        for group, rate in zip(self._optimizer.param_groups, self._rates, strict=False):
            if not math.isfinite(float(group["lr"])):
                group["lr"] = rate
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of the very first step: torch wants the optimizer to step before
            self._next_rate()

    def _clip(self, total: torch.Tensor) -> None:
        if self.clip is not None and not self._clipped:
            torch.nn.utils.clip_grads_with_norm_(self.trained(), self.clip, total)
        self._clipped = True

    def _stepped(self) -> Problem | None:
        bad = self._good.impossible()
        if bad is None:
            self._step(None)
            bad = self._good.judge()
        return None if bad is None else self._problem(bad)

    def _problem(self, bad: BadUpdate) -> Problem:
        return Problem(
            bad.cause,
            "optimizer",
            bad.name,
            kind=kind_of(self._optimizer, self._good.named(bad.name)),
            dtype=bad.dtype,
            peak=bad.peak,
            further=bad.further,
            cure=bad.cure,
            was=self._rate_before(bad),
            now=bad.now,
        )

    def _rate_before(self, bad: BadUpdate) -> str:
        if not bad.now:
            return ""
        held = zip(self._optimizer.param_groups, self._rates, strict=False)
        parameter = self._good.named(bad.name)
        return next((f"{float(rate):g}" for group, rate in held if any(p is parameter for p in group["params"])), "")

    def _step(self, hold: torch.Tensor | None) -> None:
        """hold: not zero where the optimizer shall leave all as it is."""
        optimizer: Any = self._optimizer
        try:
            if hold is not None:
                optimizer.found_inf = hold
            self._optimizer.step()
            if self._good.masters is not None:
                self._good.masters.write_back()
        except BaseException:
            self._good.undo()  # it may have written a part of the weights
            raise
        finally:
            if hold is not None:
                del optimizer.found_inf

    def _close(self) -> None:
        """The gradients were finite, and are used or given up."""
        if self._curing.scaler is not None:
            self._curing.scaler.update()
        self._gradients.clear()
        self._optimizer.zero_grad(set_to_none=True)
