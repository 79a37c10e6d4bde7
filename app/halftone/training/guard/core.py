"""The guard of a training: two lines in any script, and no bad number reaches the weights.

    guard = TrainingGuard(model, optimizer)
    for batch in data:
        guard.step(lambda: loss_of(model(batch)))

Given a function the guard can make a step again under a cure; given a loss that was computed already it leaves a bad step out.
"""

import inspect
import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Literal, cast, get_args

import msgspec
import torch

from halftone.contract.training import Caught, Deed, Foreseen, Omen, Remedy, TrainCure
from halftone.engine.basics.tensors import NAMES
from halftone.training.guard.activations import ActivationWatch
from halftone.training.guard.attempts import Attempt, Attempts
from halftone.training.guard.backward import GradientWatch
from halftone.training.guard.between import Between
from halftone.training.guard.curing import Curing, Problem
from halftone.training.guard.forecast import CLIP, apply_to_optimizer, raise_norm_epsilons, schedule_for
from halftone.training.guard.networks import Networks, guarded_parameters, named_networks, optimized
from halftone.training.guard.optimizers import Accumulation, Schedules, as_one, members, scaler_of
from halftone.training.guard.replay import Calls
from halftone.training.guard.sentences import foreseen, told
from halftone.training.guard.state import GoodState, RandomState, accelerators_of
from halftone.training.guard.updates import Updates

Forecast = Literal["tell", "apply", "off"]
OnBad = Literal["cure", "skip", "stop"]
Loss = torch.Tensor | Callable[[], torch.Tensor]

TRIES: Final = 3
"""Repeats of one step under cures, before it is left out."""
STOP_AFTER: Final = 5
"""Bad steps in a row that end a training, where the script says nothing else."""

log = logging.getLogger(__name__)


class TrainingStopped(Exception):  # noqa: N818 - what scripts catch by this name is an end, not always an error
    """Bad steps in a row, or the first one, ended the training. Weights are those of the last good step. caught: why."""

    def __init__(self, caught: Caught) -> None:
        super().__init__(f"training was stopped at {told(caught)}")
        self.caught = caught


@dataclass(frozen=True)
class StepReport:
    """One step. applied: the optimizer stepped; norm: of the gradients before clipping; scale: of the loss; tries: repeats;
    caught: what was stopped or noticed. loss, norm are the last try's.
    """

    step: int
    loss: float
    applied: bool
    norm: float | None
    scale: float | None
    tries: int
    seconds: float
    caught: tuple[Caught, ...]


