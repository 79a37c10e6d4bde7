"""Solvers over the logarithm of sigma that group their calls, or weigh two of them, and DDIM with CFG++."""

import math
from collections.abc import Sequence
from functools import partial
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

import numpy as np
import torch
from torch import Tensor

from halftone.engine.sampling.solvers import Run, ancestral, euler, slope

ADAPTIVE_TRIES: Final = 100
"""The last one goes to the end, whatever its error."""
_FIRST_STEP: Final = 0.05
_RELATIVE: Final = 0.05
_ABSOLUTE: Final = 0.0078
_GOOD_ENOUGH: Final = 0.81
_CLOSE: Final = 1e-5
"""Of DPM adaptive, as k-diffusion chose them."""
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
    weight = 0.0 if share == 1 else math.expm1(gone) if order == 2 else _curve(gone) * (2 if share == 2 else 1.5)
    result = _moved(run.memory["x"], first, now, to, gone, weight)
    if share < order:
        return result
    up = math.sqrt(max(run.sigmas[group.end] ** 2 - group.down**2, 0.0))
    return result + run.noise(run.sigmas[group.start], run.sigmas[group.end]) * (run.s_noise * up) if up else result


def _moved(x: Tensor, first: Tensor, now: Tensor, to: float, gone: float, weight: float) -> Tensor:
    """Latents at the sigma `to`, that far in its logarithm from where `first` was the slope; weight: of the slope `now`."""
    moved = x - first * (to * math.expm1(gone))
    return moved - (now - first) * (to * weight) if weight else moved


def _curve(gone: float) -> float:
    return math.expm1(gone) / gone - 1


# --- DPM adaptive -----------------------------------------------------------------------------------------------------


def dpm_adaptive(run: Run, x: Tensor, denoised: Tensor) -> Tensor:
    """DPM-Solver-23 (Lu et al. 2022, https://arxiv.org/abs/2206.00927): three calls try a step, which is made where its results
    of order two and three differ little, else a smaller one is tried. Its memory says where the next call is, and when it is
    over.
    """
    memory = run.memory
    sigma: float = memory.get("sigma", run.sigma)
    least = min(one for one in run.sigmas if one)
    part: int = memory.get("part", 0)
    now = slope(x, denoised, sigma)
    if sigma <= least:
        memory["finished"] = True
        return denoised
    if part == 0:
        tries: int = memory.get("tries", 0) + 1
        h = memory.get("h", _FIRST_STEP) if tries < ADAPTIVE_TRIES else math.inf
        aim = max(least, sigma * math.exp(-h))
        down = max(least, ancestral(sigma, aim, run.eta)[0])
        memory.update(tries=tries, h=h, start=sigma, aim=aim, down=down, x=x, slope=now, before=memory.get("before", x))
    start, down, first, begun = memory["start"], memory["down"], memory["slope"], memory["x"]
    gone = math.log(start / down)
    if part < 2:
        to = start * (down / start) ** ((part + 1) / 3)
        if part == 1:
            memory["low"] = _moved(begun, first, now, down, gone, 1.5 * math.expm1(gone))
        memory.update(part=part + 1, sigma=to)
        return _moved(begun, first, now, to, math.log(start / to), 2 * _curve(math.log(start / to)) if part else 0.0)
    return _tried(run, _moved(begun, first, now, down, gone, 1.5 * _curve(gone)), least)


def _tried(run: Run, high: Tensor, least: float) -> Tensor:
    """The latents after a step that is good enough, those before it where it is not. high: those of the third order."""
    memory = run.memory
    low, start, aim, down = memory["low"], memory["start"], memory["aim"], memory["down"]
    allowed = (_RELATIVE * low.abs().maximum(memory["before"].abs())).clamp_min(_ABSOLUTE)
    error = float(torch.linalg.norm((low - high) / allowed)) / math.sqrt(high.numel())
    factor = 1 + math.atan((1 / (error + 1e-8)) ** (1 / (1.5 if run.eta else 3)) - 1)
    good = factor >= _GOOD_ENOUGH or math.isinf(memory["h"])
    memory.update(part=0, h=memory["h"] * factor, sigma=aim if good else start)
    if not good:
        return memory["x"]
    up = math.sqrt(max(aim**2 - down**2, 0.0))
    memory.update(before=low, finished=math.log(aim / least) < _CLOSE)
    return high + run.noise(start, aim) * (run.s_noise * up) if run.eta else high


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
