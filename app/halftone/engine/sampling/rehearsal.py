"""A sampler's arithmetic without the model: whether everything that it computes in a loop's steps is finite.

Some of diffusers' samplers take the root of what rounding made negative, or divide by a noise level of 0, where noise levels lie
far apart or the steps are few; the picture is then not finite, whatever the model gives.
"""

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import torch

from halftone.contract.errors import HalftoneError
from halftone.contract.wording import Words
from halftone.engine.basics.quiet import quiet_libraries
from halftone.engine.basics.snapshot import restore_scheduler
from halftone.engine.sampling.samplers import make_scheduler, sampler_name

_SHAPE: Final = (1, 4, 2, 2)
"""Shape of stand-in latents: what a sampler computes for one element does not depend on their number."""
_ITS_OWN: Final = (ValueError, TypeError, LookupError, AttributeError, AssertionError, RuntimeError, ImportError, ArithmeticError)
"""What samplers raise that take no plain number of steps, or other model outputs; the pipeline calls them as they need it."""

Share = tuple[float, float]
"""Where a loop begins and ends in its schedule, from 0 to 1."""
WHOLE: Final[Share] = (0.0, 1.0)


@dataclass(frozen=True)
class Rehearsal:
    """Repeats the steps of a pipeline's loop without the model. state: the scheduler's before the first; calls: steps to be made;
    times: timesteps of those made.
    """

    scheduler: Any
    state: dict[str, Any]
    calls: int
    times: list[Any] = field(default_factory=list[Any])

    @quiet_libraries()
    def fails(self, calls: int) -> bool:
        """Tell whether the sampler itself fails to stay finite in the first so many calls."""
        scheduler = make_scheduler(self.scheduler, None)
        restore_scheduler(scheduler, self.state)
        return _is_finite(scheduler, self.times[:calls]) is False

    @property
    def share(self) -> Share:
        schedule = torch.as_tensor(self.state["timesteps"])
        begin = self.state.get("_begin_index")
        if begin is None:
            found = (schedule == torch.as_tensor(self.times[0]).to(schedule)).flatten().nonzero()
            begin = int(found[0]) if len(found) else 0
        return begin / len(schedule), min(1.0, (begin + self.calls) / len(schedule))


@quiet_libraries()
def is_sound(scheduler: Any, steps: int, share: Share = WHOLE) -> bool | None:
    """Tell whether a sampler keeps latents finite in that share of so many steps; None where it cannot be tried."""
    try:
        tried = make_scheduler(scheduler, None)
        tried.set_timesteps(steps)
        times = torch.as_tensor(tried.timesteps)
    except _ITS_OWN:
        return None
    order = int(getattr(tried, "order", 1))
    begin = math.floor(round(share[0] * len(times), 6)) // order * order  # a step of second order is never begun in its middle
    end = math.ceil(round(share[1] * len(times), 6))
    if begin and hasattr(tried, "set_begin_index"):
        tried.set_begin_index(begin)
    return _is_finite(tried, list(times[begin:end]))


def _is_finite(scheduler: Any, times: Sequence[Any]) -> bool | None:
    """Make these steps of a schedule that is set. Torch's own generators are left as they are."""
    generator = torch.Generator("cpu").manual_seed(0)
    if "noise_sampler_seed" in vars(scheduler):
        scheduler.noise_sampler_seed = 0
    takes = inspect.signature(type(scheduler).step).parameters
    given = {"generator": generator} if "generator" in takes else {}
    try:
        whole = bool(times[0] == scheduler.timesteps[0])  # what begins later does not begin at noise alone
        latents = torch.randn(_SHAPE, generator=generator) * (float(scheduler.init_noise_sigma) if whole else 1.0)
        for time in times:
            latents = latents.to(torch.as_tensor(time).device)
            scaled = scheduler.scale_model_input(latents, time)
            latents = scheduler.step(torch.tanh(scaled), time, latents, return_dict=False, **given)[0]
            if not bool(torch.isfinite(torch.as_tensor(time).float()) and torch.isfinite(latents).all()):
                return False
    except _ITS_OWN:
        return None
    return True


def tries(steps: int) -> tuple[int, ...]:
    """Numbers of steps to try in place of one that a sampler cannot make: at most seven, the nearest first."""
    return tuple(sorted({steps + 1, steps + 2, steps + 3, math.ceil(steps * 1.5), steps * 2, steps * 3, steps * 4} - {steps}))


def sound_steps(scheduler: Any, steps: int, share: Share = WHOLE, check: Callable[[], None] = lambda: None) -> int | None:
    """The first of the `tries` that a sampler can make, or None. check: called before each."""
    for count in tries(steps):
        check()
        if is_sound(scheduler, count, share):
            return count
    return None


def unsound(rehearsal: Rehearsal, steps: int, *, given: bool, check: Callable[[], None]) -> HalftoneError:
    """The error for a sampler that cannot make the steps of a loop, whatever the model gives, and the steps it can make. steps:
    asked for; given: the schedule is the user's; check: called before each try.
    """
    scheduler = rehearsal.scheduler
    more = None if given else sound_steps(scheduler, steps, rehearsal.share, check)
    value = Words(
        "{0} with the sampler {1}, whose arithmetic is not finite there with this model's noise levels",
        (str(steps), sampler_name(scheduler)),
    )
    allowed = Words("another sampler") if more is None else Words("{0} steps, or another sampler", (str(more),))
    return HalftoneError("setting-bad-value", name=Words("Steps"), value=value, allowed=allowed)