class TrainingGuard:
    """Watches a training and stops bad numbers before they reach the weights.

    model: a network, or several (a list, or by name). optimizer: one, or several that train parts of it on the same loss.
    scaler: the GradScaler that the script uses, if it does. scheduler: of the learning rate, one or several, stepped after each
    step of the optimizer. clip: largest norm of the gradients. accumulate: calls of `step` per step of the optimizer; each loss
    counts 1 / accumulate; None: as many as Accelerate gathers, else 1. on_bad: "cure": a bad step is made again with what it
    needs, at most three times, and left out where nothing helps; "skip": it is left out; "stop": training stops. stop_after: so
    many bad steps in a row end the training; with accumulate, losses that are lost count together: as many as make a step are
    one bad step, and a step that is made of the good ones is good. keep_every, keep: good steps between two states that are kept
    on the host, and how many. forecast: what is known to go wrong before the first step is told (in the log, and as `omens`), or
    what certainly will is mended as well with its cheapest remedy. all_used: every weight counts in every step, so that one which
    is not finite is foreseen; else the step that uses it names it. tell: called with each finding.
    """

    def __init__(
        self,
        model: Networks,
        optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        *,
        scaler: torch.amp.GradScaler | None = None,
        scheduler: Any = None,
        clip: float | None = None,
        accumulate: int | None = None,
        on_bad: OnBad = "cure",
        stop_after: int = STOP_AFTER,
        keep_every: int = 50,
        keep: int = 2,
        forecast: Forecast = "tell",
        all_used: bool = False,
        tell: Callable[[Caught], None] | None = None,
    ) -> None:
        given = _listed(optimizer)
        _check(model, given, clip=clip, accumulate=accumulate, on_bad=on_bad, stop_after=stop_after, forecast=forecast)
        networks = named_networks(model)
        scaler = scaler or next((held for one in given if (held := scaler_of(one)) is not None), None)
        scheduler = Schedules(scheduler) if isinstance(scheduler, (list, tuple)) else scheduler
        optimizer = as_one(given)
        parameters = guarded_parameters(networks, optimizer)
        _check_shared(optimizer, {id(parameter): name for name, parameter in parameters.items()})
        self._on_bad: OnBad = on_bad
        self._tell = tell
        self._good = GoodState(networks, parameters, optimizer, every=keep_every, keep=keep)
        self._between = Between(networks, parameters, optimizer)
        self._curing = Curing(networks, optimizer, scaler)
        self._accumulation = Accumulation(accumulate, given)
        gradients = GradientWatch(parameters)
        updates = Updates(optimizer, self._good, self._curing, gradients, scheduler=scheduler, clip=clip, cures=on_bad == "cure")
        self._attempts = Attempts(
            ActivationWatch(networks),
            Calls(networks),
            gradients,
            self._good,
            self._curing,
            optimizer,
            updates,
            accumulation=self._accumulation,
        )
        self._networks = networks
        self._accelerators = accelerators_of(networks)
        self._optimizer = optimizer
        self._forecast: Forecast = forecast
        # NaN in a weight or an input does harm only where it is used: then the first step names it
        self._known_by_use: set[Foreseen] = {"data-nonfinite"} if all_used else {"data-nonfinite", "weights-nonfinite"}
        self._stop_after = stop_after
        self._lost = 0
        """Losses that no step was made of, since the last good step."""
        self._step = 1
        self._batch = 0
        """Calls of `step` so far."""
        self.omens: tuple[Omen, ...] = ()
        """What is known to go wrong with what is in force: of the settings at once, of gradients and data when they are there."""
        if forecast != "off":
            self._foresee()
            self._attempts.before_first = self._foresee
        self.caught: list[Caught] = []
        """Everything that was found so far, in order."""

    @property
    def steps(self) -> int:
        """Good steps of the optimizer so far."""
        return self._good.steps

    @property
    def cures(self) -> tuple[tuple[TrainCure, str], ...]:
        """Cures in force, each with the module or parameter that it is for."""
        return self._curing.in_force

    @property
    def memory(self) -> dict[str, int]:
        """Bytes of what the guard holds: a copy beside the weights, states on the host, and for cures."""
        return {"beside": self._good.memory, "host": self._good.ring.memory, "cures": self._curing.memory}

    def step(self, loss: Loss, *, items: Sequence[str] = ()) -> StepReport:
        """Backward, check, clip, step, zero the gradients. items: names of the inputs (pictures), reported with a finding.

        Raises TrainingStopped when it cannot continue; the weights are then those after the last good step.
        """
        started = time.perf_counter()
        before = len(self.caught)
        self._step = self._good.steps + 1
        self._batch += 1
        self._follow()
        if self._batch == 1 and not self._good.spoiled():
            self._good.declare()  # weights may have been read after the guard was made
        for noticed in self._between.look(self._good, put_back=self._on_bad == "cure"):
            self._file(noticed, items)
        if isinstance(loss, torch.Tensor) and any(
            noticed.did == "restored" and noticed.cause in ("cast-outside", "weights-changed", "state-outside")
            for noticed in self.caught[before:]
        ):
            self._attempts.pass_over()  # a loss that was computed before the weights or moments were restored belongs to others
            passed = Attempt(float(loss.detach()), applied=False, norm=None, problem=None, scale=self._curing.scale)
            return self._report(passed, before, started, 0)
        waited = self._attempts.waiting
        self._attempts.doubts, self._attempts.doubted = self._between.doubts(), False
        attempt, problem, tries, spent = self._try(loss)
        self._tell_put_right(items)
        self._count_lost(attempt, problem, waited + 1)
        self._judge(attempt, problem, tries, spent, items)
        if attempt.problem is not None:
            attempt = self._finished(attempt, items)
        return self._report(attempt, before, started, tries)

    def accept_changes(self) -> None:
        """Declare the script's changes since the last step as meant: weights, moments (also cleared ones), types, modes, what is
        trained, random numbers. They are no finding then, and nothing undoes them. Raises ValueError, and changes nothing, where
        a weight or moment is not finite or a second moment is below zero.
        """
        self._follow()
        if spoiled := self._good.spoiled():
            raise ValueError(f"a change that is meant leaves finite numbers; these are not: {', '.join(spoiled[:3])}")
        self._good.declare()
        self._between.remember()

    def apply(self, remedy: Remedy, *, steps: int = 1000) -> bool:
        """Put a remedy of the forecast in force. steps: of the training, for a schedule. False: the script has to apply it (other
        data, another type), or it is in force already. Raises ValueError for an unknown name.
        """
        if remedy not in get_args(Remedy):
            raise ValueError(f"no remedy is called {remedy!r}; there are {', '.join(get_args(Remedy))}")
        if not self._put_in_force(remedy, steps):
            return False
        if self._forecast != "off":
            now = self._foreseen()
            places = {(omen.code, omen.name) for omen in now}
            # those that only a step showed stay, unless the remedy is for them
            left = [omen for omen in self.omens if (omen.code, omen.name) not in places and remedy not in omen.remedies]
            self.omens = tuple(sorted((*left, *now), key=lambda omen: not omen.certain))
        return True

    def _put_in_force(self, remedy: Remedy, steps: int) -> bool:
        match remedy:
            case "float32-states" | "float32-master":
                return self._curing.take_masters(self._good)
            case "grad-scaler":
                if any(p.dtype is torch.float16 for p in self._good.trained.values()):
                    self._curing.take_masters(self._good)  # torch unscales no gradients in half precision
                return self._curing.scale_loss(next(iter(self._good.trained.values())).device.type)
            case "clip-1":
                self._attempts.updates.clip = CLIP
            case "warm-up" | "cosine" if self._attempts.updates.scheduler is None:
                self._attempts.updates.scheduler = schedule_for(self._optimizer, remedy, steps)
            case "norm-epsilon-up":
                raise_norm_epsilons(self._networks)
            case _:
                if not apply_to_optimizer(self._optimizer, remedy, self._attempts.updates.scheduler):
                    return False
        self._good.keep()
        return True

    def go_on(self, steps: int, cures: Sequence[tuple[TrainCure, str]] = ()) -> None:
        """Continue a stopped training with the weights, moments and cures of then. cures: as `cures` gave them."""
        self._good.begin_at(steps)
        self._curing.put(cures)

    def remove(self) -> None:
        """Take everything off the networks: hooks and cures."""
        self._attempts.remove()
        self._curing.remove()

    def _follow(self) -> None:
        """What the script gave the optimizer since the last step is guarded too."""
        if further := self._good.follow():
            self._between.know(further)
            self._attempts.gradients.know(further)

    def _tell_put_right(self, items: Sequence[str]) -> None:
        """What was found beside the step itself, and what it ran in."""
        for problem in self._attempts.put_right:
            self._file(self._caught(problem, "restored", 0, 0.0), items)
        self._attempts.put_right.clear()
        unseen = self._between.unseen(self._step) if self._attempts.doubted else []
        for noticed in unseen + self._between.passed(self._attempts.calls.surroundings, self._step):
            self._file(noticed, items)

    def _foreseen(self) -> tuple[Omen, ...]:
        return tuple(omen for omen in self._attempts.forecast(self._networks) if omen.code not in self._known_by_use)

    def _foresee(self) -> None:
        known = {omen.code for omen in self.omens}
        self.omens = self._foreseen()
        for omen in self.omens:
            if omen.code not in known:
                log.warning("%s", foreseen(omen))
        if self._forecast == "apply":
            for omen in self.omens:
                if omen.certain and omen.remedies:
                    self.apply(omen.remedies[0])

    def _report(self, attempt: Attempt, before: int, started: float, tries: int) -> StepReport:
        self._between.remember()
        return StepReport(
            step=self._good.steps + (not attempt.applied),
            loss=attempt.loss,
            applied=attempt.applied,
            norm=attempt.norm,
            scale=attempt.scale if attempt.problem is None else self._curing.scale,
            tries=tries,
            seconds=time.perf_counter() - started,
            caught=tuple(self.caught[before:]),
        )

    def _try(self, loss: Loss) -> tuple[Attempt, Problem | None, int, float]:
        """(the last attempt, what was wrong with the first one, repeats, their seconds). Repeats only a function."""
        random = RandomState.now(self._accelerators) if callable(loss) else None
        mark = self._curing.mark()
        first: Problem | None = None
        tries, spent = 0, 0.0
        attempt = self._attempts.make(loss)
        while (problem := attempt.problem) is not None:
            factor = self._curing.lower_scale(problem)
            if factor is None:
                factor = self._curing.raise_scale()
                first = first or problem
                last = tries == TRIES - 1
                if self._on_bad != "cure" or tries >= TRIES or not self._curing.apply(problem, self._good, tries, last=last):
                    self._attempts.rescale(factor)
                    break
                tries += 1
            self._attempts.rescale(factor)
            if random is None:
                break
            random.put_back()
            began = time.perf_counter()
            attempt = self._again(loss, attempt, cured=tries > 0)
            spent += time.perf_counter() - began
        if attempt.problem is None:
            self._curing.keep_scale()
        elif random is not None:
            self._curing.back_to(mark)
        if first is not None and tries:
            first = _judged_by_cures(first, attempt.problem)
        return attempt, first or attempt.noticed, tries or attempt.tries, spent

    def _again(self, loss: Loss, before: Attempt, *, cured: bool) -> Attempt:
        """The step once more. Under a cure that the script's own code cannot take it is as bad as before."""
        try:
            return self._attempts.make(loss)
        except (RuntimeError, TypeError, ValueError) as error:
            if not cured:
                raise
            log.warning("a cure (%s) does not work with this training: %s", self._curing.last, error)
            self._attempts.pass_over()
            return before

    def _count_lost(self, attempt: Attempt, problem: Problem | None, losses: int) -> None:
        """Count what was lost of so many losses. What a loss scale loses while it finds its place does not count."""
        problem = problem or attempt.problem
        if attempt.applied:
            self._lost = 0
        elif problem is not None and problem.cause != "loss-scale":
            self._lost += losses - self._attempts.waiting

    def _judge(self, attempt: Attempt, problem: Problem | None, tries: int, spent: float, items: Sequence[str]) -> None:
        """Report what was wrong. problem: the first try's. Raises TrainingStopped where the training cannot continue."""
        if attempt.problem is not None:
            self._leave_out(problem or attempt.problem, tries, spent, items)
        elif problem is not None and self._is_hopeless:
            self._leave_out(problem, tries, spent, items)  # each loss is good again under a cure, but no step is ever made
        elif problem is not None:
            self._file(self._caught(problem, "repeated", tries, spent), items)

    def _finished(self, left_out: Attempt, items: Sequence[str]) -> Attempt:
        """The step that Accelerate ends with a loss that was left out, made of the losses before."""
        waited = self._attempts.waiting
        attempt = self._attempts.finished(left_out)
        if attempt is not left_out:
            self._count_lost(attempt, attempt.noticed, waited)
            self._judge(attempt, attempt.noticed, attempt.tries, 0.0, items)
        return attempt

    @property
    def _bad_in_a_row(self) -> int:
        """Bad steps since the last good one; one that is still waiting for its losses does not count."""
        return self._lost // self._accumulation.losses

    @property
    def _is_hopeless(self) -> bool:
        return self._bad_in_a_row >= self._stop_after

    def _leave_out(self, problem: Problem, tries: int, spent: float, items: Sequence[str]) -> None:
        """Leave out the loss, or all losses of the step; several bad steps in a row end the training."""
        if problem.cause == "loss-scale":
            return
        stops = self._on_bad == "stop" or self._is_hopeless
        caught = self._caught(problem, "stopped" if stops else "skipped", tries, spent)
        caught = msgspec.structs.replace(caught, in_a_row=max(1, self._bad_in_a_row), batch=self._batch)
        self._file(caught, items)
        if stops:
            self._lost = 0  # who goes on after it begins to count anew
            raise TrainingStopped(self.caught[-1])

    def _caught(self, problem: Problem, did: Deed, tries: int, spent: float) -> Caught:
        dtype = NAMES.get(problem.dtype) if problem.dtype is not None else None
        limit = float(torch.finfo(problem.dtype).max) if problem.dtype is not None and problem.peak is not None else None
        finite = problem.peak is not None and math.isfinite(problem.peak)
        return Caught(
            step=self._step,
            cause=problem.cause,
            watched=problem.watched,
            name=problem.name,
            did=did,
            kind=problem.kind,
            dtype=dtype,
            peak=problem.peak if finite else None,
            limit=limit if finite else None,
            cure=self._curing.last if did == "repeated" else "none",
            tries=tries,
            seconds=spent,
            memory=self._curing.memory if did == "repeated" else 0,
            restored_to=self._curing.restored_to if did == "repeated" else None,
            was=problem.was,
            now=problem.now,
            further=problem.further,
        )

    def _file(self, caught: Caught, items: Sequence[str]) -> None:
        found = msgspec.structs.replace(caught, items=tuple(items))
        self.caught.append(found)
        log.warning("%s", told(found))
        if self._tell is not None:
            self._tell(found)


