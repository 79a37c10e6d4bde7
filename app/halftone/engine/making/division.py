"""Where the base of a picture ends and its refiner begins: at a share of the noise levels, or after a share of the steps."""

import math
from typing import Any, Final, NamedTuple

from halftone.contract.errors import HalftoneError
from halftone.contract.request import Refiner
from halftone.contract.wording import Words
from halftone.engine.sampling.dpm_solvers import without_end
from halftone.engine.sampling.samplers import sampler_name
from halftone.engine.sampling.solver_scheduler import SolverScheduler
from halftone.engine.sampling.solver_table import SOLVERS
from halftone.engine.sampling.solvers import with_restarts

_SECOND_ORDER: Final = 2


class Division(NamedTuple):
    """begun, left: calls of the base and of the refiner. at: the share of the noise levels at which diffusers' pipelines divide.
    steps: of the whole schedule; step: the refiner's first one, where the schedulers of both make their own steps alone.
    """

    begun: int
    left: int
    at: float
    steps: int
    step: int | None = None


def divided(scheduler: Any, steps: int, refiner: Refiner) -> Division:
    """Raises setting-bad-value where the sampler's steps cannot be divided so. The schedule is set afterwards."""
    if isinstance(scheduler, SolverScheduler) and scheduler.is_adaptive:
        raise _unfit(scheduler, Words("another sampler: this one finds its steps while it runs"))
    scheduler.set_timesteps(steps)
    if not refiner.by_steps:
        return _by_noise(scheduler, steps, refiner.at)
    step = refiner.first_step(steps)
    if not 0 < step < steps:
        calls = len(scheduler.timesteps)
        return Division(0 if step == 0 else calls, calls if step == 0 else 0, refiner.at, steps)
    if not _goes_through(scheduler, steps):
        raise _unfit(scheduler, Words("another sampler: the steps of this one cannot be divided"))
    if isinstance(scheduler, SolverScheduler):
        begun, left = (_calls(scheduler, steps, part) for part in ((0, step), (step, steps)))
        return Division(begun, left, refiner.at, steps, step)
    return _by_noise(scheduler, steps, _share_of(scheduler, step))


def _goes_through(scheduler: Any, steps: int) -> bool:
    """Whether it makes the schedule's steps one after the other: Restart makes some again, DDIM CFG++ leaves out the last."""
    if isinstance(scheduler, SolverScheduler):
        return SOLVERS[scheduler.config["solver"]].path not in (with_restarts, without_end)
    return len(scheduler.timesteps[:: getattr(scheduler, "order", 1)]) == steps


def _calls(scheduler: SolverScheduler, steps: int, part: tuple[int, int]) -> int:
    """How many the network gets in a part of the steps."""
    own: Any = SolverScheduler.from_config(scheduler.config, part=part)
    own.set_timesteps(steps)
    return len(own.timesteps)


def _by_noise(scheduler: Any, steps: int, at: float) -> Division:
    """As diffusers divides: at the share of the noise levels of the training."""
    levels = scheduler.config.num_train_timesteps
    left = int((scheduler.timesteps < round(levels - at * levels)).sum())
    begun = len(scheduler.timesteps) - left
    in_halves = getattr(scheduler, "order", 1) == _SECOND_ORDER and left % _SECOND_ORDER == 0
    return Division(begun, left + 1 if in_halves else left, at, steps)  # the refiner begins with a whole step


def _share_of(scheduler: Any, step: int) -> float:
    """The share of the noise levels at which diffusers begins that step. It divides at whole timesteps. Raises setting-bad-value
    where none lies between the step and the one before.
    """
    times = scheduler.timesteps[:: getattr(scheduler, "order", 1)].tolist()
    end = math.floor(times[step]) + 1
    if end > times[step - 1]:
        allowed = Words("another switch point: steps {0} and {1} share a timestep", (step, step + 1))
        raise _unfit(scheduler, allowed)
    return 1 - end / scheduler.config.num_train_timesteps


def _unfit(scheduler: Any, allowed: Words) -> HalftoneError:
    used = Words("{0} together with a refiner", (sampler_name(scheduler),))
    return HalftoneError("setting-bad-value", name=Words("Sampler"), value=used, allowed=allowed)
