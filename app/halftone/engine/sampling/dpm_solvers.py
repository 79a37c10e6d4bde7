"""Solvers over the logarithm of sigma that group their calls, or weigh two of them, and DDIM with CFG++."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import numpy as np
from torch import Tensor

from halftone.engine.sampling.solvers import Run, ancestral, euler, slope

_CFG_PP_SHARE: Final = 12.5
"""A1111 divides the guidance of DDIM CFG++ by it, so that usual numbers are usual there too."""


# --- DPM fast ---------------------------------------------------------------------------------------------------------


class _Group(NamedTuple):
    """Calls that make one step together. start, end: places of its first sigma and of where it comes to; down: the sigma that it
    steps down to, where it adds noise then.
    """

    start: int
    end: int
    down: float

    @property
    def order(self) -> int:
        return self.end - self.start

    def sigma(self, run: Run, place: int) -> float:
        """The sigma of one of its calls: they lie evenly in the logarithm."""
        first = run.sigmas[self.start]
        return first * (self.down / first) ** ((place - self.start) / self.order) if place > self.start else first


def _fast_orders(calls: int) -> list[int]:
    """Groups of three calls, with smaller ones at the end."""
    whole, rest = divmod(calls, 3)
    return [3] * whole + [rest] if rest else [3] * (whole - 1) + [2, 1]


def evenly_in_groups(sigmas: Sequence[float]) -> list[float]:
    """Groups of equal length in the logarithm, from the largest sigma to the smallest, where DPM fast ends."""
    calls = len(sigmas) - 1
    if calls < 2:
        return list(sigmas)
    orders = _fast_orders(calls)
    ends = np.linspace(math.log(sigmas[0]), math.log(min(sigma for sigma in sigmas if sigma)), len(orders) + 1)
    parts = [np.linspace(*pair, order, endpoint=False) for pair, order in zip(pairwise(ends), orders, strict=True)]
    return [float(one) for one in np.exp(np.append(np.concatenate(parts), ends[-1]))]


def _group(run: Run) -> _Group:
    places = [0, *accumulate(_fast_orders(len(run.sigmas) - 1))]
    start, end = next(pair for pair in pairwise(places) if pair[1] > run.step)
    down = ancestral(run.sigmas[start], run.sigmas[end], run.eta)[0]
    return _Group(start, end, max(down, run.sigmas[-1]))


def in_groups(run: Run) -> Sequence[float]:
    """One call in each step, where its group has it."""
    return (_group(run).sigma(run, run.step),)


def dpm_fast(run: Run, x: Tensor, denoised: Tensor) -> Tensor:
    """DPM-Solver-Fast (Lu et al. 2022, https://arxiv.org/abs/2206.00927): orders of three, with a last one for the rest. A loop
    that begins inside a group goes to its end by Euler's method.
    """
    group = _group(run)
    if group.down == 0:
        return euler(run, x, denoised)
    here = group.sigma(run, run.step)
    now = slope(x, denoised, here)
    if run.step == group.start:
        run.memory.update(start=group.start, x=x, slope=now)
    elif run.memory.get("start") != group.start:
        return x + now * (group.sigma(run, run.step + 1) - here)
    first: Tensor = run.memory["slope"]
    share, order = run.step + 1 - group.start, group.order
    to = group.sigma(run, run.step + 1)
    gone = math.log(run.sigmas[group.start] / to)
    result = run.memory["x"] - to * math.expm1(gone) * first
    if share == 2:
        weight = math.expm1(gone) if order == 2 else 2 * (math.expm1(gone) / gone - 1)
        result = result - to * weight * (now - first)
    elif share == 3:
        result = result - to * 1.5 * (math.expm1(gone) / gone - 1) * (now - first)
    if share < order:
        return result
    up = math.sqrt(max(run.sigmas[group.end] ** 2 - group.down**2, 0.0))
    return result + run.noise(run.sigmas[group.start], run.sigmas[group.end]) * (run.s_noise * up) if up else result


# --- two calls a step -------------------------------------------------------------------------------------------------


def exp_heun(run: Run, x: Tensor, denoised: Tensor, *, adds_noise: bool = False) -> Tensor:
    """Exponential Heun over the predicted picture: SEEDS of two stages, the second at the end of the step
    (https://arxiv.org/abs/2305.14267), as ComfyUI weighs them.
    """
    if run.next == 0:
        return denoised
    eta = run.eta if adds_noise else 0.0
    h = run.half_log_snr(run.next) - run.half_log_snr(run.sigma)
    whole, alpha = h * (1 + eta), run.alpha(run.next)
    grown = math.expm1(-whole)
    if run.stage == 0:
        noise = run.noise(run.sigma, run.next) * (run.next * run.s_noise * math.sqrt(-math.expm1(-2 * h * eta))) if eta else None
        run.memory.update(x=x, denoised=denoised, noise=noise)
        picture = grown * denoised
    else:
        second = -(grown + whole) / whole
        picture = (grown - second) * run.memory["denoised"] + second * denoised
        if eta:
            run.noise(run.next, run.next)  # ComfyUI draws noise for the empty rest of the step
    result = run.next / run.sigma * math.exp(-h * eta) * run.memory["x"] - alpha * picture
    return result if run.memory["noise"] is None else result + run.memory["noise"]


exp_heun_sde: Final = partial(exp_heun, adds_noise=True)


# --- DDIM with CFG++ --------------------------------------------------------------------------------------------------


def without_end(sigmas: Sequence[float]) -> list[float]:
    """The sigmas without the end, where there is a step left then."""
    return list(sigmas[:-1]) if len(sigmas) > 2 and sigmas[-1] == 0 else list(sigmas)


def ddim_cfg_pp(run: Run, x: Tensor, denoised: Tensor) -> Tensor:
    """DDIM that keeps the noise of the unguided picture (https://arxiv.org/abs/2406.08070), as A1111 scales guidance, and latents
    at the end, for it.
    """
    base = run.base(denoised)
    picture = base + (denoised - base) / _CFG_PP_SHARE
    result = picture + slope(x, base, run.sigma) * run.next
    return result / math.sqrt(run.next**2 + 1) if run.step + 2 == len(run.sigmas) else result