def _listed(optimizers: object) -> list[Any]:
    """One optimizer or several as a list; an iterator of them too."""
    several = isinstance(optimizers, Iterable) and not isinstance(optimizers, (torch.nn.Module, str))
    return list(cast("Iterable[Any]", optimizers)) if several else [optimizers]


def _check(
    model: Networks,
    optimizers: Sequence[torch.optim.Optimizer],
    *,
    clip: float | None,
    accumulate: int | None,
    on_bad: str,
    stop_after: int,
    forecast: str,
) -> None:
    """Raise TypeError or ValueError where something else was given than is meant: it would do harm long after."""
    if torch.distributed.is_available() and torch.distributed.is_initialized() and torch.distributed.get_world_size() > 1:
        raise ValueError("the guard decides for one process: in a group, a step that one leaves out keeps the others waiting")
    if not optimizers:
        raise ValueError("the guard needs an optimizer; the list of them is empty")
    for optimizer in optimizers:
        if not isinstance(optimizer, torch.optim.Optimizer):  # pyright: ignore[reportUnnecessaryIsInstance] - untyped scripts
            raise TypeError(f"the optimizer comes second: TrainingGuard(model, optimizer); given was {type(optimizer).__name__}")
        closure = inspect.signature(optimizer.step).parameters.get("closure")
        if closure is not None and closure.default is inspect.Parameter.empty:
            raise TypeError(
                f"{type(optimizer).__name__} computes the loss itself, several times a step: no guard can look between"
            )
    if isinstance(model, torch.optim.Optimizer):
        raise TypeError("the model comes first: TrainingGuard(model, optimizer)")
    if clip is not None and not clip > 0:
        raise ValueError(f"clip is the largest norm of the gradients, above 0, or None; given was {clip}")
    if stop_after < 1:
        raise ValueError(f"stop_after is how many bad steps in a row end the training, at least 1; given was {stop_after}")
    if accumulate is not None and accumulate < 1:
        raise ValueError(f"accumulate is how many losses make one step, at least 1; given was {accumulate}")
    for name, given, known in (("on_bad", on_bad, get_args(OnBad)), ("forecast", forecast, get_args(Forecast))):
        if given not in known:
            raise ValueError(f"{name} is one of {', '.join(known)}; given was {given!r}")


def _check_shared(optimizer: torch.optim.Optimizer, names: Mapping[int, str]) -> None:
    """Raise ValueError where two optimizers train one parameter: neither could be put back alone."""
    seen: set[int] = set()
    for one in members(optimizer):
        own = {id(parameter): names.get(id(parameter), "a parameter") for _, parameter in optimized(one)}
        if shared := [name for key, name in own.items() if key in seen]:
            raise ValueError(f"{shared[0]} is in two optimizers; the guard takes several that train different parameters")
        seen |= own.keys()


def _judged_by_cures(first: Problem, last: Problem | None) -> Problem:
    """Name a bad gradient by its try in wider types: what they hold overflowed, what stays NaN did not."""
    if first.cause == "gradient-nonfinite" and last is None:
        return replace(first, cause="gradient-overflow")
    if first.cause == "gradient-overflow" and last is not None and _is_nan(first.peak) and _is_nan(last.peak):
        return replace(first, cause="gradient-nonfinite")
    return first


def _is_nan(peak: float | None) -> bool:
    return peak is not None and math.isnan(peak)
