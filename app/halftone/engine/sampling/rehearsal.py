"""A sampler's arithmetic without the model: whether all that it computes in so many steps are numbers.

Some of diffusers' samplers take the root of what rounding made negative, or divide by a noise level of 0, where noise levels lie
far apart or the steps are few; the picture is then not finite, whatever the model gives.
"""

from typing import Any, Final

import torch

from halftone.contract.errors import HalftoneError
from halftone.engine.sampling.samplers import make_scheduler, sampler_name

MOST_STEPS: Final = 100
"""Beyond these no sampler is tried: noise levels lie close together there."""
SHAPE: Final = (1, 4, 2, 2)
"""Of the latents in the place of real ones: what a sampler computes for one element does not depend on their number."""
_ITS_OWN: Final = (ValueError, TypeError, LookupError, AttributeError, AssertionError, RuntimeError, ImportError, ArithmeticError)
"""What samplers raise that take no plain number of steps, or other model outputs; the pipeline calls them as they need it."""


def is_sound(scheduler: Any, steps: int) -> bool:
    """Tell whether a sampler makes finite latents of finite ones in so many steps. The scheduler itself is left as it is."""
    if steps > MOST_STEPS:
        return True
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            return _ends_finite(make_scheduler(scheduler, None), steps)
    except _ITS_OWN:
        return True


def _ends_finite(scheduler: Any, steps: int) -> bool:
    scheduler.set_timesteps(steps)
    times = torch.as_tensor(scheduler.timesteps)
    if not bool(torch.isfinite(times.float()).all()):
        return False
    latents = torch.randn(SHAPE) * float(scheduler.init_noise_sigma)
    for time in times:
        given = scheduler.scale_model_input(latents, time)
        latents = scheduler.step(torch.tanh(given), time, latents, return_dict=False)[0]
        if not bool(torch.isfinite(latents).all()):
            return False
    return True


def sound_steps(scheduler: Any, steps: int) -> int | None:
    """Give the smallest number of steps, at least so many, that a sampler can make; None where there is none that is tried."""
    return next((count for count in range(steps, MOST_STEPS + 1) if is_sound(scheduler, count)), None)


def check_steps(scheduler: Any, steps: int) -> None:
    """Raise setting-bad-value for a number of steps that the sampler cannot make, whatever the model gives."""
    if is_sound(scheduler, steps):
        return
    more = sound_steps(scheduler, steps)
    value = (
        f"{steps} with the sampler {sampler_name(scheduler)}, whose arithmetic is not finite there with this model's noise levels"
    )
    allowed = "another sampler" if more is None else f"{more} steps, or another sampler"
    raise HalftoneError("setting-bad-value", name="Steps", value=value, allowed=allowed)
